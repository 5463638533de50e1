#include <cstdio>

__global__ void add(int n, const float *x, float *y) {
    int index = blockIdx.x * blockDim.x + threadIdx.x, stride = blockDim.x * gridDim.x;
    for (int i = index; i < n; i += stride) y[i] = x[i] + y[i];
}
struct Node { int value; Node *next; };
__global__ void walk(const Node *n, int *sum) {
    *sum = 0;
    for (; n; n = n->next) *sum += n->value;
}
struct Managed {
    static void *operator new(size_t bytes) { void *p; cudaMallocManaged(&p, bytes); return p; }
    static void operator delete(void *p) { cudaDeviceSynchronize(); cudaFree(p); }
};
struct Counter : Managed { int hits = 3; int bins[4] = {0, 1, 2, 3}; };
__global__ void hit(Counter *c) { atomicAdd(&c->hits, 1); atomicAdd(&c->bins[threadIdx.x % 4], threadIdx.x); }

int main() {
    const int n = 300;
    float *x, *y;
    cudaMallocManaged(&x, n * sizeof(float));
    cudaMallocManaged(&y, n * sizeof(float));
    for (int i = 0; i < n; i++) x[i] = 1.5f, y[i] = i;
    add<<<2, 32>>>(n, x, y);
    cudaDeviceSynchronize();
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += y[i] != i + 1.5f;
    y[0] = -1;
    add<<<1, 64>>>(n, x, y);
    cudaDeviceSynchronize();
    printf("%d wrong, %g %g\n", wrong, y[0], y[299]);

    Node *nodes;
    int *sum;
    cudaMallocManaged(&nodes, 5 * sizeof(Node));
    cudaMallocManaged(&sum, sizeof(int), cudaMemAttachGlobal);
    for (int i = 0; i < 5; i++) nodes[i] = {i * i, i < 4 ? &nodes[i + 1] : nullptr};
    walk<<<1, 1>>>(nodes, sum);
    cudaDeviceSynchronize();
    Counter *c = new Counter;
    hit<<<2, 8>>>(c);
    cudaDeviceSynchronize();
    printf("%d | %d %d %d %d %d\n", *sum, c->hits, c->bins[0], c->bins[1], c->bins[2], c->bins[3]);
    delete c;

    float *pinned, *mapped, *on_device, *d;   // memory of the host, locked in place
    cudaMallocHost(&pinned, n * sizeof(float));
    cudaHostAlloc((void **)&mapped, n * sizeof(float), cudaHostAllocMapped);
    cudaHostGetDevicePointer((void **)&on_device, mapped, 0);
    cudaMalloc(&d, n * sizeof(float));
    for (int i = 0; i < n; i++) pinned[i] = 2 * i, mapped[i] = 0.5f;
    cudaMemcpy(d, pinned, n * sizeof(float), cudaMemcpyHostToDevice);
    add<<<3, 32>>>(n, d, on_device);
    cudaDeviceSynchronize();
    printf("%g %g %g\n", mapped[0], mapped[1], mapped[299]);
    cudaFreeHost(pinned);
    cudaFreeHost(mapped);
    cudaFree(x), cudaFree(y), cudaFree(nodes), cudaFree(sum), cudaFree(d);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
