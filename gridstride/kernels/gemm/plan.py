"""Select the kernel that multiplies two matrices, or torch, with the reason: `plan`, `explain`, `tune`, `using`.

A GEMM is C = A @ B, with A of M x K, B of K x N and C of M x N elements. `stored_a` and `stored_b` are the operands
in the layout of their memory: row-major (M, K) and (K, N), but (K, M) for A with the layout 'tn', and (N, K) for B
with 'nt'.
"""

from collections import namedtuple
from contextlib import contextmanager
from functools import lru_cache, partial
from math import prod

from . import cost_model, tuning_cache, bf16x6
from ...cpp.launcher import torch_has
from ...utils import backend, gpu_count


# (dtype, layout) -> function of (M, N, K, sms) that returns the kernel with the lowest estimate, or the reason why
# torch multiplies. It selects large tiles if there is work for every SM, smaller tiles or split-K if there is not. A
# plan is made once per shape and cached.
SELECTORS = {
    ('float32', 'nn'): bf16x6.choose,
    ('float32', 'tn'): bf16x6.choose_tn,  # A is column-major: it is stored transposed
    ('float32', 'nt'): bf16x6.choose_nt,  # B is column-major
}
_F16_KINDS = [(dtype, layout) for dtype in ('bfloat16', 'float16') for layout in ('nn', 'tn', 'nt')]
SELECTORS |= {kind: partial(cost_model.choose, dtype=kind[0], layout=kind[1]) for kind in _F16_KINDS}
# (dtype, layout) -> function of (M, N, K, sms, count) that returns the `count` kernels with the lowest estimates
RANKINGS = {kind: partial(cost_model.rank_kernels, dtype=kind[0], layout=kind[1]) for kind in _F16_KINDS}
TYPES = list(dict.fromkeys(dtype for dtype, _ in SELECTORS))
MAX_PLANS = 4096  # cached plans
MAX_CANDIDATES = 1000  # more than the candidates of any shape, so it returns all of them
TUNE_SECONDS = 0.05  # per kernel and condition: with a cold L2 cache, and in a CUDA graph


class Plan(namedtuple('Plan', 'kernel reason')):
    "A kernel, or None if torch multiplies, and the reason for the choice"

    __slots__ = ()

    def __repr__(self):
        return f"{self.kernel.name if self.kernel else 'torch.matmul'}: {self.reason}"


_forced_kernels = []  # the kernels passed to `using`
_plans = {}  # (M, N, K, dtype, device, layout) -> `Plan`
_tuned_plans = {}  # the same key -> `Plan` that `tune` measured
cache_clearers = []  # functions that clear caches of other modules, which depend on plans


def _clear_caches():
    "Clear the plans, and the caches that depend on them"
    for clear in (_plans.clear, *cache_clearers):
        clear()


@contextmanager
def using(
    *kernels,  # called with (stored_a, stored_b, out); each has a `name`, and may have `supports(M, N, K)`
):
    """Force `matmul` to use these kernels inside the `with` block: the first one that supports the shape, else torch.
    They run on the emulator, too.

        with using(my_kernel):
            matmul(a, b)"""
    previous_kernels = list(_forced_kernels)
    _forced_kernels[:] = kernels
    _clear_caches()
    try:
        yield
    finally:
        _forced_kernels[:] = previous_kernels
        _clear_caches()


def _supports(kernel, M, N, K, dtype):
    "Return whether a kernel supports a GEMM"
    return getattr(kernel, 'dtype', 'float32') == dtype and getattr(kernel, 'supports', lambda *_: True)(M, N, K)


def _layout_of(kernel):
    "Return the layout of the operands that a kernel reads"
    return getattr(kernel, 'layout', 'nn')


def _forced_kernels_for(M, N, K, dtype, layout):
    "Return the kernels passed to `using` that support this GEMM"
    return [kernel for kernel in _forced_kernels if layout == _layout_of(kernel) and _supports(kernel, M, N, K, dtype)]


@lru_cache
def _capability_and_sms(device):
    "Return (compute capability, number of SMs) of a GPU"
    import torch

    properties = torch.cuda.get_device_properties(device)
    return (properties.major, properties.minor), properties.multi_processor_count


# Products of 16-bit floats with few rows and a large matrix B, which torch multiplies faster on a Hopper GPU, measured
# by benchmarks/every_shape.py: (largest M, smallest N * K). They take longer than torch's launch overhead,
# which is larger than that of this package.
_FEW_ROWS_LIMITS = (128, 3 * 2**21), (256, 3 * 2**22)
# Likewise with many rows and a result too small to occupy all SMs: (largest M * N, smallest M * N * K). For smaller
# products, launch overhead matters more, and torch's is larger
_SMALL_RESULT_LIMITS = (9 * 2**17, 3 * 2**29), (3 * 2**20, 2**32)


def _is_torch_faster(M, N, K, dtype):
    "Return whether torch multiplies 16-bit floats of this shape faster than this package's kernels"
    if dtype == 'float32':
        return False
    if M <= 256:
        return any(M <= max_rows and N * K >= min_weights for max_rows, min_weights in _FEW_ROWS_LIMITS)
    return any(M * N <= max_results and M * N * K >= min_flops for max_results, min_flops in _SMALL_RESULT_LIMITS)


# Few rows times a matrix B with more columns than rows: torch's kernels take less time, but its calls take longer, so
# that only CUDA graphs gain: (largest M, smallest N * K)
_FEW_ROWS_IN_GRAPHS_LIMITS = 256, 2**21


def is_torch_faster_in_graphs(M, K, N, dtype) -> bool:
    "Return whether torch multiplies 16-bit floats of this shape faster in CUDA graphs, where launch overhead is small"
    max_rows, min_weights = _FEW_ROWS_IN_GRAPHS_LIMITS
    return 'float32' not in str(dtype) and M <= max_rows and K <= N and N * K >= min_weights


def _select_plan(M, N, K, dtype, device, layout):
    "Select the kernel that is estimated to be the fastest, or torch"
    if min(M, N, K) < 1:
        return Plan(None, 'a size is 0')
    if _forced_kernels:
        if kernels := _forced_kernels_for(M, N, K, dtype, layout):
            return Plan(kernels[0], 'selected by `using`')
        return Plan(None, 'no kernel passed to `using` supports this shape and type')
    if device is None:
        return Plan(None, 'the operands are not on a GPU')
    if dtype not in TYPES:
        return Plan(None, f'there is no kernel for {dtype}')
    capability, sms = _capability_and_sms(device)
    if capability != (9, 0):
        received = '.'.join(map(str, capability))
        return Plan(None, f'the kernels need a Hopper GPU (compute capability 9.0); this GPU has {received}')
    if _is_torch_faster(M, N, K, dtype):
        return Plan(None, 'torch is faster with a small result and a large K or matrix B')
    choose = SELECTORS.get((dtype, layout))
    kernel = choose(M, N, K, sms) if choose else f'no kernel supports {layout}'
    if isinstance(kernel, str):
        return Plan(None, kernel)
    if not _supports(kernel, M, N, K, dtype):
        return Plan(None, f'{kernel.name} does not support this shape')
    return Plan(kernel, 'the fastest kernel for this shape, by estimate')


def plan(
    M,
    N,
    K,  # of (M x K) @ (K x N)
    dtype='float32',  # its name, or torch's dtype
    device=None,  # index of the GPU; None: the current one, if there is one
    layout='nn',  # 'tn': A is column-major, that is, stored transposed; 'nt': B is column-major
) -> Plan:
    """Return the kernel that multiplies matrices of this shape, dtype and layout, and the reason.

    plan(4096, 4096, 4096, 'bfloat16')"""
    if device is None and gpu_count() and backend() == 'gpu':
        import torch

        device = torch.cuda.current_device()
    return _cached_plan(M, N, K, str(dtype).removeprefix('torch.'), device, layout)


def _cached_plan(M, N, K, dtype, device, layout='nn'):
    "Return the plan for a GEMM: measured by `tune`, or selected by estimate; cached"
    key = (M, N, K, dtype, device, layout)
    if key not in _plans:
        if len(_plans) >= MAX_PLANS:
            _plans.clear()
        _plans[key] = not _forced_kernels and _tuned_plan_for(*key) or _select_plan(*key)
    return _plans[key]


def _tuned_plan_for(*key):
    "Return the plan that `tune` measured, in this process or an earlier one; None if there is none"
    if key in _tuned_plans or key[4] is None or (key[3], key[5]) not in RANKINGS:
        return _tuned_plans.get(key)
    tuning_result = tuning_cache.find(*key)
    kernels = _candidates(*key, MAX_CANDIDATES) if tuning_result else []
    matches = (
        kernel
        for kernel in kernels
        if kernel.name == tuning_result.name and tuning_cache.source_hash(kernel) == tuning_result.source_hash
    )
    kernel = next(matches, None)
    if kernel and _supports(kernel, *key[:4]):
        _tuned_plans[key] = Plan(
            kernel, f'the fastest of {tuning_result.candidates} that were measured on {tuning_result.date}'
        )
    return _tuned_plans.get(key)


# Most kernels read two row-major matrices, but both gradients of a GEMM have one transposed operand. If no kernel
# reads that layout, the operand is copied, provided that the copy takes at most a tenth of the GEMM's time;
# otherwise torch multiplies, because its kernels read either layout. All leading axes of `a` are rows. torch multiplies
# all other operands: vectors, batches on both sides, other types, other devices, autocast, float32 where TF32 is
# allowed, and GEMMs that `torch.compile` traces.
#
# Rates on an H100, from which `_is_copy_cheap` estimates the times of copying a transpose and of the GEMM:
COPY_RATE = 6e11  # bytes per second of torch's copy of a transpose
FLOP_RATES = dict(float32=5e13, bfloat16=7e14, float16=7e14)  # FLOP/s of GEMMs

_DTYPE_NAMES = {}  # torch's dtypes -> names; filled when torch is imported


@lru_cache
def _import_torch():
    import torch

    _DTYPE_NAMES.update({getattr(torch, name): name for name in TYPES})
    return torch


@lru_cache
def _tensor_types():
    return _import_torch().Tensor, _import_torch().nn.Parameter


def fallback_reason(a, b):
    "Return the reason why no kernel can multiply these operands; None if one may"
    import torch

    # This is checked first, because dynamo warns if it traces a cached function, such as those below.
    if torch.compiler.is_compiling():
        return 'torch.compile traces the call'
    torch = _import_torch()
    tensor_types = _tensor_types()
    if type(a) not in tensor_types or type(b) not in tensor_types:
        return 'an operand is not a plain tensor'
    if b.dim() != 2 or a.dim() < 2:
        return f'the operands have {a.dim()} and {b.dim()} axes'
    if a.dtype is not b.dtype:
        return 'the types differ'
    if a.shape[-1] != b.shape[0]:
        return 'the sizes do not match'
    if a.device != b.device:
        return 'the operands are on different devices'
    if not a.is_cuda and not (_forced_kernels and backend() == 'sim'):
        return 'the operands are not on a GPU'
    if torch.is_autocast_enabled(a.device.type):
        return 'autocast determines the dtype'
    if a.dtype is torch.float32 and a.is_cuda and allows_tf32(torch.backends.cuda.matmul):
        return 'TF32 is allowed, and faster'
    if missing_name := _missing_torch_name():
        purpose = 'which shows whether torch.func transforms an operand'
        return f'torch {torch.__version__} has no torch.{missing_name}, {purpose}'
    if _is_transformed(a) or _is_transformed(b) or torch.autograd.forward_ad._current_level >= 0:
        return 'torch.func transforms an operand'


def allows_tf32(settings):
    "Return whether torch may use TF32 according to the settings `torch.backends.cuda.matmul`"
    # Older versions have one name for the setting; newer ones have two, and reading `allow_tf32` may raise.
    precision = getattr(settings, 'fp32_precision', None)
    return settings.allow_tf32 if precision is None else precision == 'tf32'


@lru_cache
def _missing_torch_name():
    "Return the private name that detects transforms and that this torch lacks; None if it has all of them"
    names = '_C._functorch.is_functorch_wrapped_tensor', 'autograd.forward_ad._current_level'
    return next((name for name in names if not torch_has(name)), None)


def _is_transformed(x):
    return _import_torch()._C._functorch.is_functorch_wrapped_tensor(x)


def _is_copy_cheap(x, other_size, dtype):
    """Return whether copying the transpose `x` takes at most a tenth of the time of its product with a matrix of
    `other_size` rows or columns"""
    return dtype in FLOP_RATES and 2 * x.element_size() / COPY_RATE <= 0.1 * 2 * other_size / FLOP_RATES[dtype]


def _row_major(x, other_size):
    "Return `x` in row-major order, copied if that is cheap; None if the copy would take too long"
    if x.is_contiguous():
        return x
    if x.dim() == 2 and x.t().is_contiguous() and (_forced_kernels or _is_copy_cheap(x, other_size, str(x.dtype)[6:])):
        return x.contiguous()


def _operands_in_memory(a, b):
    "Return (layout, stored_a, stored_b) if one of the operands is a transpose and the other is contiguous, else None"
    is_transpose = [x.dim() == 2 and x.t().is_contiguous() and not x.is_contiguous() for x in (a, b)]
    if is_transpose == [True, False] and b.is_contiguous():
        return 'tn', a.t(), b
    if is_transpose == [False, True] and a.is_contiguous():
        return 'nt', a.view(-1, a.shape[-1]), b.t()


def _sizes_of(a, b):
    "Return (M, N, K, dtype, index of the GPU)"
    K, N = b.shape
    M = a.shape[0] if a.dim() == 2 else a.numel() // K if K else 0
    return M, N, K, _DTYPE_NAMES.get(a.dtype) or str(a.dtype)[6:], a.get_device() if a.is_cuda else None


def _plan_for(a, b):
    """Return (plan, stored_a, stored_b) for operands that a kernel may multiply; both operands are None if torch
    multiplies, for example because a copy would take too long"""
    M, N, K, dtype, device = _sizes_of(a, b)
    reason = 'no kernel supports the memory layout of an operand'
    if not (a.is_contiguous() and b.is_contiguous()) and (transposed_operands := _operands_in_memory(a, b)):
        layout, stored_a, stored_b = transposed_operands
        layout_plan = _cached_plan(M, N, K, dtype, device, layout)
        if layout_plan.kernel and _is_aligned(stored_a, stored_b):
            return layout_plan, stored_a, stored_b
        reason = layout_plan.reason
    row_major_plan = _cached_plan(M, N, K, dtype, device)
    if not row_major_plan.kernel:
        return row_major_plan, None, None
    stored_a, stored_b = _row_major(a, N), _row_major(b, M)
    if stored_a is None or stored_b is None or not _is_aligned(stored_a, stored_b):
        return Plan(None, reason), None, None
    return row_major_plan, stored_a if stored_a.dim() == 2 else stored_a.view(M, K), stored_b


def _is_aligned(stored_a, stored_b):
    "Return whether both operands begin at multiples of 16 bytes"
    return not (stored_a.data_ptr() | stored_b.data_ptr()) & 15


def explain(
    a,  # as for `matmul`; or another operator of `gridstride.kernels`
    b,  # as for `matmul`; or the operator's first argument
    *args,
    **options,  # its other arguments
):  # a `Plan`; of another operator an `Explanation`
    """Return the plan of `matmul(a, b)`: the kernel, or None if torch multiplies, and the reason. For another operator,
    call it once, and return the kernels that it launched and the operations of torch.

        explain(a, b)
        explain(kernels.softmax, x)"""
    if callable(a) and not hasattr(a, 'data_ptr'):
        from ..launch_replay import explain_call

        return explain_call(a, b, *args, **options)
    reason = fallback_reason(a, b)
    return Plan(None, reason) if reason else _plan_for(a, b)[0]


def multiply(
    a,
    b,
    out=None,
    on_multiply=None,  # called with (a, b, kernel, stored_a, stored_b, out); kernel None: torch multiplies
):
    "Multiply with a kernel or with torch, without a gradient"
    reason = fallback_reason(a, b)
    selected_plan, stored_a, stored_b = (None, None, None) if reason else _plan_for(a, b)
    if on_multiply and stored_a is None and not reason:
        on_multiply(a, b, None, None, None, out)
    if stored_a is None or out is not None and not _is_writable(out, a, b):
        return _import_torch().matmul(a, b) if out is None else _import_torch().matmul(a, b, out=out)
    if out is not None:
        selected_plan.kernel(stored_a, stored_b, out.view(-1, b.shape[1]))
    else:
        out = selected_plan.kernel(stored_a, stored_b).view(*a.shape[:-1], b.shape[1])
    if on_multiply:
        on_multiply(a, b, selected_plan.kernel, stored_a, stored_b, out)
    return out


def _is_writable(out, a, b):
    "Return whether a kernel can write the result to `out`"
    return (
        out.shape == (*a.shape[:-1], b.shape[1])
        and out.dtype is a.dtype
        and out.device == a.device
        and out.is_contiguous()
        and not out.data_ptr() & 15
    )


# For many shapes several kernels have almost the same estimate. For a shape that is used often, `tune` measures them
# once: the kernels passed to `using`, else those that `RANKINGS` returns. In the second case, the name of the fastest
# one is stored on disk for later processes.
def tune(
    a,
    b,  # as for `matmul`
    max_kernels=6,  # to measure: those with the lowest estimates; within `using` all of its kernels
    measure_again=False,  # measure again even if a result is stored
) -> Plan:  # that `matmul` uses for such operands from now on, in all processes or within `using`
    """Measure the kernels that can multiply `a` and `b`, and make `matmul` use the fastest for their shape and dtype.

    This takes some seconds if there are several kernels, as for 16-bit floats; each is timed with a cold L2 cache and
    in a CUDA graph.

        tune(a, b)

    The result is stored in the user's cache for this GPU, driver and version, and not measured again; `python -m
    gridstride.kernels tuned` lists the stored results, `python -m gridstride.kernels forget` deletes them."""
    reason = fallback_reason(a, b)
    estimated_plan, stored_a, stored_b = (Plan(None, reason), None, None) if reason else _plan_for(a, b)
    if not estimated_plan.kernel:
        return estimated_plan
    key = (*_sizes_of(a, b), _layout_of(estimated_plan.kernel))
    if not (measure_again or _forced_kernels) and (tuned_plan := _tuned_plan_for(*key)):
        return tuned_plan
    kernels = _candidates(*key, max_kernels)
    if len(kernels) < 2:
        return estimated_plan
    fastest_kernel = _measure_fastest(kernels, stored_a, stored_b, key)
    _clear_caches()
    _plans[key] = Plan(fastest_kernel, f'the fastest of {len(kernels)} that were measured')
    if not _forced_kernels:
        _tuned_plans[key] = _plans[key]
        tuning_cache.store(fastest_kernel, len(kernels), *key)
    return _plans[key]


def _measure_fastest(kernels, stored_a, stored_b, key):
    "Return the kernel with the lowest geometric mean of its median times with a cold L2 cache and in a CUDA graph"
    from gridstride.bench.clocks import Clock
    from gridstride.bench.columns import COLUMNS, by_column

    out = stored_a.new_empty(key[:2])
    calls = {i: lambda kernel=kernel: kernel(stored_a, stored_b, out) for i, kernel in enumerate(kernels)}
    for call in calls.values():  # compile each kernel before any is timed; an error is raised here
        call()
    columns = {column: COLUMNS[column] for column in ('read', 'graph')} if stored_a.is_cuda else dict(none=Clock)
    results = by_column(calls, TUNE_SECONDS, columns=columns).values()
    timings = [result['sides'] for result in results if 'sides' in result]
    if not timings:
        raise RuntimeError('; '.join(result['failed'] for result in results))
    return kernels[min(calls, key=lambda i: prod(sides[i]['seconds'] for sides in timings))]


def _candidates(M, N, K, dtype, device, layout, max_kernels):
    "Return the kernels that `tune` measures for a GEMM"
    if _forced_kernels:
        return _forced_kernels_for(M, N, K, dtype, layout)
    rank = RANKINGS.get((dtype, layout))
    return rank(M, N, K, _capability_and_sms(device)[1], max_kernels) if rank else []
