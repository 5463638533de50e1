"""`cross_entropy` and `AdamW` as programs of their own: what `export` writes of them."""

from . import losses, optimizers
from .losses import Case
from ..ladder.rung import H100
from ..standalone import in_spaces, program, start, switch
from ..texts import IN_C
from ..tool import LOAD
from ...utils import cdiv

# (rows, classes), the last one is timed
LOSSES = {
    'float32': ((3, 33), (5, 1000), (64, 50257), (2048, 128256)),
    'bfloat16': ((3, 33), (5, 1000), (64, 50257), (8192, 128256)),
}
TENSORS = ((1, 5, 561, 2048, 2049, 70000), (2**28,))  # sizes, likewise
_ROUNDING = dict(float32=2e-6, bfloat16=2**-8 + 2e-6)


def loss_calls(dtype, rows, width) -> list:  # of `Call`
    "What the mean of the losses and its gradient take, on an H100"
    case = Case(dtype, rows, width, LOAD // losses.SIZES[dtype], -100)
    return [losses.count_call(case, True), losses.once_call(case, H100), losses.add_call(case)]


def _loss_program(name, dtype):
    every = [loss_calls(dtype, *o) for o in LOSSES[dtype]]
    kernels, spaces = in_spaces([c for calls in every for c in calls])
    sizes = ', '.join(f'{{{rows}, {width}}}' for rows, width in LOSSES[dtype])
    names = f'''const char *const NAME = "{name}";
constexpr int SMS = {H100.sms};
typedef {IN_C[dtype]} Number;
constexpr double ROUNDING = {_ROUNDING[dtype]};
constexpr struct {{ int rows, width; }} cases[] = {{{sizes}}};'''
    head = 'void launch(int number, Number *x, const long long *target, float *scale, float *loss, float *out)'
    in_place = dict(gradient='x')
    lines = [
        [
            start(c, f'{spaces[c.src]}::{c.name}', [*(in_place.get(o, o) for o in c.arrays), *map(str, c.scalars)])
            for c in o
        ]
        for o in every
    ]
    what = [f'`gridstride.kernels.cross_entropy` of {dtype}, forward and backward at once, in place.']
    return program(name, what, kernels, names, 'fused/cross_entropy_main.cuh', switch(head, lines))


def adamw_calls() -> list:  # of `Call`, one per case
    "One step per list of sizes"
    chunk = 4 * optimizers.THREADS
    return [optimizers.adamw_call('float32', 4, False, sum(cdiv(n, chunk) for n in sizes)) for sizes in TENSORS]


def _adamw_program(name):
    calls, chunk = adamw_calls(), 4 * optimizers.THREADS
    kernels, spaces = in_spaces(calls)
    scalars = optimizers.scalars_of(1e-3, (0.9, 0.999), 1e-8, 1e-2, 3)
    known = ', '.join(f'{k} = {float(x)!r}f' for k, x in zip(optimizers.SCALARS, scalars))
    sizes = ', '.join(f'{{{", ".join(map(str, o))}}}' for o in TENSORS)
    names = f'''const char *const NAME = "{name}";
constexpr int SMS = {H100.sms};
constexpr long long CHUNK = {chunk};
constexpr float {known};
const std::vector<std::vector<long long>> cases = {{{sizes}}};'''
    head = 'void launch(int number, char *memory, const long long *table, const int2 *chunks)'
    lines = [[start(c, f'{spaces[c.src]}::{c.name}', [*c.arrays, *optimizers.SCALARS])] for c in calls]
    what = ['`gridstride.kernels.AdamW` of float32: one step, for all tensors in one launch.']
    return program(name, what, kernels, names, 'fused/adamw_main.cuh', switch(head, lines))


def list_training_programs() -> dict:  # name of the file -> the whole `.cu`
    "One program per type that has kernels of its own"
    found = {f'cross_entropy_{o}': _loss_program(f'cross_entropy_{o}', o) for o in LOSSES}
    return {**found, 'adamw_float32': _adamw_program('adamw_float32')}
