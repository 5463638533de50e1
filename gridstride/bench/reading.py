"""A read-only kernel: its bandwidth is the ceiling of kernels that mostly read; it also fills L2 with clean lines."""

from ..utils import cdiv

# DRAM is faster if it never switches from reads to writes, so kernels that mostly read are compared with a read-only
# kernel. The compiler would remove loads whose values are not used; therefore each thread XORs its 16 bytes into one
# 32-bit value, and stores a flag if this equals a magic number. Of about a hundred launch configurations, with up to
# 256 KiB per block, one load per thread in small blocks was the fastest on an H100.
_READ = r'''
__global__ void __launch_bounds__(512) read_k(const int4 *x, int *found, long long packs) {
    long long i = blockIdx.x * 512ll + threadIdx.x;
    if (i >= packs) return;
    int4 v = x[i];
    if ((v.x ^ v.y ^ v.z ^ v.w) == 0x5eed5eed) *found = 1;
}
'''


def reads(
    x,  # a contiguous tensor on the device where kernels run, a multiple of 16 bytes
):  # a function without arguments; it returns the flag, an int32 tensor, so that the loads are not removed
    """Return a function that reads all of `x` with a kernel, to measure the ceiling `ceilings()['read']`.

    bench(reads(x), bytes=x.nbytes)"""
    import torch
    from ..cpp.kernel import cuda_kernel

    kernel = cuda_kernel(_READ)
    words = x.view(-1).view(torch.int32)
    num_vectors = len(words) // 4
    found = torch.zeros(1, dtype=torch.int32, device=x.device)

    def run():
        kernel[cdiv(num_vectors, 512), 512](words, found, num_vectors)
        return found

    return run
