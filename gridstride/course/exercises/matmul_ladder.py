"""Test cases for the lesson's exercises. Reading this file spoils them."""

import re
import numpy as np

from ..grading import normal, problem
from .cuda_c import without_comments, compile_for_emulator, launch, run, source
from .returned import as_integer, as_number
from ...sim.counters import wavefronts
from ...utils import cdiv, check

__all__ = [
    'SHAPES',
    'EDGES_KERNEL',
    'quads',
    'patch_cost',
    'max_wavefronts',
    'useful_fraction',
    'needed_tiles',
    'judge_matmul',
]


# A load of four floats per lane, as the lesson's experiment shows: half a warp is served at once if its lanes load the
# same quad in pairs, else a quarter; each further quad in the same four banks takes one more wavefront.
def quads(
    quad,  # 32 integers: lane i loads the four floats from index 4*quad[i] on
) -> int:
    "Return the wavefronts of a shared memory load of four floats per lane"
    total = 0
    for half in np.asarray(quad).reshape(2, 16):
        i = np.arange(16)
        is_paired = any((half == half[i ^ mask]).all() for mask in (1, 2))
        for part in (half,) if is_paired else (half[:8], half[8:]):
            total += np.bincount(np.unique(part) % 8).max()
    return int(total)


def patch_cost(BN, BK, TM, TN) -> float:
    "Return the wavefronts per FMA in the inner loop of rung 5: TM single loads of ms, TN/4 quads of ns"
    lane = np.arange(32)
    column, row = lane % (BN // TN) * TN, lane // (BN // TN) * TM
    single = max_wavefronts((row * BK)[None])
    return (TM * single + TN // 4 * quads(column // 4)) / (TM * TN)


_PATCHES = (
    (128, 8, 8, 8),
    (128, 8, 8, 4),
    (64, 8, 4, 4),
    (32, 8, 8, 4),
    (32, 8, 2, 4),
    (256, 8, 8, 8),
    (64, 4, 2, 8),
    (128, 16, 1, 16),
    (32, 8, 4, 16),
    (256, 8, 8, 4),
)


@problem(
    'matmul_ladder.patch',
    cases=[dict(zip(('BN', 'BK', 'TM', 'TN'), patch)) for patch in _PATCHES],
    hints=[
        'Lane `lane`, of `np.arange(32)`, has its patch at row `lane//(BN//TN)*TM` and column `lane%(BN//TN)*TN` '
        'of the tile. In one load all lanes add the same `y` and `i`, so look at `y = 0`, `i = 0`.',
        'A load of `ms` reads float `tr*BK` in each lane. Take the distinct ones (`np.unique`), and count them per '
        'bank: the fullest bank determines the wavefronts. The first load of `ns` reads quad `tc//4`.',
        '`(TM*single + TN/4*quads(tc//4))/(TM*TN)`, with `single = np.bincount(np.unique(tr*BK)%32).max()`.',
    ],
)
def _(fn, rng, BN, BK, TM, TN):
    result = fn(BN, BK, TM, TN, quads)
    expected = patch_cost(BN, BK, TM, TN)
    if (cost := as_number(result)) is None or not abs(cost - expected) < 1e-9:
        raise AssertionError(f'got {result}; expected wavefronts per multiply-add: {expected:.6g}')


# A swizzle is judged by the counters' model of the banks: each warp's request must be served in one wavefront.
def max_wavefronts(
    indices,  # (n,32), in floats: a row per request of a warp
) -> int:
    "Return the wavefronts of the most expensive request"
    lane = np.arange(32)
    return max(wavefronts(0 * lane, lane, 4 * row, 4)[1] for row in indices)


@problem(
    'matmul_ladder.swizzle',
    cases=[dict(how=how) for how in ('every index once', 'a row by a warp', 'a column by a warp')],
    hints=[
        'Row `y` has 32 indices, `32*y` to `32*y + 31`; only the order within the row is free. Element `x` must be '
        'at another position in each row, so that a column uses 32 different banks.',
        'Rotate row `y` by `y` positions, or permute it in a pattern that depends on `y`. Which operation gives '
        'every value from 0 to 31 once for every fixed `y`, and for every fixed `x`, too?',
        '`32*y + (x ^ y)`, where `^` is the exclusive or of the bits; `32*y + (x + y)%32` works as well.',
    ],
)
def _(fn, rng, how):
    y, x = np.mgrid[:32, :32]
    indices = np.array([[fn(int(a), int(b)) for a, b in zip(*thread)] for thread in zip(y, x)])
    if indices.ndim != 2 or not np.issubdtype(indices.dtype, np.integer):
        raise AssertionError(f'the function must return an integer; for row 0 and column 0 it returns {fn(0, 0)!r}')
    if how == 'every index once' and not np.array_equal(np.unique(indices), np.arange(1024)):
        raise AssertionError(
            f'the 1024 elements must get the indices 0 to 1023, each once; there are {len(np.unique(indices))} '
            f'distinct indices, from {indices.min()} to {indices.max()}'
        )
    worst = max_wavefronts(indices if how == 'a row by a warp' else indices.T)
    if how != 'every index once' and worst > 1:
        raise AssertionError(f'{how} takes {worst} wavefronts: {worst} lanes access different words of one bank')


# Waves: the needed fraction of the FMAs that the SMs could compute, from the first block to the end of the last.
def useful_fraction(h, w, bm, bn, blocks_per_sm, sms):
    "Return the fraction of the SMs' time that computes results; a block computes `bm` by `bn` of them"
    blocks = cdiv(h, bm) * cdiv(w, bn)
    return h * w / (cdiv(blocks, blocks_per_sm * sms) * blocks_per_sm * sms * bm * bn)


_SIZES = (
    (4096, 4096, 128, 128, 2, 132),
    (4096, 4096, 256, 128, 1, 132),
    (5120, 5120, 256, 128, 1, 132),
    (1000, 1000, 64, 64, 4, 132),
    (8192, 8192, 128, 128, 2, 108),
    (129, 129, 128, 128, 1, 1),
    (5000, 300, 256, 128, 2, 3),
    (1, 1, 128, 128, 2, 132),
)


@problem(
    'matmul_ladder.waves',
    cases=[dict(zip(('h', 'w', 'bm', 'bn', 'blocks_per_sm', 'sms'), size)) for size in _SIZES],
    hints=[
        'How many blocks are there? How many can run at a time on all SMs? So how many waves are there, if the '
        'last one counts as a whole wave?',
        'Possible results in that time: waves, times blocks per wave, times results per block. Useful results: `h*w`.',
        '`blocks = cdiv(h,bm)*cdiv(w,bn)`, `wave = blocks_per_sm*sms`, and the fraction is '
        '`h*w/(cdiv(blocks,wave)*wave*bm*bn)`.',
    ],
)
def _(fn, rng, h, w, bm, bn, blocks_per_sm, sms):
    result = fn(h, w, bm, bn, blocks_per_sm, sms)
    expected = useful_fraction(h, w, bm, bn, blocks_per_sm, sms)
    if (fraction := as_number(result)) is None or not abs(fraction - expected) < 1e-9:
        blocks, wave = cdiv(h, bm) * cdiv(w, bn), blocks_per_sm * sms
        raise AssertionError(
            f'got {result!r}, but the fraction {expected:.6g} of the work is useful, for {h}x{w} results '
            f'(blocks: {blocks}, at a time: {wave}, waves: {cdiv(blocks, wave)})'
        )


# Grouped tiles: which rows of tiles of A, and which columns of B, the blocks that run at once need.
def needed_tiles(group, blocks, across, down) -> tuple:
    "Return how many rows and how many columns of tiles the first `blocks` blocks need, in bands of `group` rows"
    i = np.arange(blocks)
    top, index_in_band = i // (group * across) * group, i % (group * across)
    high = np.minimum(group, down - top)
    return len(np.unique(top + index_in_band % high)), len(np.unique(index_in_band // high))


_WAVES = ((64, 32, 16), (264, 32, 32), (264, 8, 64), (264, 64, 8), (132, 40, 20), (30, 7, 5), (12, 3, 7), (1, 5, 5))


@problem(
    'matmul_ladder.group',
    cases=[dict(zip(('blocks', 'across', 'down'), wave)) for wave in _WAVES],
    hints=[
        'There are few candidates: try each `GROUP` from 1 to `down`, and count what its first `blocks` tiles need.',
        'The listing of idea 13c, and the cell that draws the tiles, compute the tile of a block. Collect the rows and '
        'the columns in two sets; the count is the sum of their sizes.',
        'For block `i`: `top = i//(GROUP*across)*GROUP`, `high = min(GROUP, down-top)`, `inside = i%(GROUP*across)`; '
        'row `top + inside%high`, column `inside//high`. Then `min(range(1, down+1), key=count)`.',
    ],
)
def _(fn, rng, blocks, across, down):
    group = as_integer(fn(blocks, across, down))
    if not 1 <= group <= down:
        raise AssertionError(f'GROUP must be from 1 to {down}, the number of rows of tiles; got {group}')
    cost = {g: needed_tiles(g, blocks, across, down) for g in range(1, down + 1)}
    best = min(cost, key=lambda g: sum(cost[g]))
    if sum(cost[group]) > sum(cost[best]):
        rows, columns = cost[group]
        raise AssertionError(
            f'with GROUP = {group} these {blocks} blocks need {rows} rows of tiles and {columns} columns, '
            f'{rows + columns} in all; another GROUP needs only {sum(cost[best])}'
        )


# The other two answers are sources, and run on the emulator even on a machine with a GPU, because its checks, such as
# the one for data races, are part of the exercise. The judge prepends a line of constants, as `Rung` does, and a
# __syncthreads() that counts, so that a barrier may also be in a function or in a macro.
COUNTING_BARRIER = (
    '__device__ int waits[4096]; '
    'namespace learner { __device__ void __syncthreads(int line = __builtin_LINE()) { '
    'waits[((blockIdx.y*gridDim.x + blockIdx.x)*blockDim.y + threadIdx.y)*blockDim.x + threadIdx.x]++; '
    '::__syncthreads(line); }'
)
MAX_WAITS_KERNEL = r'''
}
__global__ void max_waits(float *out) {
    int largest = 0;
    for (int &n : waits) largest = max(largest, n), n = 0;
    out[0] = largest;
}
'''


def with_constants(fn, **constants):
    "Return the learner's source, preceded by its constants and a counting barrier"
    src = source(fn)
    if 'this_thread_block' in src:
        src = re.sub(r'\b\w+(\(\))?\.sync\(\s*\)', '__syncthreads()', src)
    defined = ', '.join(f'{k} = {v}' for k, v in constants.items())
    return f'{COUNTING_BARRIER} constexpr int {defined};\n{src}{MAX_WAITS_KERNEL}'


def judge_matmul(fn, threads, rng, h, k, w, **constants) -> int:  # barriers that one thread waited at
    "Judge a kernel `matmul_k`, whose blocks compute BM x BN results, on random matrices"
    m, n = normal(rng, h, k), normal(rng, k, w)
    src = with_constants(fn, **constants)
    if '__shared__' not in src:
        raise AssertionError('the kernel uses no shared memory: declare the tiles __shared__')
    kernels = compile_for_emulator(lambda: src, ['matmul_k', 'max_waits'])
    blocks = cdiv(w, constants['BN']), cdiv(h, constants['BM'])
    run(kernels['max_waits'], 1, 1, out=np.zeros(1, np.float32))  # resets the counts
    out = run(kernels['matmul_k'], blocks, threads, m=m, n=n, out=np.full((h, w), np.nan, np.float32), h=h, w=w, k=k)
    check(
        out.reshape(h, w), (m.astype(np.float64) @ n).astype(np.float32), atol=1e-4
    )  # at most 40 rounding errors of values around 6
    return int(run(kernels['max_waits'], 1, 1, out=np.zeros(1, np.float32)))


SHAPES = ((1, 1, 1), (5, 9, 7), (8, 3, 13), (16, 16, 16), (17, 33, 18), (33, 8, 2))  # h, k, w


def loops(src, pattern) -> list:
    "Return, per match of `pattern` in CUDA C, the numbers of the surrounding loops, the innermost last"
    loops_of_match, loops_of_block = [], []
    open_loops, pending_loops = (), ()  # pending: loops whose bodies follow
    num_loops, open_parentheses, is_in_header = 0, 0, False
    for token in re.finditer(rf'({pattern})|\b(?:for|while|do)\b|[(){{}};]', without_comments(src)):
        if token[1]:
            loops_of_match.append(open_loops + pending_loops[: len(pending_loops) - is_in_header])
            open_parentheses += token[1].count('(') - token[1].count(')')
        elif token[0][0] in 'fwd':
            num_loops, pending_loops, is_in_header = num_loops + 1, (*pending_loops, num_loops), token[0] != 'do'
        elif token[0] in '()':
            open_parentheses += 1 if token[0] == '(' else -1
            is_in_header = is_in_header and open_parentheses > 0
        elif open_parentheses:
            pass
        elif token[0] == '{':
            loops_of_block.append(pending_loops)
            open_loops, pending_loops = open_loops + pending_loops, ()
        elif token[0] == '}':
            ended_loops = loops_of_block.pop() if loops_of_block else ()
            open_loops = open_loops[: len(open_loops) - len(ended_loops)]
        else:
            pending_loops = ()
    return loops_of_match


# Sums of products: a loop that only fills a tile, and is inside another loop, is allowed to read m and n.
SUMS = r'\+=[^;)]*\*|\bfmaf?\b|\b__fmaf_rn\b|\b(?P<sum>\w+)\s*=\s*(?P=sum)\s*\+'


def reads_operands_in_inner_loop(src) -> bool:
    "Return whether CUDA C reads `m` or `n` in an inner loop that adds up products"
    loops_with_reads, loops_with_sums = (
        {loop[-1] for loop in loops(src, pattern) if len(loop) > 1} for pattern in (r'(?<![\w.>])[mn]\s*\[', SUMS)
    )
    return bool(loops_with_reads & loops_with_sums)


def unread_shared_arrays(src) -> list:
    "Return the names of shared arrays that are never read, as far as the source shows"
    src = without_comments(src)
    shared = re.findall(r'__shared__[^;]*;', src)
    names = [name for line in shared for name in re.findall(r'(\w+)\s*\[', line)]
    code = re.sub(r'__shared__[^;]*;', '', src)
    return [name for name in names if not re.search(rf'\b{name}\b(?!(?:\s*\[[^;=]*\])\s*=[^=])', code)]


@problem(
    'matmul_ladder.buffers',
    cases=[dict(h=h, k=k, w=w, tw=tw) for tw in (4, 8) for h, k, w in SHAPES],
    hints=[
        'Double buffering: two of each tile, `ms[2][BM][BK]`. In phase `p` the block computes with tile `p%2`. '
        'Which tile may it fill at the same time?',
        'Fill tile 0 before the loop. In each iteration: one barrier; then fill tile `(p+1)%2` for the next phase, '
        'if there is one; then compute with tile `p%2`.',
        'The one barrier does both jobs: after it tile `p%2` is full, and all threads have finished with tile '
        '`(p+1)%2`, which was used in the previous iteration.',
    ],
)
def _(fn, rng, h, k, w, tw):
    src = source(fn)
    other_barriers = r'__syncwarp|__syncthreads_\w+|\bbar\.|tiled_partition|coalesced_threads'
    if match := re.search(other_barriers, without_comments(src)):
        raise AssertionError(f'__syncthreads() is the only barrier allowed here: remove {match[0]}')
    if unused := unread_shared_arrays(src):
        raise AssertionError(
            f'{unused[0]} is in shared memory, but is never read: load the operands of the inner loop from there'
        )
    if reads_operands_in_inner_loop(src):
        raise AssertionError('the inner loop loads from m or n in global memory: load from the tiles instead')
    waits = judge_matmul(fn, (tw, tw), rng, h, k, w, BM=tw, BN=tw, BK=tw)
    phases = cdiv(k, tw)
    if waits > phases + 1:
        raise AssertionError(
            f'a thread waits at {waits} barriers (phases: {phases}); at most {phases + 1} are allowed, one per '
            'phase in the loop and one before it'
        )


# A float4 that counts how often each thread stores one as a whole in `out`, not in a local variable. It is one line, so
# that messages count the learner's lines correctly.
COUNTING_FLOAT4 = (
    '__device__ int num_wide_stores[1024]; __device__ const float *begin[1024], *end[1024]; '
    '__device__ int thread_index() { return (blockIdx.y*gridDim.x + blockIdx.x)*32 + threadIdx.y*8 + threadIdx.x; } '
    '__device__ bool inside(const void *p) { return p >= begin[thread_index()] && p < end[thread_index()]; } '
    'struct Counted : float4 { Counted() = default; __device__ Counted(float4 v) : float4(v) {} '
    '__device__ Counted(float x, float y, float z, float w) : float4(make_float4(x, y, z, w)) {} '
    '__device__ Counted &operator=(const Counted &v) { num_wide_stores[thread_index()] += inside(this); '
    '(float4 &)*this = v; return *this; } }; '
    'namespace learner { using float4 = Counted; '
)
EDGES_KERNEL = r'''
}
__global__ void edges_k(const float *x, float *out, int h, int w, int rows, int columns, int skip, int size) {
    int r = blockIdx.y*blockDim.y + threadIdx.y, c = 4*(blockIdx.x*blockDim.x + threadIdx.x);
    if (r >= rows || c >= columns) return;
    const float *p = x + r*columns + c;
    num_wide_stores[thread_index()] = 0, begin[thread_index()] = out, end[thread_index()] = out + size;
    learner::put(out + skip, r, c, h, w, learner::float4{p[0], p[1], p[2], p[3]});
    out[size + r*columns/4 + c/4] = num_wide_stores[thread_index()];
}
'''


def put_all(fn, x, h, w, skip):  # skip: floats before `out`, which make it misaligned
    "Return `out`, h x w, after all calls of `put`, and how often each thread stored four floats at once"
    rows, columns = x.shape
    num_floats = skip + h * w + x.size
    out = launch(
        lambda: COUNTING_FLOAT4 + source(fn) + EDGES_KERNEL,
        'edges_k',
        (cdiv(columns, 32), cdiv(rows, 4)),
        (8, 4),
        x=x,
        out=np.full(num_floats + rows * columns // 4, np.nan, np.float32),
        h=h,
        w=w,
        rows=rows,
        columns=columns,
        skip=skip,
        size=num_floats,
    )
    return out[:num_floats], out[num_floats:].reshape(rows, columns // 4)


@problem(
    'matmul_ladder.edges',
    cases=[
        dict(h=h, w=w, skip=skip)
        for h, w, skip in (
            (1, 16, 0),
            (8, 16, 0),
            (8, 32, 0),
            (7, 13, 0),
            (3, 18, 0),
            (1, 1, 0),
            (5, 3, 0),
            (9, 64, 0),
            (4, 6, 0),
            (8, 16, 1),
            (5, 13, 3),
        )
    ],
    hints=[
        'The wide store has three conditions: the row is in bounds, column `c+3` is in bounds, and the address is '
        'a multiple of 16 bytes.',
        'The address of the first of the four is `out + r*w + c`; as an integer it is `(size_t)(out + r*w + c)`.',
        '`if (r < h && c+3 < w && (size_t)p%16 == 0) *(float4 *)p = v;`, else use four single stores, each with '
        'its own guard.',
    ],
)
def _(fn, rng, h, w, skip):
    x = normal(rng, cdiv(h, 4) * 4 + 4, cdiv(w, 4) * 4 + 4)
    out, num_wide_stores = put_all(fn, x, h, w, skip)
    end = skip + h * w
    if not (out[:skip].isnan().all() and out[end:].isnan().all()):
        raise AssertionError(
            f'memory outside out was written; its last element is row {h - 1}, column {w - 1}: guard the store'
        )
    check(out[skip:end].reshape(h, w), x[:h, :w])
    for r, q in np.ndindex(h, w // 4):
        if (skip + r * w + 4 * q) % 4 == 0 and num_wide_stores[r, q] != 1:
            location = f'row {r}, column {4 * q} of {h} x {w}'
            raise AssertionError(
                f'{location}: four floats are in bounds and 16-byte aligned: store them with one *(float4 *)p = v, '
                f'not {int(num_wide_stores[r, q])}'
            )
