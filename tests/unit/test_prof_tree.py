"Proton's tree and timeline, from data in its form."
import json

import pytest
from gridstride.prof import tree
from gridstride.prof.tree import Session, Timeline, Tree, proton, scope
from gridstride.bench.recording import Unavailable
from found import names


def frame(name, *children, **metrics):
    return dict(frame=dict(name=name, type='function'), children=list(children), metrics=metrics)


HELPER = frame('__proton_launch_metadata', frame('helper', **{'time (ns)': 500, 'count': 1}))
DATA = [
    frame(
        'ROOT',
        frame(
            'step',
            frame('scale', frame('scale_kernel', **{'time (ns)': 3000, 'count': 3, 'bytes': 9000, 'device_id': '0'})),
            frame(
                'matmul',
                HELPER,
                frame('sgemm', **{'time (ns)': 7000, 'count': 1, 'flops32': 5}),
                flops32=14e3,
                bytes=7000,
            ),
        ),
        frame('empty'),
    ),
    {'CUDA': {'0': {'arch': '90'}}},
]


@pytest.fixture
def t(): return Tree(DATA)


def test_what_a_scope_was_given_stands_for_what_is_in_it(t):
    assert (t['step'].count, t['scale'].bytes, t['matmul'].flops, t['step'].bytes) == (4, 9000, 14000, 16000)
    assert t.root.seconds == pytest.approx(1e-5)


def test_the_longest_comes_first_and_what_computes_metrics_is_left_out(t):
    assert [str(c) for c in t.table().rows[1][1:]] == ['1', '7.00 µs', '70%', '1.00 GB/s', '2.00 GFLOP/s']
    assert [str(r[0]) for r in t.table().rows] == ['step', 'matmul', 'sgemm', 'scale', 'scale_kernel']
    with pytest.raises(KeyError, match='step, empty'): t['nothing']


def test_the_first_versions_wrote_time_and_count_in_capitals(t):
    old = json.dumps(DATA).replace('time (ns)', 'Time (ns)').replace('"count"', '"Count"')
    assert repr(Tree(json.loads(old))) == repr(t)


def mark(name, start, dur, warp, line):
    return dict(ph='X', name=name, ts=start/1000, dur=dur/1000, pid='mm Core7 CTA0', tid=f'warp {warp} (line {line})',
                args={'Frequency (MHz)': 1000.})


MARKS = [('kernel', 100, 1000, 0), ('load', 150, 300, 1), ('dot', 460, 100, 1), ('load', 600, 200, 1)]


@pytest.fixture
def inside(): return Timeline(dict(traceEvents=[mark(n, s+50*w, d, w, l) for w in (0, 1) for n, s, d, l in MARKS]))


def test_marks_are_cycles_of_each_scope(inside):
    assert (inside.names, inside.blocks) == (['kernel', 'load', 'dot'], [0])
    assert [str(o) for o in inside.table().rows[1]] == ['load', '2', '250', '200', '300', '50%']
    assert repr(Timeline(inside.to_json())) == repr(inside)


def test_missing_marks_are_reported(inside):
    with pytest.raises(ValueError, match=r'block 3 .*: \[0\]'): inside.picture(block=3)
    with pytest.raises(ValueError, match='no scopes'): Timeline(dict(traceEvents=[]))


def test_a_scope_outside_a_session_does_nothing():
    with scope('outside of a session', bytes=3): pass


def test_without_a_gpu_a_session_is_unavailable(monkeypatch):
    monkeypatch.setattr(tree, 'no_gpu', lambda: 'no GPU is here')
    with pytest.raises(Unavailable): proton(print)
    with pytest.raises(Unavailable): Session().__enter__()
    assert names(repr(Session()), 'Proton session')
