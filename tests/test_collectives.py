"Collectives: by messages among processes, and their kernels on the emulator, where a row of blocks stands for a rank."
import sys
from importlib.resources import files

import cloudpickle
import pytest
import torch
from gridstride import ring
from gridstride.cpp import cuda_kernel

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # or each rank imports this file, and pytest with it

ALGORITHMS = 'words', 'one_shot', 'two_shots'
WRAPPER = '''
__global__ void reduce_rows(int algorithm, const __nv_bfloat16 *x, __nv_bfloat16 *out, long long vectors, u64 *pool,
                            const long long *at, u32 *state, int ranks) {
    typedef __nv_bfloat16 T;
    const int r = blockIdx.y;
    const u64 no_limit = 1ULL << 60;
    u64 inboxes[8], flags[8];
    for (int i = 0; i < ranks; i++) inboxes[i] = (u64)(pool + at[i]), flags[i] = (u64)(pool + at[ranks + i]);
    x += 8*r*vectors, out += 8*r*vectors, state += 2*r;
    if (algorithm == 0) all_reduce_words<T>(x, out, 4*vectors, inboxes, 4096, state, 0, no_limit, r, ranks);
    if (algorithm == 1)
        all_reduce_one_shot<T>(x, out, vectors, inboxes, 1024, flags, state, 0, no_limit, r, ranks);
    const long long part = (vectors + ranks - 1)/ranks;
    if (algorithm == 2) all_reduce_two_shots<T>(x, out, vectors, part, inboxes, flags, state, 0, no_limit, r, ranks);
}
'''


def in_order(x):
    "The sums of the ranks' rows, in float32, rounded once"
    total = torch.zeros(x.shape[1:])
    for row in x: total += row
    return total.to(x.dtype)


@pytest.fixture(scope='module')
def emulated():
    text = files(ring).joinpath('collectives.cuh').read_text().replace('THREADS = 512', 'THREADS = 64')
    text = text.replace('__global__ void __launch_bounds__(THREADS)\nall_reduce', '__device__ void\nall_reduce')
    return cuda_kernel('#define VECTORS 2\n' + text + WRAPPER, 'reduce_rows')


@pytest.mark.parametrize('ranks', (2, 3))
def test_kernels_on_the_emulator(emulated, ranks):
    inbox, flags = 2*ranks*4096, 2*512*ranks              # in elements of 8 bytes
    pool, state = torch.zeros(ranks*(3*inbox + flags), dtype=torch.int64), torch.zeros(ranks, 2, dtype=torch.int32)
    flags_at = [3*inbox*ranks + r*flags for r in range(ranks)]
    at = [torch.tensor([(i*ranks + r)*inbox for r in range(ranks)] + flags_at) for i in range(len(ALGORITHMS))]
    rng = torch.Generator().manual_seed(ranks)
    jobs = [('words', 9), ('words', 500), ('one_shot', 7), ('one_shot', 999), ('two_shots', 998), ('two_shots', 1),
            ('words', 50), ('two_shots', 770), ('one_shot', 130), ('words', 3)]
    for name, vectors in jobs:
        x, i = torch.randn(ranks, 8*vectors, generator=rng).bfloat16(), ALGORITHMS.index(name)
        out = torch.full_like(x, torch.nan)
        emulated[(3, ranks), 64](i, x, out, vectors, pool, at[i], state, ranks)
        assert all(torch.equal(o, in_order(x)) for o in out), (name, vectors)
    assert state.tolist() == [[len(jobs), 0]]*ranks


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
