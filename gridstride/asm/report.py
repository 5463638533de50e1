"""`ptx`, `sass`, `ttgir` and `resources`: the output of compilers for a kernel, without a GPU."""

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
from .read import clean_ptx, parse_instruction, read_ptx, read_sass
from .tools import disassemble
from ..cpp.toolchain.compilers import CompilerMissing
from ..cpp.kernel import Kernel, Kernels
from ..cpp.load import Module
from ..support.atomic_write import write_atomically
from ..bench.recording import is_recording, recorded_file
from ..support.parameter_docs import documented
from ..support.tables import Table


def _raise_ambiguous(kernels):
    "Raise ValueError for a source with several kernels, of which the user must select one"
    raise ValueError(
        f"found {len(kernels)} kernels ({', '.join(kernels)}): select one, for example name='{next(iter(kernels))}'"
    )


def find_kernel_source(
    kernel,  # CUDA C, or a kernel
    args=(),  # examples of its arguments
    name=None,  # of the kernel, if a source has several
    options=None,  # of Triton
):
    "Return the `KernelSource` of a kernel. Raises TypeError for other objects, ValueError for an ambiguous name"
    kernel = getattr(kernel, 'jitted', kernel)  # a checked kernel of Triton contains the kernel for its compiler
    if isinstance(kernel, str):
        return CudaC(kernel, name)
    if isinstance(kernel, Kernel):
        return CudaC(source_of(kernel), kernel.__name__)
    if isinstance(kernel, Kernels):
        return find_kernel_source(kernel[name if name in kernel else _raise_ambiguous(kernel)])
    if isinstance(kernel, Module):
        return CudaC(source_of(kernel), name)
    if hasattr(kernel, 'py_func'):
        return Numba(kernel, args)
    if hasattr(kernel, 'fn') and hasattr(kernel, 'arg_names'):
        return Triton(kernel, args, options or {})
    raise TypeError(
        f'expected CUDA C, a cuda_kernel, a load_cuda module, or a Numba, simulator or Triton kernel; got {kernel!r}'
    )


# Compiled code is recorded for machines without a compiler, as one string per instruction: its address, its source
# line, and its text. The file name of a recording contains a hash of everything that the result depends on, such as the
# kernel's source, so a recording of another source is never shown. Recordings of old sources can be deleted.
def _pack(items):
    "Return instructions and labels as strings"
    return [item if isinstance(item, str) else f'{item.position:x} {item.line} {item.text}' for item in items]


def _unpack(packed, language):
    "Return the instructions and labels that `_pack` wrote"
    matches = [(item, re.match(r'([0-9a-f]+) (\d+) (.+)', item)) for item in packed]
    return [
        parse_instruction(int(match[1], 16), match[3], int(match[2]), language) if match else item
        for item, match in matches
    ]


def _demangle(text, entry, name):
    "Return `text` with the kernel's name in place of its mangled name"
    return text.replace(entry, re.sub(r'\W+', '_', name).strip('_'))


class _Code(dict):
    "The output of the compilers for a kernel, as JSON data; SASS is added on first use"

    def __init__(self, read_sass, **data):
        super().__init__(data)
        self._read_sass = read_sass

    def add_sass(self):
        "Disassemble the machine code, once. Raises CompilerMissing without nvdisasm"
        if 'sass' not in self:
            self['sass'] = self._read_sass()


def _compile(kernel_source, arch, opt, flags):
    "Compile a kernel, and return its `_Code`"
    output = kernel_source.compile(arch, opt, flags)

    def pack(items):
        return [_demangle(item, output.entry, kernel_source.name) for item in _pack(items)]

    return _Code(
        lambda: pack(read_sass(disassemble(output.cubin), output.entry, kernel_source.file, kernel_source.source)),
        name=kernel_source.name,
        arch=arch,
        by=output.compiler,
        resources=output.resources,
        text=_demangle(clean_ptx(output.ptx, output.entry), output.entry, kernel_source.name).splitlines(),
        ptx=pack(read_ptx(output.ptx, output.entry, kernel_source.file, kernel_source.source)),
        **({'ttgir': output.ttgir.splitlines()} if output.ttgir else {}),
    )


_code_by_file = {}
_folders = []  # of recordings


def recordings(folder):  # None: use no recordings
    "Set the folder of recordings, shown if a compiler is missing; with GRIDSTRIDE_RECORD=1, results are written to it"
    _folders[:] = [Path(folder)] if folder is not None else []


def _recording_file(kernel_source, arch, opt, flags):
    "Return the file name of a recording"
    key = hashlib.sha256(json.dumps([kernel_source.key, arch, bool(opt), list(flags)]).encode()).hexdigest()[:16]
    return f"{re.sub(r'[^0-9A-Za-z]+', '_', kernel_source.name).strip('_')}.{key}.json"


def _get_code(kernel_source, arch, opt, flags, sass=False):
    "Return the `_Code` of a kernel, from the cache, a compiler, or a recording; `sass`: include SASS"
    sm_of(arch)
    name = _recording_file(kernel_source, arch, opt, flags)
    try:
        if name not in _code_by_file:
            _code_by_file[name] = _compile(kernel_source, arch, opt, flags)
        if sass or is_recording():
            _code_by_file[name].add_sass()
    except CompilerMissing as e:
        return _load_recording(name, e)
    if is_recording():
        _write_recordings(name)
    return _code_by_file[name]


def _write_recordings(name):
    "Write the `_Code` of this name to each folder of recordings"
    for folder in _folders:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, json.dumps(_code_by_file[name], indent=0, ensure_ascii=False) + '\n')


@lru_cache
def _note_recording(by, arch):
    "Print a note that the code is recorded, once per compiler and architecture"
    print(f'A compiler is not installed: the following code for {arch} is recorded, and was generated by {by}')


def _load_recording(name, error):
    "Return the recording of this name. Raises CompilerMissing if there is none"
    for folder in _folders:
        if (path := recorded_file(folder / name)).is_file():
            code = json.loads(path.read_text(encoding='utf-8'))
            _note_recording(code['by'], code['arch'])
            return code
    if not _folders:
        raise error from None
    hint = (
        f'{_folders[0]} has no recording of this source for this architecture. '
        'If you changed the kernel, its comments or constants that it uses, undo the change to see the recorded code.'
    )
    raise CompilerMissing(f'{error}\n{hint}') from None


def _make_listing(language, kernel, args, arch, opt, name, flags, options):
    "Return the `Listing` of a kernel in PTX or SASS; the other arguments are those of `ptx`"
    kernel_source = find_kernel_source(kernel, args, name, options)
    code = _get_code(kernel_source, arch, opt, tuple(flags), language == 'sass')
    items = _unpack(code[language], language)
    text = '\n'.join(code['text'] if language == 'ptx' else text_lines(items))
    return Listing(text, items, kernel_source.source, language, kernel_source.name, arch, code['by'])


def ptx(
    kernel,  # CUDA C, a cuda_kernel, a load_cuda module, or a kernel of Numba, of the simulator or of Triton
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
    return _make_listing('ptx', kernel, example_args, arch, opt, name, flags, options)


def sass(kernel, *example_args, arch='sm_90', opt=True, name=None, flags=(), **options) -> Listing:
    "Return the SASS of a kernel, the machine code of one GPU architecture; arguments and errors are those of `ptx`"
    return _make_listing('sass', kernel, example_args, arch, opt, name, flags, options)


def ttgir(kernel, *example_args, arch='sm_90', **options) -> str:
    """Return the TTGIR of a Triton kernel: the intermediate representation in which each tensor has a layout.

    Arguments are those of `ptx`. Raises TypeError for a kernel that is not Triton's."""
    kernel_source = find_kernel_source(kernel, example_args, None, options)
    code = _get_code(kernel_source, arch, True, ())
    if 'ttgir' in code:
        return '\n'.join(code['ttgir'])
    raise TypeError(f"{kernel_source.name} is not a Triton kernel: only Triton's compiler produces TTGIR")


_FIELDS = 'name arch by registers shared dynamic local spill_stores spill_loads constant barriers block occupancy'


class Resources(namedtuple('Resources', _FIELDS)):
    """The resources of a kernel, and its occupancy.

    `registers` are per thread; the others in bytes: static (`shared`) and `dynamic` shared memory per block, `local`
    memory per thread, register spills that are stored and loaded, and constants.
    """

    def rows(self):
        "Return [(resource, amount, unit)] for a table"
        occupancy = self.occupancy
        max_warps = sm_of(self.arch).threads // 32
        limits = ', '.join(f'{blocks} by {resource}' for resource, blocks in occupancy.limits.items())
        blocks = f'{occupancy.blocks} block{"s" * (occupancy.blocks != 1)} of {self.block} threads'
        return [
            ('registers', self.registers, 'per thread'),
            ('shared memory', f'{self.shared} + {self.dynamic} bytes', 'per block, static + dynamic'),
            ('local memory', f'{self.local} bytes', 'per thread: arrays and spills'),
            ('spills', f'{self.spill_stores} + {self.spill_loads} bytes', 'stored + loaded'),
            ('constants', f'{self.constant} bytes', 'per kernel, with its arguments'),
            ('barriers', self.barriers, 'per block'),
            ('occupancy', f'{occupancy.fraction:.0%}', f'{occupancy.warps} of {max_warps} warps: {blocks}'),
            ('limited by', ', '.join(occupancy.limiter), f'blocks: {limits}'),
        ]

    def _title(self):
        return f'{self.name} for {self.arch}, by {self.by}'

    def __repr__(self):
        return f"{self._title()}\n{indent(repr(Table((), self.rows())), '  ')}"

    def __str__(self):
        return repr(self)

    def _repr_html_(self):
        return card(heading(self._title()), Table((), self.rows())._repr_html_())


@documented
def resources(
    kernel,  # a kernel, as for `ptx`
    *example_args,  # as for `ptx`
    block=256,  # threads per block
    shared_bytes=0,  # bytes of dynamic shared memory per block
    arch='sm_90',  # the remaining arguments are those of `ptx`
    opt=True,
    name=None,
    flags=(),
    **options,
) -> Resources:
    """Return the resources of a kernel and its occupancy.

        resources(kernel, x, out, block=128)

    Raises CompilerMissing if a compiler is missing and there is no recording."""
    kernel_source = find_kernel_source(kernel, example_args, name, options)
    code = _get_code(kernel_source, arch, opt, tuple(flags))
    usage = code['resources']
    block = usage.get('threads') or block  # Triton chooses the threads and the dynamic shared memory itself
    dynamic = usage.get('dynamic', 0) + shared_bytes
    block_occupancy = occupancy(usage['registers'], usage['shared'] + dynamic, block, arch, usage['barriers'])
    remaining_amounts = (usage[name] for name in ('local', 'spill_stores', 'spill_loads', 'constant', 'barriers'))
    return Resources(
        kernel_source.name,
        arch,
        code['by'],
        usage['registers'],
        usage['shared'],
        dynamic,
        *remaining_amounts,
        block,
        block_occupancy,
    )
