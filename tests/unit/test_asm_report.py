"Which kernel of several, and what a spill looks like in the report."
import pytest
from gridstride.asm.report import find_kernel_source, ptx, resources, sass
from gridstride.cpp import cuda_kernel

SCALE = '''__global__ void scale_k(float *x, float a, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i < n) x[i] = a*x[i];
}'''
SUMS = '''__global__ void sums_k(float *x) {
    float t[40];
    #pragma unroll
    for (int j = 0; j < 40; j++) t[j] = x[j*32+threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int j = 0; j < 40; j++) x[j*32+threadIdx.x] = t[j]*t[39-j];
}'''


def test_one_of_several_kernels_is_requested():
    two = cuda_kernel('__global__ void a_k(int *x) { *x = 1; }\n__global__ void b_k(int *x) { *x = 2; }')
    assert find_kernel_source(two, name='b_k').name == 'b_k'
    with pytest.raises(ValueError, match="name='a_k'"): find_kernel_source(two)
    with pytest.raises(TypeError, match='Triton kernel'): find_kernel_source(3)


@pytest.mark.slow
def test_a_small_kernel_is_read_line_by_line():
    assert sass(SCALE).count()['float'] == 1 and [n for n, _, _ in ptx(SCALE).lines] == [1, 2, 3, 4]
    assert sass(SCALE, arch='sm_80').arch == 'sm_80'
    with pytest.raises(ValueError, match='sm_75'): sass(SCALE, arch='sm_35')


@pytest.mark.slow
def test_too_few_registers_spill():
    enough, few = resources(SUMS), resources(SUMS, flags=('-maxrregcount=24',))
    assert (enough.spill_stores, enough.spill_loads, enough.local) == (0, 0, 0)
    assert few.registers <= 24 < enough.registers and few.spill_stores and few.local
    assert sass(SUMS, flags=('-maxrregcount=24',)).count()['local'] > 0


def test_resources_print_as_an_indented_table_below_the_name():
    first, *rows = str(resources(SCALE, block=1024)).splitlines()
    assert first.startswith('scale_k for sm_90, by NVRTC') and len(rows) == 8 and all(r.startswith('  ') for r in rows)
