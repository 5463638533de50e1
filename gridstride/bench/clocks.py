"""What a run is timed with: CUDA events on a GPU, with the L2 flushed, else the wall clock.

And what the GPU's own clock did meanwhile."""

import ctypes
import sys
import time
import warnings
from collections import namedtuple
from functools import lru_cache

from .reading import reads
from ..utils import backend


# A clock has `times(fn, n)`, the seconds of each of `n` calls, and `now()`, for how long the measuring lasts.
# A test replaces this clock by one of its own.
class Clock:
    """The wall clock: a call has ended when it returns. What runs on the CPU is timed with it: the simulator, the
    emulator, NumPy, torch"""

    gpu = False
    device = 'CPU'
    states = ()
    mhz = ()
    most = 100_000  # runs in a batch

    def now(self) -> float:  # seconds
        "Return the time since some moment"
        return time.perf_counter()

    def times(self, fn, n) -> list:  # of seconds
        "Return how long each of `n` calls takes"
        res = []
        for _ in range(n):
            start = time.perf_counter()
            fn()
            res.append(time.perf_counter() - start)
        return res


# A GPU lowers its clock when it is too hot or draws too much, and then a kernel is slower for no fault of its
# own. NVML, the library below `nvidia-smi`, reports it; a query takes well under a millisecond, so it is queried
# while the kernels run.
State = namedtuple('State', 'mhz most watt celsius reasons')  # SM clock and its highest; None if unknown
REASONS = {
    2: 'clocks were set by hand',
    4: 'the power limit',
    8: 'a hardware slowdown',
    16: 'another GPU of its group',
    32: 'heat',
    64: 'heat (the hardware stepped in)',
    128: 'the power supply',
}
_SM = 1  # NVML_CLOCK_SM; sensor 0 is the GPU's own temperature


@lru_cache
def _nvml():
    "Return the NVML library, started; raises `OSError` where it is missing or does not start"
    lib = ctypes.CDLL('nvml.dll' if sys.platform == 'win32' else 'libnvidia-ml.so.1')
    if status := lib.nvmlInit_v2():
        raise OSError(f'NVML does not start (status {status})')
    return lib


def driver():  # None without NVML
    "Return the version of NVIDIA's driver"
    try:
        lib = _nvml()
        text = ctypes.create_string_buffer(80)
    except OSError:
        return None
    return None if lib.nvmlSystemGetDriverVersion(text, 80) else text.value.decode()


class Sensors:
    "The clock, power, temperature of the GPU with this UUID; `why` is the reason if NVML cannot report them"

    def __init__(self, uuid, nvml=_nvml):
        self.why, self.handle = None, ctypes.c_void_p()
        try:
            self.lib = nvml()
            if status := self.lib.nvmlDeviceGetHandleByUUID(f'GPU-{uuid}'.encode(), ctypes.byref(self.handle)):
                self.why = f'NVML does not list this GPU (status {status})'
        except (OSError, AttributeError) as e:
            self.why = str(e)

    def _ask(self, what, *which, kind=ctypes.c_uint):
        v = kind()
        ask = getattr(self.lib, f'nvmlDeviceGet{what}', None)
        return None if ask is None or ask(self.handle, *which, ctypes.byref(v)) else v.value

    def read(self):  # None if NVML cannot report it
        "Return how the GPU is now, as a `State`"
        if self.why:
            return None
        watt = self._ask('PowerUsage')
        reasons = self._ask('CurrentClocksThrottleReasons', kind=ctypes.c_ulonglong)
        return State(
            self._ask('ClockInfo', _SM),
            self._ask('MaxClockInfo', _SM),
            watt and watt / 1000,
            self._ask('Temperature', 0),
            tuple(text for bit, text in REASONS.items() if (reasons or 0) & bit),
        )


# What happened during a measurement, in sentences:
UNEVEN = 0.03  # how far the SM clock may move during a measurement


def clock_warnings(states) -> list:  # states: of `State`
    "Return what the GPU's clock did that a time may suffer from"
    states = [s for s in states if s]
    mhz = [s.mhz for s in states if s.mhz]
    reasons = list(dict.fromkeys(r for s in states for r in s.reasons))
    # a step or two below the top is the usual
    slow = not mhz or not states[0].most or min(mhz) * (1 + UNEVEN) < states[0].most
    res = []
    if reasons and slow:
        at = f'{min(mhz, default=0)} of {states[0].most} MHz'
        res.append(f"held back: {' and '.join(reasons)} kept the SM clock at {at}")
    if mhz and max(mhz) > min(mhz) * (1 + UNEVEN):
        res.append(f'the SM clock moved from {mhz[0]} to {mhz[-1]} MHz, between {min(mhz)} and {max(mhz)}')
    return res


# An event is an entry in the GPU's queue; the GPU records the time when it reaches it. Two of them around a kernel
# give its duration, the launch on the CPU's side not included, if the queue never runs dry. So a whole
# batch is queued after a pause that is longer than the queueing, and waited for once. If the CPU is delayed meanwhile,
# by other programs or by a slow launch, it is too late all the same: the GPU has recorded the first event before the
# second one is queued, and the time in between is the CPU's. Such a run is left out; if all of a batch are such, it
# is measured again.
#
# Before each run a buffer larger than the L2 cache is overwritten, so that the kernel finds nothing of its
# inputs there (as `triton.testing.do_bench` does). Its lines have to be written back while the kernel begins, which
# may cost one kernel more than another: with `flush='read'` such a buffer is read instead, and the cache is as full,
# but clean. Without either (`flush=False`), small inputs stay in the L2, which is right for a kernel that reads what
# the one before it has just written.
TRIES = 3  # batches, until one has a run that was queued before the GPU came to it


class Events(Clock):
    "CUDA events on the current device; `late` counts batches in which the GPU came to each run before it was queued"

    gpu = True
    most = 100  # more would not fit into the queue
    late = 0

    def __init__(self, flush=True):
        if flush not in (True, False, 'read'):
            raise ValueError(
                f"flush={flush!r}: True overwrites the L2 before each run, 'read' reads, False does neither"
            )
        import torch

        self.torch, p = torch.cuda, torch.cuda.get_device_properties()
        self.device, self.sensors, self.states, self.each = p.name, Sensors(p.uuid), [], 1e-4
        size = max(2**28, 2 * p.L2_cache_size) // 4
        self.buffer = torch.empty(size, dtype=torch.int32, device='cuda') if flush else None
        if flush == 'read':
            self.forget = reads(self.buffer)

    def forget(self):
        "Overwrite the L2"
        self.buffer.zero_()

    def begin_batch(self):
        "For subclasses that queue something before the first run of a batch"

    def end_batch(self):
        "And after the last run"

    def times(self, fn, n) -> list:  # of seconds
        "Return the GPU's time per call of `n` calls, without those that the CPU queued too late, unless all are such"
        for _ in range(TRIES):
            runs = self._batch(fn, n)
            if found := [seconds for seconds, late in runs if not late]:
                return found
        return self.all_late([seconds for seconds, _ in runs])

    def all_late(self, times):
        "Handle times that include the CPU's; a function that waits for the GPU itself has no others"
        self.late += 1
        return times

    def _batch(self, fn, n):
        "Return (seconds, whether the GPU came to it before it was queued) of each of `n` calls"
        pairs = [[self.torch.Event(enable_timing=True) for _ in range(2)] for _ in range(n)]
        # in cycles, at some 2 GHz; bounded, since a full queue makes the CPU wait, which is not queueing
        self.torch._sleep(int(min(0.02, 2e-4 + 1.5 * n * self.each) * 2e9))
        start = self.now()
        late = []
        self.begin_batch()
        for before, after in pairs:
            if self.buffer is not None:
                self.forget()
            before.record()
            fn()
            after.record()
            late.append(before.query())
        self.end_batch()
        self.each = (self.now() - start) / n  # what it took to queue a run
        self.states.append(self.sensors.read())  # while the GPU is busy
        self.torch.synchronize()
        return [(before.elapsed_time(after) / 1000, host) for (before, after), host in zip(pairs, late)]


# A kernel of a few microseconds costs more to launch than to run, and events around it cost about as much
# again. A CUDA graph holds many launches and is launched once: what is left is the GPU's own work. (Inputs
# that fit stay in the L2, since nothing is flushed between its launches.)
def capture(fn, n):
    "A function that runs `n` calls of `fn` as one CUDA graph; raises what PyTorch raises if they cannot be captured"
    import torch

    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fn()  # what it sets up at its first call must not be captured
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.filterwarnings('error', message='.*[Gg]raph is empty.*')
        with torch.cuda.graph(graph, capture_error_mode='thread_local'):
            for _ in range(n):
                fn()
    return graph.replay


def in_a_row(fn) -> float:  # seconds
    """Time of one of many calls in a row on the wall clock, by `torch.utils.benchmark`: the launch's cost if that is
    longer than the work"""
    from torch.utils.benchmark import Timer

    return Timer('fn()', globals={'fn': fn}).blocked_autorange(min_run_time=0.2).median


# Events time the GPU. Arguments that all live in the CPU's memory are worked on by the CPU, or copied there
# and back: only the wall clock measures that.
def is_array(x) -> bool:
    "Return whether `x` is a NumPy array, a tensor, or an object that behaves like one"
    return hasattr(x, 'shape') and hasattr(x, 'dtype')


def _on_gpu(x):
    return bool(getattr(x, 'is_cuda', False)) or hasattr(x, '__cuda_array_interface__')


def clock_for(
    args=(),  # of the function that will be timed
    flush=True,  # overwrite the L2 before each run? 'read': read other memory instead
) -> Clock:
    "Return the clock for a function of these arguments"
    arrays = [a for a in args if is_array(a)]
    if not any(map(_on_gpu, arrays)) and (arrays or backend() == 'sim'):
        return Clock()
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError(
            'this machine has a GPU, but torch, which times it, cannot use it. '
            '`python -m gridstride.course.doctor` says what is missing'
        )
    here = torch.cuda.current_device()
    away = {a.device.index for a in arrays if getattr(a, 'is_cuda', False)} - {here}
    if away:
        raise ValueError(
            f'the arguments are on GPU {min(away)}, but the current one is {here}: call '
            f'torch.cuda.set_device({min(away)}) first'
        )
    return Events(flush)
