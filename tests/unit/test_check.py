"What `check` reports of NaN: how many, where, and how else than by a missing write they arise"
import numpy as np
import pytest
import torch
from found import names
from gridstride.utils import check


ZERO, INF = torch.zeros(1), torch.full((1,), torch.inf)


@pytest.mark.parametrize('made', [ZERO/ZERO, INF - INF, ZERO + torch.nan])
@pytest.mark.parametrize('kind', [np.asarray, torch.as_tensor])
def test_nan_is_counted_and_each_origin_is_named(made, kind):
    got = torch.arange(6.).view(2, 3)
    got[1, 1:] = made
    with pytest.raises(AssertionError) as e: check(kind(got), kind(torch.arange(6.).view(2, 3)))
    assert names(str(e.value), '2 of 6', [1, 1], 'nan', 4, '2 of', 'NaN', '0/0', 'inf/inf', 'inf - inf'), str(e.value)


def test_one_nan_among_wrong_values_and_none():
    want = np.ones(4)
    with pytest.raises(AssertionError) as e: check(np.array([1, 2, np.nan, 1]), want)
    assert names(str(e.value), '2 of 4', [1], 'NaN', '0/0') and '2 of them' not in str(e.value), str(e.value)
    for got in np.array([1, 2, np.inf, 1]), np.zeros(4):
        with pytest.raises(AssertionError) as e: check(got, want)
        assert 'NaN' not in str(e.value) and '0/0' not in str(e.value), str(e.value)
    with pytest.raises(AssertionError) as e: check(np.float32('nan'), np.float32(1))
    assert names(str(e.value), 'nan', 1), str(e.value)


def test_expected_values_with_nan_are_refused():
    with pytest.raises(ValueError, match='NaN'): check(np.ones(2), np.array([1, np.nan]))
