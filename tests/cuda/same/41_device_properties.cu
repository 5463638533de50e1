#include <cstdio>

int main() {
    int n = 0, device = -1, v = 0;
    printf("%s\n", cudaGetErrorName(cudaGetDeviceCount(&n)));
    printf("%d %s\n", n >= 1, cudaGetErrorName(cudaSetDevice(0)));
    cudaGetDevice(&device);

    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, device);
    printf("%d %d %d %d %d\n", device, p.warpSize, p.maxThreadsPerBlock, p.maxThreadsDim[0], p.maxThreadsDim[2]);
    printf("%d %d %d\n", p.maxGridSize[0], p.maxGridSize[1], int(p.sharedMemPerBlock));
    printf("%d %d %d %d\n", p.multiProcessorCount > 0, p.totalGlobalMem > 0, p.name[0] != 0, p.major >= 7);
    printf("%d %d\n", p.regsPerBlock > 0, p.sharedMemPerBlockOptin >= p.sharedMemPerBlock);

    cudaDeviceGetAttribute(&v, cudaDevAttrWarpSize, device);
    printf("%d ", v);
    cudaDeviceGetAttribute(&v, cudaDevAttrMaxThreadsPerBlock, 0);
    printf("%d ", v);
    cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0);
    printf("%d\n", v == p.multiProcessorCount);

    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    printf("%d\n", free_bytes > 0 && free_bytes <= total);
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    printf("%d %d\n", driver >= 9000, runtime >= 9000);
    printf("%s\n", cudaGetErrorName(cudaSetDevice(n + 7)));
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
