"Tensor maps and the models of layouts, compared with what an H100 wrote, and the emulator writes."
from pathlib import Path

import numpy as np
import pytest
import torch
from gridstride.cpp import on_emulator
from gridstride.draw import Picture
from gridstride.kernels import tensor_maps
from gridstride.kernels.tensor_maps import unsupported_reason
from gridstride.kernels.ladder.tma import (LAYOUT_KERNELS, bank_group, box_offsets, dump_layouts, lane_panel,
                                           layouts_from_json, layouts_to_json, mma_a, mma_b, mma_c, swizzle_panel,
                                           thread_and_element, wgmma_d)
from gridstride.bench.recording import recorded

RECORDED = Path(__file__).resolve().parents[2]/'nbs/recorded'
GOOD = dict(shape=(128, 128), strides=(128, 1), address=0, dtype='bfloat16', box=(64, 64), swizzle=128)


@pytest.mark.parametrize('change,words', [
    (dict(dtype='bool'), 'bool'), (dict(box=(64,)), 'the box 1'), (dict(box=(512, 64)), 'longer than 256'),
    (dict(strides=(1, 128)), 'contiguous'), (dict(shape=(100, 50), strides=(50, 1)), 'rows to 56'),
    (dict(address=8), 'clone'), (dict(box=(64, 128)), '64 elements'), (dict(box=(64, 4)), 'multiple of 16'),
    (dict(swizzle=16), '0, 32, 64, 128'), (dict(shape=(0, 64)), 'at least 1')])
def test_what_the_copy_engine_refuses(change, words): assert words in unsupported_reason(**{**GOOD, **change})


def test_what_it_takes():
    assert unsupported_reason((128, 128), (128, 1), 1024, 'bfloat16', (256, 64), 128) is None
    assert unsupported_reason((3, 5, 100), (512, 100, 1), 0, 'float32', (1, 5, 100), 0) is None


@pytest.mark.parametrize('shape,strides,valid', [
    ((1, 4096), (1, 1), (4096, 1)), ((1, 33), (1, 1), (40, 1)), ((5, 1), (8, 3), (8, 1)),
    ((3, 1, 64), (64, 9, 1), (64, 64, 1)), ((64, 64), (64, 1), (64, 1)), ((8, 8), (1, 8), (1, 8))])
def test_the_stride_of_an_axis_with_one_element_may_be_anything(shape, strides, valid):
    x = torch.empty(4096, dtype=torch.bfloat16).as_strided(shape, strides)
    assert tensor_maps._valid_strides(x) == valid


def test_rows_of_a_swizzled_box_begin_in_different_banks():
    assert box_offsets(9, 64)[:, 0].tolist() == [128*r + 16*(r%8) for r in range(9)]
    assert set(bank_group(box_offsets(8, 64, swizzle=0))[:, 0].tolist()) == {0}


@pytest.mark.parametrize('swizzle', [32, 64, 128])
def test_a_column_of_eight_rows_covers_all_bank_groups(swizzle):
    column = bank_group(box_offsets(8, swizzle//2, swizzle=swizzle)[:, :8])
    assert sorted(column[:, 0].tolist()) == list(range(8))
    assert sorted(box_offsets(16, swizzle//2, swizzle=swizzle).ravel()) == list(range(0, 16*swizzle, 2))


@pytest.mark.parametrize('places,shape',
    [(mma_a(), (16, 16)), (mma_b(), (16, 8)), (mma_c(), (16, 8)), (wgmma_d(64), (64, 64)), (wgmma_d(256), (64, 256))])
def test_each_element_has_a_holder(places, shape):
    who, nth = thread_and_element(places, shape)
    assert who.min() == 0 == nth.min() and who.size == places[0].size


def test_the_panels_can_be_drawn():
    panels = [swizzle_panel(swizzle=0), swizzle_panel(swizzle=32), swizzle_panel(swizzle=64), swizzle_panel(),
              lane_panel(mma_a(), (16, 16), 'a'), lane_panel(wgmma_d(64), (64, 64), first=(18, 18))]
    assert repr(Picture(*panels, caption='boxes and lanes'))


@pytest.fixture(scope='module')
def got():
    "What an H100 wrote, or writes: name -> a row of values"
    return {k: v.ravel()
            for k, v in recorded('hopper_gemm_layouts', dump_layouts, LAYOUT_KERNELS, save=layouts_to_json,
                                 load=layouts_from_json, folder=RECORDED).items()}


def in_shared(box, swizzle):
    "What the model says shared memory holds, as 16-bit words"
    res = np.empty(box.size, int)
    res[box_offsets(*box.shape, swizzle=swizzle)//2] = box
    return res


def test_boxes_are_where_the_model_predicts(got):
    x = np.arange(1, 64*64+1).reshape(64, 64)
    for swizzle in (0, 32, 64, 128):
        assert (got[f'box {swizzle}'] == in_shared(x[:32, :(swizzle or 128)//2], swizzle)).all()
    assert (got['box over the edge'] == in_shared(np.pad(x[50:, :56], ((0, 18), (8, 0))), 128)).all()


def test_fragments_are_held_as_the_model_says(got):
    m, n = np.arange(256).reshape(16, 16), np.arange(128).reshape(16, 8)
    for name, want in dict(a=m[mma_a()], b=n[mma_b()], product=(m@n)[mma_c()], c=np.arange(128).reshape(16, 8)[mma_c()],
                           d=np.arange(64*64).reshape(64, 64)[wgmma_d(64)]).items():
        assert (got[name] == want.ravel()).all(), name


def test_the_emulator_writes_the_same(got):
    with on_emulator(): emulated = dump_layouts(emulated=True)
    assert set(emulated) == set(got) and all((x.ravel() == got[name]).all() for name, x in emulated.items())
