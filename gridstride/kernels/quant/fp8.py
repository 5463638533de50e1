"""Products of e4m3 numbers, of 8 bits, with a scale for each row of both, by the tensor cores of a Hopper GPU.

Both have k along their rows, the only way that `wgmma` takes numbers of 8 bits; so w is given as a linear layer has it.
The tensor cores keep about 14 bits of such a sum while they add along k, on any library's way, too.
"""

import re
from functools import lru_cache

import torch

from .sources import source
from ..maps import tensor_map
from ..ptx import PTX, wgmma
from ..rung import KEPT, Call, Launcher, compiled, here, need_hopper
from ..texts import with_types
from ..tool import check_tensor, enter_thread
from ...utils import cdiv

TILE = dict(BM=128, BN=256, BK=128, STAGES=4, GROUP=8)
BOXES = (TILE['BM'], TILE['BK']), (TILE['BN'] // 2, TILE['BK']), (16, 64)  # of m, n and out: rows, columns
SHARED = TILE['STAGES'] * (TILE['BM'] + TILE['BN']) * TILE['BK'] + 8 * 2048


def wgmma_e4m3(n) -> str:  # n: columns of the result, a multiple of 8 up to 256
    "CUDA C of a function that starts d (+)= 64 x 32 times 32 x `n` e4m3 numbers, both with k along their rows"
    text = wgmma(n).replace(f'm64n{n}k16.f32.bf16.bf16', f'm64n{n}k32.f32.e4m3.e4m3')
    text = text.replace(f', more, 1, 1, %{n // 2 + 3}, %{n // 2 + 4};', ', more, 1, 1;')
    text = text.replace(', "n"(M_TURNED), "n"(N_TURNED)', '').replace('template<bool M_TURNED, bool N_TURNED> ', '')
    return re.sub(r'^// .*$', '// starts d (+)= m @ n of 32 k', text, flags=re.M)


@lru_cache(1024)
def fp8_calls(h, w, k, on) -> list:  # of `Call`
    "What multiplies h x k by the transpose of w x k on the `Device` `on`"
    src = with_types(source('fp8'), (), tuple(TILE.items()), PTX + wgmma_e4m3(TILE['BN']))
    tiles = cdiv(h, 2 * TILE['BM']) * cdiv(w, TILE['BN'])
    arrays, grid = ('m', 'n', 'out', 'm_scales', 'n_scales'), (2 * min(on.sms // 2, tiles),)
    return [Call(src, 'multiply_fp8', arrays, (h, w, k), grid, (384,), SHARED)]


class _Launch(Launcher):
    "Launches a call with tensors, of which the first three are given as tensor maps"

    def __init__(self, call, backend):
        super().__init__(compiled(call.src, call.name, backend), len(call.arrays), *call[3:7])
        self.maps = {}

    def __call__(self, arrays, stream=None):
        if not self.kernel.handle:
            arrays = [self.map(i, x) if i < len(BOXES) else x for i, x in enumerate(arrays)]
        super().__call__(arrays, stream)

    def put(self, arrays):
        for i, x in enumerate(arrays):
            self.pointers[i] = x.data_ptr()
            if i < len(BOXES):
                self.places[i] = self.map(i, x).address

    def map(self, i, x):
        "The map of array number `i`"
        if not self.kernel.handle:
            return tensor_map(x, BOXES[i])
        if (key := (i, x.data_ptr())) not in self.maps:
            if len(self.maps) >= KEPT:
                self.maps.clear()
            self.maps[key] = tensor_map(x, BOXES[i])
        return self.maps[key]


@lru_cache(1024)
def _launcher(call, device, backend):
    return _Launch(call, backend)


def why_not_fp8(h, w, k):  # None if it can
    "Why the kernel cannot multiply h x k by the transpose of w x k, in a few words"
    if k % 16 or w % 8:
        return f'k is {k} and w has {w} rows; TMA needs multiples of 16 and of 8'


def multiply_fp8(
    m,  # (h, k) of float8_e4m3fn
    n,  # (w, k) of float8_e4m3fn
    m_scales,  # (h, 1) of float32
    n_scales,  # (w, 1) of float32
):  # (h, w) of bfloat16
    """(m * m_scales) @ (n * n_scales).T; `formats.fp8` makes both of each.

    `TypeError` and `ValueError` say what does not fit, `Unavailable` that the GPU is none of Hopper."""
    for name, x, kind in (('m', m, 'float8_e4m3fn'), ('n', n, 'float8_e4m3fn')):
        check_tensor('multiply_fp8', x, [kind], name)
    (h, k), w = m.shape, n.shape[0]
    if n.shape != (w, k):
        raise ValueError(f'multiply_fp8: m is {h}x{k} and n {w}x{n.shape[1]}, and both need as many columns')
    for name, x, rows in (('m_scales', m_scales, h), ('n_scales', n_scales, w)):
        check_tensor('multiply_fp8', x, ['float32'], name)
        if x.shape != (rows, 1):
            raise ValueError(f'multiply_fp8: {name} has the shape {tuple(x.shape)}, and {(rows, 1)} is needed')
    if why := why_not_fp8(h, w, k):
        raise ValueError(f'multiply_fp8: {why}')
    need_hopper('multiply_fp8', emulated=True)
    return run_fp8(m, n, m_scales, n_scales)


def run_fp8(m, n, m_scales, n_scales):
    "`multiply_fp8` of what is known to fit"
    (h, k), w = m.shape, n.shape[0]
    out = torch.empty(h, w, dtype=torch.bfloat16, device=m.device)
    if not out.numel():
        return out
    arrays = [m.view(torch.uint8), n.view(torch.uint8), out, m_scales, n_scales]
    for call in fp8_calls(h, w, k, here()):
        if not m.is_cuda:
            _launcher(call, None, 'sim')(arrays)
            continue
        with torch.cuda.device(m.device):
            enter_thread()
            _launcher(call, m.get_device(), 'gpu')(arrays, torch._C._cuda_getCurrentRawStream(m.get_device()))
    return out
