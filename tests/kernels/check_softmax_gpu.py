"""What only a Hopper GPU can check of `softmax` and `log_softmax`, and of norms under autocast. By hand, from the root
of the repository:

    python tests/kernels/check_softmax_gpu.py           # all; a minute, most of it NVRTC's
    compute-sanitizer --tool racecheck python tests/kernels/check_softmax_gpu.py small   # few rows of each kind
"""
import math

import torch
import torch.nn.functional as F
from checking import run
from gridstride.kernels import layer_norm, log_softmax, rms_norm, softmax

TOOLS = (softmax, torch.softmax), (log_softmax, torch.log_softmax)
# rows of a few lanes, of a warp, of a block, of clusters of two to eight blocks, and rows that are read twice
SHAPES = (5, 1), (7, 33), (75, 512), (33, 4100), (9, 16384), (9, 32768), (5, 40001), (3, 131072), (3, 999999)
LAST = {torch.float32: 4e-6, torch.float16: 2**-10, torch.bfloat16: 2**-7, torch.float64: 1e-13}


def scores(shape, dtype):
    "Random ones; a row with some that are -inf, and one that has no others"
    x = 3*torch.randn(shape, device='cuda', dtype=torch.float64)
    x[0, ::3] = -math.inf
    x[0, -1] = 1
    if len(x) > 3: x[1] = -math.inf
    return x.to(dtype).requires_grad_()


def off(got, want, size):
    "The largest distance, in sizes; infinite where only one of the two is NaN or infinite"
    got, there = got.double(), want.isfinite()
    if not torch.equal(there, got.isfinite()): return math.inf
    return ((got - want)[there].abs()/size.expand_as(want)[there]).max().item() if there.any() else 0


def differences(shape, dtype):
    "(what, distance from float64 in roundings of the largest number of the row)"
    for ours, torchs in TOOLS:
        x, dy = scores(shape, dtype), torch.randn(shape, device='cuda').to(dtype)
        wide = x.detach().double().requires_grad_()
        room = torch.full(shape, math.nan, device='cuda', dtype=dtype)          # what is empty next has NaN in it
        del room
        y, want = ours(x), torchs(wide, -1)
        finite = want.detach().nan_to_num(0, 0, 0).abs().amax(-1, keepdim=True) + 1e-30
        yield ours.__name__, off(y.detach(), want.detach(), finite)/LAST[dtype]
        dx, exact = torch.autograd.grad(y, x, dy)[0], torch.autograd.grad(want, wide, dy.double())[0]
        size = exact.nan_to_num(0).abs().amax(-1, keepdim=True) + finite*dy.double().abs().amax(-1, keepdim=True)
        rows = wide.isfinite().any(-1)                                          # others have NaN, in torch's way
        yield f'{ours.__name__}, backward', off(dx[rows], exact[rows], size[rows])/LAST[dtype]


def rows_of_every_kind_are_right(shapes=SHAPES, dtypes=tuple(LAST)):
    torch.manual_seed(0)
    for dtype in dtypes:
        for shape in shapes:
            for what, far in differences(shape, dtype):
                if not far <= 1: yield f'{what} {shape} {dtype}: off by {far:.3g}'


NORMS = (layer_norm, F.layer_norm), (rms_norm, F.rms_norm)


def autocast_is_obeyed():
    "Results under autocast have torch's type, with and without gradients. It does not affect later results"
    weight = torch.randn(512, device='cuda')
    by_name = {ours.__name__: (ours, lambda x, torchs=torchs: torchs(x, -1)) for ours, torchs in TOOLS}
    for ours, torchs in NORMS:
        eps = 1e-5 if torchs is F.layer_norm else 1e-6
        by_name[ours.__name__] = (lambda x, ours=ours: ours(x, weight.to(x.dtype)),
                                  lambda x, torchs=torchs, eps=eps: torchs(x, (512,), weight.to(x.dtype), eps=eps))
    for dtype in LAST:
        for has_gradient in (False, True):
            x = torch.randn(75, 512, device='cuda').to(dtype).requires_grad_(has_gradient)
            for name, (ours, torchs) in by_name.items():
                for enabled in (False, True, True, False):
                    with torch.autocast('cuda', torch.bfloat16, enabled=enabled): y, want = ours(x), torchs(x)
                    what = f'{name} of {dtype}, autocast {enabled}, gradient {has_gradient}'
                    if y.dtype is not want.dtype: yield f'{what}: {y.dtype}, and not {want.dtype}'
                    if not (y - want).abs().max() <= 4*LAST[want.dtype]*want.abs().max(): yield f'{what}: is wrong'
                    if has_gradient and torch.autograd.grad(y.sum(), x)[0].dtype is not dtype: yield f'{what}: gradient'


def small():
    "For compute-sanitizer"
    yield from rows_of_every_kind_are_right([(min(rows, 3), width) for rows, width in SHAPES[1:]], (torch.bfloat16,))


CHECKS = [rows_of_every_kind_are_right, autocast_is_obeyed]

if __name__ == '__main__': run(CHECKS, globals())
