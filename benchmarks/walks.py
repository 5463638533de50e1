"""Count the files that a reader who follows one call through the package visits: python walks.py > walks.txt

`sys.setprofile` records the calls of functions of the package, from a call to its return or exception. A row has the
number of files, the number of functions, and how often a call is in another file than the preceding one. The first run
also imports modules and fills caches; the second does not.
"""
import argparse, secrets, sys
from pathlib import Path
from unittest import mock

import numpy as np

SHIFT = '''
__global__ void shift(const float *x, float *out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i+1];
}  // %s'''


class Walk:
    "Records the functions of `folder` that are called, and their files in order"

    def __init__(self, folder): self.folder, self.files, self.functions = str(folder), [], set()

    def __call__(self, frame, event, arg):
        code = frame.f_code
        if event != 'call' or not code.co_filename.startswith(self.folder): return
        self.functions.add((code.co_filename, code.co_firstlineno))
        if self.files[-1:] != [code.co_filename]: self.files.append(code.co_filename)

    def counts(self): return len(set(self.files)), len(self.functions), max(len(self.files) - 1, 0)


def follow(call, folder):
    "Make a call and return its counts (files, functions, changes of file); its exception is ignored"
    walk = Walk(folder)
    sys.setprofile(walk)
    try: call()
    except Exception: pass
    finally: sys.setprofile(None)
    return walk.counts()


def compile_kernel():
    "Return a call that compiles a new source each time, which is in no cache"
    from gridstride import cuda_kernel
    return lambda: cuda_kernel(SHIFT % secrets.token_hex(8))


def launch_with_finding():
    from gridstride import cuda_kernel
    k, x = cuda_kernel(SHIFT % ''), np.ones(1000, np.float32)
    return lambda: k[4, 256](x, np.empty(1000, np.float32), 1000)


def simulated_race():
    from gridstride.sim import cuda
    @cuda.jit
    def reverse(x, out):
        s = cuda.shared.array(64, np.float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        out[t] = s[63-t]
    return lambda: reverse[1, 64](np.ones(64), np.zeros(64))


def pick_matmul_kernel():
    "Return a call that picks the kernel of `matmul` for an H100, without a GPU"
    from gridstride.kernels.gemm import plan
    def choose():
        with mock.patch.object(plan, '_capability_and_sms', lambda device: ((9, 0), 132)):
            return plan.plan(4096, 4096, 4096, 'bfloat16', 0)
    return choose


def triton_finding():
    import torch
    from gridstride import triton
    tl = triton.language
    @triton.jit
    def double(x, out, n, BLOCK: tl.constexpr):
        i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, 2*tl.load(x + i), mask=i < n)
    return lambda: double[(2,)](torch.randn(100), torch.empty(100), 100, BLOCK=64)


WALKS = {  # description -> function that returns the call
    '`cuda_kernel(src)`, compiled': compile_kernel,
    'its launch, to a finding': launch_with_finding,
    'a data race in the simulator': simulated_race,
    'the plan of `matmul(a, b)` on an H100': pick_matmul_kernel,
    'a Triton kernel, to a finding': triton_finding,
}


def rows(package, walks=WALKS):
    "Yield the lines of the table"
    yield f'{"":42}{"first run":>24}{"second run":>30}'
    yield f'{"":42}' + f'{"files":>8}{"functions":>11}{"changes":>9}'*2
    for description, prepare in walks.items():
        call = prepare()
        counts = follow(call, package) + follow(call, package)
        yield f'{description:42}' + ''.join(f'{count:{width}}' for count, width in zip(counts, (8, 11, 9)*2))


def main():
    "Print the table for this package, or for another checkout of the course"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = Path(__file__).resolve().parents[1]
    parser.add_argument('root', nargs='?', type=Path, default=root, help='folder of the course')
    root = parser.parse_args().root.resolve()
    sys.path.insert(0, str(root))
    for row in rows(root/'gridstride'): print(row, flush=True)


if __name__ == '__main__': main()
