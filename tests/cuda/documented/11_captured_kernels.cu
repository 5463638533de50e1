//> 1 1 1, then 12
//> 30
#include <cstdio>
#include <cuda_runtime.h>

typedef void (*Kernel)(int *);
struct Pair { int a, b; };

__global__ void one(int *x) { *x += 1; }
__global__ void ten(int *x) { *x += 10; }
__global__ void add(int *x, Pair p) { *x += p.a + p.b; }

// A graph keeps what a launch was given, not where it lay: `f` and `a` are others later, and then gone
cudaGraph_t captured(int *x, cudaStream_t s, bool pair) {
    cudaGraph_t graph = nullptr;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    Kernel f = one;
    int a = 10;
    if (pair) add<<<1, 1, 0, s>>>(x, {a, 20});
    else f<<<1, 1, 0, s>>>(x);
    f = ten, a = 1000;
    cudaStreamEndCapture(s, &graph);
    return graph;
}

int main() {
    int *x;
    cudaMallocManaged(&x, sizeof(int));
    cudaStream_t s;
    cudaStreamCreate(&s);
    for (int pair = 0; pair < 2; pair++) {
        cudaGraph_t graph = captured(x, s, pair);
        cudaGraphExec_t exec;
        cudaGraphInstantiate(&exec, graph, 0);
        for (int i = 0; i < (pair ? 1 : 3); i++) {
            *x = 0;
            cudaGraphLaunch(exec, s);
            cudaStreamSynchronize(s);
            printf("%d%s", *x, pair ? "\n" : i < 2 ? " " : ", then ");
        }
        if (!pair) {
            Kernel table[2] = {one, ten};
            for (Kernel k : table) k<<<1, 1, 0, s>>>(x);
            cudaStreamSynchronize(s);
            printf("%d\n", *x);
        }
        cudaGraphExecDestroy(exec);
        cudaGraphDestroy(graph);
    }
    cudaStreamDestroy(s);
    cudaFree(x);
}
