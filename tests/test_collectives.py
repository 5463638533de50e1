"Collectives: by messages among processes, and their kernels on emulated devices; and the model of their time."
import importlib.util, json, sys
from importlib.resources import files
from pathlib import Path

import cloudpickle
import pytest
import torch
from exhaustive import mark_exhaustive
from gridstride import ring
from gridstride.cpp import cuda_kernel, on_emulator
from gridstride.diagnostics.errors import RacecheckError
from gridstride.kernels.gemm.calls import Tile
from gridstride.ring import overlap

pytestmark = pytest.mark.usefixtures('warm_ranks')
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # or each rank imports this file, and pytest with it

ALGORITHMS = 'words', 'one_shot', 'two_shots'


def in_order(x):
    "The sums of the ranks' rows, in float32, rounded once"
    total = torch.zeros(x.shape[1:])
    for row in x: total += row
    return total.to(x.dtype)


@pytest.fixture(scope='module')
def kernels():
    text = ''.join(files(ring).joinpath(f'{name}.cuh').read_text() for name in ('waits', 'collectives'))
    text = text.replace('THREADS = 512', 'THREADS = 64')
    names = [f'all_reduce_{name}<__nv_bfloat16>' for name in ALGORITHMS]
    with on_emulator(): return dict(zip(ALGORITHMS, cuda_kernel(text, names).values()))


@pytest.mark.parametrize('ranks', (2, 3))
def test_kernels_on_emulated_devices(kernels, ranks):
    slot, most, no_limit = 4096, 1024, 2**60             # words of a slot, vectors of an array, nanoseconds
    rng = torch.Generator().manual_seed(ranks)
    jobs = [('words', 9), ('words', 500), ('one_shot', 7), ('one_shot', 999), ('two_shots', 998), ('two_shots', 1),
            ('words', 50), ('two_shots', 770), ('one_shot', 130), ('words', 3)]
    with on_emulator(), ring.devices(ranks) as gpus:
        memory = {name: gpus.symmetric(2*ranks*slot, torch.int64, name) for name in ALGORITHMS}
        flags, states = gpus.symmetric(2*512*ranks, torch.int64, 'flag'), gpus.symmetric(2, torch.int32, 'state')
        inboxes, flag_table = {name: gpus.pointers(memory[name]) for name in ALGORITHMS}, gpus.pointers(flags)
        for name, vectors in jobs:
            xs, outs = (gpus.symmetric(8*vectors, torch.bfloat16, array) for array in ('x', 'out'))
            for x, out in zip(xs, outs): x.copy_(torch.randn(8*vectors, generator=rng)), out.fill_(torch.nan)
            sizes = {'words': (4*vectors, inboxes[name], slot), 'one_shot': (vectors, inboxes[name], most, flag_table),
                     'two_shots': (vectors, -(-vectors//ranks), inboxes[name], flag_table)}[name]
            for rank in range(ranks):
                with gpus[rank]:
                    kernels[name][3, 64](xs[rank], outs[rank], *sizes, states[rank], 0, no_limit, rank, ranks)
            gpus.synchronize()
            assert all(torch.equal(out, in_order(torch.stack(xs))) for out in outs), (name, vectors)
        assert [state.tolist() for state in states] == [[len(jobs), 0]]*ranks


# Plays a copy engine on an emulated device of its own: waits until all ranks have begun the round and until `ready`,
# copies columns begin to end - 1, sets a flag.
COPY_ENGINE = """
__device__ void wait(const int *flag, int round) {
    int x;
    do asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(flag) : "memory");
    while (x < round);
}
__global__ void copy_engine(const short *from, short *to, const int *started, const int *ready, int *flag, int round,
                            int rank, int ranks, int pitch, int begin, int end, int rows) {
    for (int p = 0; p < ranks; p++)
        if (p != rank) wait(started + p, round);
    wait(ready, round);
    __syncthreads();
    for (int i = threadIdx.x; i < rows*(end - begin); i += blockDim.x) {
        const int at = i/(end - begin)*pitch + begin + i%(end - begin);
        to[at] = from[at];
    }
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("st.release.sys.global.u32 [%0], %1;" :: "l"(flag), "r"(round) : "memory");
}"""
TILE = Tile(BM=64, BN=64, STAGES=2, WGS=1, CM=1, CN=1, BLOCKS=1)


def begin_round_source():
    return ''.join(files(ring).joinpath(f'{name}.cuh').read_text() for name in ('waits', 'collectives'))


class Overlapped:
    "The memory of one product that overlaps its communication, and its launches, on emulated devices"
    def __init__(self, gpus, is_gather, ranks, M, N, K, chunks, rounds, begin_source):
        self.gpus, self.is_gather, self.ranks, self.sizes, self.rounds = gpus, is_gather, ranks, (M, N, K), rounds
        self.copy, self.begin = cuda_kernel(COPY_ENGINE), cuda_kernel(begin_source, 'begin_round')
        self.ends = overlap.chunk_ends(K, chunks)
        self.chunks, self.chunk_rows = chunks, overlap.chunk_rows(is_gather, M, chunks, TILE)
        def symmetric(*shape, dtype=torch.bfloat16, name): return gpus.symmetric(shape, dtype, name)
        self.x = symmetric(rounds, *(() if is_gather else (ranks,)), M, K, name='x')
        self.w, self.inbox = symmetric(K, N, name='w'), symmetric(ranks, M, K if is_gather else N, name='inbox')
        self.out = symmetric(rounds, ranks if is_gather else 1, M, N, name='out')
        self.last = symmetric(rounds, 1, M, N, name='last')
        self.arrived = symmetric(ranks + 1, overlap.MAX_CHUNKS, dtype=torch.int32, name='arrived')
        self.signals = symmetric(3, overlap.MAX_CHUNKS, dtype=torch.int32, name='signals')
        self.copy_state = symmetric(6, dtype=torch.int64, name='exchange')
        started = symmetric(ranks, dtype=torch.int64, name='pointers')[0]
        started.copy_(torch.tensor([x[ranks].data_ptr() for x in self.arrived[:ranks]]))
        self.started = started

    def run(self, rng):
        "Run the rounds on all devices, with no wait in between; return the results, and those in float64"
        ranks = self.ranks
        for rank in range(ranks):
            for x in (self.x[rank], self.w[rank]): x.copy_(torch.randn(x.shape, generator=rng))
            for x in (self.out[rank], self.last[rank]): x.fill_(torch.nan)
            stored, complete, ready = self.signals[rank]
            ready.fill_(self.rounds)
            pointers = [x.data_ptr() for x in (self.arrived[rank], stored, complete)]
            self.copy_state[rank].copy_(torch.tensor([0, *pointers, 0, 2**60]))
        for i in range(self.rounds):
            for rank in range(ranks): self.launch(rank, i)
        self.gpus.synchronize()
        xs, ws = [[x.double() for x in y[:ranks]] for y in (self.x, self.w)]
        if self.is_gather: return self.out[:ranks], [torch.stack([x @ w for x in xs], 1) for w in ws]
        return self.last[:ranks], [sum(x[:, rank] @ w for x, w in zip(xs, ws))[:, None] for rank in range(ranks)]

    def launch(self, rank, i):
        (M, N, K), ranks = self.sizes, self.ranks
        x, inbox, others = self.x[rank][i], self.inbox[rank], [(rank - s) % ranks for s in range(1, ranks)]
        with self.gpus[rank]:
            self.begin[1, 32](self.copy_state[rank], self.started, rank, ranks)
            if self.is_gather:
                overlap.all_gather_matmul(x, self.w[rank], self.out[rank][i], inbox, self.copy_state[rank], rank,
                                          len(self.ends), TILE)
            else:
                overlap.matmul_reduce_scatter(x.view(-1, K), self.w[rank], self.out[rank][i, 0], self.last[rank][i, 0],
                                              inbox[others[0]], self.copy_state[rank], rank, self.chunks, TILE)
        with self.gpus[ranks + rank]:
            for destination in others:
                to, arrived = self.inbox[destination][rank], self.arrived[destination][rank]
                _, complete, ready = self.signals[rank]
                if self.is_gather:
                    for c, (begin, end) in enumerate(zip([0] + self.ends, self.ends)):
                        self.send(rank, i, x, to, ready[c:], arrived[c:], K, begin, end, M)
                else:
                    for c, row in enumerate(range(0, M, self.chunk_rows)):
                        self.send(rank, i, self.out[rank][i, 0, row:], to[row:], complete[c:], arrived[c:], N, 0, N,
                                  min(self.chunk_rows, M - row))

    def send(self, rank, i, x, to, ready, flag, *sizes):
        self.copy[1, 32](x.view(torch.int16), to.view(torch.int16), self.arrived[rank][self.ranks], ready, flag, i + 1,
                         rank, self.ranks, *sizes)


@pytest.mark.parametrize('is_gather, ranks, sizes, chunks', (
    (True, 2, (72, 72, 200), 2), mark_exhaustive((True, 4, (64, 64, 328), 3)), (False, 2, (136, 72, 64), 2),
    mark_exhaustive((False, 2, (64, 136, 72), 1))))
def test_overlapped_product_on_emulated_devices(is_gather, ranks, sizes, chunks):
    rng = torch.Generator().manual_seed(0)
    with on_emulator(), ring.devices(2*ranks) as gpus:
        for got, want in zip(*Overlapped(gpus, is_gather, ranks, *sizes, chunks, 3, begin_round_source()).run(rng)):
            assert torch.linalg.norm(got - want)/torch.linalg.norm(want) < 3e-3   # two roundings to 8 bits


@pytest.mark.parametrize('is_gather, correct, wrong', (
    (False, 'wait_arrival(state.arrived + other*MAX_COPIES + chunk, round, other, watch);', ';'),
    (False, '__syncwarp();\n            } else', '} else'),
    mark_exhaustive((False, 'earlier != warps - 1', 'earlier != warps - 2')),
    (False, 'atom.acq_rel.gpu', 'atom.relaxed.gpu'),
    (False, 'store_release(state.complete + chunk, (u32)state.round)',
     'state.complete[chunk] = (u32)state.round'),
    mark_exhaustive((True, 'wait_arrival(state.arrived + source*MAX_COPIES + arrived, round, source, watch);', '')),
    (True, 'arrived < chunks && (arrived == 0', 'arrived < 1 && (arrived == 0'),
    mark_exhaustive((True, 'store_release((u32 *)started[p] + rank, round)', '*((u32 *)started[p] + rank) = round'))))
def test_missing_order_is_a_race(is_gather, correct, wrong, monkeypatch):
    original, begin_source = overlap.overlap_source, begin_round_source()
    def broken_source(*args): return original(*args).replace(correct, wrong)
    source = original('bfloat16', is_gather, TILE) + begin_source[begin_source.index('begin_round('):]
    assert source.count(correct) == 1
    monkeypatch.setattr(overlap, 'overlap_source', broken_source)
    overlap._prepared_launch.cache_clear()
    sizes = (72, 72, 200) if is_gather else (136, 72, 64)
    with pytest.raises(RacecheckError), on_emulator(), ring.devices(4) as gpus:
        begin_source = begin_source.replace(correct, wrong)
        Overlapped(gpus, is_gather, 2, *sizes, 2, 2, begin_source).run(torch.Generator().manual_seed(0))
    overlap._prepared_launch.cache_clear()


def test_chunks_of_columns():
    assert overlap.chunk_ends(8192, 4) == [4096, 6144, 7168, 8192]
    for K in (1, 64, 100, 128, 8200):
        for chunks in (1, 2, 5, 64):
            ends = overlap.chunk_ends(K, chunks)
            assert ends[-1] == K and len(ends) <= chunks and all(a < b for a, b in zip([0] + ends, ends))


def collectives(rank, xs, rows, columns, w):
    return [ring.all_reduce(x[rank]) for x in xs], ring.all_gather_matmul(rows[rank], w), ring.matmul_reduce_scatter(
        columns[rank], w)


def test_messages():
    torch.manual_seed(0)
    ranks, xs = 3, [torch.randn(3, 40).bfloat16(), 100*torch.randn(3, 5, 3), torch.randn(3, 0)]
    rows, columns, w = torch.randn(3, 4, 6), torch.randn(3, 9, 6), torch.randn(6, 5)
    got = ring.launch(collectives, ranks, xs, rows, columns, w, backend='gloo')
    scattered = (columns.double() @ w.double()).sum(0).chunk(ranks)
    for rank, (sums, gathered, part) in enumerate(got):
        assert all(torch.equal(s, in_order(x)) for s, x in zip(sums, xs))
        torch.testing.assert_close(gathered, rows.reshape(-1, 6) @ w)
        torch.testing.assert_close(part.double(), scattered[rank], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('call, error', (
    (lambda: ring.all_reduce([1.]), TypeError), (lambda: ring.all_reduce(torch.arange(3)), TypeError),
    (lambda: ring.all_reduce(torch.ones(2, 3).T), ValueError), (lambda: ring.all_reduce(torch.ones(3)), RuntimeError),
    (lambda: ring.all_gather_matmul(torch.ones(2, 3), torch.ones(2, 3)), ValueError),
    (lambda: ring.matmul_reduce_scatter(torch.ones(2, 3), torch.ones(3, 3).bfloat16()), ValueError)))
def test_refused(call, error):
    with pytest.raises(error): call()


def test_rows_that_ranks_do_not_divide():
    def uneven(rank): ring.matmul_reduce_scatter(torch.ones(3, 2), torch.ones(2, 2))
    with pytest.raises(ring.RankError) as e: ring.launch(uneven, 2, backend='gloo')
    assert '3' in e.value.reason and '2' in e.value.reason


def test_model():
    link = ring.Link(2e-6, 300e9)
    times = {size: ring.all_reduce_seconds('one_shot', size, 2, link) for size in (1e3, 1e5, 1e8)}
    fit = ring.fit_link(times)
    assert fit.latency == pytest.approx(2e-6) and fit.speed == pytest.approx(300e9)
    assert ring.all_reduce_bytes('one_shot', 8, 2) == ring.all_reduce_bytes('two_shots', 8, 2) == 8
    assert ring.all_reduce_bytes('words', 8, 4) == 48 and ring.all_reduce_bytes('two_shots', 8, 4) == 12
    with pytest.raises(ValueError): ring.all_reduce_bytes('three_shots', 8, 2)
    with pytest.raises(ValueError): ring.fit_link({8: 1.})


def test_prediction_is_that_of_the_measurements(monkeypatch):
    folder = Path(__file__).parents[1]/'benchmarks'
    monkeypatch.syspath_prepend(folder)                                   # it imports another benchmark
    spec = importlib.util.spec_from_file_location('collectives_benchmark', folder/'collectives.py')
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    prediction, committed = (json.loads(text) for text in (
        json.dumps(benchmark.predict(json.loads((folder/'collectives.json').read_text()))),
        (folder/'collectives_prediction.json').read_text()))
    assert prediction['fitted_to'] == committed['fitted_to']
    for part, time in (('two_gpus', 'model_us'), ('prediction', 'us')):
        assert [row[time] for row in prediction[part]] == pytest.approx([row[time] for row in committed[part]])
    assert max(abs(row['model_us']/row['measured_us'] - 1) for row in committed['two_gpus']) < .15
