"""The measured ceilings of a machine: the rates of a copy, of reads, and of matrix products of each type.

No program reaches the rates in a data sheet. So a kernel is compared with the rates that a copy, a read-only kernel and
the vendor's matrix product reach on this machine. These ceilings are measured once per GPU, driver and version of
PyTorch, and cached.
"""

import json
from datetime import date

from .clocks import Events, driver
from .reading import reads
from .stats import is_steady, summary
from ..support.atomic_write import write_atomically
from ..utils import backend, cache_dir


# The warm-up, for compilers, caches and the GPU's clock, also determines the size of a batch, which takes about 50 ms.
# Then batches are timed for at least a tenth of a second, until there are enough runs and the median is known to 1%, or
# until the time limit.
WARM_UP_SECONDS = 0.05
BATCH_SECONDS = 0.05
MIN_SECONDS = 0.1  # minimum duration of a measurement


def warm_up(clock, fn, seconds=2.0, batch=BATCH_SECONDS) -> int:  # runs in a batch
    "Warm up `fn`; return the number of runs that take about `batch` seconds"
    start = clock.now()
    n = 0
    while n < 3 or clock.now() - start < WARM_UP_SECONDS:
        clock.times(fn, 1)
        n += 1
        if clock.now() - start > seconds / 4:
            break
    return max(1, min(clock.max_batch, int(batch * n / (clock.now() - start))))


def sample_times(
    clock,  # a `clocks.Clock`
    fn,  # called without arguments
    seconds=2.0,  # time limit of the measurement, without the warm-up
) -> list:  # of seconds
    "Time `fn` until its median is steady, or until the time limit"
    n = warm_up(clock, fn, seconds)
    start = clock.now()
    times = []
    while True:
        times += clock.times(fn, n)
        elapsed = clock.now() - start
        if elapsed >= seconds or (elapsed >= MIN_SECONDS and is_steady(times)):
            return times


# The copy and the read-only kernel access 1 GiB, or a quarter of the free memory if this is less. The matrices are
# square; the product in fp32 does not use TF32.
class Ceilings(dict):
    """Measured ceilings: `copy` and `read` in GB/s; matrix products `fp32`, `tf32`, `bf16`, ... in TFLOP/s; `gpu`,
    `date`, `driver` and `torch` identify the measurement"""

    @property
    def provenance(self) -> str:
        "The GPU, date and versions of the measurement, and whether it is a recording"
        origin = 'recorded' if self.get('recorded') else 'measured'
        return f"{origin} on an {self['gpu']}, {self['date']} (driver {self['driver']}, torch {self['torch']})"


SIZES = {'fp32': 4096, 'tf32': 8192, 'bf16': 8192, 'fp16': 8192, 'fp64': 4096}  # rows and columns of the matrices


def _copy_rate(clock, torch):
    "Measure a copy in GB/s, counting bytes read and bytes written"
    n = min(2**30, torch.cuda.mem_get_info()[0] // 4) // 4
    x = torch.randn(n, device='cuda')
    y = torch.empty_like(x)
    return 8 * n / summary(sample_times(clock, lambda: y.copy_(x))).median / 1e9


def _read_rate(clock, torch):
    "Measure reads in GB/s"
    n = min(2**30, torch.cuda.mem_get_info()[0] // 4) // 16 * 4
    x = torch.randn(n, device='cuda')
    return 4 * n / summary(sample_times(clock, reads(x))).median / 1e9


def _product_rate(clock, torch, precision):
    "Measure `torch.matmul` in TFLOP/s"
    n = SIZES[precision]
    dtypes = {'bf16': torch.bfloat16, 'fp16': torch.float16, 'fp64': torch.float64}
    dtype = dtypes.get(precision, torch.float32)
    a, b = (torch.randn(n, n, device='cuda').to(dtype) for _ in range(2))
    previous = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == 'tf32'
    try:
        return 2 * n**3 / summary(sample_times(clock, lambda: a @ b)).median / 1e12
    finally:
        torch.backends.cuda.matmul.allow_tf32 = previous


def measure() -> Ceilings:
    "Measure the ceilings of the current GPU; this takes some seconds and 2 GiB of its memory"
    import torch

    clock = Events()
    rates = {'copy': _copy_rate(clock, torch), 'read': _read_rate(clock, torch)}
    rates |= {precision: _product_rate(clock, torch, precision) for precision in SIZES}
    torch.cuda.empty_cache()
    origin = dict(gpu=clock.device, date=date.today().isoformat(), driver=driver(), torch=torch.__version__)
    return Ceilings({k: round(v, 1) for k, v in rates.items()}, **origin)


# Without a GPU, rooflines use the ceilings of one H100, marked as recorded (benchmarks/agree.txt; `read` was measured a
# day later).
H100 = Ceilings(
    copy=3001.0,
    read=3099.1,
    fp32=51.7,
    tf32=371.4,
    bf16=794.9,
    fp16=765.8,
    fp64=63.0,
    gpu='NVIDIA H100 80GB HBM3',
    date='2026-11-21',
    driver='580.159.04',
    torch='2.11.0+cu130',
    recorded=True,
)


# The rates in data sheets, for dense matrices at the highest clock: GB/s of DRAM, TFLOP/s of arithmetic
_HOPPER = dict(fp32=66.9, tf32=494.7, bf16=989.4, fp16=989.4, fp64=66.9)
DATA_SHEETS = {
    'H100 80GB HBM3': dict(copy=3350.0, **_HOPPER),
    'H200': dict(copy=4800.0, **_HOPPER),
    'A100-SXM4-80GB': dict(copy=2039.0, fp32=19.5, tf32=156.0, bf16=312.0, fp16=312.0, fp64=19.5),
}


def data_sheet(
    gpu,  # name, as the driver reports it
) -> dict:  # with the keys of `Ceilings`; empty for an unknown GPU
    "Return the rates in the data sheet of a GPU"
    return next((sheet for name, sheet in DATA_SHEETS.items() if gpu and gpu.endswith(name)), {})


def _load(path, key):
    "Return the ceilings stored under a key in the file at `path`; None if it has none"
    try:
        stored_values = json.loads(path.read_text())[key]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return (
        Ceilings(stored_values)
        if isinstance(stored_values, dict) and {'copy', 'read'} <= stored_values.keys()
        else None
    )


def _store(path, key, new_ceilings):
    "Add the ceilings to the file atomically; do nothing if the folder is read-only"
    try:
        all_ceilings = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        all_ceilings = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({**all_ceilings, key: new_ceilings}, indent=1))
    except OSError:
        pass


def ceilings(
    measure_again=False,  # even if there are cached ceilings
    measure=measure,  # the function that measures
    key=None,  # key in the cache; None: this GPU, driver and torch
) -> Ceilings:
    """Return the ceilings of this GPU, measured once and cached. Without a GPU, print a line, and return those of an
    H100.

        ceilings()['copy']  # GB/s"""
    if not key and backend() == 'sim':
        print(f"No GPU was found, so these are not this machine's ceilings: {H100.provenance}")
        return H100
    path = cache_dir() / 'ceilings.json'
    key = key or _this_machine()
    stored_ceilings = None if measure_again else _load(path, key)
    if stored_ceilings is None:
        _store(path, key, stored_ceilings := measure())
    return stored_ceilings


def _this_machine():
    "Return the key of this GPU, driver and torch in the cache"
    import torch

    return f'{torch.cuda.get_device_name()}, driver {driver()}, torch {torch.__version__}'
