#include <cstdio>
#include <cstdint>

__global__ void registers(unsigned *out) {
    unsigned lane, x, group;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%tid.x;\n\tmov.u32 %1, %%ctaid.x;" : "=r"(x), "=r"(group));
    unsigned *o = out + (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    o[0] = lane, o[1] = x, o[2] = group;
    float f = x + 0.5f;
    asm("mov.b32 %0, %1;" : "=r"(o[3]) : "f"(f));
}

__global__ void shared_by_address(const float *x, float *out) {
    __shared__ alignas(16) float s[64];
    int t = threadIdx.x;
    uint64_t wide;
    uint32_t at;
    asm("{ .reg .u64 full;   // the usual way, by hand\n"
        "  cvta.to.shared.u64 full, %1;\n"
        "  cvt.u32.u64 %0, full; }" : "=r"(at) : "l"(s));
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(wide) : "l"(s + 32));
    if (t < 16)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
                     ::"r"(at + t * 16), "f"(x[t]), "f"(x[t + 16]), "f"(x[t + 32]), "f"(x[t + 48]) : "memory");
    __syncthreads();
    float a, b;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(a) : "r"(at + t % 32 * 4) : "memory");
    asm volatile("ld.shared.f32 %0, [%1+4];" : "=f"(b) : "l"(wide + t % 31 * 4) : "memory");
    out[t] = a * 100 + b;
    asm volatile("bar.sync 0;" ::: "memory");
    asm volatile("{ .reg .pred even, small;\n"
                 "  setp.eq.u32 even, %2, 0;\n"
                 "  setp.lt.s32 small, %3, -3;\n"
                 "  @even st.shared.f32 [%0], %1;\n"
                 "  @!small st.shared.f32 [%0], %1; }"
                 ::"r"(at + t * 4), "f"(t * 3.f), "r"(t % 2), "r"(t - 35) : "memory");
    __syncthreads();
    out[64 + t] = s[63 - t];
}

__global__ void conversions(unsigned *out) {
    float x = __fmul_rn(int(threadIdx.x) - 8, 1.2345678f);
    unsigned *o = out + threadIdx.x * 3;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(o[0]) : "f"(x), "f"(-2 * x));
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(o[1]) : "f"(x), "f"(1 / (x + 1)));
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(o[2]) : "f"(x));
}

int main() {
    unsigned h[256], *out;
    float x[64], *dx;
    cudaMalloc(&out, sizeof h);
    cudaMalloc(&dx, sizeof x);
    for (int i = 0; i < 64; i++) x[i] = i;
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    registers<<<2, 32>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 256; i++) printf("%u%s", h[i], i % 32 == 31 ? "\n" : " ");
    shared_by_address<<<1, 64>>>(dx, (float *)out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 128; i++) printf("%g%s", reinterpret_cast<float *>(h)[i], i % 32 == 31 ? "\n" : " ");
    conversions<<<1, 16>>>(out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 48; i++) printf("%08x%s", h[i], i % 12 == 11 ? "\n" : " ");
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
