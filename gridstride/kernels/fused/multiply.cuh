// x *= factor unless that is 1, so that gradients that were computed in advance need not be read again.
// Above: the types From and Sum (in which is multiplied), V (elements per load), and THREADS.
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
    const long long last = size / V * V + first;            // the elements after the last whole pack
    if (last < size) x[last] = From((Sum)x[last] * by);
}
