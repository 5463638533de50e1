"""The ceilings of a machine, measured on it: how fast it copies, reads, and multiplies matrices of each type.

A datasheet says what no program reaches. What a plain copy, a kernel that does nothing but read, and the vendor's
matrix product reach here, today, is the fair measure of a kernel. They are measured once per GPU, driver and
version of PyTorch, and kept.
"""

import json
from datetime import date

from .clocks import Events, driver
from .reading import reads
from .stats import steady, summary
from ..support.atomic_write import write_whole
from ..utils import backend, cache_dir


# First the warm-up: compilers, caches and the GPU's clock need some runs. It also says how many runs make a
# batch of some 50 ms. Then batches, until there are enough runs, a tenth of a second of them, and a median
# known to 1%; or until the time limit.
WARM, BATCH, LEAST = 0.05, 0.05, 0.1  # seconds: of warm-up, of a batch, of measuring at least


def warm_up(clock, fn, seconds=2.0, batch=BATCH) -> int:  # runs in a batch
    "Warm `fn` up; how many runs take about as long as a batch should, `batch` seconds"
    start = clock.now()
    n = 0
    while n < 3 or clock.now() - start < WARM:
        clock.times(fn, 1)
        n += 1
        if clock.now() - start > seconds / 4:
            break
    return max(1, min(clock.most, int(batch * n / (clock.now() - start))))


def sample(
    clock,  # what to time with
    fn,  # called with nothing
    seconds=2.0,  # to measure for at most, beyond the warm-up
) -> list:  # of seconds
    "Times of `fn`: as many as it takes for a steady median, as far as the time allows"
    n = warm_up(clock, fn, seconds)
    start = clock.now()
    times = []
    while True:
        times += clock.times(fn, n)
        spent = clock.now() - start
        if spent >= seconds or (spent >= LEAST and steady(times)):
            return times


# The copy reads and writes 1 GiB, or a quarter of the free memory if that is less; pure reads are of as much. Products
# are square, fp32 without TF32.
class Ceilings(dict):
    """GB/s of a copy under `copy`, of pure reads under `read`; TFLOP/s of a matrix product under `fp32`, `tf32`,
    `bf16`, ...; `gpu`, `date`, `driver` and `torch` say where and when"""

    @property
    def mark(self) -> str:
        "Where and when they were measured, and whether that was elsewhere"
        how = 'recorded' if self.get('recorded') else 'measured'
        return f"{how} on an {self['gpu']}, {self['date']} (driver {self['driver']}, torch {self['torch']})"


SIZES = {'fp32': 4096, 'tf32': 8192, 'bf16': 8192, 'fp16': 8192, 'fp64': 4096}  # rows and columns of the matrices


def _copy_rate(clock, torch):
    "GB/s, counting what is read and what is written"
    n = min(2**30, torch.cuda.mem_get_info()[0] // 4) // 4
    x = torch.randn(n, device='cuda')
    y = torch.empty_like(x)
    return 8 * n / summary(sample(clock, lambda: y.copy_(x))).median / 1e9


def _read_rate(clock, torch):
    "GB/s of pure reads"
    n = min(2**30, torch.cuda.mem_get_info()[0] // 4) // 16 * 4
    x = torch.randn(n, device='cuda')
    return 4 * n / summary(sample(clock, reads(x))).median / 1e9


def _product_rate(clock, torch, kind):
    "TFLOP/s of `torch.matmul`"
    n = SIZES[kind]
    types = {'bf16': torch.bfloat16, 'fp16': torch.float16, 'fp64': torch.float64}
    dtype = types.get(kind, torch.float32)
    a, b = (torch.randn(n, n, device='cuda').to(dtype) for _ in range(2))
    old = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == 'tf32'
    try:
        return 2 * n**3 / summary(sample(clock, lambda: a @ b)).median / 1e12
    finally:
        torch.backends.cuda.matmul.allow_tf32 = old


def measure() -> Ceilings:
    "Measure the ceilings of the current GPU; some seconds, and 2 GiB of its memory"
    import torch

    clock = Events()
    rates = {'copy': _copy_rate(clock, torch), 'read': _read_rate(clock, torch)}
    rates |= {kind: _product_rate(clock, torch, kind) for kind in SIZES}
    torch.cuda.empty_cache()
    where = dict(gpu=clock.device, date=date.today().isoformat(), driver=driver(), torch=torch.__version__)
    return Ceilings({k: round(v, 1) for k, v in rates.items()}, **where)


# Without a GPU there is still something to draw under: the ceilings of one H100, marked as recorded
# (benchmarks/agree.txt; pure reads a day later).
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


# What the data sheets promise, dense, at the highest clock: GB/s of the memory, TFLOP/s of the arithmetic.
_HOPPER = dict(fp32=66.9, tf32=494.7, bf16=989.4, fp16=989.4, fp64=66.9)
SHEETS = {
    'H100 80GB HBM3': dict(copy=3350.0, **_HOPPER),
    'H200': dict(copy=4800.0, **_HOPPER),
    'A100-SXM4-80GB': dict(copy=2039.0, fp32=19.5, tf32=156.0, bf16=312.0, fp16=312.0, fp64=19.5),
}


def data_sheet(
    gpu,  # the name that the driver gives it
) -> dict:  # as `Ceilings` has them; empty where no sheet is known
    "Return what the data sheet of a GPU promises"
    return next((sheet for name, sheet in SHEETS.items() if gpu and gpu.endswith(name)), {})


def _load(path, who):
    "Return the ceilings in the file at `path`, if they are `who`'s"
    try:
        found = json.loads(path.read_text())[who]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return Ceilings(found) if isinstance(found, dict) and {'copy', 'read'} <= found.keys() else None


def _store(path, who, found):
    "Add `found` to the file, in one step; a folder that cannot be written only means to measure again"
    try:
        every = dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        every = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({**every, who: found}, indent=1))
    except OSError:
        pass


def ceilings(
    fresh=False,  # measure again, whatever the cache has?
    measure=measure,  # what measures
    who=None,  # whose they are; None: this GPU, driver and torch
) -> Ceilings:
    """The ceilings of this GPU, measured once and kept in the cache; a recorded H100's without a GPU, after a line
    that reports it"""
    if not who and backend() == 'sim':
        print(f'No GPU is here, so the ceilings are not this machine\'s: {H100.mark}')
        return H100
    path = cache_dir() / 'ceilings.json'
    who = who or _me()
    found = None if fresh else _load(path, who)
    if found is None:
        _store(path, who, found := measure())
    return found


def _me():
    "Return this GPU, driver and torch"
    import torch

    return f'{torch.cuda.get_device_name()}, driver {driver()}, torch {torch.__version__}'
