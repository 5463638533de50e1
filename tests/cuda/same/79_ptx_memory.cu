#include <cstdio>
#include <cstdint>
#define HINT "evict_first"
#define KEEP(policy) asm("createpolicy.fractional.L2::" HINT ".b64 %0, 1.0;" : "=l"(policy))

__device__ float4 streamed(const float4 *p, uint64_t policy) {
    float4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p), "l"(policy));
    return v;
}
template <class T> struct Pair { T first, second; };

__global__ void turned(const float4 *x, float2 *out) {
    __shared__ alignas(16) float s[128];
    unsigned t = threadIdx.x, at = unsigned(__cvta_generic_to_shared(s)) + 16 * t;
    uint64_t policy;
    KEEP(policy);
    asm volatile("griddepcontrol.wait;" ::: "memory");
    float4 v = streamed(x + t, policy);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 ::"r"(at), "r"(__float_as_uint(v.w)), "f"(v.z), "f"(v.y), "f"(v.x) : "memory");
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    Pair<float> p;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2 + 8];"
                 : "=f"(p.first), "=f"(p.second) : "r"(unsigned(__cvta_generic_to_shared(s)) + 16 * (31 - t))
                 : "memory");
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(out + t), "f"(p.first), "f"(p.second) : "memory");
    asm volatile("bar.warp.sync %0;" ::"r"(~0u) : "memory");
    asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
                 ::"r"(at), "l"(x + t), "r"(t % 3 * 8), "l"(policy) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    long long both;
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(both) : "r"(at) : "memory");
    asm volatile("st.global.u64 [%0+256], %1;" ::"l"(out + t), "l"(both) : "memory");
    asm volatile("griddepcontrol.launch_dependents;");
}

__global__ void rounded(const float *x, unsigned *out) {
    asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(out[threadIdx.x]) : "f"(x[threadIdx.x]));
    asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;"
                 : "=r"(out[threadIdx.x + 16]) : "f"(x[threadIdx.x]), "f"(-x[threadIdx.x]));
}

int main() {
    float h[128], *x, *out;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&out, sizeof h);
    for (int i = 0; i < 128; i++) h[i] = i;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    turned<<<1, 32>>>((const float4 *)x, (float2 *)out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 128; i++) printf("%g%s", h[i], i % 32 == 31 ? "\n" : " ");
    const float special[16] = {0.f, -0.f, 1e-45f, -1e-39f, 1 + 1 / 2048.f, -1 - 1 / 2048.f, 1 + 3 / 2048.f, 3.4e38f,
                               -3.4028234e38f, 1 / 0.f, -1 / 0.f, 65504.f, 1.17549435e-38f, 1 + 1 / 4096.f,
                               1 + 1 / 256.f, 1.00390636f};
    unsigned bits[32];
    cudaMemcpy(x, special, sizeof special, cudaMemcpyHostToDevice);
    rounded<<<1, 16>>>(x, (unsigned *)out);
    cudaMemcpy(bits, out, sizeof bits, cudaMemcpyDeviceToHost);
    for (int i = 0; i < 32; i++) printf("%08x%s", bits[i], i % 8 == 7 ? "\n" : " ");
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
