// Computes one step of AdamW for many tensors in one launch: a block processes a chunk of one tensor, VEC elements per
// thread.
// Requires definitions of the types Elem (of parameters and gradients) and Acc (of the states and of all arithmetic),
// VEC (elements per load), THREADS, and MAXIMIZE.
template<class T> struct alignas(VEC * sizeof(T)) Vector { T data[VEC]; };

struct Tensor { long long param, grad, exp_avg, exp_avg_sq, size; };  // addresses relative to `memory`
// step_size: lr / (1 - beta1^step); bias_correction2_sqrt: sqrt(1 - beta2^step); decay: lr * weight_decay
struct Hyperparameters { Acc decay, one_minus_beta1, one_minus_beta2, step_size, bias_correction2_sqrt, eps; };

// The update uses 1 - beta1, 1 - beta2 and decay instead of beta1, beta2 and 1 - decay. The latter are close to 1,
// where float32 values are far apart, and their rounding errors would accumulate over the steps.
__device__ void update(Elem &param, Elem grad, Acc &exp_avg, Acc &exp_avg_sq, const Hyperparameters &h) {
    const Acc g = MAXIMIZE ? -(Acc)grad : (Acc)grad;
    exp_avg += h.one_minus_beta1 * (g - exp_avg);
    exp_avg_sq += h.one_minus_beta2 * (g * g - exp_avg_sq);
    const Acc p = (Acc)param;
    param = Elem(p - h.decay * p - h.step_size * exp_avg / (sqrt(exp_avg_sq) / h.bias_correction2_sqrt + h.eps));
}

__global__ void __launch_bounds__(THREADS)
adamw(char *memory, const long long *table, const int2 *chunks,  // per block: tensor and chunk
      Acc decay, Acc one_minus_beta1, Acc one_minus_beta2, Acc step_size, Acc bias_correction2_sqrt, Acc eps) {
    const Hyperparameters parameters = {decay, one_minus_beta1, one_minus_beta2, step_size, bias_correction2_sqrt, eps};
    const int2 chunk = chunks[blockIdx.x];
    const Tensor tensor = ((const Tensor *)table)[chunk.x];
    Elem *params = (Elem *)(memory + tensor.param);
    const Elem *grads = (const Elem *)(memory + tensor.grad);
    Acc *exp_avgs = (Acc *)(memory + tensor.exp_avg), *exp_avg_sqs = (Acc *)(memory + tensor.exp_avg_sq);
    const long long i = (long long)chunk.y * THREADS + threadIdx.x;  // index of the vector
    if ((i + 1) * VEC <= tensor.size) {
        Vector<Elem> param = ((Vector<Elem> *)params)[i];
        const Vector<Elem> grad = ((const Vector<Elem> *)grads)[i];
        Vector<Acc> exp_avg = ((Vector<Acc> *)exp_avgs)[i], exp_avg_sq = ((Vector<Acc> *)exp_avg_sqs)[i];
        #pragma unroll
        for (int v = 0; v < VEC; v++)
            update(param.data[v], grad.data[v], exp_avg.data[v], exp_avg_sq.data[v], parameters);
        ((Vector<Elem> *)params)[i] = param;
        ((Vector<Acc> *)exp_avgs)[i] = exp_avg, ((Vector<Acc> *)exp_avg_sqs)[i] = exp_avg_sq;
    } else
        for (long long j = i * VEC; j < tensor.size; j++)
            update(params[j], grads[j], exp_avgs[j], exp_avg_sqs[j], parameters);
}
