"""Writes the file of a submission from kernels in a notebook, in a lesson or in this package.

The file has the user code that the function uses: constants, functions, kernels of Triton and Numba as they are, and
CUDA C through torch's `load_inline`. It needs torch, and Triton or Numba if it has kernels of theirs, but not this
package."""

import ast
import re
import sys
from importlib import util
from pathlib import Path
from types import FunctionType, ModuleType

from ..support.function_source import SourceMissing, source_of
from .forms import FormError, read_submission
from ..utils import cdiv

_PACKAGE = __package__.split('.')[0]
_ELSEWHERE = {  # modules that only this package has -> what a leaderboard has instead
    'triton_checked': 'import triton',
    f'{_PACKAGE}.tile.language': 'import triton.language',
    f'{_PACKAGE}.sim.cuda': 'from numba import cuda',
    'numba.cuda': 'from numba import cuda',
}
_CONSTANTS = int, float, str, bool, tuple, type(None)


def _free_names(text):
    "Return the names that Python code uses but does not define"
    nodes = list(ast.walk(ast.parse(text)))
    names = [n for n in nodes if isinstance(n, ast.Name)]
    own = {n.id for n in names if not isinstance(n.ctx, ast.Load)} | {n.arg for n in nodes if isinstance(n, ast.arg)}
    known = {name for n in nodes if isinstance(n, ast.Global) for name in n.names}
    return dict.fromkeys(n.id for n in names if n.id not in own - known)


def _python_of(f):
    "Return the Python function of a kernel of Triton or Numba; None for anything else"
    if hasattr(f, 'python') or hasattr(f, 'py_func'):
        return getattr(f, 'python', None) or f.py_func
    while type(f).__module__.startswith('triton') and hasattr(f, 'fn'):
        f = f.fn
        if isinstance(f, FunctionType):
            return f


def _import_line(name, module):
    "Return the statement that imports a module under this name"
    line = _ELSEWHERE.get(module.__name__, f'import {module.__name__}')
    if module.__name__.split('.')[0] == _PACKAGE and module.__name__ not in _ELSEWHERE:
        raise FormError(f'it uses {module.__name__} as {name}, which a leaderboard does not have: use torch instead')
    return line if line.split()[-1] == name else f'{line} as {name}'


# CUDA C
_LOAD = '''{name}_src = r\'\'\'
{src}
\'\'\'
{name}_module = load_inline(
    '{name}_{kind}', {declarations!r}, {name}_src, functions={functions!r}
)
'''
_CALLABLE = '''

class {name}:
    "{name}[grid, block, 0, bytes of shared memory](*args)"

    def __class_getitem__(cls, config):
        "A launch"
        grid, block, _, shared = (*config, 0, 0)[:4]
        sizes = [n for o in (grid, block) for n in (*(o if isinstance(o, tuple) else (o,)), 1, 1)[:3]]
        return lambda *args: {name}_module.launch_{name}(*args, *sizes, int(shared))
'''


def _loaded(name, kind, src, declarations, functions):
    "Return Python code that compiles CUDA C"
    if "'''" in src:
        raise FormError(f"{name}: its CUDA C contains ''', which would end the string in the file")
    return _LOAD.format(name=name, kind=kind, src=src.strip('\n'), declarations=declarations, functions=functions)


def _by_value(type):
    "Return the type of a scalar argument in a function that Python calls"
    return 'double' if re.search(r'\b(float|double)\b', type) else 'bool' if type == 'bool' else 'int64_t'


def _launcher(name, kernel):
    "Return the CUDA C of a function that launches a kernel, and its declaration"
    sizes = 'gx gy gz bx by bz shared'.split()
    takes, gives = [], []
    for i, p in enumerate(kernel.params):
        pointer = '*' in p.type
        type = re.sub(r'\b__restrict__\b|\bconst$', '', p.type).strip()
        takes.append(f'{"torch::Tensor" if pointer else _by_value(type)} a{i}')
        gives.append(f'({type})a{i}{".data_ptr()" if pointer else ""}')
    head = f'void launch_{name}({", ".join(takes + [f"int64_t {size}" for size in sizes])})'
    launch = f'{kernel.__name__}<<<dim3(gx, gy, gz), dim3(bx, by, bz), shared>>>({", ".join(gives)});'
    return f'{head} {{\n    {launch}\n}}\n', f'{head};'


def _of_cuda_kernel(name, kernel):
    "Return Python code for a kernel that `cuda_kernel` made"
    text, declaration = _launcher(name, kernel)
    src = f'{kernel.src}\n{text}'
    return _loaded(name, 'module', src, declaration, [f'launch_{name}']) + _CALLABLE.format(name=name)


def _of_rung(name, rung):
    "Return Python code for a rung of lesson 16: a product in float32, one block per tile"
    from ..cpp.frontend.reader import kernels
    from ..kernels.ladder.rung import H100

    shapes = (37, 50, 64), (200, 130, 10)
    calls = [rung.launch_plan(*shape, H100).calls for shape in shapes]
    tile = [(cdiv(w, rung.constants['BN']), cdiv(h, rung.constants['BM'])) for h, w, k in shapes]
    if (
        rung.dtype != 'float32'
        or rung.tma_boxes
        or any(len(c) > 1 or tuple(c[0].grid)[:2] != t or c[0].shared for c, t in zip(calls, tile, strict=True))
    ):
        raise FormError(f'{name}: only float32 rungs with one block per tile and static shared memory can be written')
    head = f'torch::Tensor {name}(torch::Tensor m, torch::Tensor n)'
    threads = ', '.join(map(str, rung.threads))
    src = f'''{rung.src}
{head} {{
    int h = m.size(0), k = m.size(1), w = n.size(1);
    auto out = torch::empty({{h, w}}, m.options());
    {kernels(rung.src)[-1].name}<<<dim3((w + BN - 1)/BN, (h + BM - 1)/BM), dim3({threads})>>>(
        m.data_ptr<float>(), n.data_ptr<float>(), out.data_ptr<float>(), h, w, k);
    return out;
}}
'''
    return f'{_loaded(name, "module", src, head + ";", [name])}{name} = {name}_module.{name}\n'


class _Collector:
    "Collects what a function uses, in an order in which it can be defined"

    def __init__(self):
        self.imports, self.texts = {}, {}

    def own(self, thing):
        "Return the source of a function or class, after adding all that it uses"
        text = source_of(thing).text.strip('\n') + '\n'
        space = thing.__globals__ if hasattr(thing, '__globals__') else vars(sys.modules[thing.__module__])
        for name in _free_names(text):
            if name != thing.__name__ and name in space:
                self.add(name, space[name])
        return text

    def add(self, name, thing):
        "Add a thing that is used under this name"
        if name in self.texts or name in self.imports:
            return
        self.texts[name] = ''  # so that recursion ends
        text = self.text_of(name, thing)
        del self.texts[name]
        if text:
            self.texts[name] = text

    def text_of(self, name, thing):
        "Return the Python code that defines a thing; '' if an import does"
        if isinstance(thing, ModuleType):
            self.imports[name] = _import_line(name, thing)
        elif python := _python_of(thing):
            return self.own(python)
        elif hasattr(thing, 'launch_plan') and hasattr(thing, 'constants'):
            return self.compiled(_of_rung(name, thing))
        elif hasattr(thing, 'params') and hasattr(thing, 'src'):
            return self.compiled(_of_cuda_kernel(name, thing))
        elif isinstance(thing, (FunctionType, type)) and self.is_own(thing):
            return self.own(thing)
        elif isinstance(thing, _CONSTANTS):
            return f'{name} = {thing!r}\n'
        elif hasattr(thing, '__module__') and hasattr(thing, '__qualname__'):
            self.imports[name] = f'from {thing.__module__} import {thing.__qualname__} as {name}'.removesuffix(
                f' as {thing.__name__}'
            )
        else:
            raise FormError(
                f'it uses {name}, a {type(thing).__name__}, which cannot be written to a file: create it inside the '
                f'function'
            )

    def compiled(self, text):
        "Return code that compiles CUDA C, after adding the import of `load_inline`"
        self.imports['load_inline'] = 'from torch.utils.cpp_extension import load_inline'
        return text

    @staticmethod
    def is_own(thing):
        "Return whether a thing is user code: defined in a notebook, outside installed packages, or in this package"
        module = sys.modules.get(thing.__module__)
        file = getattr(module, '__file__', None)
        return (
            thing.__module__.split('.')[0] == _PACKAGE
            or file is None
            or 'site-packages' not in file
            and 'lib/python' not in file
        )


def _head(leaderboard, gpus):
    "Return the lines for the leaderboard; raises `FormError` if a name is not one word"
    if odd := [line for line in (leaderboard, *gpus) if not re.fullmatch(r'[^\s#]+', line)] or not gpus and ['']:
        raise FormError(f'{odd[0]!r} is not the name of a leaderboard or GPU: write one word')
    return f'#!POPCORN leaderboard {leaderboard}\n#!POPCORN gpu {" ".join(gpus)}\n'


def _without_head(text):
    return re.sub(r'\A(#!POPCORN .*\n)+', '', text)


def _module_of(path):
    "Import a Python file"
    spec = util.spec_from_file_location(Path(path).stem, path)
    module = sys.modules[spec.name] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_source(thing):
    "Raise `FormError` for a thing without a source"
    try:
        source_of(thing)
    except SourceMissing:
        raise FormError(
            f'{thing!r} has no source: pass a function, a class `ModelNew`, or the path of a file'
        ) from None
    if getattr(thing, '__name__', '') == '<lambda>':
        raise FormError('a lambda has no name: write `def custom_kernel(data): ...`')


def _collected(thing):
    "Return the text of a submission with this `custom_kernel` or `ModelNew`"
    collector = _Collector()
    text = collector.own(thing)
    name = 'ModelNew' if isinstance(thing, type) else 'custom_kernel'
    if thing.__name__ != name:
        text += f'\n\n{name} = {thing.__name__}\n'
    parts = ['\n'.join(sorted(dict.fromkeys(collector.imports.values()))), *collector.texts.values(), text]
    return '\n\n'.join(part.rstrip('\n') + '\n' for part in parts if part)


def write_submission(
    kernel,  # `custom_kernel(data)`, a module `ModelNew`, or the path of a file that has one of them
    leaderboard: str,  # its name
    gpus=('H100',),  # their names on the leaderboard
    path=None,  # the file to write; None: write none
) -> str:  # the text
    """Write a submission for a leaderboard on which this package is not installed. Nothing is sent anywhere.

    Raises `FormError` for what cannot be included. GPU MODE's leaderboards refuse a file that contains the word
    "stream", even in a comment; so does this function."""
    head = _head(leaderboard, gpus)
    if isinstance(kernel, (str, Path)):
        found = read_submission(kernel)
        needs = re.search(rf'^\s*(from|import) {_PACKAGE}\b', found.text, re.M)
        text = _collected(getattr(_module_of(kernel), found.form)) if needs else _without_head(found.text)
    else:
        _check_source(kernel)
        text = _collected(kernel)
    text = f'{head}{text}'
    if line := next((i for i, code in enumerate(text.splitlines(), 1) if 'stream' in code.lower()), None):
        raise FormError(
            f'line {line} of the submission contains the word stream, which leaderboards refuse: use another word'
        )
    read_submission(text)
    if path:
        Path(path).write_text(text, encoding='utf-8')
    return text
