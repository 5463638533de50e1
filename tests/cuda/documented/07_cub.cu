//> block 5050 100 1, warps 528 1552
//> scan 1 3 6 10, before 0 1 3 6, all 2080
//> items 0 3 10 21, with a prefix 1003
//> device 5050 -3, sums 1 3 6, before 10 11 13
//> sorted -2.5 0 -0 1 7, values 3 1 4 0 2, down 7 1
//> atomics 96 31 1 7
#include <cstdio>
#include <cub/cub.cuh>

__global__ void reduce(const int *x, int *out) {
    using Reduce = cub::BlockReduce<int, 128>;
    __shared__ typename Reduce::TempStorage temp;
    const int own = threadIdx.x < 100 ? x[threadIdx.x] : 0;
    const int sum = Reduce(temp).Sum(own);
    __syncthreads();
    const int most = Reduce(temp).Reduce(own, cub::Max());
    __syncthreads();
    const int least = Reduce(temp).Reduce(own, cub::Min(), 100);
    if (threadIdx.x == 0) out[0] = sum, out[1] = most, out[2] = least;
    __shared__ typename cub::WarpReduce<int>::TempStorage warps[2];
    if (threadIdx.x < 64) {
        const int part = cub::WarpReduce<int>(warps[threadIdx.x / 32]).Sum(int(threadIdx.x) + 1);
        if (threadIdx.x % 32 == 0) out[3 + threadIdx.x / 32] = part;
    }
}
struct Before {
    int sum;
    __device__ int operator()(int block) {
        const int now = sum;
        sum += block;
        return now;
    }
};
__global__ void scan(int *out) {
    using Scan = cub::BlockScan<int, 64>;
    __shared__ typename Scan::TempStorage temp;
    const int i = threadIdx.x;
    int all;
    Scan(temp).InclusiveSum(i + 1, out[i], all);
    __syncthreads();
    Scan(temp).ExclusiveSum(i + 1, out[64 + i]);
    __syncthreads();
    int items[2] = {2 * i, 2 * i + 1}, res[2];
    Scan(temp).InclusiveSum(items, res);
    out[128 + i] = res[0];
    __syncthreads();
    Before before{1000};
    Scan(temp).InclusiveScan(items, res, cub::Sum(), before);
    if (i == 1) out[193] = res[0];
    if (i == 0) out[194] = all;
}
__global__ void atomics(int *x, unsigned long long *big) {
    __nv_atomic_fetch_add(&x[0], 3, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_fetch_max(&x[1], int(threadIdx.x), __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
    int expected = 0;
    if (__nv_atomic_compare_exchange_n(&x[2], &expected, 1, false, __NV_ATOMIC_RELAXED, __NV_ATOMIC_RELAXED))
        __nv_atomic_store_n(big, 7ull, __NV_ATOMIC_RELEASE);
}

int main() {
    int *x, *out;
    cudaMallocManaged(&x, 100 * sizeof *x), cudaMallocManaged(&out, 200 * sizeof *out);
    for (int i = 0; i < 100; i++) x[i] = i + 1;
    reduce<<<1, 128>>>(x, out);
    cudaDeviceSynchronize();
    printf("block %d %d %d, warps %d %d\n", out[0], out[1], out[2], out[3], out[4]);
    scan<<<1, 64>>>(out);
    cudaDeviceSynchronize();
    printf("scan %d %d %d %d, before %d %d %d %d, all %d\n", out[0], out[1], out[2], out[3], out[64], out[65], out[66],
        out[67], out[194]);
    printf("items %d %d %d %d, with a prefix %d\n", out[128], out[129], out[130], out[131], out[193]);

    void *temp = nullptr;
    size_t bytes = 0;
    cub::DeviceReduce::Sum(temp, bytes, x, out, 100);
    cudaMalloc(&temp, bytes);
    cub::DeviceReduce::Sum(temp, bytes, x, out, 100);
    cudaDeviceSynchronize();
    x[50] = -3;
    cub::DeviceReduce::Min(temp, bytes, x, out + 1, 100);
    cub::DeviceScan::InclusiveSum(temp, bytes, x, out + 2, 3);
    cub::DeviceScan::ExclusiveScan(temp, bytes, x, out + 5, cub::Sum(), 10, 3);
    cudaDeviceSynchronize();
    printf("device %d %d, sums %d %d %d, before %d %d %d\n", out[0], out[1], out[2], out[3], out[4], out[5], out[6],
        out[7]);
    float *keys;
    cudaMallocManaged(&keys, 10 * sizeof *keys);
    const float given[] = {1, 0, 7, -2.5f, -0.0f};
    for (int i = 0; i < 5; i++) keys[i] = given[i], x[i] = i;
    cub::DeviceRadixSort::SortPairs(temp, bytes, keys, keys + 5, x, out, 5);
    cudaDeviceSynchronize();
    printf("sorted %g %g %g %g %g, values %d %d %d %d %d", keys[5], keys[6], keys[7], keys[8], keys[9], out[0], out[1],
        out[2], out[3], out[4]);
    cub::DeviceRadixSort::SortKeysDescending(temp, bytes, keys, keys + 5, 5);
    cudaDeviceSynchronize();
    printf(", down %g %g\n", keys[5], keys[6]);

    unsigned long long *big;
    cudaMallocManaged(&big, sizeof *big);
    for (int i = 0; i < 3; i++) x[i] = 0;
    atomics<<<1, 32>>>(x, big);
    cudaDeviceSynchronize();
    printf("atomics %d %d %d %llu\n", x[0], x[1], x[2], *big);
}
