"A trace of nine events, and one that torch writes here."
import gzip
import json
from pathlib import Path

import pytest
from gridstride.prof.trace import Profile, group_by_operator, parse_spans, profile, trim_trace


def event(cat, name, ts, dur, tid=1, **args):
    return dict(ph='X', cat=cat, name=name, ts=1000+ts, dur=dur, pid=0, tid=tid, args=args)


SMALL = dict(traceEvents=[
    dict(ph='M', name='process_name', pid=0),
    event('user_annotation', 'ProfilerStep#1', 0, 200),
    event('cpu_op', 'aten::linear', 10, 60),
    event('cpu_op', 'aten::mm', 20, 40),
    event('cuda_runtime', 'cudaLaunchKernel', 30, 10, correlation=5),
    event('kernel', 'void gemm<float>(int)', 50, 100, 7, correlation=5, stream=7, device=0),
    event('cuda_driver', 'cuLaunchKernelEx', 80, 5, correlation=6),
    event('kernel', 'tri', 150, 20, 7, correlation=6, stream=7, device=0),
    event('cuda_runtime', 'cudaDeviceSynchronize', 100, 75, correlation=7)])


@pytest.fixture
def found(): return {s.name: s for s in parse_spans(SMALL)}


def test_an_operators_own_time_is_what_its_inner_ones_leave(found):
    own = [found['aten::linear'].self_seconds, found['aten::mm'].self_seconds, found['void gemm<float>(int)'].seconds]
    assert own == pytest.approx([2e-5, 4e-5, 1e-4])


def test_a_kernel_belongs_to_the_operator_that_launched_it(found):
    assert found['aten::mm'].parent.name == 'aten::linear' and found['aten::mm'].depth == 2
    assert found['void gemm<float>(int)'].op.name == 'aten::mm' and found['tri'].op.name == 'ProfilerStep#1'


def test_a_trace_without_events_is_refused():
    with pytest.raises(ValueError, match='operators'): parse_spans(dict(traceEvents=[]))


def test_groups_are_by_time_on_the_gpu():
    g = group_by_operator(parse_spans(SMALL))
    assert [(o.name, o.count, list(o.kernels)) for o in g] == [
        ('aten::mm', 1, ['gemm']), ('tri', 1, ['tri']), ('cudaDeviceSynchronize', 1, []), ('aten::linear', 1, [])]
    assert [o.gpu_seconds for o in g] == pytest.approx([1e-4, 2e-5, 0, 0])


def test_how_busy_the_gpu_was():
    p = Profile(SMALL)
    assert len(p.steps) == 1 and [p.seconds, p.busy] == pytest.approx([2e-4, 1.2e-4])


@pytest.fixture(scope='module')
def here():
    import torch
    a = torch.randn(256, 256)
    def work(a, n): return torch.softmax(a@a, -1).sort()[0][:n].sum()
    return profile(work, a, 10, steps=2)


def test_torch_is_profiled_where_no_gpu_is(here):
    if here.has_gpu: pytest.skip('a GPU is here')
    by = {g.name: g.count for g in here.groups}
    assert (
        len(here.steps) == 2 and [by['aten::mm'], by['aten::_softmax']] == [2, 2] and 'No GPU was used' in repr(here)
    )
    assert sum(g.cpu_seconds for g in here.groups) <= here.seconds


def counts(p): return [(g.name, g.count) for g in p.groups]


def test_what_a_recording_keeps_gives_the_same_table(here):
    again = Profile(trim_trace(here.data), provenance='recorded somewhere')
    assert counts(again) == counts(here) and 'recorded somewhere' in repr(again)
    assert len(json.dumps(trim_trace(here.data))) < len(json.dumps(here.data))


def test_a_trace_can_be_saved_for_a_viewer(here, tmp_path):
    link = here.trace(tmp_path/'work.json.gz')
    assert counts(Profile(json.loads(gzip.decompress(Path(link).read_bytes())))) == counts(here)
    assert 'download' in link._repr_html_() and 'perfetto' in repr(link)


def test_the_machines_name_is_kept_out(here): assert not any('host' in k for k in here.data)


def test_a_schedule_has_an_active_call():
    with pytest.raises(ValueError, match='active'): profile(print, schedule=(1, 1, 0))
