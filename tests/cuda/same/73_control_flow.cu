#include <cstdio>

__global__ void early(const int *x, int *y, int n) {
    __shared__ int total;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (i < n) atomicAdd(&total, x[i]);
    __syncthreads();
    if (i >= n) return;   // nothing below waits for anybody
    y[i] = x[i] % 2 ? -x[i] : total;
}

__global__ void statements(int *out) {
    int t = threadIdx.x, v = 0;
    for (int i = 0;; i++) {
        if (i == t) break;
        if (i % 3 == 0) continue;
        v += i;
    }
    switch (t % 6) {
    case 0: v += 1000;
    case 1: v += 2000; break;
    case 2: { int w = v; v = w * 2; break; }
    case 3: if (t > 10) goto done; [[fallthrough]];
    default: v = -v;
    }
    do v++; while (v < 5);
    v += t & 1 ? t > 5 ? 10 : 20 : 30;
done:
    out[t] = v;
}

__global__ void uniform(int *x, int rounds, bool twice) {   // barriers where all go, or none
    __shared__ int s[48];
    int t = threadIdx.x, n = blockDim.x;
    s[t] = x[t];
    if (twice) {
        __syncthreads();
        int v = s[n - 1 - t];
        __syncthreads(), s[t] = v;
    }
    for (int k = 0; k < rounds; k++) {
        __syncthreads();
        int v = k % 2 ? s[(t + 1) % n] : s[(t + n - 1) % n];
        if (rounds > 2) __syncthreads(); else __syncthreads();
        s[t] = v + t;
    }
    x[t] = s[t];
}

__global__ void collatz(const unsigned *x, int *steps, int n) {   // every lane takes its own time
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned v = x[i];
        int k = 0;
        while (v > 1) v = v & 1 ? 3 * v + 1 : v >> 1, k++;
        steps[i] = k;
    }
}

int main() {
    const int n = 100;
    int h[n], *x, *y;
    for (int i = 0; i < n; i++) h[i] = i * 3;
    cudaMalloc(&x, sizeof h), cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    auto show = [&](int *d, int step) {
        cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
        for (int i = 0; i < n; i += step) printf("%d ", h[i]);
        printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    };
    early<<<4, 32>>>(x, y, n), show(y, 9);
    statements<<<1, n>>>(y), show(y, 5);
    for (int rounds : {0, 1, 4}) uniform<<<1, 48>>>(x, rounds, rounds == 1);
    show(x, 7);
    for (int i = 0; i < n; i++) h[i] = i + 1;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    collatz<<<1, 32>>>((unsigned *)x, y, n), show(y, 8);
}
