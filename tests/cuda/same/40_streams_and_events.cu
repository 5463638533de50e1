#include <cstdio>

__global__ void step(int *x, int n, int times, int plus) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * times + plus;
}

int main() {
    const int n = 256, parts = 4, each = n / parts;
    int *host, *d;
    cudaMallocHost((void **)&host, n * sizeof(int));
    cudaMalloc(&d, n * sizeof(int));
    for (int i = 0; i < n; i++) host[i] = i;

    cudaEvent_t start, stop, half;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventCreateWithFlags(&half, cudaEventDisableTiming);
    cudaStream_t streams[parts];
    for (auto &s : streams) cudaStreamCreate(&s);

    cudaEventRecord(start);
    for (int p = 0; p < parts; p++) {   // copy, compute and copy back, a quarter in each stream
        int at = p * each;
        cudaMemcpyAsync(d + at, host + at, each * sizeof(int), cudaMemcpyHostToDevice, streams[p]);
        step<<<2, 32, 0, streams[p]>>>(d + at, each, 2, p);
        step<<<each / 32, 32, 0, streams[p]>>>(d + at, each, 1, 100);
        cudaMemcpyAsync(host + at, d + at, each * sizeof(int), cudaMemcpyDeviceToHost, streams[p]);
    }
    for (int p = 0; p < parts; p++) cudaStreamSynchronize(streams[p]);
    cudaEventRecord(stop, 0);
    cudaEventSynchronize(stop);
    float ms = -1;
    cudaError_t e = cudaEventElapsedTime(&ms, start, stop);
    printf("%s %d %d\n", cudaGetErrorName(e), ms >= 0, ms < 10000);
    for (int i = 0; i < n; i += 31) printf("%d ", host[i]);

    // The second stream waits for the first one's event.
    cudaStream_t a = streams[0], b = streams[1];
    cudaMemsetAsync(d, 0, n * sizeof(int), a);
    step<<<8, 32, 0, a>>>(d, n, 1, 5);
    cudaEventRecord(half, a);
    cudaStreamWaitEvent(b, half, 0);
    step<<<8, 32, 0, b>>>(d, n, 3, 1);
    cudaMemcpyAsync(host, d, n * sizeof(int), cudaMemcpyDeviceToHost, b);
    cudaStreamSynchronize(b);
    printf("\n%d %d %s %s\n", host[0], host[n - 1], cudaGetErrorName(cudaEventQuery(half)),
           cudaGetErrorName(cudaStreamQuery(b)));

    cudaStream_t quiet;
    cudaStreamCreateWithFlags(&quiet, cudaStreamNonBlocking);
    step<<<1, 32, 0, quiet>>>(d, 32, 0, 9);
    cudaStreamSynchronize(quiet);
    int one;
    cudaMemcpy(&one, d + 31, sizeof one, cudaMemcpyDeviceToHost);
    cudaStreamDestroy(quiet);
    for (auto &s : streams) cudaStreamDestroy(s);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaEventDestroy(half);
    cudaFreeHost(host);
    cudaFree(d);
    printf("%d\n%s\n", one, cudaGetErrorName(cudaGetLastError()));
}
