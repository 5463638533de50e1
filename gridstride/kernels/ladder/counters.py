"""Registers, occupancy and Nsight Compute counters, which explain the time of a rung."""

import ctypes

import numpy as np

from ...asm.limits import occupancy
from ...cpp.driver import driver
from ...prof.counters import ncu


# The driver reports registers and shared memory, from which the occupancy follows. Nsight Compute counts sectors per
# request of a warp, wavefronts per load from shared memory, used issue slots, and the stall reasons of warps.
# CU_FUNC_ATTRIBUTE_NUM_REGS, _LOCAL_SIZE_BYTES, _SHARED_SIZE_BYTES:
_NUM_REGS, _LOCAL_BYTES, _STATIC_SHARED_BYTES = 4, 3, 1


def resources(rung) -> dict:
    "Return registers and bytes of local memory per thread, shared memory per block, and occupancy, on this GPU"
    import torch

    device, value = torch.cuda.current_device(), ctypes.c_int()

    def read_attribute(attribute_id):
        driver().cuKernelGetAttribute(ctypes.byref(value), attribute_id, ctypes.c_void_p(rung.kernel.handle), device)
        return value.value

    registers, shared = read_attribute(_NUM_REGS), read_attribute(_STATIC_SHARED_BYTES) + rung.shared
    arch = 'sm_{}{}'.format(*torch.cuda.get_device_capability())
    fraction = occupancy(registers, shared, int(np.prod(rung.threads)), arch).fraction
    return dict(registers=registers, local=read_attribute(_LOCAL_BYTES), shared=shared, occupancy=fraction)


_STALL_TEXTS = dict(
    long_scoreboard='global memory',
    short_scoreboard='shared memory',
    mio_throttle='the queue to shared memory',
    lg_throttle='the queue to global memory',
    barrier='the barrier',
    math_pipe_throttle='an arithmetic unit',
    wait='the previous instruction',
    not_selected='not selected',
    dispatch_stall='dispatch',
    no_instruction='instruction fetch',
    gmma='tensor cores',
    membar='a memory fence',
    sleeping='nanosleep',
    branch_resolving='a branch',
    drain='pending stores',
    imc_miss='constant memory',
    tex_throttle='the texture queue',
    misc='other reasons',
)
_METRICS = dict(
    sectors='l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio',
    loads='smsp__sass_inst_executed_op_shared_ld.sum',
    wavefronts='l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum',
    conflicts='l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum',
    issue='smsp__issue_active.avg.pct_of_peak_sustained_active',
    warps='sm__warps_active.avg.pct_of_peak_sustained_active',
    tensor='sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active',
    dram='dram__bytes.sum',
    l2='lts__t_sectors_op_read.sum',
    fetched='lts__t_sectors_srcunit_tex_op_read.sum',
    written='lts__t_sectors_srcunit_tex_op_write.sum',  # by the SMs; without `srcunit_tex`, the L2's own writes as well
)

_SCRIPT = '''
import torch
from gridstride.cpp import cuda_kernel
from gridstride.kernels.ladder.ladder import inputs
from gridstride.kernels.tensor_maps import tensor_map
h,w,k = {shape}
m,n = inputs(h, w, k, {dtype!r}, 'cuda')
out = torch.empty(h, w, dtype=m.dtype, device='cuda')
maps = {maps!r}
arrays = dict(m=m, n=n, out=out)
args = [tensor_map(x, *maps[name]) if name in maps else x for name, x in arrays.items()]
cuda_kernel({src!r})[{grid}, {threads}, None, {shared}](*args, h, w, k)
torch.cuda.synchronize()
'''


def count_events(rung, h, w, k, metrics={}) -> dict:  # metrics: additional ones, {short name: name in Nsight Compute}
    "Count events with Nsight Compute while the kernel multiplies h x k by k x w; returns {short name: value}"
    script = _SCRIPT.format(
        shape=(h, w, k),
        dtype=rung.dtype,
        maps=rung.tma_boxes,
        src=rung.src,
        grid=tuple(rung.grid_for(h, w, k)),
        threads=rung.threads,
        shared=rung.shared,
    )
    stalls = {stall: f'smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio' for stall in _STALL_TEXTS}
    metric_names = {**_METRICS, **metrics}
    profile = ncu(
        script, metrics=[*metric_names.values(), *stalls.values()], sections=(), kernel=f'^{rung.kernel.__name__}$'
    ).kernels[-1]

    def metric_value(name):
        "Return the value of a metric; None if it is missing or not a number"
        value = profile.raw[name].value if name in profile.raw else None
        return value if isinstance(value, (int, float)) else None

    counters = {short: value for short, name in metric_names.items() if (value := metric_value(name)) is not None}
    if counters.get('loads'):
        counters['wavefronts per load'] = counters['wavefronts'] / counters['loads']
    counters['stalls'] = {stall: value for stall, name in stalls.items() if (value := metric_value(name)) is not None}
    return counters


def main_stall_reason(counters) -> str:  # counters: the result of `count_events`
    "Return the most frequent stall reason in plain words, with its fraction of all stalls; empty without stalls"
    stalls = counters.get('stalls') or {}
    reason = max(stalls, key=stalls.get, default=None)
    if not reason or not stalls[reason]:
        return ''
    return f'{_STALL_TEXTS[reason]} ({stalls[reason] / sum(stalls.values()):.0%})'
