"""What only a Hopper GPU can check of `gridstride.kernels.attention`. By hand, from the repository's root:

    python tests/kernels/check_flash_gpu.py             # all; some minutes: it compiles
    compute-sanitizer --tool memcheck python tests/kernels/check_flash_gpu.py small   # small sizes
    compute-sanitizer --tool memcheck python tests/kernels/check_flash_gpu.py parts_are_right:small   # as a ring has it

memcheck, initcheck, racecheck and synccheck find nothing: each lane gives a stage of a ring back for itself. (Where a
warp's first lane did so for all, after __syncwarp, racecheck named what the others had read; ten timings do not show it
the two apart, but for one of 256 numbers, causal, 1.07.)
"""
import math, random

import torch
from checking import run
from gridstride.kernels import attention
from gridstride.kernels.ladder import launches
from gridstride.kernels.flash import attentions, key_parts
from gridstride.kernels.ladder.rung import Device
from gridstride.utils import cdiv

# what is added to scores: in C, and as a function of tensors
BIASES = {'-exp2f(-head - 1)*(row - key)': lambda batch, head, row, key: -2.**(-head - 1)*(row - key),
          '(batch + 1)*sinf(row + .5f*key + head)':
              lambda batch, head, row, key: (batch + 1)*torch.sin(row + .5*key + head)}


def fill_with_nan():
    "What torch gives as empty next has NaN in it: fresh results, and the kernels' own memory"
    rooms = [torch.full((n,), math.nan, device='cuda') for n in [2**8, 2**12, 2**16, 2**18, 2**20]*8]
    torch.cuda.synchronize()
    del rooms


def looks(q, k, causal, window, lens):
    "Which row looks at which key"
    i, j = torch.arange(q.shape[2], device='cuda')[:, None], torch.arange(k.shape[2], device='cuda')
    rows, keys = (x.cuda()[:, None, None, None] for x in lens or (torch.tensor([2**20]),)*2)
    mask = (i < rows) & (j < keys)
    if causal: mask = mask & (j <= i)
    return mask & ((i - j).abs() < window) if window else mask


def backwards(given, causal=False, window=None, lens=None, bias=None, mask=None):
    """(result, bound of its distance) of out, lse, dq, dk and dv in float64, with the whole matrix of scores. Bounds:
    P and dS are rounded to bfloat16 and summed in float32, scores are off by what float32 makes of their addends,
    probabilities below the smallest normal number are 0, a row's sum of dout*out knows `out` as bfloat16, results are
    rounded"""
    q, k, v, dout = (x.detach().double() for x in given)
    group, scale = q.shape[1]//k.shape[1], q.shape[-1]**-.5
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    i, j = torch.arange(q.shape[2], device='cuda')[:, None], torch.arange(k.shape[2], device='cuda')
    s, size = q @ k.mT*scale, q.abs() @ k.abs().mT*scale
    if bias:
        batch, head = (torch.arange(n, device='cuda').double() for n in s.shape[:2])
        more = BIASES[bias](batch.view(-1, 1, 1, 1), head.view(-1, 1, 1), i, j)
        s, size = s + more, size + more.abs()
    mask = looks(q, k, causal, window, lens) if mask is None else mask
    s = s.masked_fill(~mask, -math.inf)
    none = s.isneginf().all(-1, keepdim=True)                          # their softmax is NaN
    p, lse = s.masked_fill(none, 0).softmax(-1).masked_fill(none, 0), s.logsumexp(-1)
    off = 2**-7 + 2**-19*(size + size.amax(-1, keepdim=True))          # of a probability, relative to it
    p_off, out = p*off + 2.**-126*(p > 0), p @ v
    slopes = dout @ v.mT - (dout*out).sum(-1, keepdim=True)            # of probabilities
    ds, out_off = p*slopes, p_off @ v.abs()
    delta_off = (dout.abs()*(out_off + 2**-8*out.abs())).sum(-1, keepdim=True)
    ds_off = slopes.abs()*p_off + p*(delta_off + dout.abs() @ v.abs().mT*2**-18)
    def shared(x): return x.unflatten(1, (-1, group)).sum(2)
    yield 'out', out, out_off
    yield 'lse', lse, 2**-19*(size.amax(-1) + 1)
    yield 'dq', scale*ds @ k, scale*ds_off @ k.abs()
    yield 'dk', shared(scale*ds.mT @ q), shared(scale*ds_off.mT @ q.abs())
    yield 'dv', shared(p.mT @ dout), shared(p_off.mT @ dout.abs())


def far(got, want, bound):
    "The largest distance, in bounds"
    got, least = got.double(), 1e-37                                   # the smallest normal number
    off = (got - want).abs()/(bound + 2**-8*want.abs() + least)
    off = torch.where(got == want, 0, off)                             # infinities, too
    return off.max().item() if off.isfinite().all() else math.inf


INPUTS = {'normal': lambda x, name: x,
          'large scores': lambda x, name: x*(20 if name == 'q' else 1),
          'huge scores': lambda x, name: x*(100 if name in 'qk' else 1),
          'equal rows': lambda x, name: x[..., :1, :].expand_as(x).contiguous(),
          'outliers': lambda x, name: torch.where(torch.rand_like(x[..., :1]) < .05, 30*x, x),
          'small': lambda x, name: x*1e-3,
          'heads between rows': lambda x, name: x.transpose(1, 2).contiguous().transpose(1, 2)}


def made(kind, batch, heads, group, rows, keys, dim):
    "q, k, v and dout"
    shapes = dict(q=(heads, rows), k=(heads//group, keys), v=(heads//group, keys), dout=(heads, rows))
    return [INPUTS[kind](torch.randn(batch, *o, dim, device='cuda'), name).bfloat16() for name, o in shapes.items()]


def differences(given, **how):
    "(what, distance from float64 in bounds) of the result, its logarithms and the gradients"
    *qkv, dout = given
    qkv = [x.requires_grad_() for x in qkv]
    fill_with_nan()
    out, lse = attention(*qkv, **how, lse=True)
    got = out, lse, *torch.autograd.grad(out, qkv, dout)
    for g, (what, *exact) in zip(got, backwards(given, **how)): yield what, far(g, *exact)


def random_case(rng):
    "(kind of inputs, sizes, how)"
    group, rows = rng.choice([1, 1, 2]), rng.randint(1, 200)
    causal, window = rng.random() < .5, rng.choice([None, None, rng.randint(1, 90)])
    keys = rows if rng.random() < .5 else rng.randint(1, 300)
    batch = rng.choice([1, 2, 8])
    lens = tuple(torch.tensor([rng.randint(0, n) for _ in range(batch)]) for n in (rows, keys))
    sizes = batch, group*rng.choice([1, 2]), group, rows, keys, rng.choice([64, 128])
    bias = dict(bias=rng.choice(list(BIASES))) if rng.random() < .2 else {}
    lens = rng.choice([None, None, lens])
    return rng.choice(list(INPUTS)), sizes, dict(causal=causal, window=window, lens=lens, **bias)


def random_ones_are_right(count=300, seed=0):
    rng, worst = random.Random(seed), {}
    torch.manual_seed(seed)
    for i in range(count):
        kind, sizes, how = random_case(rng)
        given = made(kind, *sizes)
        for what, off in differences(given, **how):
            worst[kind, what] = max(worst.get((kind, what), 0), off)
            if not off <= 1: yield f'{i}: {kind} {sizes} {how}: {what} is off by {off:.3g}'
    for kind in INPUTS: print('  ', kind, {w: round(e, 3) for (k, w), e in worst.items() if k == kind})


def it_is_right_where_maps_are_made_again_and_again():
    "With a cache of so few tensor maps that each launch drops some"
    kept, launches.MAX_CACHED = launches.MAX_CACHED, 2
    try: yield from random_ones_are_right(30, 1)
    finally: launches.MAX_CACHED = kept


# What a ring asks of the kernels: keys come in two arrays, of which only rows from `first` on see the second one
def sent_late(arrays, flag, wanted, parts):
    "Copies of these, some heads of which a copy engine brings and signals while a kernel may be waiting for them"
    stream, to = torch.cuda.Stream(), [torch.full_like(x, math.nan) for x in arrays]
    here, heads = [x.cpu().pin_memory() for x in arrays], math.prod(to[0].shape[:2])
    numbers = torch.arange(wanted - parts + 1, wanted + 1, dtype=torch.int32).pin_memory()
    def some(x, i):
        return x if parts==1 else x.view(heads, *x.shape[2:])[cdiv(i*heads, parts):cdiv((i + 1)*heads, parts)]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(parts):
            torch.cuda._sleep(1_000_000)
            for x, there in zip(to, here): some(x, i).copy_(some(there, i), non_blocking=True)
            flag.copy_(numbers[i:i + 1], non_blocking=True)
    return to, (here, numbers)


def by_one_kernel(q, k, v, more, first, causal, wide, parts):
    "out and lse: it begins before the other keys have come"
    flag, wanted = (torch.tensor([n], dtype=torch.int32, device='cuda') for n in (-7, 11))
    other, held = sent_late(more, flag, 11, parts)
    got = key_parts.attention_pair(q, k, v, *other, first, flag, wanted, causal, float32_out=wide, num_parts=parts)
    torch.cuda.synchronize()
    return got


def by_two(q, k, v, more, first, causal, wide, _):
    "The same by one kernel after the other"
    out = torch.full(q.shape, math.nan, dtype=torch.float32 if wide else q.dtype, device='cuda')
    lse = torch.full(q.shape[:3], math.nan, device='cuda')
    key_parts.attend_and_merge(out, lse, 0, q, k, v, causal, overwrite=True)
    key_parts.attend_and_merge(out, lse, first, q[:, :, first:], *more)
    return out, lse


def differences_of_parts(kind, sizes, others, first, causal, wide, parts):
    "(what, distance from float64 in bounds); gradients where kernels have them"
    q, k, v, dout = made(kind, *sizes)
    batch, heads, group, rows, keys, dim = sizes
    more = made(kind, batch, heads, group, 1, others, dim)[1:3]
    i, j = torch.arange(rows, device='cuda')[:, None], torch.arange(keys + others, device='cuda')
    mask = torch.where(j < keys, (j <= i) | (not causal), i >= first)
    whole = [torch.cat(o, 2) for o in zip((k, v), more)]
    want = {what: exact for what, *exact in backwards((q, *whole, dout), mask=mask)}
    for name, compute in (('one kernel', by_one_kernel), ('two', by_two)):
        fill_with_nan()
        got, (out, bound) = compute(q, k, v, more, first, causal, wide, parts), want['out']
        if compute is by_two and not wide: bound = 1.5*bound       # what lay there was rounded by half of 2^-7 at most
        yield f'out, {name}', far(got[0], out, bound)
        yield f'lse, {name}', far(got[1], *want['lse'])
    if dim > 128 or first % 64: return
    fill_with_nan()
    slopes = key_parts.PartGradients(dout, q, want['out'][0].bfloat16(), want['lse'][0].float())
    found = [slopes.add(k, v, 0, causal), slopes.add(*more, first)]
    yield 'dq', far(slopes.dq(), *want['dq'])
    for what, both in zip(('dk', 'dv'), zip(*found)): yield what, far(torch.cat(both, 2), *want[what])


# kind, (batch, heads, group, rows, keys, dim), others, first, causal, wide, parts
PARTS = [('normal', (2, 2, 1, 200, 200, 128), 100, 64, True, False, 4),
         ('heads between rows', (2, 2, 2, 200, 200, 64), 70, 0, True, True, 1),
         ('normal', (1, 4, 2, 130, 90, 128), 200, 128, False, False, 2)]
MORE_PARTS = [('normal', (1, 1, 1, 24, 24, 64), 1, 23, True, False, 1),
              ('outliers', (1, 3, 1, 300, 300, 64), 150, 0, True, False, 2),
              ('normal', (2, 6, 2, 385, 385, 128), 385, 192, True, True, 4),
              ('large scores', (1, 2, 1, 260, 260, 128), 130, 64, True, False, 4),
              ('heads between rows', (3, 2, 1, 131, 131, 128), 77, 64, True, False, 1),
              ('normal', (1, 2, 1, 200, 200, 256), 90, 100, True, False, 2),
              ('normal', (2, 2, 2, 70, 140, 256), 150, 1, False, True, 1),
              ('small', (1, 5, 1, 640, 640, 128), 320, 320, True, False, 4)]


def parts_are_right(which='all'):
    "Each of some cases; `parts_are_right:small` for compute-sanitizer"
    torch.manual_seed(0)
    for case in PARTS if which=='small' else PARTS + MORE_PARTS:
        found = dict(differences_of_parts(*case))
        print('  ', case, {what: round(off, 3) for what, off in found.items()})
        for what, off in found.items():
            if not off <= 1: yield f'{case}: {what} is off by {off:.3g}'


def gradients_in_a_fixed_order_are_the_same():
    sizes = ((2000, 3000, {}), (3000, 3000, dict(causal=True)), (2500, 2500, dict(window=300)),
             (1111, 2222, dict(causal=True, window=700)), (24, 24, {}))
    for i, (rows, keys, how) in enumerate(sizes):
        *qkv, dout = made('normal', 2, 8, 1 + i % 2, rows, keys, (64, 128)[i % 2])
        qkv = [x.requires_grad_() for x in qkv]
        def run(deterministic):
            fill_with_nan()
            return torch.autograd.grad(attention(*qkv, **how, deterministic=deterministic), qkv, dout)
        want, first = run(False), run(True)
        for _ in range(5):
            if not all(map(torch.equal, first, run(True))): yield f'{rows} {keys} {how}: not the same'
        for what, a, b in zip('qkv', first, want):
            off = (a.float() - b.float()).abs().max()/b.float().abs().max()
            if not off <= 2**-7: yield f'{rows} {how}: d{what} is {off} away'


def mma_sync_is_right():
    "As on an Ampere GPU"
    real_device, attentions.current_device_properties = attentions.current_device_properties, lambda: Device(132, False)
    try:
        lens = (torch.tensor([300, 7]),)*2
        for rows, keys, dim, how in ((131, 260, 64, dict(window=100)), (260, 131, 128, {}),
                                     (24, 24, 64, dict(bias=list(BIASES)[1])),
                                     (300, 300, 128, dict(causal=True, lens=lens))):
            given = made('normal', 2, 4, 2, rows, keys, dim)
            fill_with_nan()
            _, *exact = next(backwards(given, **how))
            if not (off := far(attention(*given[:3], **how), *exact)) <= 1:
                yield f'{rows} {keys} {dim} {how}: off by {off}'
    finally: attentions.current_device_properties = real_device


def the_operator_is_one():
    given = made('normal', 2, 4, 2, 130, 70, 64)
    q, k, v, dout = given
    how = False, .125, 0, torch.stack([torch.tensor([130, 3]), torch.tensor([70, 9])]).int().cuda(), ''
    torch.library.opcheck(torch.ops.gridstride.attention.default, (q, k, v, *how))
    out, lse = attentions._attention(q, k, v, *how)
    torch.library.opcheck(torch.ops.gridstride.attention_backward.default, (dout, q, k, v, out, lse, *how, 'kernel'))
    return ()


def step(q, k, v, dout, causal):
    "The result and the gradients, with something around that a compiler fuses"
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = attention(2*q, k + 1, v, causal=causal).relu()
    return out.detach(), *torch.autograd.grad(out, (q, k, v), dout)


class Model(torch.nn.Module):
    def forward(self, q, k, v): return attention(2*q, k + 1, v, causal=True).relu()


def it_is_kept_whole_by_torch_compile():
    for rows in (24, 300):
        given = made('normal', 2, 2, 1, rows, rows, 64)
        want, model = step(*given, True), torch.compile(Model(), fullgraph=True)
        qkv = [x.detach().requires_grad_() for x in given[:3]]
        out = model(*qkv)
        got = out, *torch.autograd.grad(out, qkv, given[3])
        for what, a, b in zip(('out', 'dq', 'dk', 'dv'), got, want):    # dq's addends come in any order
            if not (a.float() - b.float()).abs().max() <= 2**-7*b.float().abs().max(): yield f'{rows}: {what} differs'


def it_runs_on_streams_and_in_graphs():
    given = made('normal', 2, 2, 1, 300, 300, 64)
    want, stream, graph = step(*given, True), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream): on_stream = step(*given, True)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream): captured = step(*given, True)
    for o in captured: o.fill_(math.nan)
    for _ in range(3): graph.replay()
    torch.cuda.synchronize()
    for where, got in (('on a stream', on_stream), ('in a graph', captured)):
        for what, a, b in zip(('out', 'dq', 'dk', 'dv'), got, want):
            if not (a.float() - b.float()).abs().max() <= 2**-7*b.float().abs().max(): yield f'{where}: {what} differs'


def small():
    "A few small sizes, forward and backward: for compute-sanitizer"
    for dim in (64, 128):
        for rows, how in ((24, dict(causal=True)), (200, dict(causal=True)), (130, dict(window=70))):
            for what, off in differences(made('normal', 1, 2, 2, rows, rows, dim), **how):
                if not off <= 1: yield f'{rows} {dim} {how}: {what} is off by {off}'
    with torch.no_grad():
        given = made('normal', 1, 1, 1, 200, 200, 256)
        if not (off := far(attention(*given[:3]), *next(backwards(given))[1:])) <= 1: yield f'256: {off}'
    yield from mma_sync_is_right()


CHECKS = [random_ones_are_right, parts_are_right, it_is_right_where_maps_are_made_again_and_again,
          gradients_in_a_fixed_order_are_the_same, mma_sync_is_right,
          the_operator_is_one, it_is_kept_whole_by_torch_compile, it_runs_on_streams_and_in_graphs]

if __name__ == '__main__': run(CHECKS, globals())
