"Collectives: by messages among processes, and their kernels on emulated devices; and the model of their time."
import importlib.util, json, sys
from importlib.resources import files
from pathlib import Path

import cloudpickle
import pytest
import torch
from gridstride import ring
from gridstride.cpp import cuda_kernel, on_emulator

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
    text = files(ring).joinpath('collectives.cuh').read_text().replace('THREADS = 512', 'THREADS = 64')
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
