"""Products with quantized weights by `gridstride.kernels.quant`, against torch's with bfloat16, int4 and int8 weights,
and `torch._scaled_mm`, on a GPU: the course's goals, and other batch sizes and shapes.

    python quant.py > quant.txt     # all parts, in half a minute; writes quant.json
    python quant.py one batches     # some parts; writes nothing
    python quant.py --seconds .3    # of timing per candidate (0.1)

Each result is first compared with the product of the dequantized weights in float64. All candidates are captured in
CUDA graphs, which exclude Python's time, and timed interleaved. Times are medians of GPU time; ratios are medians over
the rounds, with their 95% interval. Before each run, other memory of several times the size of the L2 cache is read, as
between two uses of a layer's weights. In `written` it is overwritten, as in our other benchmarks: tens of MB must then
be written back while a candidate starts to read, which adds the same microseconds to each. GB/s count the bytes of each
candidate's weights, of x and of y; if weights and x both have 8 bits (e4m3, s8), the rate is in TFLOP/s. A shape is
(rows of the weights) x (columns of the weights) x (rows of x).
`int4mm` is `torch._weight_int4pack_mm`, the kernel of torchao's weight-only int4; `int8mm` is
`torch._weight_int8pack_mm`; `bnb` is bitsandbytes' product with NF4, if it is installed. In `dp4a`, x is quantized to
8 bits, too, and has few rows.
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
from gridstride.kernels.ladder.ladder import GpuClock
from gridstride.kernels.quant import formats, mixed, multiply_fp8, multiply_int8, pack, unpack

import rows

HERE = Path(__file__).parent
# (kind, rows of x) -> speedup over bfloat16 for weights of size LARGE
GOALS = {('int4', 1): 3.6, ('int8', 1): 1.93, ('int4', 16): 2.5}
LARGE = 28672, 8192
CHECKED_ROWS = 2048                                                 # of w


class Case(NamedTuple):
    "Quantized weights times some rows of x"
    kind: str
    shape: tuple         # of the weights
    batch: int
    goals: dict = {}     # other candidate -> speedup of ours to reach
    others: tuple = ()   # candidates besides torch's bfloat16
    read: bool = True    # other memory is read before each run; otherwise it is overwritten


def one():
    "Yield products with one row of x, as when a model decodes one sequence"
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
    "Yield the matrices of a model with 8 billion parameters, and the down projection of a large model"
    for shape in ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 28672)):
        for kind in ('int4', 'int8'): yield Case(kind, shape, 1)


def many():
    "Yield the layers of a model with 8 billion parameters and of a small one, for prompts or large batches"
    for kind in ('int4', 'int8', 'nf4', 'fp8'):
        for shape in ((6144, 4096), (4096, 4096), (14336, 4096), (4096, 14336), (3072, 768)):
            for batch in (16, 64, 128, 256, 512, 1024, 4096): yield Case(kind, shape, batch, {'bf16': .9})


def blocks():
    "Yield block-scaled weights next to weights of as many bits that have 16-bit scales"
    for batch in (1, 4, 16):
        for kind in ('int4', 'nvfp4', 'fp8', 'mxfp8'): yield Case(kind, LARGE, batch)
    for batch in (64, 256, 1024):
        for kind in ('int4', 'nvfp4', 'fp8', 'mxfp8'): yield Case(kind, (14336, 4096), batch)


def fp8():
    yield Case('e4m3', (8192, 8192), 8192, {'scaled_mm': 1.}, ('scaled_mm', 'exact_sums'))
    yield Case('e4m3', (4096, 4096), 4096, {}, ('scaled_mm', 'exact_sums'))


def int8():
    for n in (8192, 4096): yield Case('s8', (n, n), n, {}, ('int_mm',))


def dp4a():
    for batch in (1, 8): yield Case('dp4a', LARGE, batch, {}, ('bf16',))


PARTS = dict(one=one, written=written, batches=batches, shapes=shapes, many=many, blocks=blocks, fp8=fp8, int8=int8,
             dp4a=dp4a)


# Candidates besides ours and bfloat16: each function returns a function of x

def int4mm(w, x):
    "Make torch's product with groups of 128; the weights are (q - 8) * scale + zero"
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
PACKAGES = dict(bnb='bitsandbytes')                                 # that a candidate requires


def quantized_case(case):
    "Return x, the reference result in float64, the candidates, their size for GB/s, and that of bfloat16"
    w = torch.randn(case.shape, device='cuda', dtype=torch.bfloat16)
    x, packed = torch.randn(case.batch, case.shape[1], device='cuda', dtype=torch.bfloat16), pack(w, case.kind)
    candidates = dict(ours=lambda x: mixed.multiply(x, packed, None), bf16=lambda x: F.linear(x, w))
    candidates |= {other: OTHERS[other](w, x) for other in case.others}
    activation_bytes = x.nbytes + 2*case.batch*case.shape[0]
    packed_rows = packed._replace(shape=(CHECKED_ROWS, case.shape[1]), words=packed.words[:CHECKED_ROWS//16],
                                  scales=packed.scales[:CHECKED_ROWS//16])
    want = x.double() @ unpack(packed_rows).double().T
    return x, want, candidates, packed.nbytes + activation_bytes, w.nbytes + activation_bytes


def e4m3_case(case):
    "Return the same for x and weights of 8 bits with one scale per row"
    (w, k), h = case.shape, case.batch
    (m, m_scales), (n, n_scales) = (formats.fp8(torch.randn(o, k, device='cuda')) for o in (h, w))
    def scaled_mm(x, fast):
        return torch._scaled_mm(x, n.T, scale_a=m_scales, scale_b=n_scales.T, out_dtype=torch.bfloat16,
                                use_fast_accum=fast)
    candidates = dict(ours=lambda x: multiply_fp8(x, n, m_scales, n_scales), scaled_mm=partial(scaled_mm, fast=True),
                      exact_sums=partial(scaled_mm, fast=False))
    want = m.double()*m_scales @ (n[:CHECKED_ROWS].double()*n_scales[:CHECKED_ROWS]).T
    return m, want, candidates, 2*h*w*k/1e3, None                   # the field of GB/s holds TFLOP/s


def s8_case(case):
    "Return the same for int8; `torch._int_mm` returns its sums in int32, without scales"
    (w, k), h = case.shape, case.batch
    (m, m_scales), (n, n_scales) = (formats.symmetric(torch.randn(o, k, device='cuda'), 8)[:2] for o in (h, w))
    candidates = dict(ours=lambda x: multiply_int8(x, n, m_scales, n_scales), int_mm=lambda x: torch._int_mm(x, n.T))
    want = m.double()*m_scales @ (n[:CHECKED_ROWS].double()*n_scales[:CHECKED_ROWS]).T
    return m, want, candidates, 2*h*w*k/1e3, None


def dp4a_case(case):
    "Return the same as `s8` for few rows, with bfloat16 as the other candidate; the sizes are the bytes of w, x and y"
    (w, k), h = case.shape, case.batch
    dense, x = torch.randn(w, k, device='cuda').bfloat16(), torch.randn(h, k, device='cuda').bfloat16()
    (m, m_scales), (n, n_scales) = (formats.symmetric(o, 8)[:2] for o in (x, dense))
    candidates = dict(ours=lambda x: multiply_int8(x, n, m_scales, n_scales), bf16=lambda _: F.linear(x, dense))
    want = m.double()*m_scales @ (n[:CHECKED_ROWS].double()*n_scales[:CHECKED_ROWS]).T
    return m, want, candidates, m.nbytes + n.nbytes + 2*h*w, x.nbytes + dense.nbytes + 2*h*w


def check_snr(got, want):
    "Raise unless the signal-to-noise ratio is above 40 dB: rounding to bfloat16 leaves 50 dB, and sums of e4m3 14 bits"
    snr_db = formats.snr_db(want, got[:, :CHECKED_ROWS])
    if not snr_db > 40: raise ValueError(f'expected a signal-to-noise ratio above 40 dB, got {snr_db:.1f}')


def case_rows(case, seconds):
    "Yield a row per other candidate"
    torch.manual_seed(0)
    make_case = dict(e4m3=e4m3_case, s8=s8_case, dp4a=dp4a_case).get(case.kind, quantized_case)
    x, want, candidates, size, bf16_size = make_case(case)
    check_snr(candidates['ours'](x), want)
    graphs = {name: rows.capture_graph(lambda f=f: lambda: f(x)) for name, f in candidates.items()}
    comparison = compare(graphs, x, baseline='ours', check=lambda got: None, seconds=seconds,
                         clock=GpuClock(Events('read') if case.read else None))
    operand = SimpleNamespace(dtype=x.dtype, shape=(*case.shape, case.batch))
    tool = case.kind + ', written'*(not case.read)
    for other in candidates:
        if other == 'ours': continue
        other_size = bf16_size if other == 'bf16' else None
        yield rows.comparison_row(tool, operand, comparison, other, case.goals.get(other), size, other_size)


def measure(case, seconds):
    "Yield the rows of a case, or one row with the error, and a row per package that is not installed"
    operand = SimpleNamespace(dtype=torch.bfloat16, shape=(*case.shape, case.batch))
    missing = [PACKAGES[o] for o in case.others if o in PACKAGES and not find_spec(PACKAGES[o])]
    case = case._replace(others=[o for o in case.others if PACKAGES.get(o) not in missing])
    try: yield from list(case_rows(case, seconds))
    except Exception as error: yield rows.failed_row(case.kind, operand, error)
    for package in missing: yield rows.failed_row(case.kind, operand, ImportError(f'{package} is not installed'))


def format_row(row):
    text = rows.format_row(row, tool=13, dtype=13, shape=15, other=10, us=7, gbs=5)
    return text.replace('GB/s', 'TFLOP/s') if row['tool'] in ('e4m3', 's8') else text


if __name__ == '__main__': rows.run(__doc__, PARTS, measure, format_row, HERE/'quant.json', .1)
