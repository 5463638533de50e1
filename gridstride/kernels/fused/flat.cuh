// GELU of `size` elements, and its gradient: dx from dy. A block processes THREADS * AHEAD packs.
template<class F> __device__ void each_pack(long long size, F f) {  // f(index in the thread, index in the array)
    const long long first = (long long)blockIdx.x * THREADS * AHEAD + threadIdx.x, packs = size / V;
    #pragma unroll
    for (int a = 0; a < AHEAD; a++)
        if (first + a * THREADS < packs) f(a, first + a * THREADS);
}

__global__ void __launch_bounds__(THREADS) gelu_forward(const From *x, From *y, long long size) {
    Pack inputs[AHEAD];
    each_pack(size, [&](int a, long long i) { inputs[a] = ((const Pack *)x)[i]; });
    each_pack(size, [&](int a, long long i) {
        Pack pack;
        #pragma unroll
        for (int v = 0; v < V; v++) pack.at[v] = From(gelu(Sum(inputs[a].at[v])));
        store((Pack *)y + i, pack);
    });
    const long long i = size / V * V + threadIdx.x;          // the elements after the last complete pack
    if (blockIdx.x == 0 && i < size) y[i] = From(gelu(Sum(x[i])));
}

__global__ void __launch_bounds__(THREADS) gelu_backward(const From *x, const From *dy, From *dx, long long size) {
    Pack inputs[AHEAD], grads[AHEAD];
    each_pack(size, [&](int a, long long i) {
        inputs[a] = ((const Pack *)x)[i];
        grads[a] = ((const Pack *)dy)[i];
    });
    each_pack(size, [&](int a, long long i) {
        Pack pack;
        #pragma unroll
        for (int v = 0; v < V; v++) pack.at[v] = From(Sum(grads[a].at[v]) * gelu_grad(Sum(inputs[a].at[v])));
        store((Pack *)dx + i, pack);
    });
    const long long i = size / V * V + threadIdx.x;
    if (blockIdx.x == 0 && i < size) dx[i] = From(Sum(dy[i]) * gelu_grad(Sum(x[i])));
}
