"""What only a GPU can check of `sort`, `argsort`, `topk`, `compact` and `unique`: large inputs, and their times next to
torch's, CUB's and a copy's. By hand, from the root of the repository:

    python tests/kernels/check_sort_gpu.py                          # all; under three minutes
    python tests/kernels/check_sort_gpu.py times:topk               # one table; `times` alone gives all
    python tests/kernels/check_sort_gpu.py tiles                    # other tile sizes, of a pass of the sort
    SORT_JSON=sort.json python tests/kernels/check_sort_gpu.py times

Times are medians of interleaved runs: `written` with the L2 cache overwritten before each run, `row` back to back.
"""
import json, math, os, re

import torch
from checking import compiled_together, differs_elsewhere, run
from gridstride.bench.columns import COLUMNS, by_column
from gridstride.kernels import argsort, compact, cub, sort, topk, unique
from gridstride.kernels.ordering import compaction, sorts, sources

DTYPES = ['uint8', 'int16', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64']
SHAPES = ((1,), (33,), (257,), (4096,), (8192,), (8193,), (100_003,), (2**22 + 17,), (70, 31), (5000, 100), (300, 1000),
          (7, 3, 5001), (5, 20_001))


def random(shape, dtype, distinct=0):
    "Bits of every kind: NaN, infinities, both zeros, subnormal floats; or few distinct values"
    dtype = getattr(torch, dtype)
    if distinct: return torch.randint(0, distinct, shape, device='cuda').to(dtype)
    if dtype.is_floating_point:
        x = torch.randn(shape, device='cuda', dtype=torch.float64).mul(3).round(decimals=2).to(dtype)
        specials = torch.tensor([math.nan, math.inf, -math.inf, 0., -0., 1e-40, -1e-40], device='cuda').to(dtype)
        return torch.where(torch.rand(shape, device='cuda') < .1,
                           specials[torch.randint(0, 7, shape, device='cuda')], x)
    info = torch.iinfo(dtype)
    return torch.randint(max(info.min, -2**62), min(info.max, 2**62), shape, device='cuda', dtype=torch.int64).to(dtype)


def same(what, got, want):
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        yield f'{what}: {got.dtype} {tuple(got.shape)}, and not {want.dtype} {tuple(want.shape)}'
    elif not torch.equal(bits(got), bits(want)):
        yield f'{what}: {int((bits(got) != bits(want)).sum())} of {want.numel()} are wrong'


BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(x): return x.contiguous().view(BITS[x.element_size()])


def taken(x, order):
    "`x.gather(-1, order)`, which changes the bits of a NaN of 16 bits"
    return bits(x).gather(-1, order).view(x.dtype)


def sorts_are_right(*names):
    "Of all dtypes, or of those that are named: sorts_are_right:int32,float64"
    torch.manual_seed(0)
    sort(random((33,), 'int32'))                                # torch's context, before the threads
    compiled_together(lambda x=x, f=f, descending=descending: f(x, descending=descending)
                      for name in names or DTYPES for shape in SHAPES for x in [random(shape, name)]
                      for f in (sort, argsort) for descending in (False, True))
    for name in names or DTYPES:
        for shape in SHAPES:
            for distinct in (0, 3):
                x = random(shape, name, distinct)
                for descending in (False, True):
                    what = f'{name} {shape} {"few " if distinct else ""}{"descending" if descending else ""}'
                    want, order = x.sort(dim=-1, descending=descending, stable=True)
                    yield from same(f'argsort {what}', argsort(x, descending=descending), order)
                    yield from same(f'sort {what}', sort(x, descending=descending), taken(x, order))
        x, values = random((3, 9001), name), torch.randn(3, 9001, device='cuda', dtype=torch.float64)
        want, order = x.sort(dim=-1, stable=True)
        for moved in (values, values.float(), values.half(), random((3, 9001), 'uint8')):
            yield from same(f'values of {moved.dtype} with {name}', sort(x, moved)[1], taken(moved, order))


def large_sorts_are_right():
    for n in (2**28, 2**29 + 12_345):
        x = random((n,), 'int32')
        keys, values = sort(x, torch.arange(n, dtype=torch.int32, device='cuda'))
        yield from same(f'{n} keys', keys, x.sort()[0])
        yield from same(f'{n} values', x[values.long()], keys)
        if not (values.diff()[keys.diff() == 0] > 0).all(): yield f'{n} pairs: not stable'
        for limit in ('nothing', 'all'):
            y = torch.zeros_like(x) if limit == 'all' else keys
            yield from same(f'{n} keys, {limit} to do', sort(y), y)
        del x, keys, values


def selections_are_right():
    torch.manual_seed(1)
    for name in ('float32', 'bfloat16', 'int32', 'uint8'):
        for shape, k in (((128_256,), 64), ((3, 128_256), 1), ((300, 20_000), 8), ((1000, 64), 6), ((2, 300_001), 256),
                         ((5, 50), 50), ((2, 5000), 2000), ((3, 1_000_003), 64)):
            for kind in ('random', 'few', 'ascending', 'one thread'):
                x = random(shape, name, 3 if kind == 'few' else 0)
                if kind == 'ascending': x = x.sort()[0]
                if kind == 'one thread' and name == 'float32':
                    x[..., ::8192] = x[..., ::8192].nan_to_num() + 100     # torch orders NaN by their bits
                for largest in (True, False):
                    values, indices = topk(x, k, largest=largest)
                    order = x.sort(dim=-1, descending=largest, stable=True)[1][..., :k]
                    if k <= 256: yield from same(f'topk indices {name} {shape} {k} {kind} {largest}', indices, order)
                    a, b = values.float().nan_to_num(7e30), taken(x, order).float().nan_to_num(7e30)
                    yield from same(f'topk values {name} {shape} {k} {kind} {largest}', a + 0., b + 0.)
    for n in (1, 4095, 4096, 4097, 1_000_003, 2**28):
        x = torch.randint(-9, 10, (n,), device='cuda', dtype=torch.int32)
        for share in (0, .01, .5, 1):
            keep = torch.rand(n, device='cuda') < share
            yield from same(f'compact {n} {share}', compact(x, keep), x[keep])
            if n > 1: yield from same(f'compact a slice {n} {share}', compact(x[1:], keep[1:]), x[1:][keep[1:]])
        for a, b in zip(unique(x, True), x.unique(return_counts=True)): yield from same(f'unique {n}', a, b)


def on_other_streams():
    x = torch.randn(2**20, device='cuda')
    for f in (sort, argsort, lambda x: topk(x, 8)[1], lambda x: compact(x, x > 0, padded=True)[1]):
        yield from differs_elsewhere(f, x)


# Times
def keys(n, kind):
    x = torch.randint(-2**31, 2**31, (n,), device='cuda', dtype=torch.int64).to(torch.int32).view(torch.uint32)
    if kind == 'sorted': return sort(x)
    if kind == 'few': return (x.view(torch.int32) & 15).view(torch.uint32)
    return x


def key_rows():
    for n, kind in (*((28, kind) for kind in ('random', 'sorted', 'few')), *((n, 'random') for n in (24, 20, 16))):
        n = 2**n
        x = keys(n, kind)
        signed, out = x.view(torch.int32), torch.empty_like(x)
        yield f'uint32 keys, 2^{int(math.log2(n))} {kind}', dict(
            CUB=lambda: cub.sort(x, out), ours=lambda: sort(x), torch=lambda: signed.sort()[0])


def pair_rows():
    for n, kind in (*((2**28, kind) for kind in ('random', 'sorted', 'few')), *((2**n, 'random') for n in (24, 20))):
        x = keys(n, kind)
        values, out, out_values = (torch.empty_like(x).view(torch.int32) for _ in range(3))
        torch.arange(n, out=values)
        yield f'uint32 pairs, 2^{int(math.log2(n))} {kind}', dict(
            CUB=lambda: cub.sort_pairs(x, values, out.view(torch.uint32), out_values), ours=lambda: sort(x, values))


def argsort_rows():
    for name, shape in (('float32', (2**26,)), ('int64', (2**26,)), ('bfloat16', (2**26,)), ('float32', (2**20,)),
                        ('float32', (2**14,)), ('float32', (512, 4096)), ('float32', (65536, 64)),
                        ('float32', (4096, 1000)), ('bfloat16', (4096, 128)), ('float32', (32, 128_256))):
        x = torch.randn(shape, device='cuda').to(getattr(torch, name)) if 'int' not in name else random(shape, name)
        yield f'argsort {name} {shape}', dict(torch=lambda: x.sort(stable=True)[1], ours=lambda: argsort(x))


def topk_rows():
    for name in ('float32', 'bfloat16'):
        for batch in (1, 8, 64, 512):
            for k in (1, 8, 64) if name == 'float32' else (8,):
                x = torch.randn(batch, 128_256, device='cuda').to(getattr(torch, name))
                yield f'topk {name} {batch} x 128256, k {k}', dict(
                    torch=lambda: torch.topk(x, k), ours=lambda: topk(x, k))
    for shape, k in (((16384, 64), 6), ((16384, 256), 8), ((1024, 8192), 32), ((1, 2**24), 64), ((64, 128_256), 256),
                     ((64, 128_256), 2048)):
        x = torch.randn(shape, device='cuda')
        yield f'topk float32 {shape}, k {k}', dict(torch=lambda: torch.topk(x, k), ours=lambda: topk(x, k))


def compact_rows():
    for share in (.1, .5, .9):
        x, keep = torch.randn(2**28, device='cuda'), torch.rand(2**28, device='cuda') < share
        out, total = torch.empty_like(x), torch.empty(1, dtype=torch.int32, device='cuda')
        number = int(keep.sum())
        # a copy that moves as many bytes: both read the flags, and a copy reads and writes each of its elements
        moved = (4*x.numel() + x.numel() + 4*number)//8
        copied, copy = torch.randn(moved, device='cuda'), torch.empty(moved, device='cuda')
        yield f'compact 2^28 float32, {share}', dict(
            copy=lambda: copy.copy_(copied), ours=lambda: compact(x, keep, padded=True),
            CUB=lambda: cub.compact(x, keep, out, total), torch=lambda: x[keep])
    x = torch.randint(0, 1000, (2**24,), device='cuda', dtype=torch.int32)
    yield 'unique 2^24 int32', dict(torch=lambda: x.unique(), ours=lambda: unique(x))


TABLES = dict(keys=key_rows, pairs=pair_rows, argsort=argsort_rows, topk=topk_rows, compact=compact_rows)


def times(*tables):
    "Print a table per operator: microseconds, and how many times faster ours is than each other one"
    found = {}
    for table in tables or TABLES:
        for name, calls in TABLES[table]():
            columns = {c: COLUMNS[c] for c in (('row',) if 'unique' in name else ('written', 'row'))}
            skipped = [('written', 'torch')]*('compact' in name)                    # it waits for the GPU
            measured = by_column(calls, seconds=.06, columns=columns, skipped=skipped)
            line = f'{name:42}'
            for column, results in measured.items():
                if 'failed' in results:
                    line += f'  {column}: {results["failed"]}'
                    continue
                sides = {side: o['seconds']*1e6 for side, o in results['sides'].items()}
                found[name, column] = sides
                line += f'  {column:7}' + '  '.join(
                    f'{side} {us:.1f}' + ('' if side == 'ours' else f' ({us/sides["ours"]:.2f})')
                    for side, us in sides.items())
            print(line, flush=True)
            torch.cuda.empty_cache()
    if path := os.environ.get('SORT_JSON'):
        with open(path, 'w') as file:
            json.dump(dict(gpu=torch.cuda.get_device_name(), microseconds=[[*key, o] for key, o in found.items()]),
                      file, indent=1)
    return ()


def profile():
    "Print the time per kernel of a sort and a topk"
    x, logits = keys(2**28, 'random'), torch.randn(1, 128_256, device='cuda')
    many, keep = torch.randn(64, 128_256, device='cuda'), torch.rand(2**28, device='cuda') < .5
    for f in (lambda: sort(x), lambda: sort(x, x), lambda: topk(logits, 64), lambda: topk(many, 64),
              lambda: compact(x, keep, padded=True), lambda: sort(x[:2**20])):
        f()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            f()
            torch.cuda.synchronize()
        for o in p.events():
            if o.device_type.name == 'CUDA': print(f'  {o.name[:60]:60} {o.device_time:9.1f} us')
        print()
    return ()


def tiles():
    "Print the time of a sort with other tiles, and with the instruction that matches digits"
    def time(f):
        f()
        measured = by_column(dict(ours=f), seconds=.03, columns=dict(row=COLUMNS['row']))['row']
        return measured['sides']['ours']['seconds']*1e3
    x = keys(2**28, 'random')
    values, long = torch.empty_like(x).view(torch.int32), random((2**27,), 'int64')
    given, text = sorts._TILES.copy(), sources.source
    matching = re.sub(r'unsigned same = ~0u;.*?return same;', 'return __match_any_sync(~0u, digit);', text('rank'),
                      flags=re.S)

    def use(threads, items, blocks, matches):
        tile = sorts.Tile(threads, items, blocks, False)
        for payload, by_size in given.items(): sorts._TILES[payload] = dict.fromkeys(by_size, tile)
        sources.source = lambda name: matching if matches and name == 'rank' else text(name)
        sources.kernel_source.cache_clear()
        sorts.onesweep_launches.cache_clear()
    try:
        for threads, items, blocks, matches in (
                (384, 36, 2, 0), (384, 32, 2, 0), (384, 30, 2, 0), (384, 28, 2, 0), (384, 22, 2, 0), (384, 20, 2, 0),
                (512, 24, 2, 0), (512, 20, 2, 0), (320, 36, 2, 0), (256, 42, 2, 0), (384, 30, 2, 1)):
            use(threads, items, blocks, matches)
            line = f'  {threads} x {items}, {blocks} blocks{" match" if matches else ""}'
            for what, f in (('keys', lambda: sorts._sort(x, None, -1, False)),
                            ('pairs', lambda: sorts._sort(x, values, -1, False)),
                            ('int64', lambda: sorts._sort(long, None, -1, False))):
                try: line += f'  {what} {time(f):.3f} ms'
                except Exception as e: line += f'  {what} {type(e).__name__}'
            print(line, flush=True)
    finally:
        sources.source = text
        sources.kernel_source.cache_clear()
        sorts._TILES.update(given)
        sorts.onesweep_launches.cache_clear()
    keep = torch.rand(2**28, device='cuda') < .5
    given = compaction._THREADS.copy()
    for threads in (256, 512, 768, 1024):
        compaction._THREADS[4] = threads
        compaction.compact_launches.cache_clear()
        print(f'  compact, {threads} threads: {time(lambda: compaction._compact(x, keep)):.3f} ms', flush=True)
    compaction._THREADS.update(given)
    compaction.compact_launches.cache_clear()
    return ()


CHECKS = [sorts_are_right, large_sorts_are_right, selections_are_right, on_other_streams, times, profile, tiles]

if __name__ == '__main__': run(CHECKS, {f.__name__: f for f in CHECKS})
