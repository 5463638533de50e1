"""`gridstride.kernels.quant`: formats against what they promise, kernels on the emulator against float64."""
import copy, re
from functools import partial

import pytest
import torch
from gridstride.kernels import dequantize, quantize
from gridstride.kernels.launch_replay import CallRecorder
from gridstride.kernels.layers import format_us
from gridstride.kernels.quant import (QuantLinear, calls, formats, fragments, matvec, mixed, multiply_fp8,
                                      multiply_int8, pack, unpack)
from gridstride.kernels.quant import sources
from gridstride.kernels.quant.mixed import MixedTile
from gridstride.kernels.quant.formats import affine, fp8, nf4, nf4_codebook, dequantize_ints, dequantize_nf4, symmetric
from gridstride.kernels.ladder.rung import H100, Device
from exhaustive import included_values, mark_exhaustive
from one_unit import one_unit
from found import names, saying

GROUPS = 'tensor', 'row', 32
# kind, type of x, group, rows of x, rows and columns of w, with a bias? with zeros?
CASES = [('int4', 'bfloat16', 128, 1, 40, 1032 - 8, True, False),
         ('int8', 'bfloat16', 'row', 1, 203, 136, False, False),
         ('nf4', 'float16', 64, 3, 16, 320, False, False), ('fp8', 'bfloat16', 'row', 8, 70, 264, True, False),
         ('int8', 'float16', 32, 1, 16, 32, False, True), ('int4', 'float16', 'row', 9, 130, 12, False, True),
         ('fp8', 'float16', 'row', 1, 1, 8, False, False), ('int4', 'bfloat16', 64, 33, 70, 192, True, True),
         ('int4', 'bfloat16', 128, 2, 33, 8320, True, True), ('nf4', 'bfloat16', 64, 1, 17, 4160, False, False),
         ('nvfp4', 'bfloat16', None, 1, 40, 1024, True, False), ('nvfp4', 'float16', None, 9, 33, 144, False, False),
         ('mxfp8', 'float16', None, 1, 20, 160, False, False), ('mxfp8', 'bfloat16', None, 33, 20, 96, False, False),
         ('int4', 'bfloat16', 32, 2, 33, 160, False, True), ('int8', 'bfloat16', 'tensor', 1, 20, 72, False, True)]


@pytest.fixture(scope='module', autouse=True)
def at_once(request):
    "All kernels are compiled in one unit"
    with one_unit(request, [*(partial(test_a_product, *o) for o in CASES),
                            *(partial(test_a_mixed_input_gemm, *o) for o in included_values(request, MIXED)),
                            *(partial(test_a_matrix_is_dequantized_by_a_kernel, *o) for o in DEQUANTIZED)]): yield


def weights(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def scale_of_each(scales, w):
    (h, k), (rows, groups) = w.shape, scales.shape
    return scales.double().repeat_interleave(h//rows, 0).repeat_interleave(k//groups, 1)


@pytest.mark.slow
@pytest.mark.parametrize('group', GROUPS)
@pytest.mark.parametrize('bits', [2, 3, 4, 8])
def test_integers_are_the_nearest(bits, group):
    "No number of the format is nearer, but for the roundings of float32: two of 2^-24 of up to 255 steps"
    w = weights(6, 96)
    for q in (symmetric(w, bits, group), affine(w, bits, group), symmetric(w, bits, group, torch.bfloat16)):
        step, got = scale_of_each(q.scales, w), dequantize_ints(q).double()
        low, high = (0, 2**bits - 1) if q.zeros is not None else (-2**(bits-1), 2**(bits-1) - 1)
        zero = scale_of_each(q.zeros, w) if q.zeros is not None else 0
        every = (torch.arange(low, high + 1).double().view(-1, 1, 1) - zero)*step
        assert ((got - w).abs() <= (every - w).abs().amin(0) + 4e-5*step).all()
        assert q.integers.min() >= low and q.integers.max() <= high
        assert q.scales.shape == dict(tensor=(1, 1), row=(6, 1)).get(group, (6, 3))


def test_nothing_is_further_than_half_a_step():
    w = weights(8, 64)
    for q in (symmetric(w, 4, 16), affine(w, 4, 16)):
        assert ((dequantize_ints(q) - w).abs() <= scale_of_each(q.scales, w)*.5001).all()


def test_zero_stays_zero():
    w = weights(4, 64).abs() + 1
    w[:, ::7] = 0
    for got in (dequantize_ints(symmetric(w, 4, 32)), dequantize_ints(affine(w, 4, 32)), dequantize_nf4(nf4(w, 32))):
        assert (got[:, ::7] == 0).all()
    for q in (symmetric(0*w, 4), affine(0*w, 4)): assert (dequantize_ints(q) == 0).all()
    assert (fp8(0*w)[0].float() == 0).all() and (dequantize_nf4(nf4(0*w)) == 0).all()


def test_what_is_on_one_side_has_a_bit_more_with_a_zero():
    w = weights(16, 256).abs()
    assert formats.snr_db(w, dequantize_ints(affine(w, 4))) > formats.snr_db(w, dequantize_ints(symmetric(w, 4))) + 5


def test_smaller_groups_and_a_search_lose_less():
    w = weights(16, 256)
    w[:, 5] *= 20                                           # an outlier in each row
    lost = [formats.snr_db(w, dequantize_ints(symmetric(w, 4, o))) for o in ('tensor', 'row', 64, 16)]
    assert lost == sorted(lost)
    plain, best = symmetric(weights(16, 256), 3), formats.search_scales(weights(16, 256), 3)
    error = [((dequantize_ints(o) - weights(16, 256))**2).sum(1) for o in (plain, best)]
    assert (error[1] <= error[0]).all() and error[1].sum() < .8*error[0].sum()


@pytest.mark.parametrize('kind,zeros', [('int4', False), ('int4', True), ('nf4', False)])
def test_a_search_loses_no_more_in_any_group(kind, zeros):
    "Some of 64 normal values are outliers, and clipping them pays off"
    w = weights(16, 256) + .5
    lost = [((unpack(pack(w, kind, 64, zeros, fit)) - w)**2).view(16, 4, 64).sum(2) for fit in ('absmax', 'mse')]
    assert (lost[1] <= lost[0]).all() and lost[1].sum() < .95*lost[0].sum()


def test_a_tensor_has_one_scale():
    w = weights(20, 72, dtype=torch.float16)
    p = pack(w, 'int8', 'tensor', True)
    want = affine(w, 8, 'tensor', torch.float16)
    assert p.scales[:1, :, :4].unique().numel() == 1 and p.group == 'row'
    torch.testing.assert_close(unpack(p), dequantize_ints(want), rtol=0, atol=0)


def test_the_codebook_is_the_published_one():
    "As far as the seven digits of the paper's table go"
    want = [-1, -.6961928, -.5250731, -.3949175, -.2844414, -.1847734, -.0910500, 0, .0795803, .1609302, .2461123,
            .3379152, .4407098, .5626170, .7229568, 1]
    assert nf4_codebook() == pytest.approx(want, abs=1e-6)


def test_nf4_is_the_nearest_of_its_codebook():
    w = weights(6, 128)
    q = nf4(w, 64)
    every = torch.tensor(nf4_codebook()).view(-1, 1, 1)*scale_of_each(q.scales, w)
    assert ((dequantize_nf4(q) - w).abs() <= (every - w).abs().amin(0) + 1e-6).all()
    assert formats.snr_db(w, dequantize_nf4(q)) > formats.snr_db(w, dequantize_ints(symmetric(w, 4, 64)))


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
    assert formats.snr_db(w, w + torch.tensor([.3, .4])) == pytest.approx(20, abs=1e-4)
    assert formats.snr_db(w, w) == float('inf')


@pytest.mark.parametrize('group', [0, True, 'column', 2.])
def test_a_group_that_is_none(group):
    with pytest.raises(ValueError, match="'tensor'.*'row'"): symmetric(weights(2, 8), 4, group)
    with pytest.raises(ValueError, match='8 columns.*size, 3'): symmetric(weights(2, 8), 4, 3)


# Kernels

@pytest.mark.parametrize('kind', fragments.BITS)
def test_values_are_recovered_from_their_fragments(kind):
    for rows, columns in ((1, 8), (16, 128), (37, 200)):
        q = torch.randint(0, 2**fragments.BITS[kind], (rows, columns), dtype=torch.uint8)
        if kind.startswith('int'): q = (q - 8*(kind == 'int4')).view(torch.int8)
        words = fragments.to_fragments(q, kind)
        assert torch.equal(fragments.from_fragments(words, kind, rows, columns), q)
        assert words.nbytes == -(-rows//16)*16*-(-columns//128)*128*fragments.BITS[kind]//8


def test_a_word_is_what_a_thread_multiplies():
    "Of lane 5, with rows 1 and 9 and t = 1, the second load's first word is of product 4: columns 72 to 75"
    q = torch.randint(-8, 8, (16, 128), dtype=torch.int8)
    word = fragments.to_fragments(q, 'int4').view(torch.int32)[0, 0, 1, 5, 0].item()
    pairs = [[(word >> 4*i & 15) - 8, (word >> 4*i + 16 & 15) - 8] for i in range(4)]
    assert pairs == [q[r, c:c+2].tolist() for c in (72, 74) for r in (1, 9)]


def matrix(dtype, rows, columns):
    "Rows of very different sizes"
    return (weights(rows, columns)*torch.logspace(-2, 1, rows).view(-1, 1)).to(getattr(torch, dtype))


def within(got, want, bound):
    beyond = ((got.double() - want).abs() - bound).clamp(min=0)
    torch.testing.assert_close(beyond, torch.zeros_like(beyond), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize('kind,dtype,group,batch,rows,columns,biased,zeros', CASES)
def test_a_product(kind, dtype, group, batch, rows, columns, biased, zeros):
    """The values of the packed matrix, times x, are summed in float32: what is left is the last rounding,
    and sums of up to 8320 terms that cancel; for many rows of x each scaled value is rounded, too"""
    w, x = matrix(dtype, rows, columns), weights(batch, columns, dtype=getattr(torch, dtype), seed=1)
    if zeros: w += 2*w.std(1, keepdim=True)                 # on one side, most of it
    bias = weights(rows, dtype=w.dtype, seed=2) if biased else None
    p = pack(w, kind, group, zeros)
    got, exact = matvec(x, p, bias), unpack(p).double()
    want, size = x.double() @ exact.T + (bias.double() if biased else 0), x.double().abs() @ exact.abs().T
    assert got.dtype == w.dtype and got.shape == (batch, rows)
    last = 2**-8 if dtype == 'bfloat16' else 2**-11
    each = last if batch > 16 and p.group != 'row' and kind != 'nvfp4' else 1e-6     # nvfp4: scaled values are exact
    within(got, want, last*want.abs() + each*size + 2**-25)     # float16 has no finer values near 0
    assert formats.snr_db(w, exact) > dict(int8=38, fp8=30, mxfp8=30, nf4=19, nvfp4=19, int4=15 + 6*zeros)[kind]
    assert zeros == (p.zeros is not None)


# kind, type of x, group, rows of x, rows and columns of w, with a bias? with zeros? and the tile
# The first has more stages of columns than its pipeline
MIXED = [('int4', 'bfloat16', 128, 70, 200, 1280, True, False, MixedTile(64)),
         ('int4', 'float16', 32, 200, 130, 160, False, True, MixedTile(192)),
         ('nf4', 'bfloat16', 64, 130, 70, 384, True, False, MixedTile(128, 1, 2)),
         ('fp8', 'float16', 'row', 33, 131, 264, False, False, MixedTile(64, 2, 2)),
         ('int8', 'bfloat16', 'row', 65, 130, 1024, True, True, MixedTile(128, 1, 8)),
         mark_exhaustive(('fp8', 'bfloat16', 'row', 130, 72, 384, True, False, MixedTile(128, 1))),
         mark_exhaustive(('nf4', 'bfloat16', 64, 70, 136, 256, False, False, MixedTile(224, 2))),
         mark_exhaustive(('int8', 'bfloat16', 'row', 65, 130, 1024, True, True, MixedTile(64, 1, 8))),
         mark_exhaustive(('int4', 'bfloat16', 128, 70, 130, 768, False, False, MixedTile(64, 1, 5))),
         ('nvfp4', 'bfloat16', None, 70, 200, 144, True, False, MixedTile(64)),
         mark_exhaustive(('nvfp4', 'float16', None, 33, 131, 272, False, False, MixedTile(64, 2, 2))),
         ('mxfp8', 'bfloat16', None, 70, 200, 160, True, False, MixedTile(64))]


@pytest.mark.slow
@pytest.mark.parametrize('kind,dtype,group,batch,rows,columns,biased,zeros,tile', MIXED)
def test_a_mixed_input_gemm(kind, dtype, group, batch, rows, columns, biased, zeros, tile):
    "Scaled elements of w are rounded before the product, unless a row has one scale"
    w, x = matrix(dtype, rows, columns), weights(batch, columns, dtype=getattr(torch, dtype), seed=1)
    if zeros: w += 2*w.std(1, keepdim=True)
    bias = weights(rows, dtype=w.dtype, seed=2) if biased else None
    p = pack(w, kind, group, zeros)
    got, exact = mixed.run_mixed(x, p, bias, tile), unpack(p).double()
    want, size = x.double() @ exact.T + (bias.double() if biased else 0), x.double().abs() @ exact.abs().T
    last = 2**-8 if dtype == 'bfloat16' else 2**-11
    within(got, want, last*want.abs() + (1e-6 if p.group == 'row' or kind == 'nvfp4' else last)*size + 2**-25)


DEQUANTIZED = [('int4', 'bfloat16', 32, 33, 160, True), ('int8', 'float16', 'row', 17, 131, True),
               ('nf4', 'float16', 64, 40, 320, False), ('fp8', 'bfloat16', 'row', 5, 260, False),
               ('nvfp4', 'bfloat16', None, 33, 144, False), ('mxfp8', 'float16', None, 17, 96, False)]


@pytest.mark.slow
@pytest.mark.parametrize('kind,dtype,group,rows,columns,zeros', DEQUANTIZED)
def test_a_matrix_is_dequantized_by_a_kernel(kind, dtype, group, rows, columns, zeros):
    "One rounding of each element, and for NF4 one more of its codebook"
    p = pack(matrix(dtype, rows, columns), kind, group, zeros)
    exact, got = unpack(p).double(), mixed.run_unpack(p, getattr(torch, dtype))
    last = 2**-8 if dtype == 'bfloat16' else 2**-11
    assert got.dtype == getattr(torch, dtype) and got.shape == (rows, columns)
    within(got, exact, last*(1 + (kind == 'nf4'))*exact.abs() + 2**-25)


def test_a_product_is_chosen_by_its_estimate():
    "Few rows are memory-bound; many fill the tensor cores; without wgmma there is no mixed-input GEMM"
    h100 = partial(mixed.choose_method, 'int4', rows=14336, columns=4096, gpu=H100)
    assert h100(8) == h100(16) == 'matvec' and mixed.choose_method('int4', 17, 4096, 14336, H100) != 'matvec'
    assert h100(128).BN == 128 and h100(256).BN == 256
    assert mixed.choose_method('int4', 128, 1280, 1280, H100).CK > 1, 'a small w is split along its columns'
    small, large = (mixed.mixed_launch('int4', 'bfloat16', 128, 64, n, n, False, False, MixedTile(64, 2), 132)
                    for n in (1024, 8192))
    assert small.pdl and not large.pdl, 'a short one begins before the previous kernel ends'
    older = partial(mixed.choose_method, 'int4', rows=14336, columns=4096, gpu=Device(108, False))
    assert [older(n) for n in (1, 64, 65)] == ['matvec', 'matvec', 'unpack']
    choose = mixed.choose_method
    assert all(choose(kind, n, rows, columns, H100) for kind in ('int8', 'nf4', 'fp8') for n in (1, 17, 300, 5000)
               for rows, columns in ((1, 8), (70, 128), (50257, 768)))


@pytest.mark.parametrize('kind,group', [('int4', 32), ('int4', 128), ('int8', 'row'), ('nf4', 64), ('fp8', 'row')])
def test_three_stages_of_each_tile_fit(kind, group):
    "Fewer would not hide the latency of TMA"
    assert all(mixed.stages_of(tile, kind, group, zeros, rows) >= 3 for tile in mixed.TILES for zeros in (False, True)
               for rows in (64, 65))


def test_the_kernels_of_all_batches_are_few():
    "Rows of x are counted in eights, of which there are 1, 2, 4 or 8; up to four come by copies"
    of = partial(calls.matvec_launches, 'int4', 'bfloat16', 128)
    every = [of(n, 4096, 4096, False, False, H100) for n in range(1, calls.MAX_ROWS + 1)]
    assert sorted(map({c.src: c.name for c, in every}.get, {c.src for c, in every})) == \
        ['multiply_packed']*4 + ['multiply_streamed']


def test_bulk_copies_load_a_matrix_if_x_leaves_space_for_them():
    "A long x, many rows of it and kinds that win nothing are multiplied the other way, and all on other GPUs"
    def name(kind, batch, columns, on=H100):
        return calls.matvec_launches(kind, 'bfloat16', 'row', batch, 64, columns, False, False, on)[0].name
    assert name('int4', 1, 28672) == name('int4', 4, 8192) == name('nf4', 1, 8192) == 'multiply_streamed'
    others = [name('int4', 4, 28672), name('int4', 5, 128), name('int8', 1, 128)]
    assert {*others, name('int4', 1, 128, Device(108, False))} == {'multiply_packed'}
    for batch in (1, 4):
        c, = calls.matvec_launches('int4', 'bfloat16', 32, batch, 64, 8192, False, True, H100)
        assert c.shared <= 227*1024 - 1024


@pytest.mark.slow
@pytest.mark.parametrize('h,w,k', [mark_exhaustive((1, 8, 16)), (3, 37, 1040), (8, 20, 272)])
def test_a_product_of_few_rows_of_integers(h, w, k):
    "Sums are exact, so what is left is the rounding to bfloat16, and those of two products in float32"
    (m, a), (n, b) = symmetric(weights(h, k), 8)[:2], symmetric(matrix('float32', w, k), 8)[:2]
    got, want = multiply_int8(m, n, a, b), (m.double()*a) @ (n.double()*b).T
    within(got, want, (2**-8 + 2**-22)*want.abs())


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['fp8', 'int8'])
def test_a_product_of_rows_of_8_bits(kind):
    "Two tiles next to each other, half a cluster without rows, a ring that wraps, and partial pieces at the ends"
    few, product = (fp8, multiply_fp8) if kind == 'fp8' else (lambda x: symmetric(x, 8)[:2], multiply_int8)
    (m, a), (n, b) = few(weights(140, 272)), few(matrix('float32', 264, 272))
    got, exact = product(m, n, a, b), (m.double()*a, n.double()*b)
    want, size = exact[0] @ exact[1].T, exact[0].abs() @ exact[1].abs().T
    assert got.dtype == torch.bfloat16
    within(got, want, 2**-8*want.abs() + 1e-6*size)
    assert product(m[:0], n, a[:0], b).shape == (0, 264)


W = matrix('float16', 16, 64)
E4M3, ONES = W.to(torch.float8_e4m3fn), torch.ones(16, 1)


@pytest.mark.parametrize('call,error,words', [
    (lambda: pack(W, 'int3'), ValueError, saying('kind', 'int4, int8, nf4, fp8, mxfp8, nvfp4', "'int3'")),
    (lambda: pack(W, 'int4', 16), ValueError, saying('group', "32, 64, 128, 'row'", 'tensor', '16')),
    (lambda: pack(W, 'nf4', zeros=True), ValueError,
     saying('pack: zeros', 'int4', 'nf4')),
    (lambda: pack(W, 'int8', fit='best'), ValueError, saying('pack: fit', "'best'", "'absmax'", "'mse'")),
    (lambda: pack(W, 'fp8', fit='mse'), ValueError, 'fp8'),
    (lambda: pack(W, 'nvfp4', 32), ValueError, saying('group is', 32, 'nvfp4', 16)),
    (lambda: pack(W[:, :40], 'int4'), ValueError, '40 columns.*size, 128'),
    (lambda: pack(W.double(), 'int8'), TypeError, saying('pack: w', 'bfloat16, float16', '2-dimensional float64')),
    (lambda: matvec(weights(1, 64), pack(W, 'int8')), TypeError, 'x .*float32.*float16'),
    (lambda: matvec(W[:, :32].clone(), pack(W, 'int8')), ValueError,
     r'x .*\(16, 32\).*\(64 .*, 64\)'),
    (lambda: multiply_fp8(W, E4M3, ONES, ONES), TypeError, 'a .*float16.*float8_e4m3fn'),
    (lambda: multiply_fp8(E4M3, E4M3[:, :32].clone(), ONES, ONES), ValueError,
     saying('a ', '(16, 64)', 'b', '(16, 32)')),
    (lambda: multiply_fp8(E4M3, E4M3, ONES, ONES.T.clone()), ValueError, r'b_scales .*\(1, 16\)'),
    (lambda: multiply_fp8(E4M3, E4M3[:9], ONES, ONES[:9]), ValueError, saying('K is', 64, '9 rows', 'TMA')),
    (lambda: multiply_int8(*2*[torch.ones(1, 24, dtype=torch.int8)], *2*[ONES[:1].clone()]), ValueError,
     saying('K is', 24, 'of 16', '16 bytes')),
    (lambda: matvec(W, pack(W, 'int8'), W[0]), ValueError, r'bias .*\(64,\).*\(16,\)')])
def test_what_does_not_fit_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words): call()


# The tool

def model(dtype=torch.bfloat16):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.GELU(), torch.nn.Linear(256, 100, bias=False),
                               torch.nn.ModuleDict(dict(last=torch.nn.Linear(100, 64)))).to(dtype)


def run(m, x): return m[3].last(m[2](m[1](m[0](x))))


@pytest.mark.parametrize('kind,least', [('int8', 30), ('fp8', 22), ('nf4', 12), ('int4', 10), ('mxfp8', 22),
                                        ('nvfp4', 12)])
def test_a_module_is_swapped_and_back(kind, least, capsys):
    "Its results are near, and those of its dense layers the same"
    m, x = model(), weights(3, 5, 128, dtype=torch.bfloat16)
    want = run(m, x).detach()
    q = quantize(m, kind, group=32 if kind in ('int4', 'nf4') else None)
    said = capsys.readouterr().out
    assert q is m and type(q[0]) is QuantLinear and f'Linear layers in {kind}' in said and 'speedup' in said
    new, old = map(float, re.search(r'them takes (\S+) µs instead of (\S+)\.\n', said).groups())
    assert 1.8 < old/new < 4.1
    assert names(said, '3.last', '100 columns', q[0].group) == (q[0].group != 'row')
    assert formats.snr_db(want, run(q, x)) > least
    got = run(q, x)
    assert dequantize(q) is m and type(q[0]) is torch.nn.Linear
    torch.testing.assert_close(run(q, x), got, rtol=0, atol=0)


@pytest.mark.parametrize('seconds,said', [(3.14e-8, '0.0314'), (4.19e-6, '4.19'), (5.4e-5, '54.0'), (9.997e-5, '100'),
                                          (1.2345e-3, '1,234')])
def test_microseconds_have_three_digits(seconds, said): assert format_us(seconds) == said


@pytest.mark.parametrize('later', [torch.float32, torch.bfloat16, torch.float16])
def test_dense_layers_come_back_in_the_type_of_the_module(later):
    m,x = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Linear(32, 8, bias=False)),torch.randn(3, 64)
    q = quantize(m, 'int8').to(later)
    want = q(x.to(later))
    dense = dequantize(q)
    assert {p.dtype for p in dense.parameters()} == {later}
    torch.testing.assert_close(dense(x.to(later)), want, rtol=0, atol=0)


def test_a_linear_itself_is_returned_as_a_new_one():
    m = torch.nn.Linear(64, 32).half().eval()
    q = quantize(m, 'int8')
    assert type(q) is QuantLinear and not q.training and type(dequantize(q)) is torch.nn.Linear
    assert q.words.nbytes + q.scales.nbytes == 32*128 + 32*2 and q.bias is m.bias
    assert "in_features=64, out_features=32, bias=True, kind='int8', group='row'" in repr(q)


def test_a_state_goes_to_a_module_of_the_same_kind(tmp_path):
    a, b = (quantize(model(), 'int4', skip='3.*', zeros=True) for _ in range(2))
    other = quantize(model(), 'nf4', 128, skip='3.*')
    with torch.no_grad():
        a[0].scales.mul_(2)
        a[0].zeros.add_(1)
    torch.save(a.state_dict(), tmp_path/'state')
    b.load_state_dict(torch.load(tmp_path/'state'))
    x = weights(2, 128, dtype=torch.bfloat16)
    assert torch.equal(run(a, x), run(b, x)) and torch.equal(a[2].zeros, b[2].zeros)
    with pytest.raises(ValueError, match=r"\{'kind': 'int4', 'group': 128\}.*\{'kind': 'nf4'"):
        other.load_state_dict(a.state_dict())


def test_values_may_change_their_type_and_scales_keep_16_bits():
    q = quantize(model(torch.float32), 'int8')
    x = weights(2, 128)
    assert q[0].scales.dtype == torch.bfloat16 and run(q, x).dtype == torch.float32
    assert q.half()[0].scales.dtype == torch.float16 and run(q, x.half()).dtype == torch.float16
    assert q.float()[0].scales.dtype == torch.float16 and q[0].bias.dtype == torch.float32


@pytest.mark.slow
def test_the_operator_is_one_for_torch():
    "Shapes without values, gradients and tracing, which torch itself checks; a traced layer is one node"
    q = quantize(model(), 'int8')
    x, p = weights(3, 128, dtype=torch.bfloat16), q[0].packed
    given = x.requires_grad_(), p.words, p.scales, None, q[0].bias, 'int8', 0, 256
    torch.library.opcheck(torch.ops.gridstride.quant_linear.default, given)
    seen = []
    def backend(graph, inputs):
        seen.extend(n.target for n in graph.graph.nodes)
        return graph.forward
    compiled = torch.compile(lambda x: run(q, x), backend=backend, fullgraph=True)
    with torch.no_grad(): assert torch.equal(compiled(x), run(q, x))
    assert sum('quant_linear' in str(o) for o in seen) == 3


def test_gradients_are_those_of_the_dense_layer():
    q = quantize(model(), 'int4', 64, skip='3*')
    dense, grads = dequantize(copy.deepcopy(q)), []
    for m in (q, dense):
        x = weights(3, 128, dtype=torch.bfloat16).requires_grad_()
        m[0].bias.requires_grad_()
        run(m, x).square().sum().backward()
        grads.append((x.grad, m[0].bias.grad))
    for a, b in zip(*grads): torch.testing.assert_close(a, b, rtol=2**-7, atol=1e-2)     # sums in another order


def test_layers_that_stay(capsys):
    "A weight of two layers, one of another type, a layer derived from Linear, and what was named"
    class Own(torch.nn.Linear): pass
    m = torch.nn.ModuleDict(dict(tokens=torch.nn.Embedding(64, 64), head=torch.nn.Linear(64, 64), own=Own(64, 64),
                                 wide=torch.nn.Linear(64, 64).double(), one=torch.nn.Linear(64, 64),
                                 two=torch.nn.Linear(64, 64)))
    m.head.weight = m.tokens.weight
    quantize(m, 'int8', skip=['t*'])
    said = capsys.readouterr().out
    assert [k for k, o in m.items() if type(o) is QuantLinear] == ['one']
    assert names(said, 'head', 'another layer') and names(said, 'wide', 'float64')
    assert names(said, 'two', 'skip')


@pytest.mark.parametrize('call,error,words', [
    (lambda: quantize(W), TypeError, saying('module', 'Tensor', 'torch.nn.Module')),
    (lambda: quantize(model(), 'int5'), ValueError, saying('quantize: ', 'kind', 'int4, int8, nf4, fp8', "'int5'")),
    (lambda: quantize(model(), 'int8', 48), ValueError, saying('quantize: group', "32, 64, 128, 'row'", 48)),
    (lambda: quantize(model(), 'fp8', zeros=True), ValueError, saying('quantize: zeros', 'int4', 'fp8')),
    (lambda: quantize(torch.nn.GELU()), ValueError, saying('no layer', 'quantized')),
    (lambda: quantize(torch.nn.Linear(12, 4), 'int4'), ValueError,
     saying('itself', '12 columns', 'size, 128')),
    (lambda: dequantize(model()), ValueError, 'quantized'),
    (lambda: quantize(torch.nn.Linear(64, 4), 'int8')(weights(2, 63)), ValueError,
     r'x .*\(2, 63\).*\(\.\.\., 64\)')])
def test_unsupported_modules_are_refused(call, error, words):
    with pytest.raises(error, match=words): call()


def test_sources_are_assembled_without_torch():
    "A call during which torch computes something is never replayed from a table, even if only the first one does"
    with CallRecorder() as recorder:
        sources.kernel_source.__wrapped__('unpack', 'float16', (('KIND', 0),))
    assert not recorder.torch_operations
