"A rung: its line of constants, what it refuses, its layouts and tensor maps."

import pytest
import torch
from gridstride.cpp import on_emulator
from gridstride.kernels.ladder.operands import raise_invalid_operands
from gridstride.kernels.ladder.rung import Rung, require_hopper, with_constants
from gridstride.bench.recording import Unavailable
from gridstride.utils import cdiv, check
from found import names, saying

NAIVE = r'''
__global__ void naive(const float *m, const float *n, float *out, int h, int w, int k) {
    int r = blockIdx.y*BM + threadIdx.y, c = blockIdx.x*BN + threadIdx.x;
    if (r >= h || c >= w) return;
    float o = 0;
    for (int i = 0; i < k; i++) o += m[r*k+i] * n[i*w+c];
    out[r*w+c] = o;
}'''
MAP = 'struct alignas(64) TensorMap { char bytes[128]; };\n__global__ void k(const __grid_constant__ TensorMap m) {}'
M, N = torch.randn(3, 4), torch.randn(4, 5)


def naive(**more): return Rung('naive', NAIVE, **{**dict(threads=(16, 16), BM=16, BN=16), **more})


@pytest.fixture(autouse=True)
def emulated():
    with on_emulator(): yield


@pytest.mark.parametrize('src,constants,want', [
    ('\n__global__', dict(BM=128, DEEP=True), 'constexpr int BM = 128, DEEP = 1;\n__global__'),
    ('#include <a.h>', dict(BM=8), 'constexpr int BM = 8;\n#include <a.h>'), ('x', {}, 'x')])
def test_the_line_of_constants_replaces_an_empty_first_line(src, constants, want):
    assert with_constants(src, constants) == want


@pytest.mark.parametrize('args,words', [
    (([1], N), ('m', 'list')), ((M[0], N), ('m', '(4,)')),
    ((M.double(), N), ('m', 'float32', 'float64', '.to(torch.float32)')),
    ((M, N.T.contiguous().T), ('n', '(1, 4)', '.contiguous()')), ((M, M), ('3x4', '3x4', 'n.T.contiguous()')),
    ((M, N, M.new_empty(5, 3)), ('out', '3x5', '5x3')), ((M, torch.empty(4, 5, device='meta')), ('n', 'cpu', 'meta')),
    ((M, M.new_empty(4, 4), M), ('out', 'share memory'))])
def test_what_is_wrong_with_matrices_is_said(args, words):
    with pytest.raises((TypeError, ValueError), match=saying(*words)):
        raise_invalid_operands('k', *(args if len(args) == 3 else (*args, None)), torch.float32)


def test_a_grid_of_its_own_and_shapes_that_it_supports():
    r = naive(threads=(8, 8), BM=8, BN=8, grid=lambda h, w, BM, BN: (cdiv(w, BN), cdiv(h, BM)),
              supports=lambda h, w, k: w%8 == 0 or 'w is not a multiple of 8')
    assert (r.constants, r.threads, r.src.split(';')[0]) == (dict(BM=8, BN=8), (8, 8), 'constexpr int BM = 8, BN = 8')
    assert [r.supports(3, 16, 5), r.supports(3, 17, 5)] == [True, False]
    with pytest.raises(ValueError, match=saying('naive', '3x4 @ 4x5', 'multiple of 8')): r(M, N)
    n = torch.randn(4, 32)
    check(r(M, n), M@n, atol=1e-5)


def test_a_matrix_that_is_given_as_its_transpose():
    r = naive().variant('turned', src=NAIVE.replace('m[r*k+i]', 'm[i*h+r]'), layout='tn')
    check(r(M.t().contiguous(), N), M@N, atol=1e-5)
    with pytest.raises(ValueError, match='transposed.*4x3.*4x5'): r(M, N)


def test_tensor_maps_want_rows_of_sixteen_bytes():
    r = Rung('by TMA', MAP, threads=128, tma_boxes=lambda BM, BK: dict(m=(BM, BK), n=(BK, 64, 0)),
             dtype='bfloat16', BM=128, BK=64)
    assert r.tma_boxes == dict(m=((128, 64), 128), n=((64, 64), 0))
    assert names(r.unsupported_reason(8, 8, 12), 'TMA', '16 bytes', '8 bfloat16 elements', '12 columns', 'm')
    assert r.supports(7, 8, 16)


def test_hopper_may_be_emulated_or_not():
    with pytest.raises(Unavailable, match='Hopper GPU'): require_hopper('A ladder')
    require_hopper('a rung', emulated=True)
