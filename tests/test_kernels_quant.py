"""`gridstride.kernels.quant`: formats against what they promise, kernels on the emulator against float64."""
import pytest
import torch
from gridstride.kernels.quant import formats
from gridstride.kernels.quant.formats import affine, fp8, nf4, nf4_codebook, restore, restore_nf4, symmetric

GROUPS = 'tensor', 'row', 32


def weights(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def scale_of_each(scales, w):
    (h, k), (rows, groups) = w.shape, scales.shape
    return scales.double().repeat_interleave(h//rows, 0).repeat_interleave(k//groups, 1)


@pytest.mark.parametrize('group', GROUPS)
@pytest.mark.parametrize('bits', [2, 3, 4, 8])
def test_whole_numbers_are_the_nearest(bits, group):
    "No number of the format is nearer, but for the roundings of float32: two of 2^-24 of up to 255 steps"
    w = weights(6, 96)
    for q in (symmetric(w, bits, group), affine(w, bits, group), symmetric(w, bits, group, torch.bfloat16)):
        step, got = scale_of_each(q.scales, w), restore(q).double()
        low, high = (0, 2**bits - 1) if q.zeros is not None else (-2**(bits-1), 2**(bits-1) - 1)
        zero = scale_of_each(q.zeros, w) if q.zeros is not None else 0
        every = (torch.arange(low, high + 1).double().view(-1, 1, 1) - zero)*step
        assert ((got - w).abs() <= (every - w).abs().amin(0) + 4e-5*step).all()
        assert q.numbers.min() >= low and q.numbers.max() <= high
        assert q.scales.shape == dict(tensor=(1, 1), row=(6, 1)).get(group, (6, 3))


def test_nothing_is_further_than_half_a_step():
    w = weights(8, 64)
    for q in (symmetric(w, 4, 16), affine(w, 4, 16)):
        assert ((restore(q) - w).abs() <= scale_of_each(q.scales, w)*.5001).all()


def test_zero_stays_zero():
    w = weights(4, 64).abs() + 1
    w[:, ::7] = 0
    for got in (restore(symmetric(w, 4, 32)), restore(affine(w, 4, 32)), restore_nf4(nf4(w, 32))):
        assert (got[:, ::7] == 0).all()
    for q in (symmetric(0*w, 4), affine(0*w, 4)): assert (restore(q) == 0).all()
    assert (fp8(0*w)[0].float() == 0).all() and (restore_nf4(nf4(0*w)) == 0).all()


def test_what_is_on_one_side_has_a_bit_more_with_a_zero():
    w = weights(16, 256).abs()
    assert formats.decibels(w, restore(affine(w, 4))) > formats.decibels(w, restore(symmetric(w, 4))) + 5


def test_smaller_groups_and_a_search_lose_less():
    w = weights(16, 256)
    w[:, 5] *= 20                                           # an outlier in each row
    lost = [formats.decibels(w, restore(symmetric(w, 4, o))) for o in ('tensor', 'row', 64, 16)]
    assert lost == sorted(lost)
    plain, best = symmetric(weights(16, 256), 3), formats.searched(weights(16, 256), 3)
    error = [((restore(o) - weights(16, 256))**2).sum(1) for o in (plain, best)]
    assert (error[1] <= error[0]).all() and error[1].sum() < .8*error[0].sum()


def test_the_codebook_is_the_published_one():
    "As far as the seven digits of the paper's table go"
    want = [-1, -.6961928, -.5250731, -.3949175, -.2844414, -.1847734, -.0910500, 0, .0795803, .1609302, .2461123,
            .3379152, .4407098, .5626170, .7229568, 1]
    assert nf4_codebook() == pytest.approx(want, abs=1e-6)


def test_nf4_is_the_nearest_of_its_codebook():
    w = weights(6, 128)
    q = nf4(w, 64)
    every = torch.tensor(nf4_codebook()).view(-1, 1, 1)*scale_of_each(q.scales, w)
    assert ((restore_nf4(q) - w).abs() <= (every - w).abs().amin(0) + 1e-6).all()
    assert formats.decibels(w, restore_nf4(q)) > formats.decibels(w, restore(symmetric(w, 4, 64)))


def test_fp8_has_four_bits_of_each_number():
    "A normal number is off by a sixteenth of its power of two at most; the largest of a row is exact"
    w = weights(8, 300)*torch.logspace(-3, 3, 8).view(-1, 1)
    q, scales = fp8(w)
    got = q.double()*scales.double()
    normal = w.abs() > scales*2**-6
    assert ((got - w).abs() <= w.abs()*(2**-4 + 1e-6))[normal].all() and normal.float().mean() > .99
    torch.testing.assert_close(got.abs().amax(1), w.abs().amax(1).double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize('bits', range(1, 9))
def test_bits_come_back(bits):
    for n in (1, 7, 8, 9, 33):
        x = torch.randint(0, 2**bits, (3, n), dtype=torch.uint8, generator=torch.Generator().manual_seed(n))
        packed = formats.pack_bits(x, bits)
        assert packed.shape == (3, -(-n*bits//8)) and torch.equal(formats.unpack_bits(packed, bits, n), x)
        whole = sum(int(o) << bits*i for i, o in enumerate(x[0]))            # one long number, the first lowest
        assert bytes(packed[0].tolist()) == whole.to_bytes(packed.shape[1], 'little')


def test_decibels():
    w = torch.tensor([3., 4.])
    assert formats.decibels(w, w + torch.tensor([.3, .4])) == pytest.approx(20, abs=1e-4)
    assert formats.decibels(w, w) == float('inf')


@pytest.mark.parametrize('group', [0, True, 'column', 2.])
def test_a_group_that_is_none(group):
    with pytest.raises(ValueError, match="it may be 'tensor', 'row', or how many"): symmetric(weights(2, 8), 4, group)
    with pytest.raises(ValueError, match='8 columns are no whole groups of 3'): symmetric(weights(2, 8), 4, 3)
