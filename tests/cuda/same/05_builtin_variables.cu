#include <cstdio>

__global__ void one(unsigned *o) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    o[i] = 1000 * blockIdx.x + 10 * threadIdx.x + gridDim.x;
}

__global__ void two(unsigned *o) {
    unsigned c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned width = gridDim.x * blockDim.x;
    o[r * width + c] = (blockIdx.y << 12) | (blockIdx.x << 8) | (threadIdx.y << 4) | threadIdx.x;
}

__global__ void three(unsigned long long *o) {
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned per = blockDim.x * blockDim.y * blockDim.z;
    unsigned long long who = 0;
    for (unsigned v : {blockIdx.z, blockIdx.y, blockIdx.x, threadIdx.z, threadIdx.y, threadIdx.x}) who = who * 10 + v;
    o[block * per + thread] = who;
}

__global__ void lanes(int *o) {
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    o[t] = t / warpSize * 100 + t % warpSize;
}

__device__ int rank_in(const uint3 t, const dim3 b) { return t.x + b.x * (t.y + b.y * t.z); }
__global__ void passed(int *o) { o[rank_in(threadIdx, blockDim)] = rank_in(blockIdx, gridDim) + warpSize; }

template <typename T> void show(const char *what, const T *d, int n, int step) {
    T *h = new T[n];
    cudaMemcpy(h, d, n * sizeof(T), cudaMemcpyDeviceToHost);
    unsigned long long sum = 0;
    for (int i = 0; i < n; i++) sum = sum * 31 + h[i];
    printf("%s %llu:", what, sum);
    for (int i = 0; i < n; i += step) printf(" %llu", (unsigned long long)h[i]);
    printf("\n");
    delete[] h;
}

int main() {
    void *d;
    cudaMalloc(&d, 4096);
    one<<<3, 5>>>((unsigned *)d);
    show("one", (unsigned *)d, 15, 2);
    two<<<dim3(2, 3), dim3(4, 2)>>>((unsigned *)d);
    show("two", (unsigned *)d, 48, 5);
    three<<<dim3(2, 2, 2), dim3(3, 2, 4)>>>((unsigned long long *)d);
    show("three", (unsigned long long *)d, 192, 19);
    lanes<<<1, dim3(20, 4)>>>((int *)d);
    show("lanes", (int *)d, 80, 7);
    passed<<<1, dim3(2, 3, 4)>>>((int *)d);
    show("passed", (int *)d, 24, 6);

    dim3 a, b(4), c = 5, e(1, 2, 3);
    a.y = b.x + c.x;
    uint3 u = e;
    printf("%u %u %u | %u | %u %u\n", a.x, a.y, a.z, b.x * b.y * b.z, c.x, u.x + u.y + u.z);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaFree(d);
}
