"""Write the file of a submission from kernels in a notebook, in a lesson or in this package.

The file has all code that the submission uses: constants, functions, kernels of Triton and Numba unchanged, and CUDA C
that torch's `load_inline` compiles. It needs torch, and Triton or Numba for such kernels, but not this package."""

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
_LEADERBOARD_IMPORTS = {  # module that only this package has -> import statement for a leaderboard
    'triton_checked': 'import triton',
    f'{_PACKAGE}.tile.language': 'import triton.language',
    f'{_PACKAGE}.sim.cuda': 'from numba import cuda',
    'numba.cuda': 'from numba import cuda',
}
_CONSTANT_TYPES = int, float, str, bool, tuple, type(None)


def _free_names(text):
    "Return the free variables of Python code, as the keys of a dict"
    nodes = list(ast.walk(ast.parse(text)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    assigned_names = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    local_names = assigned_names | {node.arg for node in nodes if isinstance(node, ast.arg)}
    global_names = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    return dict.fromkeys(node.id for node in names if node.id not in local_names - global_names)


def _python_function(kernel):
    "Return the Python function of a kernel of Triton or Numba; None for other objects"
    if hasattr(kernel, 'python') or hasattr(kernel, 'py_func'):
        return getattr(kernel, 'python', None) or kernel.py_func
    while type(kernel).__module__.startswith('triton') and hasattr(kernel, 'fn'):
        kernel = kernel.fn
        if isinstance(kernel, FunctionType):
            return kernel


def _import_line(name, module):
    "Return the statement that imports a module under this name"
    statement = _LEADERBOARD_IMPORTS.get(module.__name__, f'import {module.__name__}')
    if module.__name__.split('.')[0] == _PACKAGE and module.__name__ not in _LEADERBOARD_IMPORTS:
        raise FormError(
            f'the submission uses {module.__name__} as {name}, which leaderboards do not have: use torch instead'
        )
    return statement if statement.split()[-1] == name else f'{statement} as {name}'


# CUDA C
_LOAD_TEMPLATE = '''{name}_src = r\'\'\'
{src}
\'\'\'
{name}_module = load_inline(
    '{name}_{kind}', {declarations!r}, {name}_src, functions={functions!r}
)
'''
_LAUNCHER_TEMPLATE = '''

class {name}:
    "{name}[grid, block, 0, bytes of shared memory](*args)"

    def __class_getitem__(cls, config):
        "Return a function that launches the kernel with this configuration"
        grid, block, _, shared = (*config, 0, 0)[:4]
        shapes = [x if isinstance(x, tuple) else (x,) for x in (grid, block)]
        sizes = [n for shape in shapes for n in (*shape, 1, 1)[:3]]
        return lambda *args: {name}_module.launch_{name}(*args, *sizes, int(shared))
'''


def _load_code(name, kind, src, declarations, functions):
    "Return Python code that compiles CUDA C with `load_inline`"
    if "'''" in src:
        raise FormError(f"{name}: its CUDA C contains ''', which would end the string literal in the generated file")
    return _LOAD_TEMPLATE.format(
        name=name, kind=kind, src=src.strip('\n'), declarations=declarations, functions=functions
    )


def _binding_type(c_type):
    "Return the type of a scalar parameter in a function that Python calls"
    return 'double' if re.search(r'\b(float|double)\b', c_type) else 'bool' if c_type == 'bool' else 'int64_t'


def _launch_function(name, kernel):  # (CUDA C, its declaration)
    "Return a CUDA C function that launches a kernel"
    sizes = 'gx gy gz bx by bz shared'.split()
    parameters, arguments = [], []
    for i, parameter in enumerate(kernel.params):
        is_pointer = '*' in parameter.type
        c_type = re.sub(r'\b__restrict__\b|\bconst$', '', parameter.type).strip()
        parameters.append(f'{"torch::Tensor" if is_pointer else _binding_type(c_type)} a{i}')
        arguments.append(f'({c_type})a{i}{".data_ptr()" if is_pointer else ""}')
    signature = f'void launch_{name}({", ".join(parameters + [f"int64_t {size}" for size in sizes])})'
    launch = f'{kernel.__name__}<<<dim3(gx, gy, gz), dim3(bx, by, bz), shared>>>({", ".join(arguments)});'
    return f'{signature} {{\n    {launch}\n}}\n', f'{signature};'


def _cuda_kernel_code(name, kernel):
    "Return Python code for a kernel that `cuda_kernel` has compiled"
    text, declaration = _launch_function(name, kernel)
    src = f'{kernel.src}\n{text}'
    return _load_code(name, 'module', src, declaration, [f'launch_{name}']) + _LAUNCHER_TEMPLATE.format(name=name)


def _rung_code(name, rung):
    "Return Python code for a rung of lesson 16: a product in float32, with one block per tile"
    from ..cpp.frontend.reader import kernels
    from ..kernels.ladder.rung import H100

    shapes = (37, 50, 64), (200, 130, 10)
    calls = [rung.launch_plan(*shape, H100).calls for shape in shapes]
    tile_grids = [(cdiv(w, rung.constants['BN']), cdiv(h, rung.constants['BM'])) for h, w, k in shapes]
    if (
        rung.dtype != 'float32'
        or rung.tma_boxes
        or any(
            len(launches) > 1 or tuple(launches[0].grid)[:2] != grid or launches[0].shared
            for launches, grid in zip(calls, tile_grids, strict=True)
        )
    ):
        raise FormError(
            f'{name}: only float32 rungs with one block per tile and static shared memory can be written to a file'
        )
    signature = f'torch::Tensor {name}(torch::Tensor m, torch::Tensor n)'
    threads = ', '.join(map(str, rung.threads))
    src = f'''{rung.src}
{signature} {{
    int h = m.size(0), k = m.size(1), w = n.size(1);
    auto out = torch::empty({{h, w}}, m.options());
    {kernels(rung.src)[-1].name}<<<dim3((w + BN - 1)/BN, (h + BM - 1)/BM), dim3({threads})>>>(
        m.data_ptr<float>(), n.data_ptr<float>(), out.data_ptr<float>(), h, w, k);
    return out;
}}
'''
    return f'{_load_code(name, "module", src, signature + ";", [name])}{name} = {name}_module.{name}\n'


class _Collector:
    "Collects the code that a function uses, in an order in which it can be executed"

    def __init__(self):
        self.imports, self.definitions = {}, {}  # name -> import statement; name -> definition

    def collect_source(self, obj):
        "Return the source of a function or class, and add all definitions that it uses"
        text = source_of(obj).text.strip('\n') + '\n'
        is_function = hasattr(obj, '__globals__')
        namespace = obj.__globals__ if is_function else vars(sys.modules[obj.__module__])
        for name in _free_names(text):
            if name != obj.__name__ and name in namespace:
                self.add(name, namespace[name])
        return text

    def add(self, name, obj):
        "Add the definition or the import of an object that is used under this name"
        if name in self.definitions or name in self.imports:
            return
        self.definitions[name] = ''  # ends the recursion of functions that use each other
        text = self.definition_of(name, obj)
        del self.definitions[name]
        if text:
            self.definitions[name] = text

    def definition_of(self, name, obj):
        "Return the Python code that defines an object; None if it was added as an import"
        if isinstance(obj, ModuleType):
            self.imports[name] = _import_line(name, obj)
        elif function := _python_function(obj):
            return self.collect_source(function)
        elif hasattr(obj, 'launch_plan') and hasattr(obj, 'constants'):
            return self.with_load_inline(_rung_code(name, obj))
        elif hasattr(obj, 'params') and hasattr(obj, 'src'):
            return self.with_load_inline(_cuda_kernel_code(name, obj))
        elif isinstance(obj, (FunctionType, type)) and self.is_user_code(obj):
            return self.collect_source(obj)
        elif isinstance(obj, _CONSTANT_TYPES):
            return f'{name} = {obj!r}\n'
        elif hasattr(obj, '__module__') and hasattr(obj, '__qualname__'):
            self.imports[name] = f'from {obj.__module__} import {obj.__qualname__} as {name}'.removesuffix(
                f' as {obj.__name__}'
            )
        else:
            raise FormError(
                f'the submission uses {name}, a {type(obj).__name__}, which cannot be written to a file: create it '
                'inside the function'
            )

    def with_load_inline(self, code):
        "Add the import of `load_inline`, and return `code`, which uses it"
        self.imports['load_inline'] = 'from torch.utils.cpp_extension import load_inline'
        return code

    @staticmethod
    def is_user_code(obj):
        "Return whether an object is defined in a notebook, outside installed packages, or in this package"
        module = sys.modules.get(obj.__module__)
        file = getattr(module, '__file__', None)
        return (
            obj.__module__.split('.')[0] == _PACKAGE
            or file is None
            or 'site-packages' not in file
            and 'lib/python' not in file
        )


def _header_lines(leaderboard, gpus):
    "Return the header lines; raise `FormError` if a name is not one word"
    names = leaderboard, *(gpus or [''])
    if invalid_names := [name for name in names if not re.fullmatch(r'[^\s#]+', name)]:
        raise FormError(f'the name of a leaderboard or GPU must be one word; got {invalid_names[0]!r}')
    return f'#!POPCORN leaderboard {leaderboard}\n#!POPCORN gpu {" ".join(gpus)}\n'


def _remove_header_lines(text):
    return re.sub(r'\A(#!POPCORN .*\n)+', '', text)


def _import_file(path):
    "Import a Python file, and return the module"
    spec = util.spec_from_file_location(Path(path).stem, path)
    module = sys.modules[spec.name] = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_source(obj):
    "Raise `FormError` for an object without a source"
    try:
        source_of(obj)
    except SourceMissing:
        raise FormError(f'{obj!r} has no source: pass a function, a class `ModelNew`, or the path of a file') from None
    if getattr(obj, '__name__', '') == '<lambda>':
        raise FormError('a lambda has no name: write `def custom_kernel(data): ...`')


def _collect(obj):
    "Return the source of a submission: this `custom_kernel` or `ModelNew`, and all code that it uses"
    collector = _Collector()
    text = collector.collect_source(obj)
    name = 'ModelNew' if isinstance(obj, type) else 'custom_kernel'
    if obj.__name__ != name:
        text += f'\n\n{name} = {obj.__name__}\n'
    parts = ['\n'.join(sorted(dict.fromkeys(collector.imports.values()))), *collector.definitions.values(), text]
    return '\n\n'.join(part.rstrip('\n') + '\n' for part in parts if part)


def write_submission(
    kernel,  # `custom_kernel(data)`, a module `ModelNew`, or the path of a file that has one of them
    leaderboard: str,  # name of the leaderboard
    gpus=('H100',),  # names of GPUs on the leaderboard
    path=None,  # the file to write; None: only return the source
) -> str:  # the source
    """Write a submission for a leaderboard on which this package is not installed. Nothing is sent anywhere.

    Raises `FormError` if the file cannot include all code that the submission uses. GPU MODE's leaderboards reject a
    file that contains the word "stream", even in a comment; so does this function."""
    header_lines = _header_lines(leaderboard, gpus)
    if isinstance(kernel, (str, Path)):
        submission = read_submission(kernel)
        uses_package = re.search(rf'^\s*(from|import) {_PACKAGE}\b', submission.text, re.M)
        text = (
            _collect(getattr(_import_file(kernel), submission.form))
            if uses_package
            else _remove_header_lines(submission.text)
        )
    else:
        _check_source(kernel)
        text = _collect(kernel)
    text = f'{header_lines}{text}'
    if number := next((i for i, line in enumerate(text.splitlines(), 1) if 'stream' in line.lower()), None):
        raise FormError(
            f'line {number} of the submission contains the word stream, which leaderboards reject: use another word'
        )
    read_submission(text)
    if path:
        Path(path).write_text(text, encoding='utf-8')
    return text
