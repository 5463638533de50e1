"""What Triton's types do on a GPU: conversions, arithmetic, reductions, products, random values, atomics.

    python types_probe.py           # on a machine with an NVIDIA GPU: writes recorded/types.json
    python types_probe.py checked   # gridstride.tile, held against what is recorded

Each case is a kernel with one program of 64 lanes, over values at which types differ: ends, ties, zeros, NaN.
Results are kept as bits; which of them are rounded by an approximation on a GPU says `CLOSE`.
"""

import base64, json, multiprocessing, sys, time, zlib
from pathlib import Path

import numpy as np, torch
import triton, triton.language as tl

HERE = Path(__file__).resolve().parent
RECORDED = HERE / 'recorded' / 'types.json'
N = 64
FLOATS = dict(fp64=torch.float64, fp32=torch.float32, fp16=torch.float16, bf16=torch.bfloat16)
NARROW = dict(fp8e4nv=torch.float8_e4m3fn, fp8e5=torch.float8_e5m2)
INTS = {f'i{n}': getattr(torch, f'int{n}') for n in (8, 16, 32, 64)} | {
    f'u{n}': getattr(torch, f'uint{n}') for n in (8, 16, 32, 64)
}
ALL = FLOATS | NARROW | INTS
# names of cases (their beginnings) that a GPU computes by approximations, and how far apart in relative terms
CLOSE = {'math': 4e-7, 'randn': 2e-5, 'truediv_fp64': 0, 'truediv': 2.5e-7, 'dot_random': 2e-6, 'sum_fp32': 2e-6}


def special(kind, seed=0):
    "64 values of a type: the difficult ones first"
    rng = np.random.default_rng(seed)
    if kind in INTS:
        info = np.iinfo(f'{"u" * (kind[0] == "u")}int{kind[1:]}')
        first = [0, 1, 2, 3, 7, info.max, info.min, info.max - 1, info.max // 2, info.min // 2, info.min + 1]
        rest = rng.integers(info.min, info.max, N - len(first), dtype=info.dtype, endpoint=True)
        a = np.concatenate([np.array(first, info.dtype), rest])
        return torch.from_numpy(a.view(f'i{info.dtype.itemsize}').copy()).view(INTS[kind])
    first = [0., -0., np.inf, -np.inf, np.nan, 1., -1.5, .5, 1.5, 2.5, -2.5, 1 + 2**-8, 1 + 3*2**-8, 1 + 2**-11,
             1 + 3*2**-11, 1 + 2**-4, 1 + 3*2**-4, 1 + 2**-3, 2**-14, 2**-15, 2**-24, 2**-25, 3*2**-26, 2**-9, 2**-10,
             3*2**-11, 2**-16, 2**-17, 448., 449., 464., 465., 480., -500., 57344., 61440., 61441., 65504., 65519.,
             65520., -70000., 127.5, -128.7, 255.5, 256., 2.**31, -2.**31 - 1000, 2.**63, -2.**63, 1e10, 3e38, -3.39e38,
             1e-40]
    a = np.array([*first, *rng.normal(size=N - len(first)) * 10])
    if kind == 'fp8e4nv': a[np.abs(a) > 464] = np.nan  # versions of torch differ in what is too large
    with np.errstate(over='ignore'):
        return torch.from_numpy(a).to(torch.float32 if kind != 'fp64' else torch.float64).to(ALL[kind])


def swapped(x):
    "The same values in another order, so that all meet all kinds"
    order = torch.from_numpy(np.random.default_rng(9).permutation(N))
    return bits(x)[order].view(x.dtype)


def bits(x):
    return x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@triton.jit
def cast_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty))


@triton.jit
def cast_rtz_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.load(x_ptr + i).to(out_ptr.dtype.element_ty, fp_downcast_rounding='rtz'))


@triton.jit
def binary_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if OP == 'add':
        r = x + y
    elif OP == 'sub':
        r = x - y
    elif OP == 'mul':
        r = x * y
    elif OP == 'truediv':
        r = x / y
    elif OP == 'floordiv':
        r = x // y
    elif OP == 'mod':
        r = x % y
    elif OP == 'min':
        r = tl.minimum(x, y)
    elif OP == 'max':
        r = tl.maximum(x, y)
    elif OP == 'max_all':
        r = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == 'and':
        r = x & y
    elif OP == 'xor':
        r = x ^ y
    elif OP == 'lt':
        r = x < y
    elif OP == 'eq':
        r = x == y
    elif OP == 'ne':
        r = x != y
    elif OP == 'shl':
        r = x << y
    elif OP == 'shr':
        r = x >> y
    elif OP == 'umulhi':
        r = tl.umulhi(x, y)
    elif OP == 'fma':
        r = tl.fma(x, y, y)
    elif OP == 'div_rn':
        r = tl.div_rn(x, y)
    elif OP == 'clamp':
        r = tl.clamp(x, -1.0, y)
    tl.store(out_ptr + i, r)


@triton.jit
def number_kernel(x_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    "With literals of the source, and with names that hold them"
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    third = 0.3333333
    if OP == 'literal':
        r = x * 0.3333333
    elif OP == 'name':
        r = x * third
    elif OP == 'where':
        r = tl.where(x > 1, x, 0.1)
    elif OP == 'negative':
        r = -x
    elif OP == 'abs':
        r = tl.abs(x)
    elif OP == 'square_sum':
        r = x * x + x
    tl.static_assert(r.dtype == out_ptr.dtype.element_ty)
    tl.store(out_ptr + i, r)


@triton.jit
def math_kernel(x_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == 'exp':
        r = tl.exp(x)
    elif OP == 'exp2':
        r = tl.exp2(x)
    elif OP == 'log':
        r = tl.log(x)
    elif OP == 'log2':
        r = tl.log2(x)
    elif OP == 'sqrt':
        r = tl.sqrt(x)
    elif OP == 'rsqrt':
        r = tl.rsqrt(x)
    elif OP == 'sin':
        r = tl.sin(x)
    elif OP == 'cos':
        r = tl.cos(x)
    elif OP == 'erf':
        r = tl.erf(x)
    elif OP == 'sigmoid':
        r = tl.sigmoid(x)
    elif OP == 'floor':
        r = tl.floor(x)
    elif OP == 'ceil':
        r = tl.ceil(x)
    elif OP == 'sqrt_rn':
        r = tl.sqrt_rn(x)
    elif OP == 'softmax':
        r = tl.softmax(x)
    tl.store(out_ptr + i, r)


@triton.jit
def reduce_kernel(x_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if OP == 'sum':
        r = tl.sum(x)
    elif OP == 'max':
        r = tl.max(x)
    elif OP == 'min':
        r = tl.min(x)
    elif OP == 'argmax':
        r = tl.argmax(x, 0)
    elif OP == 'argmin':
        r = tl.argmin(x, 0)
    elif OP == 'xor_sum':
        r = tl.xor_sum(x)
    tl.static_assert(r.dtype == out_ptr.dtype.element_ty)
    tl.store(out_ptr, r)


@triton.jit
def scan_kernel(x_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == 'cumsum':
        r = tl.cumsum(x)
    elif OP == 'cumsum_reverse':
        r = tl.cumsum(x, reverse=True)
    elif OP == 'cumprod':
        r = tl.cumprod(x)
    elif OP == 'sort':
        r = tl.sort(x)
    elif OP == 'sort_descending':
        r = tl.sort(x, descending=True)
    elif OP == 'flip':
        r = tl.flip(x, 0)
    elif OP == 'gather':
        r = tl.gather(x, (i * 7) % N, 0)
    elif OP == 'interleave':
        r = tl.reshape(tl.trans(tl.reshape(x, (4, N // 4))), (N,))
    tl.static_assert(r.dtype == out_ptr.dtype.element_ty)
    tl.store(out_ptr + i, r)


@triton.jit
def histogram_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.histogram(tl.load(x_ptr + i), N))


@triton.jit
def dot_kernel(x_ptr, y_ptr, out_ptr, PRECISION: tl.constexpr, OUT: tl.constexpr, K: tl.constexpr):
    r, k = tl.arange(0, 16), tl.arange(0, K)
    x, y = tl.load(x_ptr + r[:, None] * K + k[None, :]), tl.load(y_ptr + k[:, None] * 16 + r[None, :])
    tl.store(out_ptr + r[:, None] * 16 + r[None, :], tl.dot(x, y, input_precision=PRECISION, out_dtype=OUT))


@triton.jit
def random_kernel(out_ptr, seed, OP: tl.constexpr, WIDE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i.to(tl.int64) * 5000000000 if WIDE else i
    if OP == 'randint':
        r = tl.randint(seed, at)
    elif OP == 'rand':
        r = tl.rand(seed, at)
    elif OP == 'randn':
        r = tl.randn(seed, at)
    elif OP == 'randint_3':
        _, _, _, r = tl.randint4x(seed, at)
    tl.store(out_ptr + i, r)


@triton.jit
def atomic_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(y_ptr + i)
    if OP == 'add':
        r = tl.atomic_add(x_ptr + i, y)
    elif OP == 'max':
        r = tl.atomic_max(x_ptr + i, y)
    elif OP == 'min':
        r = tl.atomic_min(x_ptr + i, y)
    elif OP == 'and':
        r = tl.atomic_and(x_ptr + i, y)
    elif OP == 'xor':
        r = tl.atomic_xor(x_ptr + i, y)
    elif OP == 'xchg':
        r = tl.atomic_xchg(x_ptr + i, y)
    elif OP == 'cas':
        r = tl.atomic_cas(x_ptr + i, y, y + 1)
    elif OP == 'add_all':
        r = tl.atomic_add(x_ptr + i * 0, y)
    if OP != 'add_all':
        tl.store(out_ptr + i, r)


class Probe:
    "Runs all cases by `go(kernel, grid, *args, **constants)`, and keeps the bits of what they give"

    def __init__(self, go, share=(0, 1)):  # share: which of how many processes this is
        self.go, self.share, self.count, self.results, self.failed = go, share, 0, {}, {}
        self.until = time.monotonic() + 25  # a GPU's time is short: what is not done by then is left out

    def case(self, name, out, kernel, *args, **constants):
        self.count += 1
        if self.count % self.share[1] != self.share[0] or time.monotonic() > self.until:
            return
        args = [out if o is Ellipsis else o.clone() if isinstance(o, torch.Tensor) else o for o in args]
        try:
            self.go(kernel, 1, *args, **constants)
        except Exception as e:
            self.failed[name] = f'{type(e).__name__}: {e}'[-300:]
        else:
            self.results[name] = bits(out).numpy().copy()
        return args

    def all(self):
        for part in (
            self.casts,
            self.binary,
            self.numbers,
            self.maths,
            self.reductions,
            self.dots,
            self.randoms,
            self.atomics,
        ):
            part()
        return self.results

    def casts(self):
        for s in ALL:
            for t in ALL:
                if s == t or {s, t} & set(NARROW) and {s, t} & {'fp64', *INTS} or {s, t} <= set(NARROW):
                    continue
                self.case(f'cast_{s}_{t}', torch.zeros(N, dtype=ALL[t]), cast_kernel, special(s), ..., N=N)
        for t in 'fp16', 'bf16':
            self.case(f'rtz_{t}', torch.zeros(N, dtype=ALL[t]), cast_rtz_kernel, special('fp32'), ..., N=N)

    def binary(self):
        for t in FLOATS | INTS:
            x, y, whole = special(t), swapped(special(t, 1)), t in INTS
            kinds = 'add sub mul min max lt eq ne ' + ('and xor' if whole else 'truediv max_all')
            if t in ('fp32', 'fp64'):
                kinds += ' fma mod'
            if t == 'fp32':
                kinds += ' div_rn clamp'
            if t in ('i32', 'u32', 'i64', 'u64'):
                kinds += ' umulhi'
            for op in kinds.split():
                dtype = (
                    torch.bool
                    if op in ('lt', 'eq', 'ne')
                    else torch.float32
                    if op == 'truediv' and t != 'fp64'
                    else ALL[t]
                )
                self.case(f'{op}_{t}', torch.zeros(N, dtype=dtype), binary_kernel, x, y, ..., OP=op, N=N)
            if not whole:
                continue
            y = torch.where(bits(y) == 0, bits(y) + 3, bits(y)).view(y.dtype)
            if t[0] == 'i':
                y = torch.where(y == -1, torch.tensor(5, dtype=y.dtype), y)
            for op in 'floordiv', 'mod':
                self.case(f'{op}_{t}', torch.zeros(N, dtype=ALL[t]), binary_kernel, x, y, ..., OP=op, N=N)
            self.case(f'truediv_{t}', torch.zeros(N), binary_kernel, x, y, ..., OP='truediv', N=N)
            few = (torch.arange(N) % x.element_size() ** 1 * 8 % (8 * x.element_size())).to(torch.int64)
            few = (few + torch.arange(N) % 8).to(bits(x).dtype).view(x.dtype)
            for op in 'shl', 'shr':
                self.case(f'{op}_{t}', torch.zeros(N, dtype=ALL[t]), binary_kernel, x, few, ..., OP=op, N=N)

    def numbers(self):
        for t in FLOATS:
            for op in 'literal', 'name', 'where', 'negative', 'abs':
                wide = torch.float32 if op == 'name' and t in ('fp16', 'bf16') else ALL[t]
                self.case(f'number_{op}_{t}', torch.zeros(N, dtype=wide), number_kernel, special(t), ..., OP=op, N=N)

    def maths(self):
        for op in 'exp exp2 log log2 sqrt rsqrt sin cos erf sigmoid softmax'.split():
            x = torch.from_numpy(np.random.default_rng(3).normal(size=N) * 3).float()
            if op in ('log', 'log2', 'sqrt', 'rsqrt'):
                x = x.abs() + 1e-3
            self.case(f'math_{op}', torch.zeros(N), math_kernel, x, ..., OP=op, N=N)
        for op in 'floor', 'ceil', 'sqrt_rn':
            self.case(f'exact_{op}', torch.zeros(N), math_kernel, special('fp32'), ..., OP=op, N=N)

    def reductions(self):
        for t in ALL:
            if t in NARROW:
                continue
            x, whole, wide = special(t), t in INTS, ALL[t].itemsize >= 4
            small = (torch.arange(N) % 5 + 1).to(ALL[t])
            grown = ALL[t] if wide else (torch.uint32 if t[0] == 'u' else torch.int32) if whole else torch.float32
            summed = ALL[t] if not whole else grown
            extreme = ALL[t] if wide else torch.int32 if whole else torch.float32
            self.case(
                f'sum_{t}', torch.zeros(1, dtype=summed), reduce_kernel, x if whole else small, ..., OP='sum', N=N
            )
            for op in 'max', 'min':
                self.case(f'reduce_{op}_{t}', torch.zeros(1, dtype=extreme), reduce_kernel, x, ..., OP=op, N=N)
            for op in 'argmax', 'argmin':
                for what, values in ('special', x), ('ties', small):
                    out = torch.zeros(1, dtype=torch.int32)
                    self.case(f'{op}_{what}_{t}', out, reduce_kernel, values, ..., OP=op, N=N)
            if whole:
                self.case(f'xor_sum_{t}', torch.zeros(1, dtype=ALL[t]), reduce_kernel, x, ..., OP='xor_sum', N=N)
            for op in 'sort', 'sort_descending', 'flip', 'gather', 'interleave':
                values = (
                    x
                    if whole or op not in ('sort', 'sort_descending')
                    else torch.nan_to_num(x.double(), 0.0).to(x.dtype)
                )
                self.case(f'{op}_{t}', torch.zeros(N, dtype=ALL[t]), scan_kernel, values, ..., OP=op, N=N)
        for t in 'i32', 'i64', 'fp32':
            for op in 'cumsum', 'cumsum_reverse', 'cumprod':
                small = (torch.arange(N) % 3 + (op != 'cumprod')).to(ALL[t])
                self.case(f'{op}_{t}', torch.zeros(N, dtype=ALL[t]), scan_kernel, small, ..., OP=op, N=N)
        x = torch.arange(N, dtype=torch.int32) ** 2 % 61
        self.case('histogram', torch.zeros(N, dtype=torch.int32), histogram_kernel, x, ..., N=N)

    def dots(self):
        rng = np.random.default_rng(5)
        for t, K, precision, out in (
            ('fp32', 16, 'tf32', 'fp32'),
            ('fp32', 16, 'ieee', 'fp32'),
            ('fp16', 16, None, 'fp32'),
            ('fp16', 16, None, 'fp16'),
            ('bf16', 16, None, 'fp32'),
            ('fp8e4nv', 32, None, 'fp32'),
            ('fp8e5', 32, None, 'fp32'),
            ('i8', 32, None, 'i32'),
            ('fp64', 16, 'ieee', 'fp64'),
        ):
            kind = (
                tl.float16
                if out == 'fp16'
                else tl.int32
                if out == 'i32'
                else tl.float64
                if out == 'fp64'
                else tl.float32
            )
            whole = torch.from_numpy(rng.integers(-4, 5, (16, K))).to(torch.float32)
            random = torch.from_numpy(rng.normal(size=(K, 16))).to(torch.float32)
            one = torch.zeros(16, K)
            one[torch.arange(16), torch.arange(16)] = 1
            cases = dict(
                whole=(whole, torch.round(random * 3)),
                one=(one, random * 1e3 if t != 'fp8e4nv' else random),
                random=(torch.from_numpy(rng.normal(size=(16, K))).float(), random),
            )
            for what, (x, y) in cases.items():
                if t == 'i8' and what == 'random':
                    continue
                out_ = torch.zeros(16, 16, dtype=ALL[out])
                self.case(
                    f'dot_{what}_{t}_{precision}_{out}',
                    out_,
                    dot_kernel,
                    x.to(ALL[t]),
                    y.clamp(-100, 100).to(ALL[t]) if t == 'i8' else y.to(ALL[t]),
                    ...,
                    PRECISION=precision,
                    OUT=kind,
                    K=K,
                )

    def randoms(self):
        for seed in 0, 42, 2**31 - 1, 2**40 + 7:
            for wide in False, True:
                for op in 'randint', 'randint_3', 'rand', 'randn':
                    out = torch.zeros(N, dtype=torch.int32 if 'int' in op else torch.float32)
                    name = f'{op}_{seed}_{"wide" if wide else "narrow"}'
                    self.case(name, out, random_kernel, ..., seed, OP=op, WIDE=wide, N=N)

    def atomics(self):
        for t, ops in dict(
            i32='add max min and xor xchg cas',
            i64='add max min xchg cas',
            u32='add max min xor',
            fp32='add max min xchg',
            fp64='add',
            fp16='add',
            bf16='add',
        ).items():
            for op in ops.split():
                x, y = special(t), swapped(special(t, 1))
                if op in ('max', 'min') and t == 'fp32':
                    x, y = torch.nan_to_num(x, 1.0), torch.nan_to_num(y, 2.0)
                out = torch.zeros(N, dtype=ALL[t])
                args = self.case(f'atomic_{op}_{t}', out, atomic_kernel, x, y, ..., OP=op, N=N)
                if args and f'atomic_{op}_{t}' in self.results:
                    self.results[f'atomic_{op}_{t}_after'] = bits(args[0]).numpy().copy()
        total = torch.zeros(N, dtype=torch.int32)
        self.case(
            'atomic_add_all', total, atomic_kernel, ..., torch.arange(N, dtype=torch.int32), total, OP='add_all', N=N
        )


def as_floats(name, a):
    "The bits of a case as floats; None for integers"
    kind = name.removesuffix('_after').split('_')[-1]
    if name.startswith(('cast', 'rtz', 'number', 'dot', 'atomic')):
        pass
    elif name.startswith(('lt', 'eq', 'ne', 'arg', 'randint', 'histogram')):
        return None
    if name.startswith(('math', 'exact', 'truediv')) and kind != 'fp64' or name.startswith(('randn', 'rand_')):
        kind = 'fp32'
    if name.startswith('number_name') and kind in ('fp16', 'bf16'):
        kind = 'fp32'
    if name.startswith('reduce') and kind in ('fp16', 'bf16'):
        kind = 'fp32'
    if kind not in FLOATS | NARROW:
        return None
    return torch.from_numpy(a).view(ALL[kind]).double().numpy()


def differences(got, want):
    "{case: what differs} between two sets of results; NaN is NaN, whatever its bits"
    res = {}
    for name, a in want.items():
        if name not in got:
            res[name] = 'no result'
            continue
        b, x = got[name], as_floats(name, a)
        same = a == b
        if x is not None:
            y = as_floats(name, b)
            same |= np.isnan(x) & np.isnan(y)
            x, y = (np.nan_to_num(o, posinf=1e308, neginf=-1e308) for o in (x, y))
            if name.startswith('sort'): same |= x == y  # 0 and -0 are equal: which one is first does not matter
            rel = next((r for k, r in CLOSE.items() if name.startswith(k)), 0)
            least = 1 if name.startswith('dot') else 1e-3 if name.startswith(('math', 'randn')) else 1e-30
            if rel: same |= np.abs(x - y) <= rel * np.maximum(np.abs(x), least)
        if not same.all():
            i = np.flatnonzero(~same.reshape(-1))
            shown = (x if x is not None else a).reshape(-1)[i[:4]], (y if x is not None else b).reshape(-1)[i[:4]]
            res[name] = f'{len(i)} differ, at {i[:4]}: recorded {shown[0]}, now {shown[1]}'
    return res


def write(results):
    "Keep results as text: what each is called, of what type and shape, and all their bytes, packed"
    RECORDED.parent.mkdir(exist_ok=True)
    index = [(k, v.dtype.str, v.shape) for k, v in sorted(results.items())]
    packed = base64.b64encode(zlib.compress(b''.join(results[k].tobytes() for k, *_ in index), 9)).decode()
    lines = [packed[i:i + 100] for i in range(0, len(packed), 100)]
    rows = ',\n'.join(map(json.dumps, index))
    RECORDED.write_text(f'{{"index": [\n{rows}],\n"data": [\n' + ',\n'.join(map(json.dumps, lines)) + ']}\n')


def recorded():
    "The results that an NVIDIA H100 gave, by name"
    kept = json.loads(RECORDED.read_text())
    data, at, found = zlib.decompress(base64.b64decode(''.join(kept['data']))), 0, {}
    for name, dtype, shape in kept['index']:
        n = int(np.prod(shape))
        found[name] = np.frombuffer(data, dtype, n, at).reshape(shape).copy()
        at += found[name].nbytes
    return found


def probed(how, k=0, n=1):
    "(results, failures) of one share of the cases"
    sys.path[:0] = [str(HERE), str(HERE.parents[1])]
    from tile_corpus import RUNNERS

    probe = Probe(RUNNERS[how], (k, n))
    return probe.all(), probe.failed


def main(how='cuda', n=1):
    "Run the cases in `n` processes, which compile side by side"
    n, got, failed = int(n), {}, {}
    with multiprocessing.get_context('spawn').Pool(n) as pool:
        for results, failures in pool.starmap(probed, [(how, k, n) for k in range(n)]):
            got |= results
            failed |= failures
    print(f'{len(got)} cases, {len(failed)} failed')
    for name, said in failed.items():
        print(f'  {name}: {said.splitlines()[-1] if said else said}')
    if how == 'cuda':
        write(got)
    elif RECORDED.exists():
        bad = differences(got, recorded())
        print(f'{len(bad)} of them differ from what is recorded')
        for name, what in bad.items():
            print(f'  {name}: {what}')


if __name__ == '__main__':
    main(*sys.argv[1:])
