// x *= factor; nothing is read or written if the factor is 1. It scales gradients that the forward pass has computed.
// Requires definitions of the types Elem and Acc (of the multiplication), VEC (elements per load), and THREADS.
struct alignas(VEC * sizeof(Elem)) Vector { Elem data[VEC]; };

__global__ void __launch_bounds__(THREADS) multiply(Elem *x, const Acc *factor, long long size) {
    const Acc scale = *factor;
    if (scale == 1) return;
    Vector *vectors = (Vector *)x;
    const long long first = (long long)blockIdx.x * THREADS + threadIdx.x, step = (long long)gridDim.x * THREADS;
    for (long long i = first; i < size / VEC; i += step) {
        Vector vector = vectors[i];
        #pragma unroll
        for (int v = 0; v < VEC; v++) vector.data[v] = Elem((Acc)vector.data[v] * scale);
        vectors[i] = vector;
    }
    const long long last = size / VEC * VEC + first;  // the elements after the last complete vector
    if (last < size) x[last] = Elem((Acc)x[last] * scale);
}
