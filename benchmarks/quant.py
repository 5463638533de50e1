"""Products with weights of few bits by `gridstride.kernels.quant`, against torch's of bfloat16, of int4 and int8, and
`torch._scaled_mm`, on a GPU: the course's goals, other batches and sizes.

    python quant.py                 # all of it, in half a minute; prints what quant.txt holds, writes quant.json
    python quant.py one batches     # some of it; writes nothing
    python quant.py --seconds .3    # of timing per side (0.1)

Each result is first compared with a product in float64 of what the few bits stand for. All sides are captured in CUDA
graphs, so that no Python is timed; then they take turns. Figures are medians of GPU time, ratios medians over the
rounds with their 95% interval. Before each run other memory is read, a multiple of the L2, as between two uses of a
layer's weights; in `written` it is overwritten, as in our other benchmarks: then tens of MB are still to be written
while a side begins to read, which costs each the same microseconds. GB/s are the bytes of the weights as each side has
them, and of x and y; where weights and x have 8 bits (e4m3, s8) the figure is TFLOP/s. Shapes: rows x columns of the
weights x rows of x.
`int4mm` and `int8mm` are `torch._weight_int4pack_mm`, the kernel of torchao's weight-only int4, and
`torch._weight_int8pack_mm`; `bnb` is bitsandbytes' product with NF4, if it is installed. `dp4a`: x has 8 bits, too, and
few rows.
"""
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from gridstride.bench import compare
from gridstride.bench.clocks import Events
from gridstride.kernels.ladder.ladder import Gpu
from gridstride.kernels.quant import formats, mixed, multiply_fp8, multiply_int8, pack, unpack

import rows

HERE = Path(__file__).parent
GOALS = {('int4', 1): 3.6, ('int8', 1): 1.93, ('int4', 16): 2.5}    # times torch's bfloat16, of 28672 x 8192
LARGE = 28672, 8192
CHECKED = 2048                                                      # rows of w that are looked at


class Case(NamedTuple):
    "Weights of few bits times some rows of x"
    kind: str
    shape: tuple         # of the weights
    batch: int
    goals: dict = {}     # other side -> how many times faster ours shall be
    others: tuple = ()   # besides torch's bfloat16
    read: bool = True    # is other memory read before each run, or overwritten?


def one():
    "A row of x, as when a model writes a text for one reader"
    for kind, others in (('int4', ('int4mm',)), ('int8', ('int8mm',)), ('nf4', ('bnb',)), ('fp8', ())):
        goal = GOALS.get((kind, 1))
        yield Case(kind, LARGE, 1, {'bf16': goal} if goal else {}, others)


def written():
    for kind in ('int4', 'int8'): yield Case(kind, LARGE, 1, read=False)


def batches():
    for batch in (2, 4, 8, 16, 32, 64):
        goal = GOALS.get(('int4', batch))
        yield Case('int4', LARGE, batch, {'bf16': goal} if goal else {}, ('int4mm',))
    for kind, others in (('int8', ()), ('nf4', ('bnb',)), ('fp8', ())): yield Case(kind, LARGE, 16, {}, others)


def shapes():
    "The matrices of a model of 8 billion parameters, and a large one's down projection"
    for shape in ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 28672)):
        for kind in ('int4', 'int8'): yield Case(kind, shape, 1)


def many():
    "A prompt, or many sequences at once: each layer of a model of 8 billion parameters, and a small model's"
    for kind in ('int4', 'int8', 'nf4', 'fp8'):
        for shape in ((6144, 4096), (4096, 4096), (14336, 4096), (4096, 14336), (3072, 768)):
            for batch in (16, 64, 128, 256, 512, 1024, 4096): yield Case(kind, shape, batch, {'bf16': .9})


def fp8():
    yield Case('e4m3', (8192, 8192), 8192, {'scaled_mm': 1.}, ('scaled_mm', 'exact_sums'))
    yield Case('e4m3', (4096, 4096), 4096, {}, ('scaled_mm', 'exact_sums'))


def int8():
    for n in (8192, 4096): yield Case('s8', (n, n), n, {}, ('int_mm',))


def dp4a():
    for batch in (1, 8): yield Case('dp4a', LARGE, batch, {}, ('bf16',))


PARTS = dict(one=one, written=written, batches=batches, shapes=shapes, many=many, fp8=fp8, int8=int8, dp4a=dp4a)


# Sides: name -> a function of x

def int4mm(w, x):
    "torch's own product with groups of 128; its values are (q - 8) * scale + zero"
    q, scales, _ = formats.symmetric(w, 4, 128, w.dtype)
    q = (q + 8).to(torch.uint8)
    words = torch._convert_weight_to_int4pack(q[:, ::2] << 4 | q[:, 1::2], 8)
    pairs = torch.stack([scales, torch.zeros_like(scales)], -1).transpose(0, 1).contiguous()
    return lambda x: torch._weight_int4pack_mm(x, words, 128, pairs)


def int8mm(w, x):
    q, scales, _ = formats.symmetric(w, 8, 'row', w.dtype)
    scales = scales.flatten()
    return lambda x: torch._weight_int8pack_mm(x, q, scales)


def bnb(w, x):
    import bitsandbytes
    q, state = bitsandbytes.functional.quantize_4bit(w, blocksize=64, quant_type='nf4')
    return lambda x: bitsandbytes.matmul_4bit(x, q, state)


OTHERS = dict(int4mm=int4mm, int8mm=int8mm, bnb=bnb)
PACKAGES = dict(bnb='bitsandbytes')                                 # that a side needs


def few_bits(case):
    "x, what it is multiplied by in float64, ours and the others"
    w = torch.randn(case.shape, device='cuda', dtype=torch.bfloat16)
    x, p = torch.randn(case.batch, case.shape[1], device='cuda', dtype=torch.bfloat16), pack(w, case.kind)
    ways = dict(ours=lambda x: mixed.multiply(x, p, None), bf16=lambda x: F.linear(x, w))
    ways |= {o: OTHERS[o](w, x) for o in case.others}
    around = x.nbytes + 2*case.batch*case.shape[0]
    some = p._replace(shape=(CHECKED, case.shape[1]), words=p.words[:CHECKED//16], scales=p.scales[:CHECKED//16])
    return x, x.double() @ unpack(some).double().T, ways, p.nbytes + around, w.nbytes + around


def e4m3(case):
    "The same for 8 bits on both sides, with one scale per row"
    (w, k), h = case.shape, case.batch
    (m, a), (n, b) = (formats.fp8(torch.randn(o, k, device='cuda')) for o in (h, w))
    def scaled_mm(x, fast):
        return torch._scaled_mm(x, n.T, scale_a=a, scale_b=b.T, out_dtype=torch.bfloat16, use_fast_accum=fast)
    ways = dict(ours=lambda x: multiply_fp8(x, n, a, b), scaled_mm=partial(scaled_mm, fast=True),
                exact_sums=partial(scaled_mm, fast=False))
    want = m.double()*a @ (n[:CHECKED].double()*b[:CHECKED]).T
    return m, want, ways, 2*h*w*k/1e3, None                         # a thousandth: TFLOP/s in the field of GB/s


def s8(case):
    "The same for integers; `torch._int_mm` returns its sums in int32, without scales"
    (w, k), h = case.shape, case.batch
    (m, a), (n, b) = (formats.symmetric(torch.randn(o, k, device='cuda'), 8)[:2] for o in (h, w))
    ways = dict(ours=lambda x: multiply_int8(x, n, a, b), int_mm=lambda x: torch._int_mm(x, n.T))
    want = m.double()*a @ (n[:CHECKED].double()*b[:CHECKED]).T
    return m, want, ways, 2*h*w*k/1e3, None


def few(case):
    "`s8` for few rows, compared with the product of bfloat16; the bytes are those of w, x and y"
    (w, k), h = case.shape, case.batch
    dense, x = torch.randn(w, k, device='cuda').bfloat16(), torch.randn(h, k, device='cuda').bfloat16()
    (m, a), (n, b) = (formats.symmetric(o, 8)[:2] for o in (x, dense))
    ways = dict(ours=lambda x: multiply_int8(x, n, a, b), bf16=lambda _: F.linear(x, dense))
    want = m.double()*a @ (n[:CHECKED].double()*b[:CHECKED]).T
    return m, want, ways, m.nbytes + n.nbytes + 2*h*w, x.nbytes + dense.nbytes + 2*h*w


def check(got, want):
    "Raise if more is lost than by rounding to bfloat16, some 50 dB, and by the 14 bits that sums of e4m3 keep"
    lost = formats.decibels(want, got[:, :CHECKED])
    if not lost > 40: raise ValueError(f'{lost:.1f} dB from the product in float64')


def rows_of(case, seconds):
    "One row per other side"
    torch.manual_seed(0)
    x, want, ways, size, dense = dict(e4m3=e4m3, s8=s8, dp4a=few).get(case.kind, few_bits)(case)
    check(ways['ours'](x), want)
    graphs = {k: rows.graphed(lambda f=f: lambda: f(x)) for k, f in ways.items()}
    c = compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds,
                clock=Gpu(Events('read') if case.read else None))
    like = SimpleNamespace(dtype=x.dtype, shape=(*case.shape, case.batch))
    name = case.kind + ', written'*(not case.read)
    for k in ways:
        if k != 'ours': yield rows.row(name, like, c, k, case.goals.get(k), size, dense if k == 'bf16' else None)


def measure(case, seconds):
    "The rows of a case, or one with the reason why there are none; another per side that is not installed"
    like = SimpleNamespace(dtype=torch.bfloat16, shape=(*case.shape, case.batch))
    missing = [PACKAGES[o] for o in case.others if o in PACKAGES and not find_spec(PACKAGES[o])]
    case = case._replace(others=[o for o in case.others if PACKAGES.get(o) not in missing])
    try: yield from list(rows_of(case, seconds))
    except Exception as e: yield rows.failed(case.kind, like, e)
    for o in missing: yield rows.failed(case.kind, like, ImportError(f'{o} is not installed'))


def line(r):
    text = rows.line(r, tool=13, dtype=13, shape=15, other=10, us=7, gbs=5)
    return text.replace('GB/s', 'TFLOP/s') if r['tool'] in ('e4m3', 's8') else text


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, line, HERE/'quant.json', .1)
