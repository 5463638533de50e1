"""The cost model of products: fitted to made-up measurements, of which it is known what lies behind them."""
import importlib.util, json, math
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1]/'benchmarks'


@pytest.fixture(scope='module')
def cost():
    spec = importlib.util.spec_from_file_location('benchmark_cost', FOLDER/'cost.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope='module')
def truth(cost): return cost.Model(1.1, .9, 2.4, 1.5, 1/1300, 4500, 2500, 1500, .05, 2500, .2)


TILES = [(128, 256, 2, 1), (128, 192, 2, 1), (128, 128), (64, 64), (64, 128, 1, 1, 4), (64, 64, 1, 1, 1, 3),
         (128, 96, 1, 2), (128, 64, 1, 1, 2), (192, 192, 1, 2, 1, 1, 1, 1), (256, 176, 1, 2, 1, 1, 1)]


@pytest.fixture(scope='module')
def rows(cost, truth):
    "Measurements of all tiles for 25 shapes, 3% off in the mean"
    rng = Random(0)
    return [dict(shape=shape, layout=layout, tile=t, rank=i,
                 cycles=cost.cycles(truth, shape, layout, t)*math.exp(rng.gauss(0, .03)))
            for shape in cost.drawn(25) for layout in ('nn', 'nt') for i, t in enumerate(cost.Tile(*o) for o in TILES)]


def test_the_fit_finds_what_lies_behind_the_measurements(cost, truth, rows):
    m = cost.fitted(rows)
    off = np.abs(cost.logs([dict(r, cycles=cost.cycles(truth, r['shape'], r['layout'], r['tile'])) for r in rows], m))
    start = np.abs(cost.logs(rows, cost.Model()))
    assert np.median(off) < .01 and np.percentile(off, 95) < .05 < np.median(start)
    assert m.tensor == pytest.approx(truth.tensor, rel=.03) and m.begin == pytest.approx(truth.begin, rel=.1)


def test_what_is_far_off_does_not_carry_the_fit_away(cost, truth, rows):
    "One measurement in 25 four times too slow, as when something else ran on the GPU"
    spoilt = [dict(r, cycles=r['cycles']*(4 if i%25 == 0 else 1)) for i, r in enumerate(rows)]
    off = np.abs(cost.logs([r for i, r in enumerate(rows) if i%25], cost.fitted(spoilt)))
    assert np.median(off) < .05 and np.percentile(off, 95) < .15


def test_a_kernel_that_is_slower_than_others_has_a_factor(cost, truth, rows):
    slow = cost.Tile(*TILES[1])
    m, by_tile = cost.fit_all([dict(r, cycles=r['cycles']*(1.15 if r['tile'] == slow else 1)) for r in rows])
    others = [f for t, f in by_tile.items() if t != slow]
    assert by_tile[slow] == pytest.approx(1.15, abs=.05) and max(abs(f - 1) for f in others) < .06
    assert cost.predicted((m, {}), rows[0])*by_tile[rows[0]['tile']] == cost.predicted((m, by_tile), rows[0])


def test_few_rows_say_little_of_a_kernel(cost, truth, rows):
    few = [dict(r, cycles=2*r['cycles']) for r in rows[:1]]
    assert 1 < cost.factors(few, cost.fitted(rows))[few[0]['tile']] < 1.25


def test_what_a_pick_loses(cost):
    rows = [dict(shape=s, layout='nn', cycles=c) for s, c in (((8, 8, 8), 100), ((8, 8, 8), 120), ((16, 8, 8), 50),
                                                              ((16, 8, 8), 40))]
    assert cost.lost(rows, [1, 2, 3, 4]) == [1, 1.25] and cost.lost(rows, [2, 1, 4, 3]) == [1.2, 1]


def test_the_model_picks_for_shapes_that_it_has_not_seen(cost, rows):
    said = list(cost.report(rows))
    assert said[0].startswith('500 measurements of 50 products by 10 kernels; errors for unseen shapes: half below 2.')
    mine, rule = (float(next(o for o in said if o.startswith(name) and ' nt:' in o).split(':')[1].split()[0])
                  for name in ("the model's", "today's"))
    assert 1 <= mine < 1.03 < rule, 'the rule takes the first tile for every shape'


def test_each_number_of_the_model_does_something(cost, truth, rows):
    for name in cost.Model._fields:
        more = truth._replace(**{name: 2*getattr(truth, name)})
        assert any(cost.cycles(more, r['shape'], r['layout'], r['tile'])
                   > 1.001*cost.cycles(truth, r['shape'], r['layout'], r['tile']) for r in rows), name


def test_a_fit_is_read_and_written(cost, rows, tmp_path, capsys):
    kept = [dict(r, tile=r['tile']._asdict()) for r in rows] + [dict(shape=[8]*3, layout='nn', tile={}, failed='no')]
    (tmp_path/'cost.json').write_text(json.dumps(dict(made=dict(gpu='a GPU'), rows=kept)))
    cost.main(['fit', '--data', str(tmp_path/'cost.json'), '--to', str(tmp_path/'fit.json')])
    found, said = json.loads((tmp_path/'fit.json').read_text()), capsys.readouterr().out
    assert cost.Model(**found['model']) == cost.fitted(rows) and len(found['factors']) == len(TILES)
    assert found['made'] == dict(gpu='a GPU') and "the model's pick" in said and 'began at 6000' in said


def test_candidates_are_those_that_rules_like_and_others(cost):
    jobs = [(shape, layout, cost.candidates(shape, layout, Random(0))) for shape in cost.drawn(1)
            for layout in cost.LAYOUTS[:2]]
    for shape, layout, known in jobs:
        assert [rank for _, _, rank in known] == [*range(10 if layout == 'nn' else 5)]
        assert all(k.layout == layout and k.supports(*shape) for k, _, _ in known)
        assert {t.family for _, t, _ in known} == ({'final', 'tiled'} if layout == 'nn' else {'tiled'})
    assert (5240, 2256, 400) not in cost.drawn() and cost.SEED != 0, 'what tables judge is no part of the fit'


def test_measuring_keeps_what_failed(cost, tmp_path, monkeypatch, capsys):
    "On the CPU, with a kernel that is right, one that is wrong, and one that raises"
    import sys
    import torch
    def operands(shape, dtype, layout):
        a, b = torch.randn(shape[0], shape[2]), torch.randn(shape[2], shape[1])
        return a, b, a, b, torch.empty(shape[:2])
    def wrong(m, n, out): out.copy_(2*(m @ n))
    def broken(m, n, out): raise RuntimeError('no\nway')
    def right(m, n, out): torch.matmul(m, n, out=out)
    beside = SimpleNamespace(operands=operands, KEPT=dict(read=lambda: None), prepare=lambda *args: {})
    monkeypatch.setitem(sys.modules, 'beside', beside)
    from gridstride.bench import columns
    monkeypatch.setattr(columns, 'one_run', lambda clock, calls, seconds: (dict(it=[calls['it']() or 1e-5]*3), 1500.))
    for f in (right, wrong, broken): f.name = f.__name__
    known = [(f, cost.Tile(64, 64), i) for i, f in enumerate((right, wrong, broken))]
    monkeypatch.setattr(cost, 'jobs', lambda: [((8, 16, 24), 'nn', known)]*2)
    cost.main(['measure', '--data', str(tmp_path/'cost.json')])
    rows = json.loads((tmp_path/'cost.json').read_text())['rows']
    assert rows[0]['cycles'] == pytest.approx(15000) and rows[0]['tile']['BM'] == 64
    assert "from torch's" in rows[1]['failed'] and rows[2]['failed'] == 'RuntimeError: no'
    assert '2 of 2 products, 6 rows, 4 failed' in capsys.readouterr().out
    assert len(cost.read(tmp_path/'cost.json')) == 2
