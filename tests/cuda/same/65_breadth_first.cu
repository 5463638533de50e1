#include <cstdio>
#include <vector>

__device__ int changed;

// A launch for each level, all nodes looked at
__global__ void level_of(const int *start, const int *edges, int *level, int n, int now) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= n || atomicAdd(&level[v], 0) != now) return;
    for (int e = start[v]; e < start[v + 1]; e++)
        if (atomicCAS(&level[edges[e]], -1, now + 1) == -1) atomicAdd(&changed, 1);
}

// With a queue of the nodes on the frontier
__global__ void frontier(const int *start, const int *edges, int *level, const int *queue, int length, int *next,
                         int *next_length, int now) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length) return;
    for (int e = start[queue[i]]; e < start[queue[i] + 1]; e++) {
        int w = edges[e];
        if (atomicCAS(level + w, -1, now + 1) == -1) next[atomicAdd(next_length, 1)] = w;
    }
}

int main() {
    const int n = 300;
    std::vector<int> start{0}, edges, level(n, -1), other(n);
    for (int v = 0; v < n; v++) {
        for (int w : {v + 1, v * 2 + 1, v + 17, v * v % n}) if (w < n && v % 13) edges.push_back(w);
        if (v == 0) edges.push_back(5);
        start.push_back(int(edges.size()));
    }
    int *s, *e, *l, *q[2], *length, found, launches = 0;
    cudaMalloc(&s, start.size() * sizeof(int)), cudaMalloc(&e, edges.size() * sizeof(int)),
        cudaMalloc(&l, n * sizeof(int));
    cudaMalloc(&q[0], n * sizeof(int)), cudaMalloc(&q[1], n * sizeof(int)), cudaMalloc(&length, sizeof(int));
    cudaMemcpy(s, start.data(), start.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(e, edges.data(), edges.size() * sizeof(int), cudaMemcpyHostToDevice);

    cudaMemset(l, -1, n * sizeof(int));
    cudaMemset(l, 0, sizeof(int));
    do {
        int zero = 0;
        cudaMemcpyToSymbol(changed, &zero, sizeof zero);
        level_of<<<(n + 63) / 64, 64>>>(s, e, l, n, launches++);
        cudaMemcpyFromSymbol(&found, changed, sizeof found);
        printf("%d ", found);
    } while (found);
    cudaMemcpy(level.data(), l, n * sizeof(int), cudaMemcpyDeviceToHost);

    cudaMemset(l, -1, n * sizeof(int));
    cudaMemset(l, 0, sizeof(int));
    cudaMemset(q[0], 0, sizeof(int));
    for (int now = 0, have = 1; have; now++) {
        cudaMemset(length, 0, sizeof(int));
        frontier<<<(have + 31) / 32, 32>>>(s, e, l, q[now % 2], have, q[~now & 1], length, now);
        cudaMemcpy(&have, length, sizeof have, cudaMemcpyDeviceToHost);
    }
    cudaMemcpy(other.data(), l, n * sizeof(int), cudaMemcpyDeviceToHost);
    int sum = 0, never = 0;
    for (int v : level) sum += v, never += v < 0;
    printf("\n%s, %d launches, sum %d, %d never reached\n", level == other ? "same" : "different", launches, sum,
           never);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
}
