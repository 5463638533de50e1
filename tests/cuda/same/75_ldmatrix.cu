#include <cstdio>
#include <cstdint>

// Each element is 100*row + column, so that what a lane got tells where it lay.
__device__ uint32_t address(const unsigned short *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void fill(unsigned short (*s)[24]) {
    for (int i = threadIdx.x; i < 16 * 24; i += 32) s[i / 24][i % 24] = i / 24 * 100 + i % 24;
    __syncthreads();
}
__device__ void put(unsigned *out, int n, unsigned x) { out[n * 32 + threadIdx.x] = x; }

__global__ void loads(unsigned *out) {
    __shared__ alignas(16) unsigned short s[16][24];   // rows of 48 bytes: 16 columns, and some that nobody reads
    int t = threadIdx.x;
    fill(s);
    unsigned a[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a[0]) : "r"(address(s[t % 8])));
    put(out, 0, a[0]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2+16];"
                 : "=r"(a[0]), "=r"(a[1]) : "r"(address(s[t % 16])));
    put(out, 1, a[0]), put(out, 2, a[1]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared::cta.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address(&s[t % 16][t / 16 * 8])));
    for (int i = 0; i < 4; i++) put(out, 3 + i, a[i]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(a[0]) : "r"(address(s[7 - t % 8])));
    put(out, 7, a[0]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(a[0]), "=r"(a[1]) : "r"(address(s[t % 16])));
    put(out, 8, a[0]), put(out, 9, a[1]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address(&s[t % 16][t / 16 * 8])));
    for (int i = 0; i < 4; i++) put(out, 10 + i, a[i]);
}

__global__ void stores(unsigned *out) {
    __shared__ alignas(16) unsigned short s[16][16];
    int t = threadIdx.x;
    unsigned x = t << 16 | (t + 100);
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
                 ::"r"(address(s[t % 16])), "r"(x), "r"(x + 32) : "memory");
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
                 ::"r"(address(&s[t % 16][8])), "r"(x + 64), "r"(x + 96) : "memory");
    __syncthreads();
    for (int i = 0; i < 4; i++) put(out, 14 + i, reinterpret_cast<unsigned *>(s)[i * 32 + t]);
}

int main() {
    unsigned h[18 * 32], *out;
    cudaMalloc(&out, sizeof h);
    loads<<<1, 32>>>(out);
    stores<<<1, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 18 * 32; i++) printf("%d,%d%s", h[i] & 0xffff, h[i] >> 16, i % 32 == 31 ? "\n" : " ");
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
