// expect: memcheck line 8
#include <cstdio>

struct Image { int w, h; unsigned char *px; };

__global__ void inverted(Image im) {
    int i = threadIdx.x;
    if (i < im.w * im.h) im.px[i] = ~im.px[i];
}

int main() {
    Image im = {5, 4, nullptr};   // nothing was allocated
    inverted<<<1, 32>>>(im);
    cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
