#include <cstdio>

struct Complex { double re, im; };
__device__ Complex square_plus(Complex z, Complex c) {   // each operation is rounded by itself, never fused
    double rr = __dmul_rn(z.re, z.re), ii = __dmul_rn(z.im, z.im), ri = __dmul_rn(z.re, z.im);
    return {__dadd_rn(__dsub_rn(rr, ii), c.re), __dadd_rn(__dmul_rn(2, ri), c.im)};
}

__global__ void escape_times(unsigned char *out, int h, int w, int most) {
    for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < h; r += gridDim.y * blockDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < w; c += gridDim.x * blockDim.x) {
            Complex at = {c * 3.0 / 64 - 2.25, r * 2.5 / 32 - 1.25}, z = {0, 0};
            int n = 0;
            while (n < most && __dadd_rn(__dmul_rn(z.re, z.re), __dmul_rn(z.im, z.im)) <= 4) {
                z = square_plus(z, at);
                n++;
            }
            out[r * w + c] = n;
        }
}

__global__ void fixed_point(unsigned char *out, int h, int w, int most) {   // 12 bits after the point
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= h * w) return;
    int cx = (i % w) * 192 - 9216, cy = (i / w) * 320 - 5120, x = 0, y = 0, n = 0;
    do {
        int xx = x * x >> 12, yy = y * y >> 12;
        if (xx + yy > 4 << 12) break;
        y = (x * y >> 11) + cy;
        x = xx - yy + cx;
    } while (++n < most);
    out[i] = n;
}

void show(const unsigned char *d, int h, int w) {
    unsigned char px[32 * 64];
    cudaMemcpy(px, d, h * w, cudaMemcpyDeviceToHost);
    int sum = 0, inside = 0;
    for (int i = 0; i < h * w; i++) sum += px[i], inside += px[i] == 30;
    for (int r = 0; r < h; r += 4, printf("\n"))
        for (int c = 0; c < w; c++) putchar(" .:-=+*#%@"[px[r * w + c] * 9 / 30]);
    printf("%d %d\n", sum, inside);
}

int main() {
    const int h = 32, w = 64;
    unsigned char *d;
    cudaMalloc(&d, h * w);
    escape_times<<<dim3(2, 3), dim3(16, 4)>>>(d, h, w, 30);
    show(d, h, w);
    fixed_point<<<(h * w + 127) / 128, 128>>>(d, h, w, 30);
    show(d, h, w);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
