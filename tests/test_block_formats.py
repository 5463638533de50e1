"""`gridstride.kernels.quant.block_formats`: MXFP8, MXFP4 and NVFP4 against ml_dtypes and float64."""
import ml_dtypes
import numpy as np
import pytest
import torch
from gridstride.kernels.quant import formats
from gridstride.kernels.quant.block_formats import (BLOCK_FORMATS, E2M1_VALUES, e2m1_codes, e2m1_values, e8m0_codes,
                                                    e8m0_values, quantize_blocks, dequantize_blocks)

LARGEST = dict(mxfp8=448, mxfp4=6, nvfp4=6)


def weights(rows, columns, seed=0): return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def test_e2m1_rounds_as_ml_dtypes_does():
    x = torch.cat([weights(1, 4096)[0]*4, torch.arange(-128, 129)/16, torch.tensor([0., -0., 1e30, -torch.inf])])
    want = x.numpy().astype(ml_dtypes.float4_e2m1fn)
    assert np.array_equal(e2m1_codes(x).numpy(), want.view(np.uint8))
    assert np.array_equal(e2m1_values(e2m1_codes(x)).numpy(), want.astype(np.float32))
    assert e2m1_values(torch.arange(8)).tolist() == list(E2M1_VALUES)


def test_e8m0_is_the_next_power_of_two():
    x = torch.cat([weights(1, 4096)[0].abs()*1e3, 2.**torch.arange(-126, 128), torch.tensor([0., 3e38])])
    down, up = (e8m0_values(e8m0_codes(x, rounding)).double() for rounding in ('down', 'up'))
    inside = (x > 0) & (x < 2.**127)
    assert (down <= x)[inside].all() and (2*down > x)[inside].all() and (up >= x)[inside].all()
    assert (up < 2*x.double())[inside].all() and e8m0_codes(x[-2:], 'up').tolist() == [0, 254]
    assert np.array_equal(e8m0_values(torch.arange(255, dtype=torch.uint8)).numpy(),
                          np.arange(255, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32))


@pytest.mark.parametrize('rounding', ['down', 'up'])
@pytest.mark.parametrize('kind', BLOCK_FORMATS)
def test_elements_are_the_nearest_of_their_block(kind, rounding):
    "Of the values of the format, times the scale of the block, which is that of its largest element"
    w = weights(6, 96)*torch.logspace(-6, 6, 6).view(-1, 1)
    w[2, :32] = 0
    q, block = quantize_blocks(w, kind, rounding), BLOCK_FORMATS[kind].block
    dtype = ml_dtypes.float8_e8m0fnu if kind.startswith('mx') else ml_dtypes.float8_e4m3fn
    scales = torch.tensor(q.scales.numpy().view(dtype).astype(np.float64))*q.matrix_scale.double()
    steps = scales.repeat_interleave(block, 1)
    elements = ml_dtypes.float8_e4m3fn if kind == 'mxfp8' else ml_dtypes.float4_e2m1fn
    values = np.arange(256 if kind == 'mxfp8' else 16, dtype=np.uint8).view(elements).astype(np.float64)
    every = torch.tensor(values[np.isfinite(values)]).view(-1, 1, 1)*steps
    got = dequantize_blocks(q).double()
    assert ((got - w).abs() <= (every - w).abs().amin(0) + 1e-6*steps*LARGEST[kind]).all()
    maxima = w.unflatten(1, (-1, block)).abs().amax(-1).double()
    ratio = (maxima/scales/LARGEST[kind])[maxima > scales.max()*2**-9]         # smaller NVFP4 scales are subnormal
    low, high = (.93, 1.07) if kind == 'nvfp4' else (.5, 1) if rounding == 'up' else (4/7, 8/6)
    assert (ratio >= low).all() and (ratio <= high).all() and (got[2, :32] == 0).all()


def test_an_outlier_costs_its_own_block_alone():
    "A scale per row lets it cost all of its row"
    w = weights(16, 256)
    w[:, 5] *= 50
    inside = slice(32, None)
    by_row = formats.dequantize_ints(formats.symmetric(w, 4))
    for kind in ('mxfp4', 'nvfp4'):
        got = dequantize_blocks(quantize_blocks(w, kind))
        assert formats.snr_db(w[:, inside], got[:, inside]) > 17 > formats.snr_db(w[:, inside], by_row[:, inside])


def test_bits_per_element():
    assert {kind: o.bits for kind, o in BLOCK_FORMATS.items()} == dict(mxfp8=8.25, mxfp4=4.25, nvfp4=4.5)


@pytest.mark.parametrize('kind,columns,words', [('fp4', 32, 'fp4'), ('nvfp4', 24, '24 columns'), ('mxfp8', 48, '48')])
def test_what_is_refused(kind, columns, words):
    with pytest.raises(ValueError, match=words): quantize_blocks(weights(2, columns), kind)
