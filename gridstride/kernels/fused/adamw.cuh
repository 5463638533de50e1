// Computes one step of AdamW for many tensors in one launch: a block processes a chunk of one tensor, VEC elements per
// thread.
// Defined above: the types Elem (of parameters and gradients) and Acc (of the states and of all arithmetic), VEC
// (elements per load), THREADS, and MAXIMIZE.
template<class T> struct alignas(VEC * sizeof(T)) Vector { T at[VEC]; };

struct Tensor { long long param, grad, mean, square, size; };  // addresses relative to `memory`
// step_size: lr / (1 - beta1^step); bias_correction2_sqrt: sqrt(1 - beta2^step); decay: lr * weight_decay
struct Hyperparameters { Acc decay, one_minus_beta1, one_minus_beta2, step_size, bias_correction2_sqrt, eps; };

// The update uses 1 - beta1, 1 - beta2 and decay instead of beta1, beta2 and 1 - decay. The latter are close to 1,
// where float32 values are far apart, and their rounding errors would accumulate over the steps.
__device__ void update(Elem &param, Elem grad, Acc &mean, Acc &square, const Hyperparameters &h) {
    const Acc g = MAXIMIZE ? -(Acc)grad : (Acc)grad;
    mean += h.one_minus_beta1 * (g - mean);
    square += h.one_minus_beta2 * (g * g - square);
    const Acc p = (Acc)param;
    param = Elem(p - h.decay * p - h.step_size * mean / (sqrt(square) / h.bias_correction2_sqrt + h.eps));
}

__global__ void __launch_bounds__(THREADS)
adamw(char *memory, const long long *table, const int2 *chunks,  // per block: tensor and chunk
      Acc decay, Acc one_minus_beta1, Acc one_minus_beta2, Acc step_size, Acc bias_correction2_sqrt, Acc eps) {
    const Hyperparameters parameters = {decay, one_minus_beta1, one_minus_beta2, step_size, bias_correction2_sqrt, eps};
    const int2 chunk = chunks[blockIdx.x];
    const Tensor tensor = ((const Tensor *)table)[chunk.x];
    Elem *params = (Elem *)(memory + tensor.param);
    const Elem *grads = (const Elem *)(memory + tensor.grad);
    Acc *means = (Acc *)(memory + tensor.mean), *squares = (Acc *)(memory + tensor.square);
    const long long i = (long long)chunk.y * THREADS + threadIdx.x;  // index of the vector
    if ((i + 1) * VEC <= tensor.size) {
        Vector<Elem> param = ((Vector<Elem> *)params)[i];
        const Vector<Elem> grad = ((const Vector<Elem> *)grads)[i];
        Vector<Acc> mean = ((Vector<Acc> *)means)[i], square = ((Vector<Acc> *)squares)[i];
        #pragma unroll
        for (int v = 0; v < VEC; v++) update(param.at[v], grad.at[v], mean.at[v], square.at[v], parameters);
        ((Vector<Elem> *)params)[i] = param;
        ((Vector<Acc> *)means)[i] = mean, ((Vector<Acc> *)squares)[i] = square;
    } else
        for (long long j = i * VEC; j < tensor.size; j++) update(params[j], grads[j], means[j], squares[j], parameters);
}
