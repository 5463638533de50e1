"""The lessons' ladders: GEMM kernels that get faster step by step, checked, timed and explained.

The names are those of the lecture: out (h x w) = m (h x k) @ n (k x w). Elsewhere this is C (M x N) = A (M x K) @ B (K
x N).

The modules, in a good order for reading:

- `rung` (a GEMM kernel, called like a function), with `operands` (errors for invalid operands) and `launches`
  (prepared launches); `ladder` (checks steps and times them next to the library), with `counters` (explains the time);
  `lesson_ladder` (a ladder in a lesson, with the reader's guesses);
- the kernels of the chapters `shared_memory_cuda` (`lecture`), `matmul_ladder` (`fp32`), `tensor_cores` (a module of
  the same name) and `hopper_gemm` (`hopper`, `stream_k`), and of lesson 28b (`blackwell`);
- `on_paper` (what can be counted without a GPU, and the ladder at the start of a later session), `listing` (shows a
  step in a lesson), `trials` (tests and measurements of kernels for Hopper), `tma` (models of swizzles, fragments and
  accumulators), `pipeline_model` (mbarriers, a producer and consumers, in Python), `pictures`,
  `instruction_throughput` (of a tensor core instruction).

The lessons import from this package: `from gridstride.kernels.ladder import LessonLadder, time_matmuls`.
"""

from ...support.lazy_exports import lazy_exports_of

_NAMES = {
    'rung': ('H100', 'KernelLaunch', 'current_device_properties', 'require_bfloat16', 'require_hopper', 'on_hopper'),
    'ladder': ('GpuClock', 'Ladder', 'inputs', 'check_matmul'),
    'lesson_ladder': ('LessonLadder', 'count_library', 'count_quads', 'count_kinds', 'time_matmuls'),
    'stream_k': ('choose', 'final_gemm', 'partial_sums_src', 'schedule_src'),
    'instruction_throughput': ('time_alone',),
}
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
