"""Each tool of `gridstride.kernels` against the best of torch, over a random grid of shapes that models have.

    python every_shape.py > every_shape.txt     # five minutes on a Hopper GPU; writes every_shape.json
    python every_shape.py --seed 2 --out FILE   # another grid
    python every_shape.py --families norms bmm  # a part; writes nothing unless --out names a file
    python every_shape.py --tables FILE...      # print the table that the READMEs show, of one or more JSON files

Half of the shapes come from the configurations of public models, half are log-uniform, so that odd sizes occur. Each
result is first compared with torch's. Then all candidates are timed interleaved, in three columns: *flushed* is GPU
time of a CUDA graph of one call, with the L2 cache overwritten before each run; *row* is wall-clock time per call of
back-to-back calls from Python; *graph* is GPU time per call of a CUDA graph of up to eight calls. All have the gradient
where the table has one. `unique` and `compact` wait for the GPU, because the size of their result depends on the data:
no graph can capture them, and *flushed* is the time of a call. Times are medians over the rounds. A ratio is the median
over the rounds of torch's time divided by ours in the same round, so that 1 and more means that ours is as fast or
faster; torch's is its fastest candidate.
"""
import argparse, json, math, os, random, statistics, time, warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F
from gridstride import kernels
from gridstride.bench.recording import machine
from gridstride.kernels import quant, sparse
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = Path(__file__).parent
ROUNDS, ROW_ROUNDS, CALLS, ROW_SECONDS = 15, 15, 12, .002      # calls back to back: at most, and their time
GRAPH_CALLS, GRAPH_US, GRAPH_ROUNDS = 8, 500, 5                 # calls in a graph: at most, and their time
TITLES = {
    'matmul': '`matmul`, float32 and 16-bit', 'attention': '`attention`', 'bmm': '`bmm`',
    'norms': '`layer_norm`, `rms_norm`', 'softmax, gelu': '`softmax`, `log_softmax`, `gelu`',
    'memory': '`sum`, `argmax`, `scan`, `transpose`', 'ordering': '`sort`, `topk`, `unique`, `compact`',
    'conv': '`conv2d`, `conv1d`', 'cross_entropy': '`cross_entropy` with gradients',
    '2:4': '2:4 sparse layers, against dense ones', 'quantized': 'quantized layers, against bfloat16'}
COLUMNS = {'flushed': 'flushed', 'row': 'back to back', 'graph': 'in a graph'}     # column -> title
FLUSH_BYTES, COMPARED_ELEMENTS = 2**28, 2**22
FLOOR = .95                                     # of the best of torch, in each row
HALF, SINGLE = torch.bfloat16, torch.float32
INTEGERS = torch.int32, torch.int64
# model -> hidden size, heads, heads of keys, head dimension, size of the MLP, vocabulary
MODELS = {
    'GPT-2': (768, 12, 12, 64, 3072, 50257), 'GPT-2 XL': (1600, 25, 25, 64, 6400, 50257),
    'Llama 1B': (2048, 32, 8, 64, 8192, 128256), 'Llama 3B': (3072, 24, 8, 128, 8192, 128256),
    'Llama 8B': (4096, 32, 8, 128, 14336, 128256), 'Llama 70B': (8192, 64, 8, 128, 28672, 128256),
    'Qwen 7B': (3584, 28, 4, 128, 18944, 152064), 'Mixtral': (4096, 32, 8, 128, 14336, 32000),
    'Gemma 2B': (2048, 8, 1, 256, 16384, 256000), 'ViT-L': (1024, 16, 16, 64, 4096, 1000),
    'Whisper': (1280, 20, 20, 64, 5120, 51866)}


class Row(NamedTuple):
    "One comparison: the candidates are functions of the operands, of which `ours` is one"
    family: str
    tool: str
    dtype: torch.dtype
    shape: tuple
    make_operands: Callable                     # returns the operands
    candidates: dict                            # name -> function
    options: str = ''
    has_gradient: bool = False                  # time the gradient of the first operands, too
    waits: bool = False                         # whether a call waits for the GPU: a graph cannot capture it


def randn(*shape, dtype=HALF): return torch.randn(shape, device='cuda').to(dtype)
def log_uniform(rng, low, high): return round(math.exp(rng.uniform(math.log(low), math.log(high))))
def tokens(rng): return rng.choice([1, 4, 16, 64, 128, 256, 512, 1000, 1024, 1500, 2048, 4096])


# The families: each draws one row.
def attention(rng):
    _, heads, key_heads, dim, *_ = rng.choice(list(MODELS.values()))
    if rng.random() < .3: heads, key_heads, dim = 16, rng.choice([16, 4]), rng.choice([64, 96, 128, 192, 256])
    num_tokens = rng.choice([128, 256, 512, 1000, 1024, 2048, 4096, log_uniform(rng, 64, 4096)])
    batch = max(1, min(32, rng.choice([2**13, 2**14, 2**15])//num_tokens))
    causal, has_gradient, dtype = rng.random() < .6, rng.random() < .4, rng.choice([HALF, HALF, torch.float16])
    gqa = dict(enable_gqa=True) if heads != key_heads else {}
    def torch_by(*backends):
        def run(q, k, v):
            with sdpa_kernel(list(backends)):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal, **gqa)
        return run
    def make():
        return [randn(batch, count, num_tokens, dim, dtype=dtype) for count in (heads, key_heads, key_heads)]
    candidates = dict(ours=lambda q, k, v: kernels.attention(q, k, v, causal=causal),
                      default=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, **gqa),
                      cudnn=torch_by(SDPBackend.CUDNN_ATTENTION), flash=torch_by(SDPBackend.FLASH_ATTENTION))
    shape, options = (batch, heads, key_heads, num_tokens, dim), 'causal' if causal else ''
    return Row('attention', 'attention', dtype, shape, make, candidates, options, has_gradient)


def layer_sizes(rng):
    "Draw (outputs, inputs) of a linear layer"
    hidden, *_, wide, _ = rng.choice(list(MODELS.values()))
    return rng.choice([(hidden, hidden), (wide, hidden), (hidden, wide)])


def quantized(rng):
    (outputs, inputs), rows, kind = layer_sizes(rng), tokens(rng), rng.choice(['int8', 'int4', 'nf4', 'fp8'])
    def make():
        layer = torch.nn.Linear(inputs, outputs, bias=False, device='cuda', dtype=HALF)
        with torch.no_grad(): layer.weight.normal_(std=.02)
        return randn(rows, inputs), quant.QuantLinear.from_linear(layer, kind), layer
    candidates = dict(ours=lambda x, packed, layer: packed(x), linear=lambda x, packed, layer: layer(x))
    return Row('quantized', kind, HALF, (outputs, inputs, rows), make, candidates)


def two_four(rng):
    (outputs, inputs), rows = layer_sizes(rng), tokens(rng)
    def make():
        layer = torch.nn.Linear(inputs, outputs, bias=False, device='cuda', dtype=HALF)
        packed = sparse.TwoFourLinear.from_linear(layer)
        with torch.no_grad(): layer.weight.copy_(packed.weight)
        return randn(rows, inputs), packed, layer
    candidates = dict(ours=lambda x, packed, layer: packed(x), linear=lambda x, packed, layer: layer(x))
    return Row('2:4', '2:4', HALF, (outputs, inputs, rows), make, candidates)


def bmm(rng):
    dtype, count = rng.choice([HALF, HALF, SINGLE]), rng.choice([2, 4, 8, 12, 16, 32, 64, 128, 256])
    M, N, K = (rng.choice([64, 96, 128, 256, 512, 1024, log_uniform(rng, 16, 2048)]) for _ in range(3))
    if count*M*N*K > 2**36: count = max(1, 2**36//(M*N*K))
    transposed = rng.random() < .4
    def make():
        b = randn(count, N, K, dtype=dtype).mT if transposed else randn(count, K, N, dtype=dtype)
        return randn(count, M, K, dtype=dtype), b
    return Row('bmm', 'bmm', dtype, (count, M, N, K), make, dict(ours=kernels.bmm, bmm=torch.bmm),
               'b transposed' if transposed else '')


def matmul(rng):
    dtype, layout = rng.choice([HALF, HALF, torch.float16, SINGLE]), rng.choice(['nn', 'nt', 'tn'])
    (N, K), M = layer_sizes(rng), tokens(rng)
    if rng.random() < .5: M, N, K = (log_uniform(rng, 16, 8192) for _ in range(3))
    if dtype == SINGLE and M*N*K > 2**36: M = max(16, 2**36//(N*K))
    def make():
        a = randn(K, M, dtype=dtype).t() if layout == 'tn' else randn(M, K, dtype=dtype)
        return a, randn(N, K, dtype=dtype).t() if layout == 'nt' else randn(K, N, dtype=dtype)
    return Row('matmul', 'matmul', dtype, (M, N, K), make, dict(ours=kernels.matmul, matmul=torch.matmul), layout)


def row_sizes(rng, max_width=16384):
    "Draw (rows, width) of a matrix whose rows are normalized or summed"
    hidden, *_, wide, vocabulary = rng.choice(list(MODELS.values()))
    width = rng.choice([hidden, wide, vocabulary, log_uniform(rng, 32, max_width)])
    rows = rng.choice([16, 4096, tokens(rng), log_uniform(rng, 1, 16384)])
    return max(1, min(rows, 2**28//width)), width


def norms(rng):
    rows, width = row_sizes(rng)
    dtype, has_gradient = rng.choice([HALF, HALF, torch.float16, SINGLE]), rng.random() < .4
    if width > 32768: width = rng.choice([768, 1024, 4096, 5120])
    tool = rng.choice(['layer_norm', 'rms_norm'])
    if tool == 'rms_norm':
        make = lambda: [randn(rows, width, dtype=dtype), randn(width, dtype=dtype)]
        candidates = dict(ours=kernels.rms_norm, rms_norm=lambda x, w: F.rms_norm(x, (width,), w, 1e-6))
    else:
        make = lambda: [randn(rows, width, dtype=dtype), randn(width, dtype=dtype), randn(width, dtype=dtype)]
        candidates = dict(ours=kernels.layer_norm, layer_norm=lambda x, w, b: F.layer_norm(x, (width,), w, b))
    return Row('norms', tool, dtype, (rows, width), make, candidates, '', has_gradient)


def rowwise(rng):
    (rows, width), dtype = row_sizes(rng), rng.choice([HALF, HALF, torch.float16, SINGLE])
    tool = rng.choice(['softmax', 'log_softmax', 'gelu'])
    ours, by_torch = dict(softmax=(kernels.softmax, lambda x: x.softmax(-1)), gelu=(kernels.gelu, F.gelu),
                          log_softmax=(kernels.log_softmax, lambda x: x.log_softmax(-1)))[tool]
    return Row('softmax, gelu', tool, dtype, (rows, width), lambda: [randn(rows, width, dtype=dtype)],
               {'ours': ours, tool: by_torch}, '', rng.random() < .3)


def memory(rng):
    (rows, width), dtype = row_sizes(rng), rng.choice([HALF, SINGLE, SINGLE])
    axis = rng.choice([-1, -1, None])
    flat = axis is None
    ours, by_torch = dict(
        sum=(lambda x: kernels.sum(x, axis), lambda x: x.sum() if flat else x.sum(-1)),
        argmax=(lambda x: kernels.argmax(x, axis), lambda x: x.argmax() if flat else x.argmax(-1)),
        scan=(lambda x: kernels.scan(x, -1), lambda x: x.cumsum(-1)),
        transpose=(kernels.transpose, lambda x: x.mT.contiguous()))[
            tool := rng.choice(['sum', 'argmax', 'scan', 'transpose'])]
    return Row('memory', tool, dtype, (rows, width), lambda: [randn(rows, width, dtype=dtype)],
               {'ours': ours, tool: by_torch}, 'all' if flat and tool in ('sum', 'argmax') else '')


def cross_entropy(rng):
    *_, vocabulary = rng.choice(list(MODELS.values()))
    rows, dtype = rng.choice([128, 512, 1000, 2048, 4096, 8192]), rng.choice([HALF, HALF, SINGLE])
    rows = min(rows, 2**29//vocabulary)
    def make(): return randn(rows, vocabulary, dtype=dtype), torch.randint(vocabulary, (rows,), device='cuda')
    return Row('cross_entropy', 'cross_entropy', dtype, (rows, vocabulary), make,
               dict(ours=kernels.cross_entropy, cross_entropy=F.cross_entropy), '', True)


def keys(shape, dtype, limit):
    "Return random keys: floats of a normal distribution, or integers below `limit`"
    if dtype.is_floating_point: return randn(*shape, dtype=dtype)
    return torch.randint(limit, shape, dtype=dtype, device='cuda')


def ordering(rng):
    tool, dtype = rng.choice(['sort', 'argsort', 'topk', 'unique', 'compact']), rng.choice([SINGLE, HALF, *INTEGERS])
    shape = row_sizes(rng) if rng.random() < .5 else (log_uniform(rng, 2**8, 2**27),)
    limit = rng.choice([1000, 2**31 - 1])
    if tool == 'topk': return top_k(rng, dtype, limit)
    if tool == 'compact': return compaction(rng, dtype, shape, limit)
    ours, by_torch = dict(
        sort=(kernels.sort, dict(sort=lambda x: x.sort(stable=True).values, unstable=lambda x: x.sort().values)),
        argsort=(kernels.argsort, dict(argsort=lambda x: x.argsort(dim=-1, stable=True))),
        unique=(kernels.unique, dict(unique=torch.unique)))[tool]
    options = 'few' if limit == 1000 and not dtype.is_floating_point else ''
    return Row('ordering', tool, dtype, shape, lambda: [keys(shape, dtype, limit)], {'ours': ours, **by_torch}, options,
               waits=tool == 'unique')


def top_k(rng, dtype, limit):
    "Draw the sampling of a token, or the routing of tokens to experts"
    *_, vocabulary = rng.choice(list(MODELS.values()))
    width, k = rng.choice([(vocabulary, rng.choice([1, 2, 5, 8, 20, 40, 50, 64])), (rng.choice([8, 64, 128, 256]), 8)])
    shape = min(tokens(rng), 2**27//width), width
    candidates = dict(ours=lambda x: kernels.topk(x, k)[0], topk=lambda x: x.topk(k)[0])
    return Row('ordering', 'topk', dtype, shape, lambda: [keys(shape, dtype, limit)], candidates, f'k {k}')


def compaction(rng, dtype, shape, limit):
    kept = rng.choice([.01, .1, .5, .9])
    def make(): return keys(shape, dtype, limit), torch.rand(shape, device='cuda') < kept
    return Row('ordering', 'compact', dtype, shape, make, dict(ours=kernels.compact, index=lambda x, keep: x[keep]),
               f'{kept:.0%} kept', waits=True)


def conv(rng): return rng.choice([depthwise, dense, causal])(rng, rng.choice([HALF, HALF, SINGLE]))


def images(rng, tool, dtype, channels, out_channels, kernel, groups):
    "Draw a convolution of images with these channels"
    size, stride = rng.choice([7, 14, 28, 56, 112, log_uniform(rng, 7, 224)]), rng.choice([1, 1, 2])
    count = min(rng.choice([1, 8, 32, 64, 128]), max(1, 2**27//(channels*size**2)))
    layout, has_gradient = rng.choice(['nchw', 'nhwc']), rng.random() < .3
    stored = dict(memory_format=torch.channels_last if layout == 'nhwc' else torch.contiguous_format)
    def make():
        weight = randn(out_channels, channels//groups, kernel, kernel, dtype=dtype)/kernel
        return randn(count, channels, size, size, dtype=dtype).to(**stored), weight.to(**stored)
    padding = kernel//2
    candidates = dict(ours=lambda x, w: kernels.conv2d(x, w, stride=stride, padding=padding, groups=groups),
                      conv2d=lambda x, w: F.conv2d(x, w, stride=stride, padding=padding, groups=groups))
    return Row('conv', tool, dtype, (count, channels, size, out_channels, kernel, stride), make, candidates, layout,
               has_gradient)


def depthwise(rng, dtype):
    channels = rng.choice([32, 96, 144, 192, 240, 384, 672, 768, 960, log_uniform(rng, 16, 1024)])
    return images(rng, 'depthwise', dtype, channels, channels, rng.choice([3, 3, 5, 7]), channels)


def dense(rng, dtype):
    channels, out_channels = (rng.choice([64, 128, 256, 512, log_uniform(rng, 8, 512)]) for _ in range(2))
    return images(rng, 'dense', dtype, channels, out_channels, rng.choice([1, 3, 3, 5]), 1)


def causal(rng, dtype):
    "Draw the convolution of a layer of Mamba"
    channels, taps = rng.choice([1536, 2048, 3072, 4096, 5120, log_uniform(rng, 64, 8192)]), rng.choice([4, 4, 2, 3])
    length = rng.choice([128, 512, 1000, 2048, 4096, log_uniform(rng, 16, 8192)])
    count = max(1, min(rng.choice([1, 4, 16]), 2**27//(channels*length)))
    def make(): return randn(count, channels, length, dtype=dtype), *(
        randn(*size, dtype=dtype) for size in ((channels, taps), (channels,)))
    def by_torch(x, weight, bias):
        return F.silu(F.conv1d(x, weight[:, None], bias, padding=taps - 1, groups=channels)[..., :length])
    candidates = dict(ours=lambda x, weight, bias: kernels.conv1d(x, weight, bias, 'silu'), conv1d=by_torch)
    return Row('conv', 'causal', dtype, (count, channels, length, taps), make, candidates, '', rng.random() < .3)


# family -> (function that draws a row, rows of the grid)
FAMILIES = {'attention': (attention, 80), 'quantized': (quantized, 70), '2:4': (two_four, 40), 'bmm': (bmm, 80),
            'matmul': (matmul, 100), 'norms': (norms, 80), 'softmax, gelu': (rowwise, 80), 'memory': (memory, 80),
            'cross_entropy': (cross_entropy, 30), 'ordering': (ordering, 80), 'conv': (conv, 60)}


def draw_grid(seed, families=FAMILIES):
    "Draw the rows of all families; a family's rows do not depend on the others"
    return [row for name in families for rng in [random.Random(f'{seed} {name}')]
            for row in [FAMILIES[name][0](rng) for _ in range(FAMILIES[name][1])]]


# Measuring
def differentiable(operands):
    return [x.requires_grad_() if torch.is_tensor(x) and x.is_floating_point() else x for x in operands]


def with_gradient(function, operands, grad_out):
    "Return a function that computes the result and the gradients of all operands"
    inputs = [x for x in operands if torch.is_tensor(x) and x.requires_grad]
    return lambda: torch.autograd.grad(function(*operands), inputs, grad_out)


def bind(row):
    "Return {candidate: function without arguments}, without the candidates that do not support the operands"
    torch.manual_seed(0)
    operands, calls = row.make_operands(), {}
    for x in operands: isinstance(x, torch.nn.Module) and x.requires_grad_(False)
    for name, function in row.candidates.items():
        try:
            with torch.no_grad(): out = function(*operands)
        except RuntimeError:
            if name == 'ours': raise
            continue
        if row.has_gradient:
            grad_out = torch.linspace(-1, 1, out.numel(), device='cuda').view_as(out).to(out.dtype)
            calls[name] = with_gradient(function, differentiable(operands), grad_out)
            calls[name]()
        else: calls[name] = partial(function, *operands)
    return calls


def difference(a, b):
    "Return the largest difference, divided by the largest element; indices of equal elements may differ"
    a, b = (x.flatten()[:COMPARED_ELEMENTS] for x in (a, b))
    if not a.is_floating_point(): return 0. if (a != b).float().mean() < .02 else 1.
    a, b = a.double(), b.double()
    return ((a - b).abs().max()/b.abs().max().clamp(min=1e-30)).item()


def error(calls, row):
    "Return the difference between our results and torch's"
    ours, other = (calls[name]() for name in list(calls)[:2])
    pairs = zip(ours, other) if isinstance(ours, tuple) else [(ours, other)]
    return max(difference(a, b) for a, b in pairs)


def capture(call, count=1):
    "Capture some calls in a graph"
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2): call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(count): call()
    return graph


def flushed_us(calls, flush):
    "Return {candidate: µs of each round} of the calls, interleaved"
    times, order, rng = {name: [] for name in calls}, list(calls), random.Random(0)
    for _ in range(ROUNDS):
        rng.shuffle(order)                      # the first call after a synchronization is slower
        pairs = {name: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for name in order}
        calls[order[-1]]()
        for name in order:
            flush.zero_()
            pairs[name][0].record()
            calls[name]()
            pairs[name][1].record()
        torch.cuda.synchronize()
        for name, (start, end) in pairs.items(): times[name].append(start.elapsed_time(end)*1e3)
    return times


def graph_us(calls, flushed):
    "Return {candidate: µs per call in each round} in graphs; `flushed`: the µs of one call, which limit the count"
    counts = {name: max(1, min(GRAPH_CALLS, int(GRAPH_US/flushed[name]))) for name in calls}
    graphs = {name: capture(call, counts[name]) for name, call in calls.items()}
    times, order, rng = {name: [] for name in calls}, list(calls), random.Random(0)
    for _ in range(GRAPH_ROUNDS):
        rng.shuffle(order)
        graphs[order[-1]].replay()              # keeps the GPU busy, so that it does not wait for the first event
        pairs = {name: [torch.cuda.Event(enable_timing=True) for _ in range(2)] for name in order}
        for name in order:
            graphs[name].replay()
            pairs[name][0].record()
            graphs[name].replay()
            pairs[name][1].record()
        torch.cuda.synchronize()
        for name, (start, end) in pairs.items(): times[name].append(start.elapsed_time(end)*1e3/counts[name])
    return times


def seconds_back_to_back(call, count):
    "Return the seconds per call of back-to-back calls"
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count): call()
    torch.cuda.synchronize()
    return (time.perf_counter()-start)/count


def row_us(calls):
    "Return {candidate: µs per call in each round} of back-to-back calls"
    times, order, rng = {name: [] for name in calls}, list(calls), random.Random(0)
    counts = {name: max(3, min(CALLS, int(ROW_SECONDS/seconds_back_to_back(call, 3)))) for name, call in calls.items()}
    for _ in range(ROW_ROUNDS):
        rng.shuffle(order)
        for name in order: times[name].append(seconds_back_to_back(calls[name], counts[name])*1e6)
    return times


def medians(times): return {name: statistics.median(values) for name, values in times.items()}


def compare(times):
    "Return the medians, the fastest of torch's candidates, and the ratio of its time to ours"
    us = medians(times)
    best = min((name for name in us if name != 'ours'), key=us.get)
    return us, best, statistics.median(other/ours for other, ours in zip(times[best], times['ours']))


def measure(row, flush):
    "Return the row's figures as a dict"
    result = dict(family=row.family, tool=row.tool, dtype=str(row.dtype)[6:], shape=row.shape, options=row.options,
                  gradient=row.has_gradient)
    try:
        calls = bind(row)
        result['error'] = error(calls, row)
        times = dict(row=row_us(calls))
        if row.waits: times['flushed'] = flushed_us(calls, flush)
        else:
            times['flushed'] = flushed_us({name: capture(call).replay for name, call in calls.items()}, flush)
            times['graph'] = graph_us(calls, medians(times['flushed']))
        for column in sorted(times, key=list(COLUMNS).index):
            result[column], result[f'best_{column}'], result[f'ratio_{column}'] = compare(times[column])
    except Exception as e: result['failed'] = f'{type(e).__name__}: {e}'.splitlines()[0][:200]
    return result


def compile_row(row):
    """Compile the row's kernels, so that its measurement need not wait. Only ours are called, because this runs in
    threads: `sdpa_kernel` enables back ends for the whole process, and an overlap would leave them disabled"""
    try: bind(row._replace(candidates=dict(ours=row.candidates['ours'])))
    except Exception: pass


# Tables
def geometric_mean(values): return math.exp(statistics.fmean(map(math.log, values)))


def readme_table(runs):
    "Yield the lines of a table in Markdown: per family and column the mean and the worst ratio of each run"
    measured = [column for column in COLUMNS if all(column in columns_of(results) for results in runs)]
    yield '| function | ' + ' | '.join(COLUMNS[column] for column in measured) + ' |'
    yield '|---'*(len(measured) + 1) + '|'
    for family, title in TITLES.items():
        rows = [[r for r in results if r['family'] == family and 'failed' not in r] for results in runs]
        if not all(rows): continue
        cells = (' / '.join(format_ratios(ratios_of(run, column)) for run in rows) for column in measured)
        yield f'| {title} | ' + ' | '.join(cells) + ' |'


def format_ratios(ratios): return f'{geometric_mean(ratios):.2f} ({min(ratios):.2f})'


def ratios_of(results, column):
    "Return the ratios of the rows that have this column"
    return [r[f'ratio_{column}'] for r in results if f'ratio_{column}' in r]


def columns_of(results):
    "Return the measured columns; the first tables had none of graphs"
    return [column for column in COLUMNS if any(f'ratio_{column}' in r for r in results)]


def summary(results):
    "Yield the lines of the summary: per family the mean, the worst, and the fraction below the floor, in each column"
    measured = columns_of(results)
    columns = ''.join(f"   {COLUMNS[column] + ': mean':>18} {'worst':>6} {'below':>6}" for column in measured)
    yield f"{'family':<16}{'rows':>5}{columns}"
    for family in dict.fromkeys(r['family'] for r in results):
        rows = [r for r in results if r['family'] == family and 'failed' not in r]
        cells = ''
        for column in measured if rows else ():
            ratios = ratios_of(rows, column)
            below = sum(ratio < FLOOR for ratio in ratios)/len(ratios)
            cells += f'   {geometric_mean(ratios):>18.2f} {min(ratios):>6.2f} {below:>6.0%}'
        failed = sum(r['family'] == family and 'failed' in r for r in results)
        yield f'{family:<16}{len(rows):>5}{cells}' + f'   {failed} failed'*(failed > 0)


def count_reached(column, ratios, num_rows):
    "Return how many rows reach the floor in a column, and of how many, unless all rows have it"
    of = f' of {len(ratios)}' if len(ratios) < num_rows else ''
    return f'{sum(ratio >= FLOOR for ratio in ratios)}{of} {COLUMNS[column]}'


def reached(results):
    "Return the line that counts the rows that reach the floor, in each column and in all"
    rows, measured = [r for r in results if 'failed' not in r], columns_of(results)
    ratios = {column: ratios_of(rows, column) for column in measured}
    in_all = sum(all(r[f'ratio_{column}'] >= FLOOR for column in columns_of([r])) for r in rows)
    parts = ', '.join(count_reached(column, ratios[column], len(rows)) for column in measured)
    return f'{parts}, {in_all} in all columns, of {len(rows)} rows reach {FLOOR}'


def format_row(r):
    shape, gradient = 'x'.join(map(str, r['shape'])), 'gradient'*r['gradient']
    head = f"{r['tool']:<14}{r['dtype']:<9}{shape:<26}{r['options']:<13}{gradient:<9}"
    if 'failed' in r: return f"{head}FAILED {r['failed']}"
    cells = (f"{r[c]['ours']:>9.1f} {r[c][r[f'best_{c}']]:>9.1f} {r[f'ratio_{c}']:>6.2f} {r[f'best_{c}']:<14}"
             for c in columns_of([r]))
    return (head + ' '.join(cells) + f" error {r['error']:.0e}").rstrip()


def rounded(results):
    "Return the results as a JSON file has them, so that the text, which is made of them, agrees with the file"
    return json.loads(json.dumps(results), parse_float=lambda text: float(f'{float(text):.5g}'))


def to_json(made, seed, results):
    "Return the JSON of a run, with a line per row"
    rows = ',\n'.join(map(json.dumps, results))
    return f'{{"made": {json.dumps(made)}, "seed": {json.dumps(seed)}, "rows": [\n{rows}\n]}}\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', default='1')
    parser.add_argument('--out', type=Path)
    parser.add_argument('--families', nargs='*', choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument('--seconds', type=float, default=1e9, help='stop measuring after this time')
    parser.add_argument('--tables', type=Path, nargs='+', help='only print a table of these files')
    options, started = parser.parse_args(), time.time()
    if options.tables:
        runs = [json.loads(path.read_text())['rows'] for path in options.tables]
        return print(*readme_table(runs), *map(reached, runs), sep='\n')
    warnings.simplefilter('ignore')
    out = options.out or (HERE/'every_shape.json' if len(options.families) == len(FAMILIES) else None)
    made, rows = machine(), draw_grid(options.seed, options.families)
    versions = ', '.join(f'{k} {v}' for k, v in made['versions'].items())
    print(f"{made['gpu']}, {made['date']}, {versions}; seed {options.seed}, {len(rows)} rows", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    kernels.softmax(randn(8, 8))
    with ThreadPoolExecutor(min(12, os.cpu_count())) as pool: list(pool.map(compile_row, rows))
    torch.cuda.empty_cache()
    print(f'compiled in {time.time()-started:.0f} s', flush=True)
    flush, results = torch.empty(FLUSH_BYTES//4, device='cuda'), []
    for row in random.Random(0).sample(rows, len(rows)):        # a run that is stopped has rows of all families
        if time.time() - started > options.seconds: break
        results.append(measure(row, flush))
        if len(results) % 20 == 0: torch.cuda.empty_cache()
    results = rounded(results)
    print(*summary(results), sep='\n')
    print(reached(results))
    for family in options.families:
        print(f'\n{family}: µs of ours and of the best of torch, and the ratio; {", then ".join(COLUMNS.values())}')
        ordered = sorted((r for r in results if r['family'] == family), key=lambda r: r.get('ratio_flushed', 0))
        print(*map(format_row, ordered), sep='\n')
    if out: out.write_text(to_json(made, options.seed, results))
    print(f'\n{len(results)} of {len(rows)} rows in {time.time()-started:.0f} s')


if __name__ == '__main__': main()
