// expect: memcheck line 6
#include <cstdio>

__global__ void add(float *x, float v) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    x[i] += v;
}

int main() {
    float *d;
    cudaMalloc(&d, 50 * sizeof(float));
    cudaMemset(d, 0, 50 * sizeof(float));
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    add<<<2, 32, 0, s>>>(d, 1);
    cudaGraph_t graph;
    cudaStreamEndCapture(s, &graph);
    cudaGraphExec_t exec;
    cudaGraphInstantiate(&exec, graph, 0);
    printf("captured\n");
    cudaGraphLaunch(exec, s);
    printf("%s\n", cudaGetErrorName(cudaStreamSynchronize(s)));
}
