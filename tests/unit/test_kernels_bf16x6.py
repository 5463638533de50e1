"float32 by tensor cores: three bf16 for a float, the model of what the tensor core sums, the kernels, the choice."
from pathlib import Path

import numpy as np
import pytest
import torch
from gridstride.cpp import cuda_kernel, on_emulator
from gridstride.kernels.gemm import bf16x6
from gridstride.kernels.ptx import wgmma
from gridstride.kernels.ladder.rung import H100, require_hopper
from gridstride.kernels.gemm.bf16x6 import (
    Bf16x6, round_to_bf16, split_into_terms, choose, choose_nt, choose_tn, split_matmul, tensor_core)
from gridstride.bench.recording import recorded
from gridstride.utils import cdiv
from exhaustive import mark_exhaustive
from found import names

RECORDED = Path(__file__).resolve().parents[1]/'kernels/recorded'
CASES = [(1, 16, 0), (2, 16, 6), (3, 32, 0), (4, 32, 6), (5, 16, 14)]    # seed, k, by how much exponents spread
KINDS, SHAPES = (('normal', 'positive', 'wide', 'cancelling'),
                 [(4096, 4096, 4096), (1000, 1000, 16000), (2000, 3000, 300)])


@pytest.fixture
def rng(): return np.random.default_rng(0)


def normal(rng, *shape): return rng.standard_normal(shape).astype(np.float32)


def test_three_bf16_are_one_float(rng):
    x = (rng.standard_normal(10**5)*np.exp2(rng.integers(-80, 120, 10**5))).astype(np.float32)
    hi, mid, lo = split_into_terms(x)
    assert (hi.astype(np.float64)+mid+lo == x.astype(np.float64)).all()
    assert (np.abs(mid) <= 2**-8*np.abs(x)).all() and (np.abs(lo) <= 2**-17*np.abs(x)).all()
    assert (round_to_bf16(x) == torch.tensor(x).bfloat16().float().numpy()).all()


def test_two_more_bits_are_kept_while_a_step_is_added():
    "Two halves of the last bit make one; three quarters of it are lost"
    def added(*xs):
        return tensor_core(np.float32([[0]]), np.float32([[1, *xs]]), np.ones((1+len(xs), 1), np.float32)).item() - 1
    assert [added(2**-24), added(2**-24, 2**-24), added(1.5*2**-24, 1.5*2**-24)] == [0, 2**-23, 2**-23]


def sample(seed, k, spread):
    "bf16 matrices of 16 x k and k x 16"
    rng = np.random.default_rng(seed)
    def one(*shape):
        return round_to_bf16(normal(rng, *shape)*np.exp2(rng.integers(-spread, spread+1, shape)).astype(np.float32))
    return one(16, k), one(k, 16)


def bits():
    """What wgmma makes of the cases, as hexadecimal digits; with bf16 values, whose mid and lo are
    zero, `Bf16x6` does nothing else"""
    require_hopper('The product')
    return [Bf16x6()(*(torch.tensor(x).cuda() for x in sample(*c))).cpu().numpy().tobytes().hex() for c in CASES]


def test_the_model_has_the_bits_of_an_h100():
    for case, got in zip(CASES, recorded('05_bits', bits, CASES, load=lambda data, mark: data, folder=RECORDED)):
        got, (a, b) = np.frombuffer(bytes.fromhex(got), np.float32).reshape(16, 16), sample(*case)
        assert (tensor_core(np.zeros((16, 16), np.float32), a, b) == got).all()
        assert (((a.astype(np.float64)@b).astype(np.float32) != got)
                .any()), 'rounding to the nearest would be another thing'


def chain(a, b):
    "float32 multiply-adds, one after the other"
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[1]): out = (out + a[:, i:i+1].astype(np.float64)*b[i]).astype(np.float32)
    return out


def error(got, a, b):
    want = a.astype(np.float64)@b
    return np.linalg.norm(got-want)/np.linalg.norm(want)


@pytest.mark.parametrize('k', [256, 1024, 4096])
def test_short_pieces_are_more_exact_than_multiply_adds(rng, k):
    a, b = normal(rng, 16, k), normal(rng, k, 16)
    assert error(split_matmul(a, b, 32), a, b) < error(chain(a, b), a, b)/2


@pytest.mark.parametrize('scale,least,most', [(1e-30, 0, 1e-7), (1e-36, 4e-6, 2e-5), (1e-40, 3e-2, .2)])
def test_tiny_values_lose_bits(rng, scale, least, most):
    "Of the sum of the absolute products; of the result, where products cancel, it is more"
    a, b = np.float32(scale*rng.standard_normal((64, 512))), normal(rng, 512, 64)
    got = split_matmul(a, b)
    largest = (np.abs(got-a.astype(np.float64)@b)/(np.abs(a).astype(np.float64)@np.abs(b))).max()
    assert least < largest < most and error(got, a, b) > 2*largest


def test_a_long_piece_is_not(rng):
    a, b = normal(rng, 16, 4096), normal(rng, 4096, 16)
    assert error(split_matmul(a, b, 4096), a, b) > 2*error(chain(a, b), a, b)


@pytest.mark.slow
def test_six_products_are_as_good_as_nine_and_three_are_not(rng, monkeypatch):
    a, b = normal(rng, 64, 512), normal(rng, 512, 64)
    def with_terms(terms):
        monkeypatch.setattr(bf16x6, 'TERMS', terms)
        return error(split_matmul(a, b), a, b)
    terms = bf16x6.TERMS
    nine, six, three = (with_terms(t) for t in (((2, 2), (2, 1), (1, 2), *terms), terms, terms[3:]))
    assert abs(nine-six) < .02*six and three > 10*six


def lines(terms, T, size, k):
    "The matrix (size, k) that is the sum of the terms, from tiles of T lines, padded"
    tiles = terms.float().view(cdiv(size, T), cdiv(k, 32), 3, 4, T, 8).sum(2)
    return tiles.permute(0, 3, 1, 2, 4).reshape(cdiv(size, T)*T, cdiv(k, 32)*32)


@pytest.mark.parametrize('h,w,k,layout', [(70, 130, 45, 'nn'), mark_exhaustive((64, 128, 32, 'nt')),
                                         (3, 1, 8, 'tn'), (65, 5, 64, 'nt')])
def test_the_terms_are_tiles_with_zeros_beyond_the_edges(h, w, k, layout):
    m, n = torch.randn(h, k), torch.randn(w, k)                      # a line of n is a column
    plan = Bf16x6(64, 128, layout=layout).launch_plan(h, w, k, H100)
    call = plan.calls[0]
    ms, ns = (torch.full((size,), float('nan'), dtype=torch.bfloat16) for size, _ in plan.workspaces.values())
    given = m if layout[0] == 'n' else m.t().contiguous(), n if layout[1] == 't' else n.t().contiguous()
    with on_emulator(): cuda_kernel(call.src, call.name)[call.grid, call.block](*given, ms, ns, *call.scalars)
    for got, want, T in ((lines(ms, 64, h, k), m, 64), (lines(ns, 128, w, k), n, 128)):
        padded = torch.zeros_like(got)
        padded[:len(want), :k] = want
        assert torch.equal(got, padded)


def test_wgmma_names_each_register():
    text = wgmma(64)
    assert (text.count('"+f"'), 'm64n64k16' in text, '%36' in text, '%37' in text) == (32, True, True, False)


@pytest.mark.slow
@pytest.mark.parametrize('args', [(128, 128, 1, 'nt'), (64, 64, 2, 'tn'), *map(mark_exhaustive, [
    ((128, 128, 4),), ((64, 64, 8),), ((64, 128, 2),), ((128, 128, 1, 'tn'),)])])
def test_products_are_right_and_the_same_each_time(args):
    f = Bf16x6(*args)
    for h, w, k in [(1, 1, 1), (70, 130, 200)]:
        m, n, out = torch.randn(h, k), torch.randn(k, w), torch.full((h, w), float('nan'))
        given = m.t().contiguous() if f.layout[0] == 't' else m, n.t().contiguous() if f.layout[1] == 't' else n
        with on_emulator(): again = (f(*given, out), f(*given))[1]
        want = m.double()@n.double()
        assert (out-want).norm() < 5e-7*want.norm() and torch.equal(out, again)


def test_the_texts_for_batches_have_their_lines():
    "Per tile and layout; one product's sources have none of them"
    for o in bf16x6.all_kernels():
        one, many = (o.launch_plan(64, 64, 64, H100, count).calls for count in (1, 2))
        assert ['blockIdx.z' in c.src for c in (*one, *many)] == [False, False, True, True]


INF, NAN, MOST = float('inf'), float('nan'), torch.finfo(torch.float32).max


def with_specials(h, w, k):
    """Normal random matrices with what bf16 cannot hold: alone, adjacent, and times zero; no two huge terms of opposite
    signs meet, as then the order of the sums would decide"""
    g = torch.Generator().manual_seed(0)
    m, n = torch.randn(h, k, generator=g), torch.randn(k, w, generator=g)
    m[3, 5], m[4, 7], m[9, -1], m[11, 3], n[7, 11], n[8, 12] = INF, -INF, NAN, MOST, INF, -3.4e38
    m[12], n[:, 9], n[3, 5], m[11, 8] = 0, 0, 0, 0                      # a row, a column, and one next to MOST
    m[12, 4], m[13, 6], n[6, 14] = 3.4e38, INF, 0                       # a lone huge number; an infinity times zero
    m[20], n[:, 20] = m[20]*1e30, n[:, 20]*1e30                         # their products overflow,
    m[21, :2], n[:2, 21], m[22] = MOST/8, 8, m[22]*1e-40                # or only their sum; subnormal values
    return m, n


@pytest.mark.slow
@pytest.mark.parametrize('args', [(64, 128, 1, 'tn'),
                                  *map(mark_exhaustive, [((64, 64, 2, 'nn'),), ((64, 64, 1, 'nt'),)])])
def test_infinities_and_huge_values_are_as_in_float32(args):
    f, (m, n) = Bf16x6(*args), with_specials(70, 75, 90)
    given = m.t().contiguous() if f.layout[0] == 't' else m, n.t().contiguous() if f.layout[1] == 't' else n
    with on_emulator(): got = f(*given, torch.full((70, 75), NAN))
    want, size = m.double()@n.double(), m.double().abs()@n.double().abs()
    inside, was_given = want.abs() <= MOST, ~want.isfinite()             # float64 does not overflow by itself
    assert torch.equal(got.isfinite(), inside) and (~inside & ~was_given).any()
    assert all(torch.equal(f(got) & was_given, f(want)) and f(want).any()
               for f in (torch.isnan, torch.isposinf, torch.isneginf))
    # 2^-21 of the absolute products is eight roundings; three terms hold a number to 2^-134, half of the least bf16
    bound = 2.**-21*size + 2.**-134*n.double().abs().nan_to_num(0).sum(0)
    assert ((got-want).abs() <= bound)[inside].all() and got[12, 0] == m[12, 4]*n[4, 0] and got[21, 21] == INF


def matrices(kind, h, w, k):
    g = torch.Generator('cuda').manual_seed(h+k)
    a, b = torch.randn(h, k, device='cuda', generator=g), torch.randn(k, w, device='cuda', generator=g)
    if kind == 'positive': return a.abs(), b.abs()
    if kind == 'wide':
        return [x*torch.exp2(torch.randint(-20, 21, x.shape, device='cuda', generator=g).float()) for x in (a, b)]
    if kind == 'cancelling': a[:, k//2:2*(k//2)], b[k//2:2*(k//2)] = a[:, :k//2], -b[:k//2]*(1+.001*b[k//2:2*(k//2)])
    return a, b


def errors():
    "Rows of kind, h, w, k, who, error by norm, largest error"
    require_hopper('The product')
    rows = []
    for kind in KINDS:
        for s in SHAPES:
            a, b = matrices(kind, *s)
            want, scale = a.double()@b.double(), a.double().abs()@b.double().abs()
            for name, got in (('bf16x6', Bf16x6()(a, b)), ('torch', a@b)):
                d = got.double()-want
                rows.append([kind, *s, name, float(d.norm()/want.norm()), float((d.abs()/scale).max())])
    return rows


def test_errors_on_an_h100_are_below_the_librarys():
    rows = recorded('05_errors', errors, KINDS, SHAPES, Bf16x6().split_src, Bf16x6().src, load=lambda data, mark: data,
                    folder=RECORDED)
    assert len(rows) == 2*len(KINDS)*len(SHAPES)
    for ours, theirs in zip(rows[::2], rows[1::2]):
        assert (ours[4], theirs[4]) == ('bf16x6', 'torch') and ours[5] < theirs[5] and ours[6] < theirs[6]


def test_the_choice():
    assert ([choose(*s, 132).name for s in [(4096, 4096, 4096), (50000, 10, 784), (64, 64, 64), (8192, 8192, 8192)]]
            == ['bf16x6 128x128', 'skinny', 'small', 'bf16x6 128x128'])
    assert choose(200, 160, 8000, 132).constants['SPLITS'] == 8
    assert choose_tn(784, 10, 50000, 132).name == 'skinny, transposed'
    assert [f(1000, 1000, 1000, 132).layout for f in (choose, choose_tn, choose_nt)] == ['nn', 'tn', 'nt']
    assert choose(50000, 32, 784, 132).name == choose(2112, 32, 784, 132).name == 'skinny'
    assert 'is faster' in choose(2000, 32, 784, 132)
    assert 'is faster' in choose(100, 1000, 1000, 132)
    assert names(choose(971, 3389, 79, 132), 'at most', '128') and choose(971, 3389, 129, 132).name == 'bf16x6 64x128'


def test_what_is_chosen_takes_the_shape(rng):
    for s in np.exp2(rng.uniform(0, 13, (200, 3))).astype(int).tolist():
        for f in (choose, choose_tn, choose_nt): assert isinstance(kernel := f(*s, 132), str) or kernel.supports(*s)
