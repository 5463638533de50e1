// Softmax: exp(x - most) / sum, or with LOG its logarithm
constexpr int INPUTS = 1;
__device__ Sum most_of(Sum x) { return x; }
__device__ Sum term(Sum x, Sum, Sum base) { return power(x - base); }
__device__ Part finish(Part all) {  // the values of the row that `result` needs; the division is done once
    return LOG ? Part{all.most, log(all.sum)} : Part{base_of(all.most), 1 / all.sum};
}
__device__ Sum result(Sum x, Sum, Part all) { return LOG ? x - all.most - all.sum : power(x - all.most) * all.sum; }
