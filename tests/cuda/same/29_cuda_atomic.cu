#include <cstdio>
#include <cuda/atomic>

using counter_t = cuda::atomic<int, cuda::thread_scope_device>;
__global__ void counted(counter_t *c, int *places) {
    int mine = c[0].fetch_add(1, cuda::memory_order_relaxed);
    places[mine] = mine * mine;
    c[1]++;
    c[1] += 3;
}

__global__ void referenced(int *sum, unsigned *bits, double *most, const double *x) {
    cuda::atomic_ref<int, cuda::thread_scope_device> s(*sum);
    cuda::atomic_ref<unsigned, cuda::thread_scope_system> b(*bits);
    cuda::atomic_ref<double, cuda::thread_scope_device> m{*most};
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s += i;
    s.fetch_sub(1);
    b.fetch_or(1u << i % 32);
    b.fetch_and(~8u);
    double seen = m.load();
    while (seen < x[i] && !m.compare_exchange_weak(seen, x[i])) { }
}

// Block 0, 1, 2, ... by ticket: each waits for what the one before has published.
__device__ cuda::atomic<int, cuda::thread_scope_device> ticket{0}, done{0};
__global__ void chained(int *values) {
    __shared__ int mine;
    if (threadIdx.x == 0) mine = ticket.fetch_add(1);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (done.load(cuda::memory_order_acquire) < mine) { }
        values[mine + 1] = values[mine] * 2 + 1;
        done.store(mine + 1, cuda::memory_order_release);
    }
}

__global__ void within_block(int *out) {
    __shared__ cuda::atomic<unsigned, cuda::thread_scope_block> least;
    __shared__ int payload;
    __shared__ cuda::atomic<bool, cuda::thread_scope_block> flag;
    int t = threadIdx.x;
    if (t == 0) least.store(~0u), flag = false;
    __syncthreads();
    least.fetch_min(1000 - t);
    if (t == 40) payload = 123, flag.store(true, cuda::std::memory_order_release);
    if (t == 5) {
        while (!flag.load(cuda::std::memory_order_acquire)) { }
        out[1] = payload;
    }
    __syncthreads();
    if (t == 0) {
        int was = 7;
        cuda::atomic<int, cuda::thread_scope_thread> local(7);
        out[2] = local.compare_exchange_strong(was, 9) ? local.exchange(11) : -1;
        out[0] = least;
    }
}

int main() {
    int h[256], *d;
    double x[128], top = -1, *dx;
    for (int i = 0; i < 128; i++) x[i] = i * 59 % 128 + 0.5;
    cudaMalloc(&d, 2048);
    cudaMalloc(&dx, sizeof x + 8);
    cudaMemset(d, 0, 2048);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dx + 128, &top, 8, cudaMemcpyHostToDevice);
    counted<<<4, 16>>>(reinterpret_cast<counter_t *>(d), d + 256);
    referenced<<<2, 64>>>(d + 2, (unsigned *)d + 3, dx + 128, dx);
    chained<<<10, 4>>>(d + 10);
    within_block<<<1, 64>>>(d + 4);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemcpy(&top, dx + 128, 8, cudaMemcpyDeviceToHost);
    printf("%d %d %d %x %.1f %d | %d %d %d\n", h[0], h[1], h[2], h[3], top, h[20], h[4], h[5], h[6]);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
