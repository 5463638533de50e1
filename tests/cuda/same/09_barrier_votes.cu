#include <cstdio>

__global__ void votes(const int *x, int *count, int *all, int *any) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int c = __syncthreads_count(x[i] > 10);
    int a = __syncthreads_and(x[i] & 1);
    int o = __syncthreads_or(x[i] == 77);
    if (threadIdx.x == blockDim.x - 1) {
        count[blockIdx.x] = c;
        all[blockIdx.x] = a != 0;
        any[blockIdx.x] = o != 0;
    }
}

// Bubble sort, odd and even pairs in turn, till no thread of the block has swapped anything
__global__ void settled(int *x, int n, int *rounds) {
    int t = threadIdx.x, passes = 0, swapped;
    do {
        swapped = 0;
        for (int odd = 0; odd < 2; odd++) {
            int i = 2 * t + odd;
            if (i + 1 < n && x[i] > x[i + 1]) {
                int held = x[i];
                x[i] = x[i + 1];
                x[i + 1] = held;
                swapped = 1;
            }
            __syncthreads();
        }
        passes++;
    } while (__syncthreads_or(swapped));
    if (t == 0) *rounds = passes;
}

// Barriers are memory fences too: what one thread wrote before, all others see after.
__global__ void passed_on(int *out, int steps) {
    __shared__ int ball[40];
    int t = threadIdx.x;
    ball[t] = t;
    for (int s = 0; s < steps; s++) {
        int n = __syncthreads_count(ball[t] >= 0), v = ball[(t + 1) % n];
        __syncthreads();
        ball[t] = v + 1;
    }
    out[t] = ball[t];
}

int main() {
    const int n = 160;
    int h[n], *x, *o;
    for (int i = 0; i < n; i++) h[i] = i < 40 ? 2 * i + 1 : i < 80 ? 11 : i < 120 ? 10 : 37 * (i - 119);
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&o, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    votes<<<4, 40>>>(x, o, o + 4, o + 8);
    int v[12];
    cudaMemcpy(v, o, sizeof v, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 12; i++) printf("%d%s", v[i], i % 4 == 3 ? "\n" : " ");

    for (int i = 0; i < 51; i++) h[i] = i * 29 % 51;
    cudaMemcpy(x, h, 51 * sizeof(int), cudaMemcpyHostToDevice);
    settled<<<1, 33>>>(x, 51, o);
    cudaMemcpy(h, x, 51 * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(v, o, sizeof(int), cudaMemcpyDeviceToHost);
    int misplaced = 0;
    for (int i = 0; i < 51; i++) misplaced += h[i] != i;
    printf("%d passes, %d misplaced\n", v[0], misplaced);

    passed_on<<<1, 40>>>(o, 5);
    cudaMemcpy(h, o, 40 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d %d\n%s\n", h[0], h[36], h[39], cudaGetErrorName(cudaGetLastError()));
}
