// One step of AdamW for many tensors in one launch: a block processes a chunk of one tensor, V elements per thread.
// Defined above: the types From (of parameters and gradients) and Sum (of the states and of all arithmetic), V
// (elements per load), THREADS, and MAXIMIZE.
template<class T> struct alignas(V * sizeof(T)) Pack { T at[V]; };

struct Tensor { long long param, grad, mean, square, size; };                // addresses relative to `memory`
// one_minus_beta1: 1 - beta1, and so on
struct Hyperparameters { Sum decay, one_minus_beta1, one_minus_beta2, rate, root, eps; };

// Factors close to 1 (beta2, 1 - decay) would be rounded in the same direction in every step. Therefore the update uses
// their distance from 1.
__device__ void update(From &param, From grad, Sum &mean, Sum &square, const Hyperparameters &h) {
    const Sum g = MAXIMIZE ? -(Sum)grad : (Sum)grad;
    mean += h.one_minus_beta1 * (g - mean);
    square += h.one_minus_beta2 * (g * g - square);
    const Sum p = (Sum)param;
    param = From(p - h.decay * p - h.rate * mean / (sqrt(square) / h.root + h.eps));
}

__global__ void __launch_bounds__(THREADS)
adamw(char *memory, const long long *table, const int2 *chunks,              // per block: tensor and chunk
      Sum decay, Sum one_minus_beta1, Sum one_minus_beta2, Sum rate, Sum root, Sum eps) {
    const Hyperparameters parameters = {decay, one_minus_beta1, one_minus_beta2, rate, root, eps};
    const int2 chunk = chunks[blockIdx.x];
    const Tensor tensor = ((const Tensor *)table)[chunk.x];
    From *params = (From *)(memory + tensor.param);
    const From *grads = (const From *)(memory + tensor.grad);
    Sum *means = (Sum *)(memory + tensor.mean), *squares = (Sum *)(memory + tensor.square);
    const long long i = (long long)chunk.y * THREADS + threadIdx.x;          // index of the pack
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
