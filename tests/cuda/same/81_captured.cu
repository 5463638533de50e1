#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(float *x, float v, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] += v;
}

void note(void *noted) { ++*static_cast<int *>(noted); }

int main() {
    const int n = 40;
    float *h, *d;
    int noted = 0;
    cudaMallocHost(&h, n * sizeof(float));
    cudaMalloc(&d, n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = i;
    cudaStream_t s, t;
    cudaStreamCreate(&s);
    cudaStreamCreate(&t);
    cudaEvent_t fork, join;
    cudaEventCreate(&fork);
    cudaEventCreate(&join);

    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    cudaMemcpyAsync(d, h, n * sizeof(float), cudaMemcpyHostToDevice, s);
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(t, fork, 0);
    float v = 10;
    add<<<1, 64, 0, t>>>(d, v, n);
    v = 99;                                    // the graph has the 10
    cudaEventRecord(join, t);
    cudaStreamWaitEvent(s, join, 0);
    add<<<1, 64, 0, s>>>(d, 100, n);
    cudaMemcpyAsync(h, d, n * sizeof(float), cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(s, note, &noted);
    cudaStreamCaptureStatus status;
    cudaStreamIsCapturing(t, &status);
    cudaGraph_t graph;
    cudaError_t ended = cudaStreamEndCapture(s, &graph);
    size_t nodes = 0;
    cudaGraphGetNodes(graph, nullptr, &nodes);
    printf("%s, captured: %d, %zu nodes; done so far: %g %d\n",
           cudaGetErrorName(ended), int(status), nodes, h[1], noted);

    cudaGraphExec_t exec;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(t);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    printf("%g %g %d\n", h[0], h[39], noted);
    cudaGraphExecDestroy(exec);

    cudaError_t unknown = cudaStreamEndCapture(s, &graph);
    cudaError_t legacy = cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal);
    printf("%s %s\n", cudaGetErrorName(unknown), cudaGetErrorName(legacy));

    float *own = new float[1024];
    cudaError_t first = cudaHostRegister(own, 4096, cudaHostRegisterDefault);
    cudaError_t again = cudaHostRegister(own, 4096, cudaHostRegisterDefault);
    own[0] = 5;
    cudaMemcpy(d, own, sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(own + 1, d, sizeof(float), cudaMemcpyDeviceToHost);
    cudaError_t gone = cudaHostUnregister(own);
    cudaError_t never = cudaHostUnregister(own);
    printf("%s %s %s %s %g\n", cudaGetErrorName(first), cudaGetErrorName(again), cudaGetErrorName(gone),
           cudaGetErrorName(never), own[1]);
    cudaGetLastError();
    delete[] own;
    cudaFree(d);
    cudaFreeHost(h);
    return 0;
}
