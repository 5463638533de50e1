#include <cstdio>

struct Node { int key, next; };

// A list for each bucket, all in shared memory; a thread links its node in by exchanging the head.
__global__ void bucketed(const int *keys, int n, int buckets, int *sums, int *lengths) {
    __shared__ Node nodes[96];
    __shared__ int heads[8];
    int t = threadIdx.x;
    if (t < buckets) heads[t] = -1;
    __syncthreads();
    if (t < n) {
        nodes[t].key = keys[t];
        nodes[t].next = atomicExch(&heads[keys[t] % buckets], t);
    }
    __syncthreads();
    if (t < buckets) {
        int sum = 0, length = 0;
        for (int at = heads[t]; at >= 0; at = nodes[at].next, length++) sum += nodes[at].key;
        sums[t] = sum;
        lengths[t] = length;
    }
}

// How far each node is from the end: the pointers jump twice as far at every step.
__global__ void ranked(const int *next, int *rank, int n) {
    __shared__ int to[2][100], far[2][100];
    int t = threadIdx.x, now = 0;
    to[0][t] = next[t];
    far[0][t] = next[t] == t ? 0 : 1;
    __syncthreads();
    for (int step = 1; step < n; step *= 2, now ^= 1) {
        int via = to[now][t];
        far[now ^ 1][t] = far[now][t] + far[now][via];
        to[now ^ 1][t] = to[now][via];
        __syncthreads();
    }
    rank[t] = far[now][t];
}

// Pointers into shared memory, followed from one thread's node to the next's
struct Link { Link *next; float v; };
__global__ void chained(float *out) {
    __shared__ Link links[40];
    __shared__ Link *first;
    int t = threadIdx.x, n = blockDim.x;
    links[t].v = t * 0.5f;
    links[t].next = t + 7 < n ? &links[t + 7] : nullptr;
    if (t == n / 2) first = links;
    __syncthreads();
    float s = 0;
    for (Link *l = first + t; l; l = l->next) s += l->v;
    out[t] = s;
}

int main() {
    const int n = 100;
    int h[n], *x, *o;
    float f[40], *df;
    cudaMalloc(&x, sizeof h), cudaMalloc(&o, sizeof h), cudaMalloc(&df, sizeof f);
    for (int i = 0; i < n; i++) h[i] = i * i % 89;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    bucketed<<<1, 96>>>(x, 90, 7, o, o + 7);
    cudaMemcpy(h, o, 14 * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < 7; i++) printf("%d:%d ", h[i], h[7 + i]);
    for (int i = 0, at = 0; i < n; i++, at = (at + 37) % n) h[at] = i == n - 1 ? at : (at + 37) % n;
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    ranked<<<1, n>>>(x, o, n);
    cudaMemcpy(h, o, sizeof h, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0, at = 0; i < n; i++, at = (at + 37) % n) wrong += h[at] != n - 1 - i;
    chained<<<1, 40>>>(df);
    cudaMemcpy(f, df, sizeof f, cudaMemcpyDeviceToHost);
    printf("\n%d wrong | %g %g %g\n%s\n", wrong, f[0], f[6], f[39], cudaGetErrorName(cudaGetLastError()));
}
