"Shared memory that only one thread accesses between two barriers, as words and as bytes, and the races next to it"
import pytest, torch

from found import finding
from gridstride.cpp import cuda_kernel

SOURCE = r'''
template <class T> __device__ void counts(const int *x, int *out, int n, int step) {
    __shared__ T own[4 * 64];
    const int t = threadIdx.x;
    for (int i = 0; i < 4; i++) own[i * 64 + t] = 0;
    if (step & 1) __syncthreads();
    for (int i = t; i < n; i += 64) own[x[i] * 64 + t]++;
    if (step & 2) __syncthreads();
    int sum = 0;
    if (t < 4) for (int i = 0; i < 64; i++) sum += own[t * 64 + (i + t) % 64];
    if (step & 4) __syncthreads();
    own[t] = T(sum);
    if (step & 8) own[(t + 1) % 64] = 1;
    if (t < 4) out[t] = sum;
}
__global__ void bytes(const int *x, int *out, int n, int step) { counts<unsigned char>(x, out, n, step); }
__global__ void shorts(const int *x, int *out, int n, int step) { counts<short>(x, out, n, step); }
__global__ void words(const int *x, int *out, int n, int step) { counts<int>(x, out, n, step); }
__global__ void doubles(const int *x, int *out, int n, int step) { counts<double>(x, out, n, step); }
__global__ void unwritten(const int *x, int *out, int n, int step) {
    __shared__ unsigned char own[256];
    own[threadIdx.x * 4 + 1] = 1, own[threadIdx.x * 4 + 1]++;
    out[threadIdx.x] = own[threadIdx.x * 4 + 1] + own[threadIdx.x * 4 + step];
}
'''
KERNELS = 'bytes', 'shorts', 'words', 'doubles'

@pytest.fixture(scope='module')
def kernels(): return cuda_kernel(SOURCE)

@pytest.mark.parametrize('n', [1, 63, 64, 65, 515])
@pytest.mark.parametrize('name', KERNELS)
def test_a_thread_may_read_and_write_its_own_elements(kernels, name, n):
    x = torch.randint(4, (n,), dtype=torch.int32)
    out = torch.full((4,), -1, dtype=torch.int32)
    for step in (6, 7):
        kernels[name][1, 64](x, out, n, step)
        assert out.tolist() == x.bincount(minlength=4).tolist()

# without the barrier before a read, before a write, and a write to an element of the next thread
@pytest.mark.parametrize('step,before,now', [
    (5, 'written', 'read'), (3, 'read', 'written'), (15, 'written', 'written')])
@pytest.mark.parametrize('name', KERNELS)
def test_other_threads_may_not(kernels, name, step, before, now):
    x, out = torch.randint(4, (200,), dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with finding('racecheck race', array='own') as e: kernels[name][1, 64](x, out, 200, step)
    assert (e.value.fields['before'], e.value.fields['now']) == (before, now)

def test_an_unwritten_byte_of_a_word_is_found(kernels):
    out = torch.zeros(64, dtype=torch.int32)
    kernels['unwritten'][1, 64](out, out, 64, 1)
    assert out.tolist() == [4]*64
    with finding('initcheck unwritten_shared', array='own'): kernels['unwritten'][1, 64](out, out, 64, 2)
