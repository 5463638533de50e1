"""Several GPUs of one process: real ones if there are enough, else emulated ones, whose kernels are checked."""

from contextlib import contextmanager

import torch

from ..cpp import devices as emulated_devices, on_emulator
from ..utils import backend


class _Gpus:
    "The GPUs of this machine, with the interface of the emulator's devices"

    def __init__(self, count):
        self.count = count
        for rank in range(count):  # a copy between two GPUs lets each access the memory of the other
            for other in range(count):
                torch.ones(1, device=f'cuda:{rank}').to(f'cuda:{other}')
        self.synchronize()

    def __len__(self):
        return self.count

    def __getitem__(self, rank):
        if not 0 <= rank < self.count:
            raise IndexError(f'device {rank} is out of range: there are {self.count} devices')
        return torch.cuda.device(rank)

    def symmetric(self, shape, dtype=torch.float32, name=''):  # emulated devices use the name in findings
        return [torch.zeros(shape, dtype=dtype, device=f'cuda:{rank}') for rank in range(self.count)]

    def pointers(self, tensors):
        self.synchronize()  # the tensors are initialized before another GPU accesses them
        return torch.tensor([tensor.data_ptr() for tensor in tensors], device='cuda:0')

    def synchronize(self):
        for rank in range(self.count):
            torch.cuda.synchronize(rank)


@contextmanager
def devices(
    count: int,  # the number of GPUs
):
    """Let kernels run on several GPUs of this process in a `with` block: real ones if there are `count`, else emulated.

        with ring.devices(2) as gpus:
            buffers = gpus.symmetric(64, torch.float32)  # a tensor of zeros per GPU, which all GPUs may access
            table = gpus.pointers(buffers)               # their addresses, `float *const *` in CUDA C
            kernel = cuda_kernel(src)
            for rank in range(2):
                with gpus[rank]: kernel[1, 64](table, rank)
            gpus.synchronize()                           # emulated kernels run here, all together

    Compile the kernels in the block: on a machine with fewer GPUs, `cuda_kernel` compiles them for the emulator there.
    Raises the findings of emulated kernels, and ValueError for a number that the emulator does not support."""
    if backend() == 'gpu' and torch.cuda.device_count() >= count:
        gpus = _Gpus(count)
        yield gpus
        gpus.synchronize()
    else:
        with on_emulator(), emulated_devices(count) as emulated:
            yield emulated
