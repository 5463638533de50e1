"Figures in fitting units, results checked before they are timed, and the text of a timing."
import numpy as np
import pytest
from gridstride.bench import clocks, limits
from gridstride.bench.timing import Timing, bench, call_checked, input_warnings, rate_text, time_text

X = np.linspace(1, 2, 5)


@pytest.mark.parametrize('seconds,text', [
    (2.5, '2.5 s'), (1, '1 s'), (.0026617, '2.662 ms'), (.001, '1 ms'), (8.796e-5, '87.96 µs'), (1e-6, '1 µs'),
    (.00099999, '1000 µs'), (4.4e-7, '440 ns'), (3e-9, '3 ns')])
def test_times_have_the_unit_that_fits(seconds, text): assert time_text(seconds) == text


@pytest.mark.parametrize('gbs,tflops,text', [
    (3001.2, None, '3,001 GB/s'), (None, 51.63, '51.6 TFLOP/s'), (2, 777.4, '2 GB/s, 777 TFLOP/s'), (None, None, '')])
def test_rates_have_three_digits(gbs, tflops, text): assert rate_text(gbs, tflops) == text


def judge(got): np.testing.assert_allclose(got, X*X)


@pytest.mark.parametrize('check', [np.square, X*X, judge], ids=['reference', 'values', 'judge'])
def test_a_check_may_be_a_reference_values_or_a_judge(check): call_checked(np.square, (X,), check)


def test_an_unwritten_element_is_named():
    def off_by_one(x, out): out[:-1] = (x*x)[:-1]
    out = X*X
    with pytest.raises(AssertionError, match=r'\[4\]: got nan'):
        call_checked(off_by_one, (X, out), lambda x, out: x*x, out=out)
    with pytest.raises(TypeError, match='out='): call_checked(off_by_one, (X, out), X*X)


def test_a_reference_that_cannot_take_a_result_is_given_the_arguments():
    def rows(x): return x.sum(1)
    call_checked(rows, (np.ones((2, 3)),), rows)
    with pytest.raises(AssertionError, match='are wrong'): call_checked(rows, (np.ones((2, 3)),), lambda m: m.mean(1))


@pytest.mark.parametrize('fn,args', [(np.negative, (X,)), (np.subtract, (X, 2*X))])
def test_a_judge_may_raise_what_it_likes(fn, args):
    def no_negative(got):
        if (got < 0).any(): raise ValueError('negative')
    with pytest.raises(ValueError, match='negative'): call_checked(fn, args, no_negative)


def test_constant_inputs_are_warned_of_and_outputs_are_not():
    assert len(input_warnings((np.zeros(9), np.ones((3, 3)), X, 3, np.zeros(1)))) == 2
    z = np.zeros(9)
    assert input_warnings((z,), out=z) == []


def test_a_timing_prints_its_fractions_of_the_ceilings():
    times = list(.00266*(1+np.random.default_rng(0).gamma(2, .001, 40)))
    t = Timing('matmul', times, 'a made-up GPU', True, flops=2*4096**3, bytes=3*4*4096**2, roof=limits.H100)
    assert t.warnings == [] and {k: round(v, 2) for k, v in t.fractions.items()} == {'copy': .03, 'fp32': 1.}
    assert '51.6 TFLOP/s' in t.line() and 'recorded fp32 ceiling' in t.line() and '\n' not in str(t)


def test_rates_are_of_the_median():
    t = Timing('', [.002]*20, flops=1e9, bytes=4e6)
    assert (t.gbs, t.tflops) == (pytest.approx(2), pytest.approx(.5))
    assert Timing('', [.001]*20, bytes=3e9, gpu=True, roof=limits.H100).fractions == {'copy': pytest.approx(3e3/3001)}


def test_a_fraction_above_one_is_a_warning():
    assert 'impossible' in str(Timing('', [.001]*20, bytes=4e9, roof=limits.H100))


class Fake(clocks.Clock):
    "A clock on which run number `i` takes `draw(i)` seconds"
    gpu, device, states = True, 'a fake GPU', ()
    def __init__(self, draw): self.draw, self.i, self.t = draw, 0, 0.
    def now(self): return self.t
    def times(self, fn, n):
        fn()
        res = [self.draw(self.i+k) for k in range(n)]
        self.i, self.t = self.i+n, self.t+sum(res)
        return res


def test_noisy_times_are_warned_of():
    rng = np.random.default_rng(0)
    t = bench(np.square, X, check=np.square, bytes=16*5, clock=Fake(lambda i: .001*rng.choice([1, 2])))
    assert [d.split(':')[0] for d in t.warnings] == ['not steady', 'noisy']


def test_calm_times_are_warned_of_only_if_nothing_was_checked():
    assert bench(np.square, X, check=np.square, clock=Fake(lambda i: .001)).warnings == []
    reason, = bench(np.square, X, clock=Fake(lambda i: .001)).warnings
    assert 'check=' in reason
