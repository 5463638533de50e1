// Adds the partial sums of each channel, and writes the gradients. Requires definitions of Elem, TAPS, SPLITS.
__global__ void reduce_splits(const float *partials, Elem *dweight, Elem *dbias, int channels) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, channel = i / (TAPS + 1), k = i % (TAPS + 1);
    if (channel >= channels) return;
    float sum = 0;
    for (int split = 0; split < SPLITS; split++) sum += partials[(size_t)split * channels * (TAPS + 1) + i];
    if (k < TAPS) dweight[channel * TAPS + k] = Elem(sum);
    else dbias[channel] = Elem(sum);
}
