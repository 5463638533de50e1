// right: threads of all blocks write plainly into one array, at places that an atomic has given them
#include <cstdio>

__global__ void positives(const int *x, int n, int *out, int *count) {
    __shared__ int block_count, from;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, place = 0;
    bool keep = i < n && x[i] > 0;
    if (t == 0) block_count = 0;
    __syncthreads();
    if (keep) place = atomicAdd(&block_count, 1);
    __syncthreads();
    if (t == 0) from = atomicAdd(count, block_count);
    __syncthreads();
    if (keep) out[from + place] = x[i];
}

int main() {
    const int n = 140;
    int h[n], *x, *out, *count, sum = 0, kept;
    for (int i = 0; i < n; i++) h[i] = i * 17 % 23 - 11;
    cudaMalloc(&x, sizeof h), cudaMalloc(&out, sizeof h), cudaMalloc(&count, sizeof(int));
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaMemset(count, 0, sizeof(int));
    positives<<<3, 64>>>(x, n, out, count);
    cudaMemcpy(&kept, count, sizeof kept, cudaMemcpyDeviceToHost);
    cudaMemcpy(h, out, kept * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < kept; i++) sum += h[i];
    printf("%d %d %s\n", kept, sum, cudaGetErrorName(cudaGetLastError()));
}
