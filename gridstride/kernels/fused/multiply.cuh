// x *= factor; nothing is read or written if the factor is 1. It scales gradients that the forward pass has computed.
// Defined above: the types From and Sum (of the multiplication), V (elements per load), and THREADS.
struct alignas(V * sizeof(From)) Pack { From at[V]; };

__global__ void __launch_bounds__(THREADS) multiply(From *x, const Sum *factor, long long size) {
    const Sum by = *factor;
    if (by == 1) return;
    Pack *packs = (Pack *)x;
    const long long first = (long long)blockIdx.x * THREADS + threadIdx.x, step = (long long)gridDim.x * THREADS;
    for (long long i = first; i < size / V; i += step) {
        Pack pack = packs[i];
        #pragma unroll
        for (int v = 0; v < V; v++) pack.at[v] = From((Sum)pack.at[v] * by);
        packs[i] = pack;
    }
    const long long last = size / V * V + first;            // the elements after the last complete pack
    if (last < size) x[last] = From((Sum)x[last] * by);
}
