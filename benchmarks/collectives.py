"""`ring.all_reduce` and products that overlap their communication, next to NCCL: the course's goals, and a prediction.

    python collectives.py > collectives.txt     # all parts, on all GPUs of a machine; writes collectives.json
    python collectives.py check reduce          # some parts; writes nothing
    python collectives.py predict               # from collectives.json, without a GPU: fits a model of all-reduce to
                                                # measurements, predicts 4 and 8; writes collectives_prediction.json

`check` compares results with float64, and sums bit by bit with those added in the order of the ranks. `link` measures
what a link carries, per message size: copies by copy engines, stores and loads by kernels, in one direction and in
both, and the latency of a flag. `reduce` times all-reduce of bfloat16: calls from Python, and CUDA graphs of 20 calls,
which leave out Python. `tune` varies the launches. `overlap` times products that overlap communication, from Python
and in CUDA graphs of four calls, the product alone, the communication alone, and one after the other; `trace` records
when their kernels run. `faults` lets a rank die or hang. All candidates of a row are interleaved: medians
over the rounds of the slowest rank.
"""
import argparse, json, math, os, signal, statistics, sys, tempfile, time, traceback
from pathlib import Path

import torch
import torch.distributed as dist
from gridstride import kernels, ring
from gridstride.bench.recording import machine
from gridstride.cpp import cuda_kernel
from gridstride.ring import collectives, transport
from ring import milliseconds

HERE = Path(__file__).parent
BF16 = torch.bfloat16
GRAPH_CALLS = 4                                         # calls in each CUDA graph of the part `overlap`
SIZES = [1 << k for k in (10, 12, 14, 15, 16, 17, 18, 19, 20, 22, 24, 26, 28)]
# tokens, columns of x, columns of w per rank; of the feed-forward layers of language models with 70 and 8 billion
# parameters, and products that take about as long as their communication
GATHER_SHAPES = (8192, 8192, 14336), (4096, 4096, 7168), (8192, 8192, 2048), (8192, 8192, 1024)
SCATTER_SHAPES = (8192, 14336, 8192), (4096, 7168, 4096), (8192, 2048, 8192), (8192, 1024, 8192)

LINK_SRC = '''
typedef unsigned long long u64;
typedef uint4 vector;
__global__ void copy_vectors(const vector *src, vector *dst, long long n) {
    const long long step = gridDim.x*(long long)blockDim.x;
    long long i = blockIdx.x*(long long)blockDim.x + threadIdx.x;
    for (; i + 3*step < n; i += 4*step) {
        vector a = src[i], b = src[i + step], c = src[i + 2*step], d = src[i + 3*step];
        dst[i] = a; dst[i + step] = b; dst[i + 2*step] = c; dst[i + 3*step] = d;
    }
    for (; i < n; i += step) dst[i] = src[i];
}
// Two ranks send a number back and forth: each way is one store and one load of system scope.
__global__ void ping_pong(u64 *own, u64 *other, long long rounds, int rank, u64 *nanoseconds) {
    u64 begin, end, x;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    for (u64 i = 1; i <= rounds; i++) {
        if (rank == 0) asm volatile("st.release.sys.global.u64 [%0], %1;" :: "l"(other), "l"(i) : "memory");
        do {
            asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(own) : "memory");
            asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
            if (end - begin > 5000000000) __trap();
        } while (x < i);
        if (rank == 1) asm volatile("st.release.sys.global.u64 [%0], %1;" :: "l"(other), "l"(i) : "memory");
    }
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
    *nanoseconds = end - begin;
}
'''


def rank_and_ranks(): return dist.get_rank(), dist.get_world_size()


def random(*shape, dtype=BF16): return torch.randn(*shape, device='cuda').to(dtype)


def gather_from_all(x):
    "Return the values of x on all ranks, to each rank"
    values = [None]*dist.get_world_size()
    dist.all_gather_object(values, x)
    return values


def time_interleaved(candidates, rounds, seconds, per_call=1):
    "Time candidates interleaved; return {name: [milliseconds of the slowest rank, per round]}"
    calls, found = {}, {}
    for name, run in candidates.items():
        milliseconds(run, 2)
        calls[name] = max(2, math.ceil(seconds*1e3/max(gather_from_all(milliseconds(run, 3)))))
    for i in range(rounds):
        # a random order, because the clock frequency depends on the candidate before
        for k in torch.randperm(len(calls), generator=torch.Generator().manual_seed(i)).tolist():
            name = list(calls)[k]
            ms = max(gather_from_all(milliseconds(candidates[name], calls[name])))/per_call
            found.setdefault(name, []).append(ms/GRAPH_CALLS if name.endswith('in a graph') else ms)
    return found


def without_failing(candidates):
    "Return the candidates that run; those that raise an error do so on all ranks"
    for name, run in list(candidates.items()):
        try:
            run()
            torch.cuda.synchronize()
        except (RuntimeError, ValueError, TypeError, AttributeError) as e:
            del candidates[name]
            print('excluded:', name, str(e).splitlines()[0])
    return candidates


def row_of(part, name, ms, **fields):
    return dict(part=part, way=name, ms=statistics.median(ms), low=min(ms), high=max(ms), **fields)


def graph_of(run, calls=20):
    "Return a function that replays a CUDA graph of some calls"
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream): run()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode='thread_local'):
        for _ in range(calls): run()
    return graph.replay


def repeat(run, calls=20):
    "Return a function that makes some calls"
    return lambda: [run() for _ in range(calls)]


# check
def sum_in_order(x):
    xs = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(xs, x)
    total = torch.zeros(x.shape, device='cuda')
    for part in xs: total += part
    return total.to(x.dtype)


def check():
    communicator, (rank, ranks) = ring.communicator(), rank_and_ranks()
    torch.manual_seed(rank)
    compared = 0
    for n in (1, 7, 8, 4095, 4096, 100_001, 1 << 20, (40 << 20) + 24):
        for dtype in (BF16, torch.float16, torch.float32):
            for algorithm in (None, *communicator.ALGORITHMS):
                if algorithm == 'one_shot' and ranks > collectives.Tuning.one_shot_ranks: continue
                x = random(n, dtype=dtype)
                want, got = sum_in_order(x), communicator.all_reduce(x, algorithm=algorithm)
                assert torch.equal(got, want), (n, dtype, algorithm, (got != want).sum().item())
                communicator.all_reduce(x, x, algorithm)
                assert torch.equal(x, want), (n, dtype, algorithm, 'in place')
                compared += 1
    for n, algorithm in [(1 << 12, 'words'), (1 << 22, 'two_shots'), (1 << 18, 'words'), (1 << 20, 'two_shots')]*50:
        x = random(n)
        assert torch.equal(communicator.all_reduce(x, algorithm=algorithm), sum_in_order(x)), algorithm
    yield dict(part='check', way='all_reduce', compared=compared, differing=0)
    for name in ('all_gather_matmul', 'matmul_reduce_scatter'):
        yield from check_products(name, communicator)
        for chunks in (1, 4):
            for one_kernel in (False, None): yield check_graph(name, communicator, chunks, one_kernel)
    torch.cuda.synchronize()
    dist.barrier()


def check_products(name, communicator):
    for rows, k, n in ((256, 512, 384), (2048, 1024, 1024), (1000, 520, 264), (4096, 1024, 2048)):
        for chunks in (1, 2, 3, 4):
            for one_kernel in (False, None):
                for _ in range(3): yield check_product(name, rows, k, n, communicator, chunks, one_kernel)


def check_product(name, rows, k, n, communicator, chunks, one_kernel):
    ranks = dist.get_world_size()
    x, w = random(rows*(1 if name == 'all_gather_matmul' else ranks), k), random(k, n)
    if torch.randint(3, (1,)) == 0: torch.cuda._sleep(1_000_000)    # ranks come late, at different times
    error = error_of(name, getattr(communicator, name)(x, w, chunks, one_kernel), x, w)
    assert error < 5e-3, (name, rows, k, n, error)        # bfloat16 has 8 bits: one rounding has an error of about 2e-3
    return dict(part='check', way=name, shape=(rows, k, n), error=error)


def error_of(name, got, x, w):
    "Return the relative error of a product, compared with float64"
    rank, ranks = rank_and_ranks()
    if name == 'all_gather_matmul':
        xs = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(xs, x)
        want = torch.cat(xs).double() @ w.double()
    else:
        want = x.double() @ w.double()
        dist.all_reduce(want)
        want = want.chunk(ranks)[rank]
    return ((got.double() - want).square().mean()/want.square().mean()).sqrt().item()


def check_graph(name, communicator, chunks, one_kernel):
    "Compare the replays of a CUDA graph of two calls, with new operands each time, with float64"
    ranks, errors = dist.get_world_size(), []
    x, w = random(2048*(1 if name == 'all_gather_matmul' else ranks), 1024), random(1024, 1024)
    outs = []
    def run(): outs.append(getattr(communicator, name)(x, w, chunks, one_kernel))
    replay = graph_of(run, 2)
    for _ in range(10):
        x.normal_()
        if torch.randint(3, (1,)) == 0: torch.cuda._sleep(1_000_000)
        replay()
        errors += [error_of(name, out, x, w) for out in outs[1:]]
    assert max(errors) < 5e-3, (name, chunks, one_kernel, errors)
    return dict(part='check', way=f'{name}, in a graph', chunks=chunks, one_kernel=one_kernel is None,
                error=max(errors))


# link
def open_ipc_handles(x):
    "Return the other ranks' x by handles of CUDA IPC, which another process opens"
    from torch.multiprocessing.reductions import reduce_tensor
    return [x if i == dist.get_rank() else open_tensor(*arguments)
            for i, (open_tensor, arguments) in enumerate(gather_from_all(reduce_tensor(x)))]


def link():
    (rank, ranks), kernel = rank_and_ranks(), cuda_kernel(LINK_SRC, ['copy_vectors', 'ping_pong'])
    peer, max_bytes = (rank + 1) % ranks, 256 << 20
    memory = transport.SymmetricMemory((max_bytes,), torch.uint8, torch.device('cuda', rank))
    remote, local = memory.buffer_of_rank[peer], torch.randint(255, (max_bytes,), dtype=torch.uint8, device='cuda')
    yield from latency(kernel.ping_pong, rank)
    stream = torch.cuda.current_stream().cuda_stream
    for size in [1 << k for k in range(4, 29, 2)]:
        grid, vectors = min(264, max(1, size//16//512)), size//16
        ways = {
            'copy engine': lambda: transport.copy_in_stream(stream, remote.data_ptr(), local.data_ptr(), size),
            'stores': lambda: kernel.copy_vectors[grid, 512](
                local.view(torch.int32), remote.view(torch.int32), vectors),
            'loads': lambda: kernel.copy_vectors[grid, 512](remote.view(torch.int32), local.view(torch.int32), vectors),
            'within one GPU': lambda: kernel.copy_vectors[grid, 512](
                local.view(torch.int32), memory.local.view(torch.int32), vectors),
        }
        for directions in ('one', 'both'):
            graphs = {name: repeat(run) if name == 'copy engine' else graph_of(run) for name, run in ways.items()}
            if directions == 'one' and rank: graphs = dict.fromkeys(ways, lambda: None)
            for name, ms in time_interleaved(graphs, 3, .004, 20).items():
                yield row_of('link', name, ms, bytes=size, directions=directions, gbs=size/statistics.median(ms)/1e6)
    a = torch.full((4,), rank + 1., device='cuda')
    assert [t.tolist() for t in open_ipc_handles(a)] == [[r + 1.]*4 for r in range(ranks)]
    torch.cuda.synchronize()
    dist.barrier()


def latency(ping_pong, rank):
    "Yield the nanoseconds that a flag takes from one GPU to the other"
    memory = transport.SymmetricMemory((2,), torch.int64, torch.device('cuda', rank))
    memory.local.zero_()
    nanoseconds, rounds, found = torch.zeros(1, dtype=torch.int64, device='cuda'), 1000, []
    for _ in range(5):
        memory.local.zero_()
        torch.cuda.synchronize()
        dist.barrier()
        ping_pong[1, 1](memory.local, memory.buffer_of_rank[1 - rank], rounds, rank, nanoseconds)
        torch.cuda.synchronize()
        found.append(max(gather_from_all(nanoseconds.item()))/rounds/2/1e6)
    yield row_of('link', 'flag', found, bytes=8, directions='one')


# reduce
def torch_symmetric(size):
    "Return PyTorch's own all-reduce over symmetric memory, in one shot and in two"
    import torch.distributed._symmetric_memory as symmetric
    x, group = symmetric.empty(size//2, dtype=BF16, device='cuda'), dist.group.WORLD.group_name
    x.normal_()
    symmetric.rendezvous(x, dist.group.WORLD)
    return {"PyTorch's one shot": lambda: torch.ops.symm_mem.one_shot_all_reduce(x, 'sum', group),
            "PyTorch's two shots": lambda: torch.ops.symm_mem.two_shot_all_reduce_(x, 'sum', group)}


def reduce():
    communicator, ranks = ring.communicator(), dist.get_world_size()
    for size in SIZES:
        x, y = random(size//2), random(size//2)
        ways = {'NCCL': lambda: dist.all_reduce(x), 'ours': lambda: ring.all_reduce(y, y)}
        by_algorithm = {name: lambda name=name: communicator.all_reduce(y, y, name) for name in communicator.ALGORITHMS
                        if not (name == 'words' and size > 1 << 22 or name == 'one_shot' and ranks > 2)}
        for name, ms in time_interleaved(ways, 7, .02).items():
            yield row_of('reduce', name, ms, bytes=size, launched='Python', ranks=ranks)
        every = without_failing(ways | by_algorithm | torch_symmetric(size))
        calls = 20 if size < 1 << 24 else 4
        graphs = {name: graph_of(run, calls) for name, run in every.items()}
        for name, ms in time_interleaved(graphs, 7, .012, calls).items():
            yield row_of('reduce', name, ms, bytes=size, launched='graph', ranks=ranks)


def tune():
    communicator, tuning = ring.communicator(), collectives.Tuning
    chosen = {name: getattr(tuning, name) for name in ('word_blocks', 'blocks', 'vectors', 'lead')}
    def graph_with(run, **options):
        for name, value in (chosen | options).items(): setattr(tuning, name, value)
        return graph_of(run, 8)
    for size in (1 << 20, 1 << 23, 1 << 26):
        y = random(size//2)
        for algorithm in ('one_shot', 'two_shots'):
            graphs = {}
            for vectors, blocks, lead in ((2, 264, 2), (2, 264, 1), (2, 264, 4), (4, 132, 2), (8, 132, 2),
                                          (4, 64, 2), (2, 132, 2), (1, 512, 4)):
                graphs[f'{vectors} vectors, {blocks} blocks, lead {lead}'] = graph_with(
                    lambda: communicator.all_reduce(y, y, algorithm), vectors=vectors, blocks=blocks, lead=lead)
            for name, ms in time_interleaved(graphs, 3, .01, 8).items():
                yield row_of('tune', f'{algorithm}, {name}', ms, bytes=size)
    for size in (1 << 10, 1 << 16, 1 << 18, 1 << 19):
        y = random(size//2)
        def run(): return communicator.all_reduce(y, y, 'words')
        graphs = {f'words, {blocks} blocks': graph_with(run, word_blocks=blocks) for blocks in (16, 32, 64, 128, 256)}
        for name, ms in time_interleaved(graphs, 3, .01, 8).items(): yield row_of('tune', name, ms, bytes=size)
    for name, value in chosen.items(): setattr(tuning, name, value)


# overlap
def send_to_all(communicator, x):
    "Send x to all other ranks by copy engines, and wait for theirs"
    rank, ranks = rank_and_ranks()
    slot = communicator._begin_copies((ranks, *x.shape), x.dtype, 1)
    others = [(rank + step) % ranks for step in range(1, ranks)]
    for other in others: communicator._send(x, other, slot.addresses[other][rank][0], 0)
    for other in others: communicator._wait_copy(other, 0)
    communicator._end_copies()


def overlapped(op, x, w):
    "Return an operation with the chunks that it chooses, and with other ones"
    ways = {f'overlapped, {c} chunks': lambda c=c: op(x, w, c, False) for c in (1, 2, 3, 4)}
    ways |= {f'one kernel, {c} chunks': lambda c=c: op(x, w, c, True) for c in (1, 2, 3, 4, 8)}
    return ways | {'overlapped': lambda: op(x, w)}


def gather_ways(tokens, k, n, communicator):
    ranks, group = dist.get_world_size(), dist.group.WORLD.group_name
    x, w, gathered = random(tokens//ranks, k), random(k, n), random(tokens, k)
    def copies(): send_to_all(communicator, x)
    def one_after_the_other():
        dist.all_gather_into_tensor(gathered, x)
        return torch.matmul(gathered, w)
    ways = {'product, torch': lambda: torch.matmul(gathered, w), 'product, ours': lambda: kernels.matmul(gathered, w),
            'communication, NCCL': lambda: dist.all_gather_into_tensor(gathered, x), 'communication, copies': copies,
            'one after the other': one_after_the_other,
            "PyTorch's overlap": lambda: torch.ops.symm_mem.fused_all_gather_matmul(x, [w], 0, group)}
    return ways | overlapped(communicator.all_gather_matmul, x, w)


def scatter_ways(tokens, k, n, communicator):
    ranks, group = dist.get_world_size(), dist.group.WORLD.group_name
    x, w, out = random(tokens, k), random(k, n), random(tokens//ranks, n)
    product = torch.matmul(x, w)
    def one_after_the_other(): dist.reduce_scatter_tensor(out, torch.matmul(x, w))
    ways = {'product, torch': lambda: torch.matmul(x, w), 'product, ours': lambda: kernels.matmul(x, w),
            'communication, NCCL': lambda: dist.reduce_scatter_tensor(out, product),
            'communication, copies': lambda: send_to_all(communicator, out),  # without the addition
            'one after the other': one_after_the_other,
            "PyTorch's overlap": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(x, w, 'sum', 0, group)}
    return ways | overlapped(communicator.matmul_reduce_scatter, x, w)


def in_graphs(ways):
    "Return the candidates, and CUDA graphs of the overlapped ones"
    captured = 'overlapped', *(f'{way}, {c} chunks' for way in ('overlapped', 'one kernel') for c in (1, 2, 4, 8))
    ours = {name: run for name, run in ways.items() if name in captured}
    return ways | {f'{name}, in a graph': graph_of(run, GRAPH_CALLS) for name, run in ours.items()}


def python_time(communicator, name, shape):
    "Return Python's milliseconds per call, which runs while earlier calls compute"
    (tokens, k, n), ranks = shape, dist.get_world_size()
    x, w = random(tokens//(ranks if name == 'all_gather_matmul' else 1), k), random(k, n)
    found = []
    for _ in range(5):
        torch.cuda.synchronize()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(4): getattr(communicator, name)(x, w)
        found.append((time.perf_counter() - begin)/4*1e3)
    return dict(python_ms=max(gather_from_all(statistics.median(found))))


def overlap():
    communicator = ring.communicator()
    for name, shapes, ways_of in (('all_gather_matmul', GATHER_SHAPES, gather_ways),
                                  ('matmul_reduce_scatter', SCATTER_SHAPES, scatter_ways)):
        for shape in shapes:
            found = time_interleaved(in_graphs(without_failing(ways_of(*shape, communicator))), 7, .02)
            rows = [row_of('overlap', way, ms, op=name, shape=shape) for way, ms in found.items()]
            for row in rows: row |= python_time(communicator, name, shape) if row['way'] == 'overlapped' else {}
            def best(prefix): return min((r['ms'] for r in rows if r['way'].startswith(prefix)), default=math.nan)
            for row in rows:
                yield row | dict(fraction=max(best('product'), best('communication'))/row['ms'])


# trace
def trace():
    "Record when the kernels and copies of a call run, on each rank: one after the other, and overlapped"
    from torch.profiler import ProfilerActivity, profile
    communicator = ring.communicator()
    for op, shape, ways_of in (('all_gather_matmul', (8192, 8192, 2048), gather_ways),
                               ('matmul_reduce_scatter', (8192, 2048, 8192), scatter_ways)):
        ways = ways_of(*shape, communicator)
        chunks = 1 if op == 'all_gather_matmul' else 2  # as the function chooses
        for way in ('one after the other', f'overlapped, {chunks} chunks', 'overlapped'):
            for _ in range(3): ways[way]()
            torch.cuda.synchronize()
            dist.barrier()
            with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                for _ in range(8): ways[way]()
                torch.cuda.synchronize()
            events = sorted(profiler.profiler.kineto_results.events(), key=lambda e: e.start_ns())
            found = [(e.start_ns(), e.duration_ns(), e.device_resource_id(), e.name()[:60]) for e in events
                     if e.device_type() == torch.autograd.DeviceType.CUDA]
            for rank, events in enumerate(gather_from_all(found)):
                yield dict(part='trace', way=way, op=op, shape=shape, rank=rank, calls=8, events=events)


# faults
def dies(rank, kind, path):
    x, communicator = random(1 << 12), ring.Communicator(timeout=2)
    communicator.all_reduce(x)
    torch.cuda.synchronize()
    if rank == 1:
        Path(path).write_text(str(time.time()))
        if kind == 'dies': os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000)
    communicator.all_reduce(x)
    torch.cuda.synchronize()


def faults(ranks):
    "Yield what the caller gets, and how many seconds after a rank has died or hangs while kernels of others wait"
    with tempfile.TemporaryDirectory() as folder:
        for kind in ('dies', 'hangs'):
            try:
                ring.launch(dies, ranks, kind, f'{folder}/{kind}', backend='nccl', timeout=60)
                raise AssertionError('no error')
            except ring.RankError as e:
                seconds = time.time() - float(Path(folder, kind).read_text())
                yield dict(part='faults', way=kind, seconds=seconds, message=str(e))


def run_parts(rank, parts, log_path):
    "Run parts on this rank, and return their rows; rank 0 prints rows as they come, and writes them to a log"
    torch.manual_seed(rank)
    log = open(log_path, 'w') if rank == 0 else None
    rows, start = [], time.time()
    functions = dict(check=check, link=link, reduce=reduce, tune=tune, overlap=overlap, trace=trace)
    for part in parts:
        try:
            for row in functions[part]():
                rows.append(row)
                if rank == 0: print(json.dumps(row), file=log, flush=True)
                if rank == 0: print(f'{time.time() - start:5.1f} s', text_of(row), file=sys.stderr, flush=True)
        except (RuntimeError, ValueError, TypeError, AssertionError, AttributeError) as e:
            print(f'{part} failed on rank {rank}:', ''.join(traceback.format_exception(e)), file=sys.stderr, flush=True)
            if 'CUDA' in str(e): raise
    return rows


def text_of(row):
    fields = ' '.join(f'{k} {v:.4g}' if isinstance(v, float) else f'{k} {v}' for k, v in row.items()
                      if k not in ('part', 'way', 'ms', 'low', 'high', 'events'))
    us = f"{row['ms']*1e3:10.2f} us ({row['low']*1e3:.2f} to {row['high']*1e3:.2f})" if 'ms' in row else ''
    return f"{row['part']:8} {row['way']:38} {us} {fields}"


# prediction
LARGEST = dict(words=1 << 19, one_shot=1 << 28, two_shots=1 << 28)


def fitted_links(rows):
    "Return {algorithm: `ring.Link`}, fitted to the CUDA graphs on two GPUs"
    links = {}
    for algorithm, largest in LARGEST.items():
        times = {r['bytes']: r['ms']/1e3 for r in rows if r['part'] == 'reduce' and r['launched'] == 'graph'
                 and r['way'] == algorithm and r['bytes'] <= largest}
        steps = 2 if algorithm == 'two_shots' else 1
        fit = ring.fit_link({ring.all_reduce_bytes(algorithm, size, 2): t for size, t in times.items()})
        links[algorithm] = fit._replace(latency=fit.latency/steps)
    return links


def predict(record):
    "Return the model's parameters, its errors on two GPUs, and its prediction for 4 and 8, not measured yet"
    rows, links = record['rows'], fitted_links(record['rows'])
    measured = [dict(algorithm=r['way'], bytes=r['bytes'], measured_us=r['ms']*1e3,
                     model_us=ring.all_reduce_seconds(r['way'], r['bytes'], 2, links[r['way']])*1e6)
                for r in rows if r['part'] == 'reduce' and r['launched'] == 'graph' and r['way'] in links
                and r['bytes'] <= LARGEST[r['way']]]
    predicted = [dict(algorithm=algorithm, ranks=ranks, bytes=size,
                      us=ring.all_reduce_seconds(algorithm, size, ranks, link)*1e6)
                 for ranks in (4, 8) for size in SIZES for algorithm, link in links.items()
                 if size <= LARGEST[algorithm]]
    return dict(what='prediction: nothing of it was measured on more than two GPUs', fitted_to=record['machine'],
                links={name: dict(latency_us=link.latency*1e6, gbs=link.speed/1e9) for name, link in links.items()},
                two_gpus=measured, prediction=predicted)


def write_prediction():
    prediction = predict(json.loads((HERE/'collectives.json').read_text()))
    (HERE/'collectives_prediction.json').write_text(json.dumps(prediction, indent=1))
    for row in prediction['two_gpus']: print('2 GPUs', row)
    for row in prediction['prediction']: print('predicted', row)


PARTS = 'check', 'link', 'reduce', 'tune', 'overlap', 'trace', 'faults'


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('parts', nargs='*')
    parser.add_argument('--out', type=Path, default=HERE)
    args = parser.parse_args()
    if args.parts == ['predict']: return write_prediction()
    parts, ranks = args.parts or PARTS, torch.cuda.device_count()
    rows = list(faults(ranks)) if 'faults' in parts else []
    others = [part for part in parts if part != 'faults']
    rows += ring.launch(run_parts, ranks, others, args.out/'collectives.jsonl', backend='nccl', timeout=120)[0]
    print(ranks, 'x', ', '.join(map(str, machine().values())))
    for row in rows: print(text_of(row))
    if not args.parts or args.out != HERE:
        record = dict(machine=machine() | dict(gpus=ranks), rows=rows)
        (args.out/'collectives.json').write_text(json.dumps(record, indent=1))


if __name__ == '__main__': main()
