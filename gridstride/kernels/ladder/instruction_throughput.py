"""`time_alone`: measure the throughput of a tensor core instruction in a kernel that executes no other work."""

import numpy as np

from ...bench import compare
from ...bench.clocks import Events
from ...cpp.kernel import cuda_kernel
from ...bench.recording import on_gpu
from .ladder import GpuClock, inputs, multiply_by_torch
from .rung import require_bfloat16, sms

WARPS = 8  # per block, one block per SM
INSTRUCTIONS_PER_STEP = 32  # per warp


def time_alone(
    src,  # CUDA C of a kernel (const int *x, float *out, long long *cycles, int steps), launched with 8 warps per SM
    size,  # of the square bfloat16 GEMM with equally many multiply-adds, for comparison
    multiply_adds,  # per instruction; a warp executes 32 instructions per step
    record,  # name of the recording that is shown without a GPU, CHAPTER_TOPIC
    folder='recorded',
) -> dict:  # 'random', 'zeros' -> dict(cycles=, tflops=, ghz=, watts=); 'ratio' -> speedup over the library
    """Measure cycles per instruction (of one of the four tensor cores of an SM), TFLOP/s, clock rate and power.

    The instruction multiplies random values, then zeros, each for some seconds, because power and clock need time to
    settle."""

    def measure():
        require_bfloat16('The instruction alone')
        return _measure(src, size, multiply_adds)

    return on_gpu(record, measure, src, str((size, multiply_adds)), folder=folder)


def _measure(src, size, multiply_adds):
    import torch

    m, n = inputs(size, size, size, 'bfloat16', 'cuda')
    out, blocks = torch.empty_like(m), sms()
    steps = round(size**3 / (multiply_adds * INSTRUCTIONS_PER_STEP * WARPS * blocks))
    kernel, threads = cuda_kernel(src), blocks * WARPS * 32
    sums = torch.empty(threads, device='cuda')
    cycles = torch.empty(threads, dtype=torch.int64, device='cuda')
    operands = dict(random=m.view(torch.int32), zeros=torch.zeros_like(m).view(torch.int32))

    def run_instruction(operand):
        kernel[blocks, WARPS * 32](operand, sums, cycles, steps)
        return sums

    num_flops = 2 * multiply_adds * INSTRUCTIONS_PER_STEP * WARPS * blocks * steps  # a multiply-add counts as two
    figures = {}
    for name, operand in operands.items():
        seconds, watts = _time_settled(lambda: run_instruction(operand))
        figures[name] = _derive_figures(num_flops, steps, seconds, float(cycles.double().median()), watts)
    functions = {
        'torch.matmul': lambda m, n: multiply_by_torch(m, n, out),
        'alone': lambda m, n: run_instruction(operands['random']),
    }
    comparison = compare(functions, m, n, flops=num_flops, seconds=0.5, clock=GpuClock())
    return {**figures, 'ratio': comparison.ratios['alone'][0]}


def _time_settled(run, min_seconds=2.0):
    "Time a kernel after power and clock have settled; returns (seconds, watts)"
    clock, times = Events(flush=False), []
    start = clock.now()
    while clock.now() - start < min_seconds:
        times.append(np.median(clock.times(run, 20)))
    state = clock.states[-1]
    return float(np.median(times[len(times) // 2 :])), state and state.watt


def _derive_figures(flops, steps, seconds, kernel_cycles, watts):
    "Compute cycles per instruction, TFLOP/s and the clock rate from a thread's cycles and the time"
    cycles = kernel_cycles / (steps * INSTRUCTIONS_PER_STEP * WARPS / 4)
    return dict(cycles=cycles, tflops=flops / seconds / 1e12, ghz=kernel_cycles / seconds / 1e9, watts=watts)
