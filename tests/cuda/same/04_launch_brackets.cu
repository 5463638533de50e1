// A launch is written kernel<<<grid, block>>>(args); this comment launches nothing: k<<<1, 1>>>(0);
/* nor does this one: add<<<
   2, 2>>>(x) */
#include <algorithm>
#include <cstdio>
#include <vector>

template <typename T> T cdiv(T a, T b) { return (a + b - 1) / b; }
template <int A, int B> struct Product { enum { value = A * B }; };
const int LOG = 3;

__global__ void count(int *c, int slot) { atomicAdd(&c[slot], 1); }
__global__ void count_n(int *c, int slot, unsigned bytes) {
    extern __shared__ char scratch[];
    scratch[threadIdx.x % bytes] = 1;
    atomicAdd(&c[slot], int(bytes));
}

int main() {
    int *c, h[16], n = 100, i = 0;
    bool small = n < 64;
    cudaMalloc(&c, sizeof h);
    cudaMemset(c, 0, sizeof h);
    std::vector<std::vector<int>> sizes(2, std::vector<int>(3, 5));

    count<<<(n + 31) / 32, 32>>>(c, i++);
    count<<<n >> 3, 1 << LOG>>>(c, i++);
    count<<<1 << (1 << 1), (n >> 2) & ~3>>>(c, i++);
    count<<<small ? 1 : 3, n > 64 ? (n < 128 ? 8 : 9) : 7>>>(c, i++);
    count<<<dim3(2, 3), dim3(4, 2, 2)>>>(c, i++);
    count<<<dim3{2, 2, 2}, {3, 3}>>>(c, i++);
    count<<<std::max(1, n / 50), std::min<int>(n, 16)>>>(c, i++);
    count<<<cdiv<int>(n, 30), Product<3, 5>::value>>>(c, i++);
    count<<< // blocks
        sizes.size(), /* threads, not <<< or >>> */
        sizes[1].size()
    >>>(
        c, i++
    );
    count_n<<<2, 3, sizeof(int) * 4>>>(c, i++, 16);
    count_n<<<1, 2, n << 1, 0>>>(c, i++, 200);
    count <<< 1 , 5 >>> (c, i++);
    count<<<unsigned(n) / 10u, (int)2.9f>>>(c, i++);
    count<<<[&] { return n / 25; }(), 3>>>(c, i++);
    count_n<<<1, 1, n >= 100 ? 8 : 4>>>(c, i++, 8);
    { const dim3 grid(n / 10, 2), block(n % 7); count<<<grid, block>>>(c, i++); }

    cudaMemcpy(h, c, sizeof h, cudaMemcpyDeviceToHost);
    for (int k = 0; k < i; k++) printf("%d ", h[k]);
    printf("\n%s %s %c", "k<<<1, 1>>>(x)", R"(raw: k<<<2, "2">>>(y))", '<');
    printf("%d %d\n", n << 1 >> 2, 1 << 2 << 3);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    cudaFree(c);
}
