"""What only a Hopper GPU can check of the kernels that multiply 16-bit floats for `matmul`. By hand, from the
repository's root:

    python tests/kernels/check_hopper_f16_gpu.py    # every kernel of `cost_model`, type and layout; a minute
    compute-sanitizer --tool racecheck python tests/kernels/check_hopper_f16_gpu.py small  # one per kind

A result may be off by what `gridstride.kernels.ladder.ladder.Reference` allows: half an ulp, and 16
roundings to float32 of the sum of the products' absolute values. Each is written into memory full of NaN.
"""
import os
from concurrent.futures import ThreadPoolExecutor

import torch
from checking import differs_elsewhere, run
from gridstride.kernels.gemm import cost_model
from gridstride.kernels import check_matmul
from gridstride.kernels.ladder.stream_k import resident_clusters
from gridstride.kernels.ladder.ladder import shapes_around_tile
from gridstride.kernels.ladder.rung import sms
from gridstride.utils import cdiv

FORMS = [(dtype, layout) for dtype in ('bfloat16', 'float16') for layout in ('nn', 'tn', 'nt')]


def every():
    "(cut, kernel) of all that can be picked, those that begin early, too"
    return [(o, cost_model.build_kernel(o, early, *form)) for form in FORMS for o in cost_model.available_configs(*form)
            for early in (False, True)]


def one_of_each_kind():
    "As many as differ in more than a size; alternating between types, and early or not"
    found = {}
    for o, kernel in every():
        kind = (kernel.layout, kernel.constants.get('WGS', 2), o.CM > 1, o.CN > 1, o.CK > 1, o.BLOCKS > 1,
                o.swap_ab, o.split_n, o.pingpong)
        found.setdefault(kind, []).append((o, kernel))
    return [kernels[7*i % len(kernels)] for i, kernels in enumerate(found.values())]


def least(cut): return 8, 8, 64*cut.CK


def beyond(cut):
    """More tiles than run at once, for ping-pong warpgroups, too, and more steps than any kernel has
    stages; ragged at all ends"""
    high, wide = (cut.BN*cut.CN, cut.BM*cut.CM) if cut.swap_ab else (cut.BM*cut.CM, cut.BN*cut.CN)
    tiles = (5 if cut.pingpong else 3)*resident_clusters(cut.CM*cut.CN*cut.CK, sms())*cut.BLOCKS//2
    return 2*high + 8, cdiv(tiles, 3)*wide + 8, 64*17*cut.CK + 8


def wrong(kernels, shapes_of):
    "What is wrong: compiled by many threads, and run one after the other"
    def compiled(o):
        torch.cuda.synchronize()        # enters the GPU's context; sanitizers lose, or fall over, what threads launch
        try: o[1].kernel
        except Exception as e: return e
    compiled(kernels[0])                                            # what is imported for it, once
    with ThreadPoolExecutor(os.cpu_count()) as pool: list(pool.map(compiled, kernels))
    for cut, kernel in kernels:
        try: check_matmul(kernel, [s for s in shapes_of(cut, kernel) if kernel.supports(*s)])
        except Exception as e: yield f'{kernel.name}: {type(e).__name__}: {e}'.splitlines()[0]
    print(f'  {len(kernels)} kernels')


def each_kernel_is_right(): yield from wrong(every(), lambda cut, kernel: [least(cut), *shapes_around_tile(kernel)])


def each_kernel_is_right_beyond_one_wave(): yield from wrong(every(), lambda cut, kernel: [beyond(cut)])


def each_kind_is_the_same_elsewhere():
    for cut, kernel in one_of_each_kind():
        layout, (h, w, k) = kernel.layout, (264, 520, 1096)
        a, b = (torch.randn(s, device='cuda').to(getattr(torch, kernel.dtype)) for s in ((h, k), (k, w)))
        m, n = (x.t().contiguous() if t == 't' else x for x, t in zip((a, b), layout))
        yield from (f'{kernel.name}: {o}' for o in differs_elsewhere(lambda m: kernel(m, n), m))


def small():
    "One of each kind, in few tiles: for compute-sanitizer"
    yield from wrong(one_of_each_kind(), lambda cut, kernel: [
        least(cut), beyond(cut) if cut.pingpong else (200, 136, 64*cut.CK + 136)])


CHECKS = [each_kernel_is_right, each_kernel_is_right_beyond_one_wave, each_kind_is_the_same_elsewhere]

if __name__ == '__main__': run(CHECKS, globals())
