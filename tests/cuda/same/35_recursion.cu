#include <cstdio>

__device__ unsigned ackermann(unsigned m, unsigned n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
__device__ int is_odd(int n);
__device__ int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
__device__ int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }

__device__ void hanoi(int n, int from, int to, int *moves, int *checksum) {
    if (n == 0) return;
    hanoi(n - 1, from, 3 - from - to, moves, checksum);
    ++*moves;
    *checksum = (*checksum * 31 + from * 3 + to) % 1000003;
    hanoi(n - 1, 3 - from - to, to, moves, checksum);
}

__device__ int queens(int n, int row, unsigned cols, unsigned left, unsigned right) {
    if (row == n) return 1;
    int found = 0;
    for (unsigned free = ~(cols | left | right) & ((1u << n) - 1); free; free &= free - 1) {
        unsigned q = free & -free;
        found += queens(n, row + 1, cols | q, (left | q) << 1, (right | q) >> 1);
    }
    return found;
}

__device__ void quicksort(int *a, int lo, int hi) {   // a local array, by pointer
    if (lo >= hi) return;
    int pivot = a[(lo + hi) / 2], i = lo, j = hi;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i <= j) { int held = a[i]; a[i++] = a[j]; a[j--] = held; }
    }
    quicksort(a, lo, j);
    quicksort(a, i, hi);
}

__global__ void all(unsigned *out) {
    int t = threadIdx.x;
    unsigned r = 0;
    if (t == 0) r = ackermann(2, 5);
    else if (t == 1) r = is_even(40) * 10 + is_even(41);
    else if (t == 2) { int m = 0, c = 0; hanoi(8, 0, 2, &m, &c); r = m * 1000000 + c; }
    else if (t < 10) r = queens(t - 2, 0, 0, 0, 0);
    else {
        int a[25];
        for (int i = 0; i < 25; i++) a[i] = (i * 17 + t * 5) % 25 - 12;
        quicksort(a, 0, 24);
        int bad = 0;
        for (int i = 0; i < 25; i++) bad += a[i] != i - 12;
        r = 500 + bad;
    }
    out[t] = r;
}

int main() {
    unsigned h[16], *d;
    cudaMalloc(&d, sizeof h);
    cudaDeviceSetLimit(cudaLimitStackSize, 16 * 1024);
    all<<<1, 16>>>(d);
    cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (unsigned v : h) printf("%u ", v);
    printf("\n%s\n", cudaGetErrorName(cudaGetLastError()));
}
