"""A kernel that does nothing but read: the ceiling of those that read, and a way to fill a cache and leave it clean."""

from ..utils import cdiv

# A memory that never switches from reading to writing is faster, so what only reads is compared with pure reads. A load
# whose value is not used is left out by the compiler: each thread folds its 16 bytes into one word, and would store if
# that were a certain one. One load per thread and small blocks are what reads fastest on an H100, of some hundred
# shapes with up to 256 KiB per block.
_READ = r'''
__global__ void __launch_bounds__(512) read_k(const int4 *x, int *found, long long packs) {
    long long i = blockIdx.x * 512ll + threadIdx.x;
    if (i >= packs) return;
    int4 v = x[i];
    if ((v.x ^ v.y ^ v.z ^ v.w) == 0x5eed5eed) *found = 1;
}
'''


def reads(
    x,  # a contiguous tensor of whole 16-byte packs, where kernels run
):  # a function, called with nothing; its result is whether a pack folds to a certain word, as a tensor
    """Return a kernel that reads all of `x` and does nothing else: the ceiling of kernels that read,
    `ceilings()['read']`"""
    import torch
    from ..cpp.kernel import cuda_kernel

    kernel = cuda_kernel(_READ)
    words = x.view(-1).view(torch.int32)
    packs = len(words) // 4
    found = torch.zeros(1, dtype=torch.int32, device=x.device)

    def run():
        kernel[cdiv(packs, 512), 512](words, found, packs)
        return found

    return run
