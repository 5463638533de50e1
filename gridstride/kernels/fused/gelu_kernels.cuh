// GELU of `size` elements, and its gradient: dx from dy. A block processes THREADS * LOADS_IN_FLIGHT vectors.
template<class F> __device__ void visit_vectors(long long size, F f) {  // f(index of the load, index in the array)
    const long long first = (long long)blockIdx.x * THREADS * LOADS_IN_FLIGHT + threadIdx.x, vectors = size / VEC;
    #pragma unroll
    for (int a = 0; a < LOADS_IN_FLIGHT; a++)
        if (first + a * THREADS < vectors) f(a, first + a * THREADS);
}

__global__ void __launch_bounds__(THREADS) gelu_forward(const Elem *x, Elem *y, long long size) {
    Vector inputs[LOADS_IN_FLIGHT];
    visit_vectors(size, [&](int a, long long i) { inputs[a] = ((const Vector *)x)[i]; });
    visit_vectors(size, [&](int a, long long i) {
        Vector vector;
        #pragma unroll
        for (int v = 0; v < VEC; v++) vector.data[v] = Elem(gelu(Acc(inputs[a].data[v])));
        store((Vector *)y + i, vector);
    });
    const long long i = size / VEC * VEC + threadIdx.x;  // the elements after the last complete vector
    if (blockIdx.x == 0 && i < size) y[i] = Elem(gelu(Acc(x[i])));
}

__global__ void __launch_bounds__(THREADS) gelu_backward(const Elem *x, const Elem *dy, Elem *dx, long long size) {
    Vector inputs[LOADS_IN_FLIGHT], grads[LOADS_IN_FLIGHT];
    visit_vectors(size, [&](int a, long long i) {
        inputs[a] = ((const Vector *)x)[i];
        grads[a] = ((const Vector *)dy)[i];
    });
    visit_vectors(size, [&](int a, long long i) {
        Vector vector;
        #pragma unroll
        for (int v = 0; v < VEC; v++) vector.data[v] = Elem(Acc(grads[a].data[v]) * gelu_grad(Acc(inputs[a].data[v])));
        store((Vector *)dx + i, vector);
    });
    const long long i = size / VEC * VEC + threadIdx.x;
    if (blockIdx.x == 0 && i < size) dx[i] = Elem(Acc(dy[i]) * gelu_grad(Acc(x[i])));
}
