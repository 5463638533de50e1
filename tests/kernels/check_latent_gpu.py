"""What only a GPU can check of `gridstride.kernels.latent_attention`. By hand, from the repository's root:

    python tests/kernels/check_latent_gpu.py             # all; half a minute
    compute-sanitizer --tool memcheck python tests/kernels/check_latent_gpu.py small   # small sizes

synccheck finds nothing in two launches with 128 heads, by pairs and alone. racecheck names what the first warpgroup
leaves for the others, what their sums are multiplied by (`less`, `each`): a warp's first lane signals it for all,
after __syncwarp, which orders what they wrote by PTX's memory model, and the emulator's racecheck follows that. Where
each lane arrives at these barriers for itself it finds nothing, either, and the kernel takes 0.7 to 1% longer.
"""
import math, random
from contextlib import contextmanager, nullcontext

import torch
from checking import differs_elsewhere, run
from gridstride.kernels import latent_attention
from gridstride.kernels.latent import calls, decoding
from gridstride.kernels.ladder.rung import Device

LAST = {torch.float16: 2**-11, torch.bfloat16: 2**-8}               # half an ulp
SCALE = 192**-.5


def fill_with_nan():
    "What torch gives as empty next has NaN in it: fresh results, and the kernels' own memory"
    rooms = [torch.full((n,), math.nan, device='cuda') for n in [2**12, 2**16, 2**20, 2**24]*4]
    torch.cuda.synchronize()
    del rooms


def made(lens, heads, dtype=torch.bfloat16, length=None, spread=1.):
    "Random keys on shuffled pages; past the end of a row its page holds NaN, and its table an invalid page"
    pages = [-(-n//64) for n in lens]
    order = torch.randperm(sum(pages) + 2, dtype=torch.int32)
    cache = torch.randn(len(order), 64, 576, device='cuda').to(dtype)
    table = torch.full((len(lens), max(*pages, 1)), 2**30, dtype=torch.int32)
    for b, (n, its) in enumerate(zip(lens, order.split([*pages, 2]))):
        table[b, :len(its)] = its
        if n % 64: cache[its[-1].item(), n % 64:] = math.nan
    cache[order[-2:].long().cuda()] = math.nan
    q = torch.randn(len(lens), *([length] if length else []), heads, 576, device='cuda')*spread
    return q.to(dtype), cache, table.cuda(), torch.tensor(lens, dtype=torch.int32, device='cuda')


def differences(given, **how):
    """(what, distance from float64 in bounds): shares and results are rounded to 16 bits, sums are float32, and scores
    are off by what float32 makes of their 576 addends"""
    q, cache, table, lens = given
    fill_with_nan()
    out, lse = (x.double() for x in latent_attention(*given, **how))
    last, worst = LAST[q.dtype], dict(out=0., lse=0.)
    q, out, lse = (x if given[0].dim() == 4 else x[:, None] for x in (q, out, lse))
    for b, n in enumerate(lens.tolist()):
        keys = cache[table[b, :-(-n//64)].long()].flatten(0, 1).double()
        for j, end in enumerate(range(n - q.shape[1] + 1, n + 1)):
            end = max(end, 0)
            s, k = q[b, j].double() @ keys[:end].mT*SCALE, keys[:end]
            size = q[b, j].double().abs() @ k.abs().mT*SCALE
            off = 2**-19*(size.amax(-1, keepdim=True) + 1) if end else s.new_zeros(len(s), 1)
            p = s.softmax(-1)
            bound = (p*(2*last + 2*off)) @ k[:, :512].abs() + last*(p @ k[:, :512]).abs() + 1e-7
            pairs = dict(out=(out[b, j], p @ k[:, :512], bound), lse=(lse[b, j], s.logsumexp(-1), off[:, 0] + 1e-5))
            for what, (got, want, bound) in pairs.items():
                far = torch.where(got == want, 0, (got - want).abs()/bound)
                worst[what] = max(worst[what], far.max().item() if far.isfinite().all() else math.inf)
    return worst.items()


def random_case(rng):
    "(given's arguments, how)"
    batch, dtype = rng.choice([1, 2, 7, 40]), rng.choice(list(LAST))
    most = rng.choice([70, 700, 5000])
    lens = [rng.choice([0, 1, 63, 64, 65, rng.randint(0, most), most]) for _ in range(batch)]
    length, heads = rng.choice([None, None, 1, 2, 3]), 16*rng.randint(1, 8)
    how = dict(splits=rng.choice([None, None, 1, 2, 13, 132, 500]))
    return (lens, heads, dtype, length, rng.choice([1., 1., 20.])), how


def random_ones_are_right(count=200, seed=0):
    rng, worst = random.Random(seed), {}
    torch.manual_seed(seed)
    for i in range(count):
        given, how = random_case(rng)
        for what, off in differences(made(*given), **how):
            worst[what] = max(worst.get(what, 0), off)
            if not off <= 1: yield f'{i}: {given} {how}: {what} is off by {off:.3g}'
    print('  ', {what: round(off, 3) for what, off in worst.items()})


def long_ones_are_right():
    "As in the goals: a batch of 128 with 8192 keys each, 128 heads"
    for what, off in differences(made([8192]*128, 128)):
        if not off <= 1: yield f'{what} is off by {off:.3g}'
    for what, off in differences(made([131072, 5], 128)):
        if not off <= 1: yield f'131072 keys: {what} is off by {off:.3g}'


@contextmanager
def by_pairs():
    "Two blocks share copies, however few pages there are"
    alone, calls._MAX_UNSHARED_PAGES = calls._MAX_UNSHARED_PAGES, 0
    calls.decode_hopper.cache_clear()
    try: yield
    finally:
        calls._MAX_UNSHARED_PAGES = alone
        calls.decode_hopper.cache_clear()


def pairs_are_right():
    with by_pairs(): yield from random_ones_are_right(60, 2)


def mma_sync_is_right():
    "As on an Ampere GPU"
    real_device, decoding.current_device_properties = decoding.current_device_properties, lambda: Device(132, False)
    try: yield from random_ones_are_right(60, 1)
    finally: decoding.current_device_properties = real_device


def the_same_in_each_run():
    given = made(list(range(0, 4000, 97)), 128)
    want = latent_attention(*given)
    for _ in range(50):
        fill_with_nan()
        if not all(map(torch.equal, want, latent_attention(*given))): yield 'not the same to the bit'


def it_runs_on_streams_and_in_graphs():
    q, *rest = made([700, 64, 0, 1], 128)
    yield from differs_elsewhere(lambda x: latent_attention(x, *rest)[0], q)


def the_operator_is_one():
    torch.library.opcheck(torch.ops.gridstride.latent_attention.default, (*made([700, 64], 128), SCALE, 0))
    q, *rest = made([700, 64], 128)
    def f(x): return latent_attention(2*x, *rest)[0].relu()
    got, want = torch.compile(f, fullgraph=True)(q), f(q)
    if not (got.float() - want.float()).abs().max() <= 2**-7*want.abs().max(): yield 'compiled, it gives something else'


def small():
    "A few small sizes: for compute-sanitizer"
    for heads, length in ((128, None), (16, 3), (80, None)):
        for how in (nullcontext, by_pairs):
            with how(): found = list(differences(made([200, 0, 65], heads, length=length), splits=4))
            for what, off in found:
                if not off <= 1: yield f'{heads} {length} {how.__name__}: {what} is off by {off}'


CHECKS = [random_ones_are_right, pairs_are_right, long_ones_are_right, mma_sync_is_right, the_same_in_each_run,
          it_runs_on_streams_and_in_graphs, the_operator_is_one]

if __name__ == '__main__': run(CHECKS, globals())
