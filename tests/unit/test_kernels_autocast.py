"Operators under `torch.autocast`: the type of a result is that of torch's."
import pytest
import torch
import torch.nn.functional as F
from gridstride.kernels import autocast, layer_norm, log_softmax, rms_norm, softmax

OPERATORS = [(softmax, lambda x: x.softmax(-1)), (log_softmax, lambda x: x.log_softmax(-1)),
             (lambda x: layer_norm(x, torch.ones(24), torch.zeros(24)), lambda x: F.layer_norm(x, (24,))),
             (lambda x: rms_norm(x, torch.ones(24)), lambda x: F.rms_norm(x, (24,), eps=1e-6))]
NAMES = ['softmax', 'log_softmax', 'layer_norm', 'rms_norm']


@pytest.mark.parametrize('ours,by_torch', OPERATORS, ids=NAMES)
def test_results_have_torchs_type_under_autocast(ours, by_torch):
    x = torch.randn(5, 24).bfloat16()
    with torch.autocast('cpu', torch.bfloat16):
        got, want = ours(x), by_torch(x)
    assert got.dtype is want.dtype
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize('ours,by_torch', OPERATORS, ids=NAMES)
def test_bfloat16_is_computed_in_float32_where_torch_does_that(ours, by_torch, monkeypatch):
    monkeypatch.setattr(autocast, '_result_dtype', lambda *_: torch.float32)  # as torch on a GPU
    x = torch.randn(5, 24).bfloat16().requires_grad_()
    with torch.autocast('cpu', torch.bfloat16): y = ours(x)
    torch.testing.assert_close(y, by_torch(x.float()))
    y[:, 0].sum().backward()
    assert x.grad.dtype is torch.bfloat16


def test_a_sum_with_the_residual_keeps_its_type(monkeypatch):
    monkeypatch.setattr(autocast, '_result_dtype', lambda *_: torch.float32)
    x, residual = torch.randn(2, 5, 24).bfloat16()
    with torch.autocast('cpu', torch.bfloat16): y, total = rms_norm(x, torch.ones(24), residual)
    assert total.equal(x + residual)
    torch.testing.assert_close(y, F.rms_norm(total.float(), (24,), eps=1e-6))
