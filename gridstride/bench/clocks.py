"""Clocks that time a run: CUDA events on a GPU, with the L2 flushed, else the wall clock; and the GPU's clock rate."""

import ctypes
import sys
import time
import warnings
from collections import namedtuple
from functools import lru_cache

from .reading import reads
from ..utils import backend


@lru_cache
def _tick():
    "Return the seconds by which the wall clock advances: below a microsecond, but up to a millisecond in a browser"
    return min(_time_to_next_tick() for _ in range(5))


def _time_to_next_tick():
    start = now = time.perf_counter()
    while now == start:
        now = time.perf_counter()
    return now - start


_COARSE_TICK = 1e-5  # seconds; with a coarser clock, calls are repeated until it has advanced by `_MIN_TICKS`
_MIN_TICKS = 20


# A clock has two methods: `times(fn, n)` returns the seconds of each of `n` calls, and `now()` the current time, from
# which the elapsed time of a measurement is computed. Tests use their own clocks.
class Clock:
    """The wall clock: a call ends when it returns.

    It times work on the CPU, such as the simulator, the emulator, NumPy, and torch without a GPU."""

    gpu = False
    device = 'CPU'
    states = ()
    mhz = ()
    max_batch = 100_000  # runs

    def now(self) -> float:  # seconds
        "Return the time since an arbitrary start"
        return time.perf_counter()

    def times(self, fn, n) -> list:  # of seconds
        "Time each of `n` calls; with a coarse clock, each time is the mean of several calls"
        min_seconds = _MIN_TICKS * _tick() if _tick() > _COARSE_TICK else 0
        return [self._mean_time(fn, min_seconds) for _ in range(n)]

    def _mean_time(self, fn, min_seconds):
        "Return the seconds per call, of as many calls as take `min_seconds`"
        num_calls, elapsed, start = 0, -1, time.perf_counter()
        while elapsed < min_seconds:
            fn()
            num_calls += 1
            elapsed = time.perf_counter() - start
        return elapsed / num_calls


# A GPU lowers its clock when it is too hot or draws too much power; then kernels are slower. NVML, the library that
# `nvidia-smi` uses, reports the clock and the reasons. A query takes well under a millisecond, so it is sent while the
# kernels run.
# mhz, max_mhz: the current and the maximum SM clock; reasons: why it is below its maximum; None if unknown
State = namedtuple('State', 'mhz max_mhz watt celsius reasons')
REASONS = {
    2: 'application clock settings',
    4: 'the power limit',
    8: 'a hardware slowdown',
    16: 'a slower GPU in its sync group',
    32: 'the thermal limit',
    64: 'a thermal slowdown by the hardware',
    128: 'a power brake',
}
_SM_CLOCK, _GPU_SENSOR = 1, 0  # NVML_CLOCK_SM, NVML_TEMPERATURE_GPU


@lru_cache
def _nvml():
    "Load and initialize NVML. Raises OSError if it is missing or cannot be initialized"
    lib = ctypes.CDLL('nvml.dll' if sys.platform == 'win32' else 'libnvidia-ml.so.1')
    if status := lib.nvmlInit_v2():
        raise OSError(f'NVML could not be initialized (status {status})')
    return lib


def driver():  # None without NVML
    "Return the version of NVIDIA's driver"
    try:
        lib = _nvml()
        version = ctypes.create_string_buffer(80)
    except OSError:
        return None
    return None if lib.nvmlSystemGetDriverVersion(version, 80) else version.value.decode()


class Sensors:
    """Reads the clock, power and temperature of the GPU with this UUID.

    `unavailable_reason`: the reason why NVML cannot report them; None if it can."""

    def __init__(self, uuid, nvml=_nvml):
        self.unavailable_reason = None
        self.handle = ctypes.c_void_p()
        try:
            self.lib = nvml()
            if status := self.lib.nvmlDeviceGetHandleByUUID(f'GPU-{uuid}'.encode(), ctypes.byref(self.handle)):
                self.unavailable_reason = f'NVML does not list this GPU (status {status})'
        except (OSError, AttributeError) as e:
            self.unavailable_reason = str(e)

    def _query(self, name, *selector, c_type=ctypes.c_uint):
        "Return the result of the function `nvmlDeviceGet<name>`, None if it fails"
        value = c_type()
        function = getattr(self.lib, f'nvmlDeviceGet{name}', None)
        return None if function is None or function(self.handle, *selector, ctypes.byref(value)) else value.value

    def read(self):  # None if NVML cannot report it
        "Return the current `State` of the GPU"
        if self.unavailable_reason:
            return None
        milliwatt = self._query('PowerUsage')
        reasons = self._query('CurrentClocksThrottleReasons', c_type=ctypes.c_ulonglong)
        return State(
            self._query('ClockInfo', _SM_CLOCK),
            self._query('MaxClockInfo', _SM_CLOCK),
            milliwatt and milliwatt / 1000,
            self._query('Temperature', _GPU_SENSOR),
            tuple(reason for bit, reason in REASONS.items() if (reasons or 0) & bit),
        )


MAX_CLOCK_CHANGE = 0.03  # a larger relative change of the SM clock during a measurement causes a warning


def clock_warnings(states) -> list:  # states: of `State`
    "Return warnings about changes of the GPU's clock that may have affected a measurement"
    states = [s for s in states if s]
    mhz = [s.mhz for s in states if s.mhz]
    reasons = list(dict.fromkeys(r for s in states for r in s.reasons))
    # one or two steps below the maximum are normal
    is_slow = not mhz or not states[0].max_mhz or min(mhz) * (1 + MAX_CLOCK_CHANGE) < states[0].max_mhz
    warnings = []
    if reasons and is_slow:
        rate = f'{min(mhz, default=0)} of {states[0].max_mhz} MHz'
        warnings.append(f"throttled: {' and '.join(reasons)} kept the SM clock at {rate}")
    if mhz and max(mhz) > min(mhz) * (1 + MAX_CLOCK_CHANGE):
        warnings.append(f'the SM clock changed from {mhz[0]} to {mhz[-1]} MHz (minimum {min(mhz)}, maximum {max(mhz)})')
    return warnings


# An event is an entry in the GPU's queue; the GPU records the time when it reaches the entry. Two events around a
# kernel give its duration without the launch overhead, as long as the queue does not become empty. So a whole batch is
# queued after a kernel that sleeps until everything is queued, and the CPU waits once for the batch. If the CPU is
# delayed, by other programs or by a slow launch, the GPU may still record the first event of a run before the second is
# queued; then the time between them includes CPU time. Such a late run is discarded; if all runs of a batch are late,
# the batch is repeated.
#
# Before each run a buffer larger than the L2 cache is overwritten, so that the kernel's inputs are not in L2 (as in
# `triton.testing.do_bench`). The modified lines are written back while the kernel begins, which may cost one kernel
# more than another. With `flush='read'` the buffer is read instead, so that L2 is full of clean lines. Without a flush
# small inputs stay in L2. This is right for a kernel that reads the results of the kernel before it.
MAX_TRIES = 3  # batches that are timed until one has a run that is not late


class Events(Clock):
    "CUDA events on the current device; `num_late_batches` counts those in which all runs were late"

    gpu = True
    max_batch = 100  # runs; more would not fit into the queue
    num_late_batches = 0

    def __init__(self, flush=True):
        if flush not in (True, False, 'read'):
            raise ValueError(
                "flush must be True (overwrite the L2 cache before each run), 'read' (read a buffer instead) or False; "
                f'got {flush!r}'
            )
        import torch

        self.torch = torch.cuda
        properties = torch.cuda.get_device_properties()
        self.device = properties.name
        self.sensors = Sensors(properties.uuid)
        self.states = []
        self.queue_seconds = 1e-4  # to queue a run, a first estimate
        size = max(2**28, 2 * properties.L2_cache_size) // 4
        self.buffer = torch.empty(size, dtype=torch.int32, device='cuda') if flush else None
        if flush == 'read':
            self.flush_cache = reads(self.buffer)

    def flush_cache(self):
        "Overwrite the L2 cache"
        self.buffer.zero_()

    def begin_batch(self):
        "Queue work before the first run of a batch; for subclasses"

    def end_batch(self):
        "Queue work after the last run of a batch; for subclasses"

    def times(self, fn, n) -> list:  # of seconds
        "Time `n` calls on the GPU; late runs are discarded, unless all are late"
        for _ in range(MAX_TRIES):
            runs = self._batch(fn, n)
            if runs_on_time := [seconds for seconds, is_late in runs if not is_late]:
                return runs_on_time
        return self.handle_all_late([seconds for seconds, _ in runs])

    def handle_all_late(self, times):
        "Count a late batch, and return its times although they include CPU time"
        self.num_late_batches += 1
        return times

    def _batch(self, fn, n):
        "Return (seconds, whether the run is late) of each of `n` calls"
        pairs = [[self.torch.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]
        # in cycles at about 2 GHz; limited, because the CPU waits if the queue is full
        self.torch._sleep(int(min(0.02, 2e-4 + 1.5 * n * self.queue_seconds) * 2e9))
        start = self.now()
        is_late = []
        self.begin_batch()
        for before, after in pairs:
            if self.buffer is not None:
                self.flush_cache()
            before.record()
            fn()
            after.record()
            is_late.append(before.query())
        self.end_batch()
        self.queue_seconds = (self.now() - start) / n
        self.states.append(self.sensors.read())  # while the GPU is busy
        self.torch.synchronize()
        return [(before.elapsed_time(after) / 1000, late) for (before, after), late in zip(pairs, is_late)]


# The launch of a kernel of a few microseconds takes longer than the kernel, and so do the events around it. A CUDA
# graph contains many launches and is launched once, so its time is almost only that of the kernels. Small inputs stay
# in L2, because nothing is flushed between the launches of a graph.
def capture(fn, n):
    "Capture `n` calls of `fn` as a CUDA graph; return the function that replays it. Raises PyTorch's errors"
    import torch

    graph = torch.cuda.CUDAGraph()
    warm_up_stream = torch.cuda.Stream()
    warm_up_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm_up_stream):
        fn()  # initialization at the first call must not be captured
    torch.cuda.current_stream().wait_stream(warm_up_stream)
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.filterwarnings('error', message='.*[Gg]raph is empty.*')
        with torch.cuda.graph(graph, capture_error_mode='thread_local'):
            for _ in range(n):
                fn()
    return graph.replay


def back_to_back(fn) -> float:  # seconds
    """Return the wall-clock time per call of many back-to-back calls, measured by `torch.utils.benchmark`.

    It is the launch overhead if this is longer than the work."""
    from torch.utils.benchmark import Timer

    return Timer('fn()', globals={'fn': fn}).blocked_autorange(min_run_time=0.2).median


# Events time the GPU. If all arguments are in the CPU's memory, either the CPU does the work, or the arguments are
# copied to the GPU and back. Only the wall clock measures both.
def is_array(x) -> bool:
    "Return whether `x` is a NumPy array, a tensor, or an object that behaves like one"
    return hasattr(x, 'shape') and hasattr(x, 'dtype')


def _on_gpu(x):
    is_simulated = hasattr(x, 'device_view')  # a device array of the simulator
    return bool(getattr(x, 'is_cuda', False)) or hasattr(x, '__cuda_array_interface__') and not is_simulated


def clock_for(
    args=(),  # of the function that will be timed
    flush=True,  # overwrite the L2 before each run; 'read': read other memory instead
) -> Clock:
    "Return the clock for a function with these arguments"
    arrays = [a for a in args if is_array(a)]
    if not any(map(_on_gpu, arrays)) and (arrays or backend() == 'sim'):
        return Clock()
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            'this machine has a GPU, but torch, which times it, cannot use it. '
            '`python -m gridstride.course.doctor` reports what is missing'
        )
    current = torch.cuda.current_device()
    other_devices = {a.device.index for a in arrays if getattr(a, 'is_cuda', False)} - {current}
    if other_devices:
        raise ValueError(
            f'the arguments are on GPU {min(other_devices)}, but the current GPU is {current}: call '
            f'torch.cuda.set_device({min(other_devices)}) first'
        )
    return Events(flush)
