#include <cstdio>
#define CHECK(e) do { cudaError_t err = (e); \
        if (err) { printf("line %d: %s\n", __LINE__, cudaGetErrorString(err)); return 1; } } while (0)

template <typename T> __device__ T *row(T *base, size_t pitch, int r) { return (T *)((char *)base + r * pitch); }

__global__ void doubled(float *m, size_t pitch, int w, int h) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < w && r < h) row(m, pitch, r)[c] *= 2;
}
__global__ void column_sums(const float *m, size_t pitch, int w, int h, float *sums) {
    int c = threadIdx.x;
    if (c >= w) return;
    float s = 0;
    for (int r = 0; r < h; r++) s += row(m, pitch, r)[c];
    sums[c] = s;
}

int main() {
    const int w = 13, h = 5;
    float m[h][w], wide[h][w + 3], *d, *sums, s[w];
    for (int r = 0; r < h; r++) for (int c = 0; c < w; c++) m[r][c] = r * 100 + c;
    size_t pitch;
    CHECK(cudaMallocPitch(&d, &pitch, w * sizeof(float), h));
    printf("%d %d\n", pitch >= w * sizeof(float), int(pitch % sizeof(float)));
    CHECK(cudaMemcpy2D(d, pitch, m, sizeof m[0], w * sizeof(float), h, cudaMemcpyHostToDevice));
    doubled<<<dim3(2, 2), dim3(8, 4)>>>(d, pitch, w, h);
    CHECK(cudaGetLastError());
    CHECK(cudaMalloc(&sums, sizeof s));
    column_sums<<<1, 32>>>(d, pitch, w, h, sums);
    CHECK(cudaMemcpy(s, sums, sizeof s, cudaMemcpyDeviceToHost));
    for (float v : s) printf("%g ", v);

    for (auto &r : wide) for (float &v : r) v = -1;   // a part of a wider matrix
    CHECK(cudaMemcpy2D(&wide[0][2], sizeof wide[0], d, pitch, w * sizeof(float), h, cudaMemcpyDeviceToHost));
    printf("\n%g %g %g %g %g\n", wide[0][1], wide[0][2], wide[4][14], wide[4][15], wide[3][7]);

    float *packed;   // device to device, two columns less
    CHECK(cudaMalloc(&packed, h * (w - 2) * sizeof(float)));
    CHECK(cudaMemcpy2D(packed, (w - 2) * sizeof(float), d + 1, pitch, (w - 2) * sizeof(float), h,
                       cudaMemcpyDeviceToDevice));
    CHECK(cudaMemset2D(d, pitch, 0, 4 * sizeof(float), h));
    CHECK(cudaMemcpy(m, packed, h * (w - 2) * sizeof(float), cudaMemcpyDeviceToHost));
    printf("%g %g %g\n", m[0][0], m[0][w - 2], (&m[0][0])[h * (w - 2) - 1]);
    CHECK(cudaMemcpy2D(m, sizeof m[0], d, pitch, w * sizeof(float), h, cudaMemcpyDeviceToHost));
    printf("%g %g %g %s\n", m[0][3], m[0][4], m[4][12], cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaFree(packed));
    CHECK(cudaFree(sums));
    CHECK(cudaFree(d));
}
