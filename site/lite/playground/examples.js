// The programs that the playground offers
export const EXAMPLES = {
    race: {title: 'A data race', text: `#include <cstdio>
__global__ void reverse(const float *x, float *out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    out[t] = s[63 - t];         // which barrier is missing?
}
int main() {
    float host[64], *x, *out;
    for (int i = 0; i < 64; i++) host[i] = i;
    cudaMalloc(&x, sizeof host), cudaMalloc(&out, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    reverse<<<1, 64>>>(x, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g %g\\n", host[0], host[63]);
}
`},
    bounds: {title: 'A write out of bounds', text: `#include <cstdio>
__global__ void square(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = x[i] * x[i];       // threads past n have no element
}
int main() {
    const int n = 100;
    float host[n], *x, *out;
    for (int i = 0; i < n; i++) host[i] = i;
    cudaMalloc(&x, sizeof host), cudaMalloc(&out, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    square<<<4, 32>>>(x, out, n);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g\\n", host[n - 1]);
}
`},
    barrier: {title: 'A barrier in a branch', text: `#include <cstdio>
__global__ void mirror(float *x, float *out) {
    int t = threadIdx.x;
    if (t < 40) {
        x[t] /= 2;
        __syncthreads();        // the other 24 threads wait at another barrier
        out[t] = x[39 - t];
    }
    __syncthreads();
    if (t >= 40) out[t] = 0;
}
int main() {
    float *x, *out;
    cudaMalloc(&x, 256), cudaMalloc(&out, 256), cudaMemset(x, 0, 256);
    mirror<<<1, 64>>>(x, out);
    cudaDeviceSynchronize();
    puts("done");
}
`},
    banks: {title: 'Bank conflicts, counted', text: `import numpy as np
from gridstride import sim
from gridstride.sim import cuda

@cuda.jit
def transpose(x, out):
    s = cuda.shared.array((32, 32), np.float32)     # (32, 33) has no conflicts
    r, c = cuda.threadIdx.y, cuda.threadIdx.x
    s[r, c] = x[r, c]
    cuda.syncthreads()
    out[r, c] = s[c, r]

x, out = np.random.randn(32, 32).astype(np.float32), np.zeros((32, 32), np.float32)
with sim.trace() as t: transpose[1, (32, 32)](x, out)
print('requests  ', t.stats.shared_load_requests)
print('wavefronts', t.stats.shared_load_wavefronts, '- one per request is the best')
`},
    ring: {title: "Hopper's barriers in shared memory", text: `#include <cstdio>
#include <cuda/barrier>
// A producer warp fills a ring of two stages, a consumer warp empties it.
__global__ void ring(const int *x, int *out, int n) {
    __shared__ int stage[2][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> full[2], empty[2];
    if (threadIdx.x < 2) init(&full[threadIdx.x], 64), init(&empty[threadIdx.x], 64);
    __syncthreads();
    int lane = threadIdx.x % 32, sum = 0;
    for (int i = 0; i < n; i++) {
        int s = i % 2;
        if (threadIdx.x < 32) {
            if (i >= 2) empty[s].arrive_and_wait();
            stage[s][lane] = x[32 * i + lane];
            (void)full[s].arrive();
        } else {
            full[s].arrive_and_wait();
            sum += stage[s][lane];
            if (i + 2 < n) (void)empty[s].arrive();
        }
    }
    if (threadIdx.x >= 32) out[lane] = sum;
}
int main() {
    const int n = 8;
    int host[32 * n], *x, *out;
    for (int i = 0; i < 32 * n; i++) host[i] = i / 32;
    cudaMalloc(&x, sizeof host), cudaMalloc(&out, 128);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    ring<<<1, 64>>>(x, out, n);
    cudaMemcpy(host, out, 128, cudaMemcpyDeviceToHost);
    printf("each lane has %d\\n", host[0]);
}
`},
}
