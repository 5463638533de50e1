"""Standalone programs of the convolutions, for `export`."""

from typing import NamedTuple

from . import implicit_gemm, nhwc_tiles, sequences, tiles
from .problems import Convolution
from ..common import vector_width
from ..ladder import H100
from ..source_assembly import C_TYPES
from ..standalone import Launch, Program

_FIELDS = 'images, channels, height, width, out_channels, kernel, stride, padding'
_DEPTHWISE = ((2, 3, 9, 13, 3, 3, 1, 1), (1, 5, 30, 70, 5, 5, 2, 2), (3, 40, 14, 14, 40, 7, 1, 3))
_RELATIVE_TOLERANCE = dict(float32='0x1p-22', bfloat16='0x1p-8')


class ConvolutionProgram(NamedTuple):
    "An operator for one dtype"

    kind: str  # 'depthwise', 'depthwise_nhwc', 'dense', 'causal'
    dtype: str
    cases: tuple  # of `_FIELDS`; the last one is timed

    @property
    def name(self):
        "The name of the file"
        return f'conv_{self.kind}_{self.dtype}'


PROGRAMS = [
    ConvolutionProgram('depthwise', 'float32', (*_DEPTHWISE, (64, 96, 56, 56, 96, 7, 1, 3))),
    ConvolutionProgram('depthwise', 'bfloat16', (*_DEPTHWISE, (64, 144, 56, 56, 144, 3, 1, 1))),
    ConvolutionProgram('depthwise_nhwc', 'bfloat16', (*_DEPTHWISE, (64, 384, 14, 14, 384, 7, 1, 3))),
    ConvolutionProgram(
        'dense', 'bfloat16', ((2, 16, 9, 7, 24, 3, 1, 1), (1, 8, 12, 12, 136, 3, 2, 1), (64, 128, 28, 28, 128, 3, 1, 1))
    ),
    ConvolutionProgram(
        'causal',
        'bfloat16',
        ((2, 5, 1, 37, 5, 3, 1, 0), (3, 7, 1, 2100, 7, 4, 1, 0), (8, 2048, 1, 2048, 2048, 4, 1, 0)),
    ),
]


def _problem(program, case) -> Convolution:
    "Return the sizes of a case"
    images, channels, height, width, out_channels, kernel, stride, padding = case
    groups = 1 if program.kind == 'dense' else channels
    pairs = [(n, n) for n in (kernel, stride, padding, 1)]
    return Convolution(images, channels, height, width, out_channels, *pairs, groups)


def case_launches(program, case) -> list:  # of `KernelLaunch`
    "Return the launches of a case on an H100"
    problem, addresses = _problem(program, case), (0, 0)
    if program.kind == 'depthwise':
        alignment = tiles.plane_alignment(problem, program.dtype, addresses)
        return tiles.depthwise_launches(problem, program.dtype, alignment, True, False, H100)
    if program.kind == 'depthwise_nhwc':
        return nhwc_tiles.nhwc_launches(problem, program.dtype, (0, 0, 0), True, False, H100)
    if program.kind == 'dense':
        return implicit_gemm.dense_launches(problem, True, H100)
    images, channels, _, width, _, taps, *_ = case
    vec_size = vector_width(0, tiles.DTYPE_BYTES[program.dtype], 2, width)
    flags = tuple(sequences._flags(True, True).items())
    return sequences.causal_launches(program.dtype, images * channels, channels, width, taps, vec_size, flags)


def _program(program):
    unused = dict(state='x', final_state='y')
    lines = [
        [Launch(call, tuple(unused.get(name, name) for name in call.arrays)) for call in case_launches(program, case)]
        for case in program.cases
    ]
    constants = f'''enum Kind {{ DEPTHWISE, DEPTHWISE_NHWC, DENSE, CAUSAL }};
constexpr Kind KIND = {program.kind.upper()};
typedef {C_TYPES[program.dtype]} Elem;
constexpr double RELATIVE_TOLERANCE = {_RELATIVE_TOLERANCE[program.dtype]};'''
    description = (
        f'`gridstride.kernels.conv{1 if program.kind == "causal" else 2}d` of {program.dtype}: {program.kind}.'
    )
    signature = 'void launch(int case_index, const Elem *x, const Elem *weight, const Elem *bias, Elem *y)'
    return Program(program.name, description, 'conv/main.cuh', _FIELDS, program.cases, {signature: lines}, constants)


def programs() -> list:  # of `Program`
    "Return one program per kind and dtype"
    return [_program(program) for program in PROGRAMS]
