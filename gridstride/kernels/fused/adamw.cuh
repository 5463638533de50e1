// One step of AdamW for many tensors in one launch: a block has a chunk of one of them, V elements per thread.
// Above: the types From (of parameters and gradients) and Sum (of the states and of all arithmetic), V (elements per
// load), THREADS, and MAXIMIZE.
template<class T> struct alignas(V * sizeof(T)) Pack { T at[V]; };

struct Tensor { long long param, grad, mean, square, size; };                // addresses, counted from `memory`
// one_minus_beta1: 1 - beta1, and so on
struct Hyperparameters { Sum decay, one_minus_beta1, one_minus_beta2, rate, root, eps; };

// Factors near 1 (beta2, 1 - decay) would be rounded, in each step to the same side: their distance from 1 is
// multiplied instead.
__device__ void update(From &param, From grad, Sum &mean, Sum &square, const Hyperparameters &n) {
    const Sum g = MAXIMIZE ? -(Sum)grad : (Sum)grad;
    mean += n.one_minus_beta1 * (g - mean);
    square += n.one_minus_beta2 * (g * g - square);
    const Sum p = (Sum)param;
    param = From(p - n.decay * p - n.rate * mean / (sqrt(square) / n.root + n.eps));
}

__global__ void __launch_bounds__(THREADS)
adamw(char *memory, const long long *table, const int2 *chunks,              // of each block: tensor and chunk
      Sum decay, Sum one_minus_beta1, Sum one_minus_beta2, Sum rate, Sum root, Sum eps) {
    const Hyperparameters parameters = {decay, one_minus_beta1, one_minus_beta2, rate, root, eps};
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
        for (int v = 0; v < V; v++) update(param.at[v], grad.at[v], mean.at[v], square.at[v], parameters);
        ((Pack<From> *)params)[i] = param;
        ((Pack<Sum> *)means)[i] = mean, ((Pack<Sum> *)squares)[i] = square;
    } else
        for (long long j = i * V; j < tensor.size; j++) update(params[j], grads[j], means[j], squares[j], parameters);
}
