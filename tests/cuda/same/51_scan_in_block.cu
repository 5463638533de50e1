#include <cstdio>

// Hillis and Steele: log2(n) steps, two buffers in turn
__global__ void inclusive(const int *x, int *out, int n) {
    extern __shared__ int s[];
    int t = threadIdx.x, from = 0, to = n;
    s[t] = x[t];
    __syncthreads();
    for (int by = 1; by < n; by <<= 1) {
        s[to + t] = t >= by ? s[from + t] + s[from + t - by] : s[from + t];
        __syncthreads();
        int held = from;
        from = to, to = held;
    }
    out[t] = s[from + t];
}

#define CONFLICT_FREE(i) ((i) + ((i) >> 5))
// Blelloch: up and down a tree, two elements for each thread; exclusive
template <int N> __global__ void exclusive(const int *x, int *out) {
    __shared__ int s[CONFLICT_FREE(N)];
    int t = threadIdx.x, offset = 1;
    s[CONFLICT_FREE(t)] = x[t];
    s[CONFLICT_FREE(t + N / 2)] = x[t + N / 2];
    for (int d = N >> 1; d > 0; d >>= 1, offset *= 2) {
        __syncthreads();
        if (t < d) {
            int a = CONFLICT_FREE(offset * (2 * t + 1) - 1), b = CONFLICT_FREE(offset * (2 * t + 2) - 1);
            s[b] += s[a];
        }
    }
    if (t == 0) s[CONFLICT_FREE(N - 1)] = 0;
    for (int d = 1; d < N; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int a = CONFLICT_FREE(offset * (2 * t + 1) - 1), b = CONFLICT_FREE(offset * (2 * t + 2) - 1);
            int left = s[a];
            s[a] = s[b];
            s[b] += left;
        }
    }
    __syncthreads();
    out[t] = s[CONFLICT_FREE(t)];
    out[t + N / 2] = s[CONFLICT_FREE(t + N / 2)];
}

// In place: read, wait, write, wait
__global__ void in_place(int *x, int n) {
    __shared__ int s[100];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int by = 1; by < n; by *= 2) {
        __syncthreads();
        int v = t >= by ? s[t - by] : 0;
        __syncthreads();
        s[t] += v;
    }
    x[t] = s[t];
}

int main() {
    const int n = 128;
    int h[n], got[n], *x, *o;
    for (int i = 0; i < n; i++) h[i] = i * 37 % 19 - 4;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    for (int kind = 0; kind < 3; kind++) {
        int m = kind == 1 ? n : 100, sum = 0, wrong = 0;
        if (kind == 0) inclusive<<<1, m, 2 * m * sizeof(int)>>>(x, o, m);
        if (kind == 1) exclusive<n><<<1, n / 2>>>(x, o);
        if (kind == 2) in_place<<<1, m>>>(x, m);
        cudaMemcpy(got, kind == 2 ? x : o, m * sizeof(int), cudaMemcpyDeviceToHost);
        for (int i = 0; i < m; i++) sum += h[i], wrong += got[i] != (kind == 1 ? sum - h[i] : sum);
        printf("%d wrong, last %d\n", wrong, got[m - 1]);
    }
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
