"""CUB is called for what it can be called for; what it gives is checked on a GPU, where the lessons
hold their kernels against it."""
import pytest, torch

from gridstride.kernels import cub
from gridstride.bench.recording import Unavailable


class Elsewhere:
    "What is checked of a tensor before CUB is called"
    is_cuda, shape = True, (2, 3)
    def __init__(self, dtype, contiguous=True): self.dtype, self.contiguous = dtype, contiguous
    def is_contiguous(self): return self.contiguous
    def numel(self): return 6

def test_without_a_gpu_it_prints_a_notice():
    with pytest.raises(Unavailable, match='NVIDIA GPU'): cub.sum(torch.zeros(3), torch.zeros(1))

@pytest.mark.parametrize('call,x', [(cub.sum, Elsewhere(torch.float64)), (cub.scan, Elsewhere(torch.int32, False)),
                                    (cub.histogram, Elsewhere(torch.int32))])
def test_other_tensors_are_refused(call, x):
    with pytest.raises(ValueError, match=r'contiguous.*torch\.\w+, \(2, 3\)'): call(x, None)
