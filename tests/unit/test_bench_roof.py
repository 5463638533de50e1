"The roofline in figures: what the roof allows, what work is, where kernels are."
import re
from types import SimpleNamespace

import numpy as np
import pytest
from gridstride import sim
from gridstride.bench import limits
from gridstride.bench.roof import Work, attainable, from_ncu, from_trace, roofline

FFMA, FADD, DFMA = (f'smsp__sass_thread_inst_executed_op_{o}_pred_on.sum' for o in ('ffma', 'fadd', 'dfma'))


def test_the_roofline_rises_and_then_is_flat():
    assert attainable(1, 3000, 50) == 3 and attainable(1000., 3000, 50) == 50


def test_a_fused_multiplication_counts_as_two_operations():
    both = {'dram__bytes.sum': 8e6, 'gpu__time_duration.sum': 4000, FFMA: 1e6, FADD: 5e5}
    assert from_ncu(both) == (2.5e6, 8e6, pytest.approx(4e-6))
    assert from_ncu({'dram__bytes_read.sum': 6e6, 'dram__bytes_write.sum': 2e6, DFMA: 1e6}) == Work(2e6, 8e6, None)
    with pytest.raises(ValueError, match='smsp__sass'): from_ncu({'dram__bytes.sum': 8e6})


def test_a_trace_knows_the_bytes_of_its_sectors():
    x, out = np.ones(64, np.float32), np.empty(64, np.float32)

    @sim.cuda.jit
    def double(x, out):
        i = sim.cuda.grid(1)
        out[i] = 2*x[i]
    with sim.trace() as t: double[2, 32](x, out)
    assert from_trace(64, t) == Work(64, 2*64*4, None)
    one, same = roofline({'trace': (64, t), 'numbers': (64, 512)}, roof=limits.H100).points
    assert one[1:] == same[1:]


@pytest.fixture
def points():
    n, (h, k, w) = 10000**2, (5120, 256, 5120)
    product = 2*h*k*w, 4*(h*k+k*w+h*w)
    r = roofline(
        {
            'square': (n, 8 * n, 8 * n / 2960e9),
            'matmul': (2 * 4096**3, 12 * 4096**2, 0.00266),
            'torch': (*product, 0.000332),
            'naive': (*product, 0.00259),
            'softmax': (5 * 8192**2, 8 * 8192**2),
        },
        roof=limits.H100,
    )
    return {p.name: p for p in r.points}


def test_each_kernel_is_limited_by_the_nearer_bound(points):
    assert [p.bound for p in points.values()] == ['memory', 'compute', 'compute', 'compute', 'memory']


def test_fractions_are_of_the_roof_above(points):
    assert points['square'].intensity == 1/8 and points['square'].fraction == pytest.approx(2960/limits.H100['copy'])
    assert points['torch'].fraction/points['naive'].fraction == pytest.approx(2.59/.332)
    assert points['softmax'].fraction is None, 'it was not timed'


def test_claims_about_kernels_are_a_column():
    r = roofline({'a': (8e9, 8e9, 1/300), 'b': (8e9, 8e9, 1/150), 'c': (8, 8)}, roof=limits.H100)
    assert len(r.table.header) == len(r.rows()[0])
    without = len(r.head)
    r.expect('a', 70, 90, unit='%').expect('a', 60, 80, unit='% of the data sheet').expect('c', 1, 2, unit='TFLOP/s')
    assert r.in_unit('a', '%') == pytest.approx(2.4e5/r.roof['copy']) and r.in_unit('c', '%') is None
    assert len(r.head) == without + 1 and [bool(row[-1]) for row in r.rows()] == [True, False, True]
    assert re.findall(r'\d+', r.rows()[0][-1])[-2:] == ['60', '80']
    assert re.findall(r'[\d.]+', r.expect('b', .4, .6, over='a').rows()[1][-1]) == ['0.4', '0.6', '0.5']
    with pytest.raises(KeyError, match='a, b, c'): r.expect('d', 1, 2)


@pytest.mark.slow
def test_the_picture_has_the_roof():
    import matplotlib.pyplot as plt
    ax = roofline({'k': (1, 8)}, roof=limits.H100).plot()
    assert ax.lines[0].get_ydata()[1:] == pytest.approx([limits.H100['fp32']]*2)
    plt.close(ax.figure)


@pytest.mark.parametrize(
    'work,peak,words',
    [
        ((0, 8), None, 'flops .*unknown'),
        (SimpleNamespace(flops=3, bytes=None, median=1.0), None, 'bytes .*unknown'),
        ((1, 8), 'fp8', 'fp32, tf32, bf16'),
    ],
)
def test_what_cannot_be_placed_is_refused(work, peak, words):
    with pytest.raises(ValueError, match=words): roofline({'a': work}, peak=peak, roof=limits.H100)
