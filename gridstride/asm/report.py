"""Define `ptx`, `sass`, `ttgir` and `resources`, which show the output of compilers for a kernel, without a GPU."""

import hashlib
import json
import re
from collections import namedtuple
from functools import lru_cache
from pathlib import Path
from textwrap import indent

from .kernels import CudaC, source_of
from .limits import occupancy, sm_of
from .listing import Listing, card, heading, text_lines
from .python import Numba, Triton
from .read import clean_ptx, instruction, read_ptx, read_sass
from .tools import disassemble
from ..cpp.toolchain.compilers import CompilerMissing
from ..cpp.kernel import Kernel, Kernels
from ..cpp.load import Module
from ..support.atomic_write import write_whole
from ..bench.recording import is_recording, recorded_file
from ..support.tables import Table


def _raise_ambiguous(kernels):
    "Raise ValueError, which asks for the name of one of several kernels"
    raise ValueError(
        f"found {len(kernels)} kernels ({', '.join(kernels)}): select one, for example name='{next(iter(kernels))}'"
    )


def find(
    k,  # CUDA C, or a kernel
    args=(),  # examples of its arguments
    name=None,  # which kernel of several
    options=None,  # Triton's
):
    "Return the `Unit` for a kernel of any kind. Raises TypeError for other objects, ValueError for an ambiguous kernel"
    k = getattr(k, 'jitted', k)  # a checked kernel of Triton contains the one that compiles
    if isinstance(k, str):
        return CudaC(k, name)
    if isinstance(k, Kernel):
        return CudaC(source_of(k), k.__name__)
    if isinstance(k, Kernels):
        return find(k[name if name in k else _raise_ambiguous(k)])
    if isinstance(k, Module):
        return CudaC(source_of(k), name)
    if hasattr(k, 'py_func'):
        return Numba(k, args)
    if hasattr(k, 'fn') and hasattr(k, 'arg_names'):
        return Triton(k, args, options or {})
    raise TypeError(
        f'{k!r} is not a kernel; expected CUDA C, a cuda_kernel, a load_cuda module, a kernel of Numba, '
        'of the simulator or of Triton'
    )


# Compiled code is stored as plain text, one string per instruction: its address, its source line, and its text. It is
# recorded in this form for machines without a compiler. The file name of a recording contains a hash of everything that
# the result depends on, such as the kernel's source, so a recording of another source is never shown. Recordings of old
# sources can be deleted.
def _pack(items):
    return [item if isinstance(item, str) else f'{item.at:x} {item.line} {item.text}' for item in items]


def _unpack(packed, what):
    found = [(item, re.match(r'([0-9a-f]+) (\d+) (.+)', item)) for item in packed]
    return [instruction(int(m[1], 16), m[3], int(m[2]), what) if m else item for item, m in found]


def _demangle(text, entry, name):
    "Return `text` with the kernel's name in place of its mangled name"
    return text.replace(entry, re.sub(r'\W+', '_', name).strip('_'))


class _Code(dict):
    "The output of the compilers for a unit, as data for JSON; SASS is added on first use"

    def __init__(self, read, **facts):
        super().__init__(facts)
        self._read = read  # returns the SASS

    def add_sass(self):
        "Disassemble the machine code, once. Raises CompilerMissing without nvdisasm"
        if 'sass' not in self:
            self['sass'] = self._read()


def _compile(unit, arch, opt, flags):
    "Compile a unit, and return its `_Code`"
    m = unit.make(arch, opt, flags)

    def pack(items):
        return [_demangle(item, m.entry, unit.name) for item in _pack(items)]

    return _Code(
        lambda: pack(read_sass(disassemble(m.cubin), m.entry, unit.file, unit.source)),
        name=unit.name,
        arch=arch,
        by=m.by,
        takes=m.takes,
        text=_demangle(clean_ptx(m.ptx, m.entry), m.entry, unit.name).splitlines(),
        ptx=pack(read_ptx(m.ptx, m.entry, unit.file, unit.source)),
        **({'ttgir': m.ttgir.splitlines()} if m.ttgir else {}),
    )


_compiled = {}
_folders = []


def recordings(folder):  # None: use no recordings
    """Set the folder of recordings, which are shown where a compiler is missing; with GRIDSTRIDE_RECORD=1, they are
    written there"""
    _folders[:] = [Path(folder)] if folder is not None else []


def _file(unit, arch, opt, flags):
    "Return the file name of a recording"
    key = hashlib.sha256(json.dumps([unit.key, arch, bool(opt), list(flags)]).encode()).hexdigest()[:16]
    return f"{re.sub(r'[^0-9A-Za-z]+', '_', unit.name).strip('_')}.{key}.json"


def _code(unit, arch, opt, flags, sass=False):
    "Return the `_Code` of a unit, from the cache, a compiler, or a recording; `sass`: include SASS"
    sm_of(arch)
    name = _file(unit, arch, opt, flags)
    try:
        if name not in _compiled:
            _compiled[name] = _compile(unit, arch, opt, flags)
        if sass or is_recording():
            _compiled[name].add_sass()
    except CompilerMissing as e:
        return _load_recording(name, e)
    if is_recording():
        _record(name)
    return _compiled[name]


def _record(name):
    for f in _folders:
        f.mkdir(parents=True, exist_ok=True)
        write_whole(f / name, json.dumps(_compiled[name], indent=0, ensure_ascii=False) + '\n')


@lru_cache
def _note_recording(by, arch):
    print(f'A compiler is missing here, so what follows for {arch} was recorded, made by {by}')


def _load_recording(name, error):
    "Return the recording of this name. Raises CompilerMissing if there is none"
    for f in _folders:
        if (path := recorded_file(f / name)).is_file():
            code = json.loads(path.read_text(encoding='utf-8'))
            _note_recording(code['by'], code['arch'])
            return code
    if not _folders:
        raise error from None
    others = (
        f'Nor is it among the recordings in {_folders[0]}: those are of other sources, or for another architecture. '
        'If you changed the kernel, its comments or constants that it uses, undo the change to see the recording.'
    )
    raise CompilerMissing(f'{error}\n{others}') from None


def _listing(what, k, args, arch, opt, name, flags, options):
    unit = find(k, args, name, options)
    code = _code(unit, arch, opt, tuple(flags), what == 'sass')
    items = _unpack(code[what], what)
    text = '\n'.join(code['text'] if what == 'ptx' else text_lines(items))
    return Listing(text, items, unit.source, what, unit.name, arch, code['by'])


def ptx(
    k,  # CUDA C, a cuda_kernel, a load_cuda module, or a kernel of Numba, of the simulator or of Triton
    *example_args,  # examples of its arguments, or one Numba signature; CUDA C needs none
    arch='sm_90',  # the architecture of the GPU
    opt=True,  # optimize
    name=None,  # the kernel, if a source has several; 'k<float>' for a template
    flags=(),  # more options of the compiler, such as '-maxrregcount=32' for NVRTC
    **options,  # of Triton: constants by name, num_warps, num_stages
) -> Listing:
    """Return the PTX of a kernel, NVIDIA's assembly for all GPUs.

        ptx(kernel, x, out)

    Raises CompilerMissing if a compiler is missing and there is no recording."""
    return _listing('ptx', k, example_args, arch, opt, name, flags, options)


def sass(k, *example_args, arch='sm_90', opt=True, name=None, flags=(), **options) -> Listing:
    "Return the SASS of a kernel, the machine code of one GPU architecture; arguments and errors are those of `ptx`"
    return _listing('sass', k, example_args, arch, opt, name, flags, options)


def ttgir(k, *example_args, arch='sm_90', **options) -> str:
    """Return the TTGIR of a Triton kernel: the language between Python and PTX in which each block has a layout.

    Arguments are those of `ptx`. Raises TypeError for a kernel that is not Triton's."""
    unit = find(k, example_args, None, options)
    code = _code(unit, arch, True, ())
    if 'ttgir' in code:
        return '\n'.join(code['ttgir'])
    raise TypeError(f"{unit.name} is not a kernel of Triton: only Triton's compiler produces TTGIR")


_FIELDS = 'name arch by registers shared dynamic local spill_stores spill_loads constant barriers block occupancy'


class Resources(namedtuple('Resources', _FIELDS)):
    """The resources of a kernel: registers per thread; bytes of static and dynamic shared memory per block, of local
    memory per thread, of register spills that are stored and loaded, and of constants; and the occupancy"""

    def rows(self):
        "Return [(resource, amount, unit)] for a table"
        fit = self.occupancy
        most = sm_of(self.arch).threads // 32
        limits = ', '.join(f'{v} by {k}' for k, v in fit.limits.items())
        fits = f'{fit.blocks} block{"s" * (fit.blocks != 1)} of {self.block} threads'
        return [
            ('registers', self.registers, 'per thread'),
            ('shared memory', f'{self.shared} + {self.dynamic} bytes', 'per block, static + dynamic'),
            ('local memory', f'{self.local} bytes', 'per thread: arrays and spills'),
            ('spills', f'{self.spill_stores} + {self.spill_loads} bytes', 'stored + loaded'),
            ('constants', f'{self.constant} bytes', 'per kernel, with its arguments'),
            ('barriers', self.barriers, 'per block'),
            ('occupancy', f'{fit.share:.0%}', f'{fit.warps} of {most} warps: {fits}'),
            ('limited by', ', '.join(fit.limiter), f'blocks: {limits}'),
        ]

    def _title(self):
        return f'{self.name} for {self.arch}, by {self.by}'

    def __repr__(self):
        return f"{self._title()}\n{indent(repr(Table((), self.rows())), '  ')}"

    def __str__(self):
        return repr(self)

    def _repr_html_(self):
        return card(heading(self._title()), Table((), self.rows())._repr_html_())


def resources(
    k,  # as for `ptx`
    *example_args,  # likewise
    block=256,  # threads per block
    shared_bytes=0,  # bytes of dynamic shared memory per block
    arch='sm_90',  # this and the following arguments are those of `ptx`
    opt=True,
    name=None,
    flags=(),
    **options,
) -> Resources:
    """Return the resources of a kernel and its occupancy.

        resources(kernel, x, out, block=128)

    Raises CompilerMissing if a compiler is missing and there is no recording."""
    unit = find(k, example_args, name, options)
    code = _code(unit, arch, opt, tuple(flags))
    t = code['takes']
    block = t.get('threads') or block  # Triton decides both itself
    dynamic = t.get('dynamic', 0) + shared_bytes
    fits = occupancy(t['registers'], t['shared'] + dynamic, block, arch, t['barriers'])
    kept = (t[column] for column in ('local', 'spill_stores', 'spill_loads', 'constant', 'barriers'))
    return Resources(unit.name, arch, code['by'], t['registers'], t['shared'], dynamic, *kept, block, fits)
