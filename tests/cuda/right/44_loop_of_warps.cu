// right: warps leave a loop at different times; only the warp's own barriers are in it
#include <cstdio>

__global__ void sorted_runs(int *x, int n, int *rounds) {   // a run of 32 for each warp
    __shared__ int s[128];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, r = 0;
    s[t] = t < n ? x[t] : 1 << 30;
    __syncwarp();
    for (bool again = true; again; r++) {
        bool swapped = false;
        for (int odd = 0; odd < 2; odd++) {
            int i = t + odd;
            if (lane % 2 == 0 && lane + odd < 31 && s[i] > s[i + 1]) {
                int held = s[i];
                s[i] = s[i + 1];
                s[i + 1] = held;
                swapped = true;
            }
            __syncwarp();
        }
        again = __any_sync(0xffffffff, swapped);
    }
    if (t < n) x[t] = s[t];
    if (lane == 0) rounds[warp] = r;
}

int main() {
    const int n = 120;
    int h[n], *x, *rounds, wrong = 0;
    for (int i = 0; i < n; i++) h[i] = i / 32 == 1 ? i : i * 53 % 97;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&rounds, 4 * sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    sorted_runs<<<1, 128>>>(x, n, rounds);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 1; i < n; i++) wrong += i % 32 && h[i] < h[i - 1];
    cudaMemcpy(h, rounds, 4 * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d wrong, %d %d %s\n", wrong, h[0], h[1], cudaGetErrorName(cudaGetLastError()));
}
