"Where an operator leaves the work to torch, by the rules of its module, on a GPU that is not there."
from types import SimpleNamespace

import pytest
import torch
from gridstride.kernels.flash import attentions
from gridstride.kernels import common
from gridstride.kernels.fused import norms
from gridstride.kernels.gemm import batches, plan


@pytest.mark.parametrize('M,N,K,dtype,expected', [
    (16, 4096, 4096, 'bfloat16', True), (128, 4096, 4096, 'float16', True), (129, 3000, 4096, 'bfloat16', False),
    (256, 4096, 4096, 'bfloat16', True), (256, 2048, 4096, 'bfloat16', False), (16, 1024, 1024, 'bfloat16', False),
    (1, 1280, 5120, 'bfloat16', True),
    (1024, 2048, 16384, 'bfloat16', True), (1024, 1024, 1024, 'bfloat16', False),
    (512, 1024, 4096, 'bfloat16', True), (512, 768, 3072, 'bfloat16', False),
    (4096, 4096, 4096, 'bfloat16', False), (16, 4096, 4096, 'float32', False)])
def test_products_with_a_small_result_and_a_long_sum_are_torchs(M, N, K, dtype, expected):
    assert plan._is_torch_faster(M, N, K, dtype) is expected


@pytest.mark.parametrize('M,N,K,dtype,expected', [
    (4, 4096, 1024, torch.bfloat16, True), (64, 1600, 1600, torch.float16, True), (64, 768, 768, torch.bfloat16, False),
    (256, 1280, 5120, torch.bfloat16, False), (512, 4096, 1024, torch.bfloat16, False),
    (4, 4096, 1024, torch.float32, False)])
def test_few_rows_times_a_wide_matrix_are_torchs_in_graphs(M, N, K, dtype, expected):
    assert plan.is_torch_faster_in_graphs(M, K, N, dtype) is expected


def query(rows, dim, dtype=torch.bfloat16, is_cuda=True):
    return SimpleNamespace(shape=(2, 8, rows, dim), dtype=dtype, is_cuda=is_cuda)


@pytest.mark.parametrize('rows,dim,causal,has_gradient,expected', [
    (128, 128, True, False, True), (1024, 128, False, False, True), (2048, 128, True, False, False),
    (1000, 64, False, False, False), (1000, 64, True, False, True), (128, 128, True, True, False),
    (4096, 256, True, True, True), (2048, 64, False, True, False), (512, 64, False, True, True),
    (1024, 64, False, True, True), (1000, 64, True, True, False)])
def test_short_sequences_are_sdpas(rows, dim, causal, has_gradient, expected, monkeypatch):
    monkeypatch.setattr(attentions, '_has_hopper', lambda: True)
    assert attentions._is_sdpa_faster(query(rows, dim), causal, has_gradient) is expected
    assert not attentions._is_sdpa_faster(query(rows, dim, is_cuda=False), causal, has_gradient)


@pytest.mark.parametrize('heads,rows,dim,causal,expected', [
    (28*32, 128, 128, False, True), (16*20, 1000, 64, False, False), (32*32, 256, 128, True, True)])
def test_python_limits_the_gradients_of_little_attention(heads, rows, dim, causal, expected):
    q = SimpleNamespace(shape=(1, heads, rows, dim))
    assert attentions._is_host_bound(q, q, causal) is expected


def test_python_limits_the_gradients_of_small_operands():
    def on_gpu(nbytes, is_cuda=True): return SimpleNamespace(nbytes=nbytes, is_cuda=is_cuda, dtype=torch.bfloat16)
    is_bound = [common.is_host_bound(on_gpu(n), ['bfloat16']) for n in (0, 2, 2**26, 2**26 + 2)]
    assert is_bound == [False, True, True, False]
    assert not common.is_host_bound(on_gpu(2, False), ['bfloat16'])
    assert not common.is_host_bound(on_gpu(2), ['float32']) and not common.is_host_bound(on_gpu(64), ['bfloat16'], 32)


@pytest.mark.parametrize('count,M,N,K,expected', [
    (8, 64, 64, 64, False), (12, 159, 512, 1024, False), (256, 1024, 64, 128, True), (64, 512, 512, 512, True)])
def test_long_16_bit_batches_are_torchs(count, M, N, K, expected, monkeypatch):
    monkeypatch.setattr(batches, 'current_device_properties', lambda: SimpleNamespace(sms=132))
    a, b = (torch.empty(shape, dtype=torch.bfloat16, device='meta') for shape in ((count, M, K), (count, K, N)))
    assert batches._is_long(a, b) is expected


@pytest.mark.parametrize('rows,width,dtype,has_gradient,expected', [
    (4096, 32000, torch.float32, False, True), (16, 32000, torch.float32, False, False),
    (4096, 32000, torch.bfloat16, False, False), (1024, 51866, torch.bfloat16, False, True),
    (1023, 51866, torch.bfloat16, False, False), (4096, 32000, torch.float32, True, False),
    (4096, 18944, torch.bfloat16, True, False), (256, 51866, torch.bfloat16, True, True),
    (255, 51866, torch.bfloat16, True, False)])
def test_many_long_rows_are_normalized_by_torch(rows, width, dtype, has_gradient, expected):
    x = torch.empty(rows, width, dtype=dtype, device='meta')
    on_gpu = SimpleNamespace(shape=x.shape, element_size=x.element_size, numel=x.numel, is_cuda=True)
    assert norms._is_torch_faster(on_gpu, has_gradient) is expected
    assert not norms._is_torch_faster(x, has_gradient)


def test_torchs_norms_have_the_results_of_ours():
    x, residual, weight, bias = torch.randn(5, 24), torch.randn(5, 24), torch.randn(24), torch.randn(24)
    for is_centered, options in ((True, (weight, bias)), (False, (weight, None))):
        operator = norms.layer_norm if is_centered else norms.rms_norm
        arguments = dict(weight=weight, residual=residual, eps=1e-5) | (dict(bias=bias) if is_centered else {})
        by_torch = norms._torch_normalize(x, *options, residual, 1e-5, is_centered)
        for got, want in zip(by_torch, operator(x, **arguments)): torch.testing.assert_close(got, want)
        with torch.autocast('cpu', torch.bfloat16):
            assert norms._torch_normalize(x, *options, None, 1e-5, is_centered).dtype is torch.float32
            half = [o if o is None else o.bfloat16() for o in (x, *options)]
            assert norms._torch_normalize(*half, None, 1e-5, is_centered).dtype is torch.bfloat16
