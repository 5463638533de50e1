"""What a finding of memcheck says that a thread did there: a read, a write or an atomic, in the simulator, the emulator
and, in `test_tile`, Triton's kernels alike."""
import numpy as np
import pytest

from gridstride import cpp, sim
from gridstride.cpp import cuda_kernel
from gridstride.sim import cuda
from found import finding

KERNELS = '''
__device__ float *kept;
__global__ void writes(float *x) { x[threadIdx.x] = 1; }
__global__ void reads(float *x) { float a = x[threadIdx.x]; if (a == 7) x[0] = a; }
__global__ void updates(float *x) { x[threadIdx.x] += 1; }
__global__ void adds(float *x) { atomicAdd(&x[threadIdx.x], 1.f); }
__global__ void swaps(float *x) { atomicExch(&x[threadIdx.x], 1.f); }
__global__ void waits(float *x) { if (((volatile float *)x)[threadIdx.x] == 7) x[0] = 1; }
__global__ void sets(float *x) { ((volatile float *)x)[threadIdx.x] = 1; }
__global__ void shared_write(float *x) {
    __shared__ float s[2][4];
    float *p = s[0];
    p[threadIdx.x] = 1;
    __syncthreads();
    x[0] = s[1][3];
}
__global__ void shared_atomic(float *x) {
    __shared__ float s[2][4];
    float *p = s[0];
    if (threadIdx.x < 8) p[threadIdx.x] = 1;
    __syncthreads();
    atomicAdd(p + threadIdx.x, 1.f);
}
__global__ void local_write(float *x) {
    float t[4];
    for (int i = 0; i < x[0]; i++) t[i] = 1;
    x[0] = t[3];
}
__global__ void local_read(float *x) {
    float t[4] = {};
    x[1] = t[int(x[0])];
}
__global__ void misaligned_read(float *x) { x[0] = *(double *)(x + 1); }
__global__ void misaligned_write(float *x) { *(double *)(x + 1) = 1; }
__global__ void misaligned_struct(float *x) { *(float2 *)(x + 1) = float2{}; }
__global__ void far_read(float *x) { x[0] = *(float *)0x123456789000; }
__global__ void far_write(float *x) { *(float *)0x123456789000 = 1; }
__global__ void null_read(float *x) { x[0] = *(float *)8; }
__global__ void null_write(float *x) { *(float *)8 = 1; }
'''


@pytest.fixture(scope='module')
def emulated():
    with cpp.on_emulator(): return cuda_kernel(KERNELS)


@pytest.mark.parametrize('name,want,facts', [
    ('writes', 'outside', dict(access='write', index=(8,), shape=(8,))),
    ('reads', 'outside', dict(access='read', index=(8,))),
    ('updates', 'outside', dict(access='read', index=(8,))),
    ('adds', 'outside', dict(access='atomic', index=(8,))),
    ('swaps', 'outside', dict(access='atomic', index=(8,))),
    ('waits', 'outside', dict(access='read', index=(8,))),
    ('sets', 'outside', dict(access='write', index=(8,))),
    ('shared_write', 'outside_shared', dict(access='write', index=(2, 0), shape=(2, 4))),
    ('shared_atomic', 'outside_shared', dict(access='atomic', index=(2, 0), shape=(2, 4))),
    ('local_write', 'outside_named', dict(access='write', array='t', index=(4,))),
    ('local_read', 'outside_named', dict(access='read', array='t', index=(8,))),
    ('misaligned_read', 'misaligned', dict(access='read', bytes=8)),
    ('misaligned_write', 'misaligned', dict(access='write', bytes=8)),
    ('misaligned_struct', 'misaligned', dict(access='access', bytes=8)),
    ('far_read', 'no_array', dict(access='read')),
    ('far_write', 'no_array', dict(access='write')),
])
def test_cuda_c(emulated, name, want, facts):
    with finding(f'memcheck {want}', **facts), cpp.on_emulator():
        emulated[name][1, 9](np.full(8, 8, np.float32))


@pytest.mark.parametrize('name,want', [('null_read', 'null'), ('null_write', 'null'),
                                       ('far_read', 'address'), ('far_write', 'address')])
def test_cuda_c_without_checks(emulated, name, want):
    "The operating system knows it, too"
    with cpp.on_emulator(), cpp.options(checks='none'):
        kernel = cuda_kernel(KERNELS)[name]
        with finding(f'memcheck fault_{want}', access=name.split('_')[-1]): kernel[1, 1](np.zeros(8, np.float32))


@cuda.jit
def writes(x): x[cuda.threadIdx.x] = 1


@cuda.jit
def reads(x):
    a = x[cuda.threadIdx.x]
    if a == 7: x[0] = a


@cuda.jit
def updates(x): x[cuda.threadIdx.x] += 1


@cuda.jit
def adds(x): cuda.atomic.add(x, cuda.threadIdx.x, 1)


@pytest.mark.parametrize('engine', ['lanes', pytest.param('c', marks=pytest.mark.slow)])
@pytest.mark.parametrize('kernel,access', [(writes, 'write'), (reads, 'read'), (updates, 'read'), (adds, 'atomic')])
def test_numba(kernel, access, engine):
    with sim.options(engine=engine), finding('memcheck outside', access=access, index=(8,), shape=(8,)):
        kernel[1, 9](np.ones(8, np.float32))


@cuda.jit
def part_written(x): x[cuda.threadIdx.x, :] = 1


@cuda.jit
def part_taken(x):
    row = x[cuda.threadIdx.x]
    row[0] = 1


@cuda.jit
def local_read(x):
    t = cuda.local.array(4, np.float32)
    t[0] = 1
    x[0, 0] = t[4 * cuda.threadIdx.x]


@pytest.mark.parametrize('kernel,access,index', [
    (part_written, 'write', (2,)), (part_taken, 'access', (2,)), (local_read, 'read', (4,))])
def test_numbas_rows_and_local_arrays(kernel, access, index):
    "A row is taken first; what is done with it shows later"
    with finding('memcheck outside', access=access, index=index): kernel[1, 3](np.ones((2, 4), np.float32))
