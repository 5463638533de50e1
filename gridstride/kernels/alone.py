"""`time_alone`: how fast a tensor core's instruction is where it has nothing to wait for."""

from ..bench import compare
from ..cpp.kernel import cuda_kernel
from ..recording import on_gpu
from .ladder import Gpu, inputs, library
from .rung import need_bfloat16, sms

WARPS, EACH = 8, 32  # of a block, one for each SM; instructions of a warp in a step


def time_alone(
    src,  # CUDA C of a kernel (const int *x, float *out, long long *cycles, int steps), launched with 8 warps an SM
    size,  # of the square bfloat16 product beside which it is timed, with as many multiply-adds
    multiply_adds,  # of one instruction; a warp does 32 of them in a step
    record,  # NN_what: the name of the recording that is shown where this cannot be measured
    folder='recorded',
) -> dict:  # 'random', 'zeros' -> dict(cycles=, tflops=, ratio=, ghz=)
    """Cycles for an instruction of one of the four tensor cores of an SM, TFLOP/s, how many times as fast as the
    library, and the clock that follows, in GHz: on random numbers, and on zeros"""

    def make():
        need_bfloat16('The instruction alone')
        return _measure(src, size, multiply_adds)

    return on_gpu(record, make, src, str((size, multiply_adds)), folder=folder)


def _measure(src, size, multiply_adds):
    import torch

    m, n = inputs(size, size, size, 'bfloat16', 'cuda')
    out, blocks = torch.empty_like(m), sms()
    steps = round(size**3 / (multiply_adds * EACH * WARPS * blocks))
    numbers = dict(random=m.view(torch.int32), zeros=torch.zeros_like(m).view(torch.int32))
    cycles = {name: torch.empty(blocks * WARPS * 32, dtype=torch.int64, device='cuda') for name in numbers}
    kernel, sums = cuda_kernel(src), torch.empty(blocks * WARPS * 32, device='cuda')

    def alone(name):
        def run(m, n):
            kernel[blocks, WARPS * 32](numbers[name], sums, cycles[name], steps)
            return sums

        return run

    ways = {'torch.matmul': lambda m, n: library(m, n, out), **{name: alone(name) for name in numbers}}
    done = 2 * multiply_adds * EACH * WARPS * blocks * steps  # operations, a multiply-add being two
    found = compare(ways, m, n, flops=done, seconds=0.5, clock=Gpu())
    return {name: _figures(found, name, done, cycles[name], steps) for name in numbers}


def _figures(found, name, done, cycles, steps):
    "What a way has reached, from its cycles on each thread and its time"
    seconds, took = found.timings[name].median, float(cycles.double().median())
    each = took / (steps * EACH * WARPS / 4)
    return dict(cycles=each, tflops=done / seconds / 1e12, ratio=found.ratios[name][0], ghz=took / seconds / 1e9)
