"x*y + z, rounded once: compared with exact fractions, and where a sum in float64 would be rounded twice."
from fractions import Fraction

import numpy as np
import pytest
from gridstride.support.fused_arithmetic import fused_multiply_add


def rounded(exact, dtype):
    "A fraction rounded to the nearest value of a type, ties to even, by comparing neighbours exactly"
    near = dtype(float(exact))
    around = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    bits = {np.float16: np.uint16, np.float32: np.uint32}[dtype]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(np.array(v).view(bits)) & 1))


@pytest.mark.parametrize('dtype', [np.float16, np.float32])
def test_random_products_and_ties_are_rounded_once(dtype):
    rng = np.random.default_rng(3)
    digits = np.finfo(dtype).nmant
    x, y = (rng.integers(2**digits, 2**(digits+1), 400)/2.**digits for _ in range(2))
    z = rng.choice([-1, 1], 400)*2.**rng.integers(-(12 if dtype == np.float16 else 70), 2, 400)
    tie = 1 + 2.**-((digits+1)//2)  # its square is halfway between two values
    x[:40], y[:40] = tie, tie
    x, y, z = (v.astype(dtype) for v in (x, y, z))
    got = fused_multiply_add(x, y, z)
    want = [rounded(Fraction(float(a))*Fraction(float(b)) + Fraction(float(c)), dtype) for a, b, c in zip(x, y, z)]
    assert got.dtype == dtype and got.tolist() == [float(v) for v in want]
    if dtype == np.float32: assert got.tolist() != (x.astype(float)*y + z).astype(dtype).tolist()  # rounded twice


def test_special_values_and_types():
    f = np.float32
    assert np.isnan(fused_multiply_add(f(np.inf), f(0), f(1)))
    with np.errstate(over='ignore'): assert fused_multiply_add(f(3e38), f(10), f(0)) == np.inf
    assert np.isnan(fused_multiply_add(f(np.inf), f(1), f(-np.inf)))
    assert np.signbit(fused_multiply_add(f(-0.), f(1), f(-0.)))
    assert not np.signbit(fused_multiply_add(f(1), f(1), f(-1)))
    for sign in (-1, 1):  # the product underflows
        assert np.signbit(fused_multiply_add(sign*1e-200, 1e-200, 0.)) == (sign < 0)
    assert fused_multiply_add(np.int32(3), np.int32(4), np.int32(5)) == 17
    one = 1 + 2.**-30
    assert fused_multiply_add(np.float64(one), np.float64(one), np.float64(-1 - 2**-29)) == 2.**-60
    assert fused_multiply_add(np.zeros((2, 1), f), np.ones(3, f), f(2)).tolist() == [[2]*3]*2
