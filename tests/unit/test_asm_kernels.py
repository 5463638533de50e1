"Which kernel of a source is meant, and where its source is kept."
import pytest
from gridstride.asm.kernels import CudaC, source_of
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.cpp.frontend.reader import device_only

BOTH = '''#include <torch/extension.h>
using namespace torch;
constexpr int twice(int a) { return 2*a; }
__device__ float half(float x) { return 0.5f*x; }

__global__ void half_k(float *x, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) x[i] = half(x[i]);
}
template<int tw> __global__ void __launch_bounds__(256) fill_k(float *x) { x[threadIdx.x] = tw; }

torch::Tensor halved(torch::Tensor x) {
    half_k<<<(x.numel()+255)/256, 256>>>(x.data_ptr<float>(), x.numel());
    return x;
}'''


def test_host_code_becomes_blank_and_line_numbers_stay():
    left = device_only(BOTH)
    assert 'halved' not in left and 'torch;' not in left and 'fill_k(float *x) {' in left and 'twice' in left
    assert left.count('\n') == BOTH.count('\n')


def test_an_instance_of_a_template_is_compiled():
    made = CudaC(BOTH, 'fill_k<3>').compile('sm_90', True, ())
    assert 'fill_k' in made.entry and made.resources['registers'] > 0 and made.compiler.startswith('NVRTC')


@pytest.mark.parametrize(
    'src,name,words',
    [
        (BOTH, None, "name='half_k'"),
        (BOTH, 'fill_k', 'fill_k<float>'),
        ('int x;', None, "'int x;'.*__global__"),
        ('int x;\n\nint y;', None, 'source .*__global__'),
        (BOTH, 'quarter_k', 'half_k, fill_k'),
    ],
)
def test_a_kernel_that_is_not_named_well_is_refused(src, name, words):
    with pytest.raises(ValueError, match=words): CudaC(src, name)


@pytest.mark.slow
def test_a_kernel_and_a_module_keep_their_source():
    assert source_of(load_cuda(BOTH)) == BOTH == source_of(cuda_kernel(BOTH, 'half_k'))
