//> movmatrix 0
//> generic 0
//> virtual memory 0 0 0 0: 7
//> unmapped 1, not a multiple 1
#include <cstdio>
#include <cuda.h>
__global__ void transpose(unsigned *wrong) {
    unsigned lane = threadIdx.x, d, mine = 8*(lane/4) + lane%4*2, a = mine | (mine + 1) << 16;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(a));
    unsigned first = 8*(lane%4*2) + lane/4;
    if (d != (first | (first + 8) << 16)) atomicAdd(wrong, 1);
}
// A descriptor of wgmma has the lowest 18 bits of an address, which a generic pointer has, too.
__global__ void generic(unsigned *wrong) {
    __shared__ float s[100];
    extern __shared__ float dynamic[];
    for (const float *p : {s + threadIdx.x, dynamic + threadIdx.x})
        if ((uintptr_t(p) & 0x3ffff) != (__cvta_generic_to_shared(p) & 0x3ffff)) atomicAdd(wrong, 1);
}
__global__ void seven(int *p) { *p = 7; }
int main() {
    unsigned *wrong;
    cudaMallocManaged(&wrong, 4);
    *wrong = 0;
    transpose<<<1, 32>>>(wrong);
    cudaDeviceSynchronize();
    printf("movmatrix %u\n", *wrong);
    generic<<<2, 64, 256>>>(wrong);
    cudaDeviceSynchronize();
    printf("generic %u\n", *wrong);

    CUdevice device;
    cuDeviceGet(&device, 0);
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED, prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    size_t bytes;
    cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    CUmemGenericAllocationHandle handle, odd;
    CUdeviceptr p;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int created = cuMemCreate(&handle, bytes, &prop, 0), reserved = cuMemAddressReserve(&p, bytes, 0, 0, 0);
    int unmapped = cuMemSetAccess(p, bytes, &access, 1);
    int mapped = cuMemMap(p, bytes, 0, handle, 0), allowed = cuMemSetAccess(p, bytes, &access, 1), x = 0;
    seven<<<1, 1>>>((int *)p);
    cudaMemcpy(&x, (void *)p, 4, cudaMemcpyDeviceToHost);
    printf("virtual memory %d %d %d %d: %d\n", created, reserved, mapped, allowed, x);
    printf("unmapped %d, not a multiple %d\n", unmapped, cuMemCreate(&odd, 5, &prop, 0));
    cuMemUnmap(p, bytes), cuMemRelease(handle), cuMemAddressFree(p, bytes);
}
