#include <cstdio>

__global__ void strided(int *x, long n) {
    for (long i = blockIdx.x * blockDim.x + threadIdx.x, step = (long)gridDim.x * blockDim.x; i < n; i += step)
        x[i] = int(i * i % 1000);
}

__global__ void volume(float *v, int d, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < w && y < h && z < d) v[(z * h + y) * w + x] = z * 100 + y * 10 + x;
}

__global__ void blurred(const float *in, float *out, int3 size) {   // six neighbours, any shape of grid
    for (int z = blockIdx.z * blockDim.z + threadIdx.z; z < size.z; z += gridDim.z * blockDim.z)
        for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < size.y; y += gridDim.y * blockDim.y)
            for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < size.x; x += gridDim.x * blockDim.x) {
                auto at = [&](int dz, int dy, int dx) {
                    int c = min(max(z + dz, 0), size.z - 1), b = min(max(y + dy, 0), size.y - 1),
                        a = min(max(x + dx, 0), size.x - 1);
                    return in[(c * size.y + b) * size.x + a];
                };
                float s = at(-1, 0, 0) + at(1, 0, 0) + at(0, -1, 0) + at(0, 1, 0) + at(0, 0, -1) + at(0, 0, 1);
                out[(z * size.y + y) * size.x + x] = s + 2 * at(0, 0, 0);
            }
}

__global__ void triangle(unsigned *count) {   // only the blocks on and below the diagonal have something to do
    if (blockIdx.y < blockIdx.x) return;
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c <= r) atomicAdd(count, 1u);
}

int main() {
    const int d = 5, h = 6, w = 11, n = d * h * w;
    float *a, *b, first[n], second[n];
    int *x, got[1000], wrong = 0;
    cudaMalloc(&x, 1000 * sizeof(int)), cudaMalloc(&a, sizeof first), cudaMalloc(&b, sizeof first);
    strided<<<3, 50>>>(x, 1000);
    cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 1000; i++) wrong += got[i] != i * i % 1000;

    dim3 tpb(4, 4, 2), blocks((w + tpb.x - 1) / tpb.x, (h + tpb.y - 1) / tpb.y, (d + tpb.z - 1) / tpb.z);
    volume<<<blocks, tpb>>>(a, d, h, w);
    blurred<<<dim3(1, 2, 2), dim3(3, 2, 2)>>>(a, b, make_int3(w, h, d));
    cudaMemcpy(first, a, sizeof first, cudaMemcpyDeviceToHost);
    cudaMemcpy(second, b, sizeof second, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (int i = 0; i < n; i++) sum += second[i];
    printf("%d wrong, %g %g | %g %g %g\n", wrong, first[0], first[n - 1], second[0], second[n / 2], sum);

    cudaMemset(x, 0, sizeof(int));
    triangle<<<dim3(5, 5), dim3(4, 4)>>>((unsigned *)x);
    cudaMemcpy(got, x, sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d %d\n%s\n", got[0], 20 * 21 / 2, cudaGetErrorName(cudaGetLastError()));
}
