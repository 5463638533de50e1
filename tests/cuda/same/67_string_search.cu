#include <cctype>
#include <cstdio>
#include <cstring>

__constant__ char pattern[32];
__device__ const char vowels[] = "aeiou";

__device__ bool starts_with(const char *s, const char *p, int n) {
    while (*p) if (n-- <= 0 || *s++ != *p++) return false;
    return true;
}
__device__ int length(const char *s) { const char *e = s; while (*e) ++e; return int(e - s); }

__global__ void find(const char *text, int n, int *first, int *count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && starts_with(text + i, pattern, n - i)) {
        atomicMin(first, i);
        atomicAdd(count, 1);
    }
}

__global__ void statistics(const char *text, int n, int *out) {
    __shared__ int words, letters[26], vowel;
    int t = threadIdx.x;
    if (t < 26) letters[t] = 0;
    if (t == 26) words = vowel = 0;
    __syncthreads();
    for (int i = t; i < n; i += blockDim.x) {
        char c = text[i], l = c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
        if (l >= 'a' && l <= 'z') atomicAdd(&letters[l - 'a'], 1);
        if (c != ' ' && (i == 0 || text[i - 1] == ' ')) atomicAdd(&words, 1);
        for (const char *v = vowels; *v; v++) if (l == *v) atomicAdd(&vowel, 1);
    }
    __syncthreads();
    if (t < 26) out[t] = letters[t];
    if (t == 0) out[26] = words, out[27] = vowel, out[28] = length("a literal"), out[29] = length(pattern);
}

__global__ void rot13(char *text, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    char c = text[i];
    switch (char l = c | 32; l) {
    case ' ': c = '_'; break;
    case '.': case ',': break;
    default: c += l < 'n' ? 13 : -13;
    }
    text[i] = c;
}

__global__ void reversed(const char *in, char *out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = in[n - 1 - threadIdx.x];
}

int main() {
    const char *text = "The quick brown fox jumps over the lazy dog while the other foxes watch the dog";
    const int n = int(strlen(text));
    char *d, *e, back[100] = {};
    int *out, h[30];
    cudaMalloc(&d, n), cudaMalloc(&e, n), cudaMalloc(&out, sizeof h);
    cudaMemcpy(d, text, n, cudaMemcpyHostToDevice);
    for (const char *p : {"the", "dog", "fox", "cat", "g", "dogs"}) {
        int start[2] = {n, 0};
        cudaMemcpyToSymbol(pattern, p, strlen(p) + 1);
        cudaMemcpy(out, start, sizeof start, cudaMemcpyHostToDevice);
        find<<<(n + 31) / 32, 32>>>(d, n, out, out + 1);
        cudaMemcpy(start, out, sizeof start, cudaMemcpyDeviceToHost);
        printf("%s: %d at %d\n", p, start[1], start[0]);
    }
    statistics<<<1, 40>>>(d, n, out);
    cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
    for (int v : h) printf("%d ", v);
    reversed<<<1, 96>>>(d, e, n);
    rot13<<<1, 96>>>(e, n);
    cudaMemcpy(back, e, n, cudaMemcpyDeviceToHost);
    printf("\n%s\n%s\n", back, cudaGetErrorName(cudaGetLastError()));
}
