"The simulator's counters against those that Nsight Compute read on an NVIDIA H100."
import json
import sys
from pathlib import Path

import pytest

from gridstride import sim

ncu = Path(__file__).parent/'ncu'
sys.path.insert(0, str(ncu))
from kernels import kernels

want = json.loads((ncu/'h100.json').read_text())
cases = kernels(sim.cuda)


def test_every_kernel_was_recorded():
    assert [c[0] for c in cases] == list(want) and len(cases) >= 12

@pytest.mark.parametrize('case', cases, ids=lambda c: c[0])
def test_counters_equal_the_hardware(case):
    name,k,grid,block,args = case
    with sim.options(checks='none'), sim.trace() as t: k[grid, block](*args)
    assert {c: t.stats[c] for c in want[name]} == want[name]

def test_lines_add_up_to_the_total():
    name,k,grid,block,args = cases[-2]
    with sim.options(checks='none'), sim.trace() as t: k[grid, block](*args)
    assert all(sum(c[field] for c in t.lines.values()) == total for field,total in t.stats.items())
    assert 'ms[tr,tc] = m[r, ph*tw+tc]' in repr(t)

def test_only_what_runs_inside_is_counted():
    name,k,grid,block,args = cases[0]
    with sim.trace() as outer:
        k[grid, block](*args)
        with sim.trace() as inner: k[grid, block](*args)
    k[grid, block](*args)
    assert outer.stats == inner.stats and outer.stats.global_load_requests == want[name]['global_load_requests']
