// One step of AdamW for many tensors in one launch: a block has a chunk of one of them, V numbers for each thread.
// Above: the types From (of parameters and gradients) and Sum (of the states, in which is computed), V (numbers of a
// load), THREADS, and MAXIMIZE.
template<class T> struct alignas(V * sizeof(T)) Pack { T at[V]; };

struct Tensor { long long param, grad, mean, square, size; };                // addresses, counted from `memory`
struct Numbers { Sum decay, rest1, rest2, rate, root, eps; };                // rest1: 1 - beta1, and so on

// Numbers near 1 (beta2, 1 - decay) would be rounded, which each step repeats, always to the same side: what they lack
// to 1 is multiplied instead.
__device__ void update(From &param, From grad, Sum &mean, Sum &square, const Numbers &n) {
    const Sum g = MAXIMIZE ? -(Sum)grad : (Sum)grad;
    mean += n.rest1 * (g - mean);
    square += n.rest2 * (g * g - square);
    const Sum p = (Sum)param;
    param = From(p - n.decay * p - n.rate * mean / (sqrt(square) / n.root + n.eps));
}

__global__ void __launch_bounds__(THREADS)
adamw(char *memory, const long long *table, const int2 *chunks,              // of each block: tensor and chunk
      Sum decay, Sum rest1, Sum rest2, Sum rate, Sum root, Sum eps) {
    const Numbers numbers = {decay, rest1, rest2, rate, root, eps};
    const int2 chunk = chunks[blockIdx.x];
    const Tensor tensor = ((const Tensor *)table)[chunk.x];
    From *params = (From *)(memory + tensor.param);
    const From *grads = (const From *)(memory + tensor.grad);
    Sum *means = (Sum *)(memory + tensor.mean), *squares = (Sum *)(memory + tensor.square);
    const long long i = (long long)chunk.y * THREADS + threadIdx.x;          // which pack
    if ((i + 1) * V <= tensor.size) {
        Pack<From> param = ((Pack<From> *)params)[i];
        const Pack<From> grad = ((const Pack<From> *)grads)[i];
        Pack<Sum> mean = ((Pack<Sum> *)means)[i], square = ((Pack<Sum> *)squares)[i];
        #pragma unroll
        for (int v = 0; v < V; v++) update(param.at[v], grad.at[v], mean.at[v], square.at[v], numbers);
        ((Pack<From> *)params)[i] = param;
        ((Pack<Sum> *)means)[i] = mean, ((Pack<Sum> *)squares)[i] = square;
    } else
        for (long long j = i * V; j < tensor.size; j++) update(params[j], grads[j], means[j], squares[j], numbers);
}
