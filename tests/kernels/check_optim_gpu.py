"""What only a GPU can check of cross_entropy, linear_cross_entropy and AdamW. By hand, from the repository's root:

    python tests/kernels/check_optim_gpu.py             # all; half a minute
    compute-sanitizer --tool memcheck python tests/kernels/check_optim_gpu.py small   # small sizes, every kernel
"""
import sys, time

import torch
import torch.nn.functional as F
from gridstride.kernels import AdamW, cross_entropy, linear_cross_entropy
from gridstride.kernels.fused import losses
from gridstride.kernels.ladder.rung import Device, current_device_properties

# A gradient of bfloat16 that was made in advance is rounded twice, to within 2^-8 each time.
NEAR = {torch.float64: 1e-12, torch.float32: 2e-6, torch.float16: 2**-11 + 2e-6, torch.bfloat16: 2**-7 + 2e-5}
# Clusters of 1 to 8 blocks, rows that begin anywhere, and one that fits into no cluster
WIDTHS = 1, 33, 1000, 32000, 50257, 128256, 300001, 2**20 + 8


def differs(got, want, factor=1):
    "Nothing, or a sentence"
    most, least = NEAR[got.dtype]*want.abs(), 2**-21*float(factor) if got.dtype != torch.float64 else 1e-13
    off = (got.double() - want).abs() - most.clamp(min=max(least, 2**-24 if got.dtype == torch.float16 else 0))
    if not bool((off <= 0).all()): return f'{int((~(off <= 0)).sum())} of {off.numel()} are wrong'


def logits(rows, width, dtype):
    torch.manual_seed(width)
    x = torch.randn(rows, width, device='cuda').mul(3).to(dtype)
    target = torch.randint(0, width, (rows,), device='cuda')
    target[rows//2] = -100
    return x, target


def case(x, target, reduction, in_place):
    a, b = x.clone().requires_grad_(), x.double().requires_grad_()
    got, want = cross_entropy(a*1, target, -100, reduction, in_place), F.cross_entropy(b, target, reduction=reduction)
    above = torch.randn(got.shape, device='cuda', dtype=got.dtype)
    got.backward(above)
    want.backward(above.double())
    return differs(got, want) or differs(a.grad, b.grad, above.abs().max())


def cross_entropy_is_right(widths=WIDTHS, dtypes=tuple(NEAR)):
    for width in widths:
        for dtype in dtypes:
            for reduction, in_place in (('mean', True), ('sum', False), ('none', True)):
                if why := case(*logits(5, width, dtype), reduction, in_place):
                    yield f'{width} {dtype} {reduction}: {why}'
        problem = losses._loss_problem(logits(5, width, torch.float32)[0], -100, True)
        call = losses.single_pass_launch(problem, losses.current_device_properties())
        print(f'  {width}: {call.cluster[1] if call else "no"} blocks for a row of float32')


def it_is_right_without_hopper(widths=(33, 1000, 128256), dtypes=tuple(NEAR)):
    "The two passes of other GPUs"
    real = losses.current_device_properties
    losses.current_device_properties = lambda: Device(current_device_properties().sms, False)
    try: yield from cross_entropy_is_right(widths, dtypes)
    finally: losses.current_device_properties = real


def it_is_right_in_a_cuda_graph(rows=64, width=4096):
    x, target = logits(rows, width, torch.bfloat16)
    x.requires_grad_()

    def run(): return torch.autograd.grad(cross_entropy(x, target), x)[0]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side): run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph): made = run()
    with torch.no_grad(): x.copy_(torch.randn_like(x))
    graph.replay()
    if not torch.equal(made, run()): yield 'another gradient'


def linear_is_right(sizes=((64, 128, 1000, 24), (300, 256, 32000, None))):
    for rows, features, classes, chunk_rows in sizes:
        torch.manual_seed(rows)
        x, w = (torch.randn(n, features, device='cuda')*.3 for n in (rows, classes))
        target = torch.randint(0, classes, (rows,), device='cuda')
        for dtype in (torch.bfloat16, torch.float16):
            a, b = (o.to(dtype).requires_grad_() for o in (x, w))
            c, d = (o.detach().double().requires_grad_() for o in (a, b))
            linear_cross_entropy(a, b, target, chunk_rows=chunk_rows).backward()
            F.cross_entropy(c @ d.t(), target).backward()
            for name, p, q in (('dx', a, c), ('dw', b, d)):  # logits, their gradients and products are each rounded
                off = float((p.grad.double() - q.grad).abs().max()/q.grad.abs().max())
                if off > 4*NEAR[dtype]: yield f'{rows} {dtype} {name} is off by {off:.1e}'


def parameters(dtype):
    "Tensors of every kind of size, and some that begin where no vector may"
    torch.manual_seed(0)
    flat = torch.randn(100_000, device='cuda').to(dtype)
    views = [flat[1:1000], flat[1001:1004].view(3, 1), flat[1100:51_100], flat[51_100:51_101]]
    more = [torch.randn(s, device='cuda').to(dtype) for s in ((1,), (33, 17), (2048,), (2049,), (700, 300), ())]
    return [o.clone() if i > 3 else o for i, o in enumerate([*views, *more])]


def adamw_is_right(steps=10):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        ours = [p.detach().requires_grad_() for p in parameters(dtype)]
        exact = [p.detach().double().requires_grad_() for p in ours]
        how = dict(lr=1e-2, weight_decay=.1)
        a, b = AdamW(ours, **how), torch.optim.AdamW(exact, foreach=True, **how)
        kept = []
        for i in range(steps):
            for p, q in zip(ours, exact):
                p.grad = torch.randn(p.shape, device='cuda').to(dtype)
                q.grad = p.grad.double()
            kept += [p.grad for p in ours] if i % 2 else []     # so that the next ones get other addresses
            a.step()
            b.step()
        off = max(float((p.detach().double() - q.detach()).abs().max()) for p, q in zip(ours, exact))
        allowed = steps*5*{torch.float32: 2**-23, torch.bfloat16: 2**-8, torch.float16: 2**-11}[dtype]
        if not off < allowed: yield f'{dtype} is off by {off:.1e}'
        print(f'  {dtype}: off by {off:.1e} of {allowed:.1e}')


def a_capture_is_refused():
    p = [torch.ones(8, device='cuda', requires_grad=True)]
    p[0].grad = torch.ones(8, device='cuda')
    o = AdamW(p)
    o.step()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()): o.step()
    except RuntimeError as e:
        if 'a CUDA graph would repeat' not in str(e): yield str(e)
    else: yield 'nothing was said'


def small():
    "Every kernel on few elements, for compute-sanitizer"
    yield from cross_entropy_is_right((33, 40000), (torch.bfloat16, torch.float32))
    yield from it_is_right_without_hopper((1000,), (torch.bfloat16,))
    yield from linear_is_right(((64, 128, 1000, 24),))
    yield from adamw_is_right(2)


CHECKS = [cross_entropy_is_right, it_is_right_without_hopper, it_is_right_in_a_cuda_graph, linear_is_right,
          adamw_is_right, a_capture_is_refused]

if __name__ == '__main__':
    failed = 0
    for f in [globals()[o] for o in sys.argv[1:]] or CHECKS:
        start, found = time.time(), list(f())
        lines = [f'FAIL {f.__name__}: {o}' for o in found] or [f'ok   {f.__name__}, {time.time()-start:.1f} s']
        print(*lines, sep='\n', flush=True)
        failed += len(found)
    sys.exit(bool(failed))
