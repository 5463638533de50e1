// Softmax: exp(x - row_max) / row_sum, or with LOG: x - row_max - log(row_sum)
constexpr int INPUTS = 1;
__device__ Acc max_candidate(Acc x) { return x; }
__device__ Acc term(Acc x, Acc, Acc base) { return exp_of(x - base); }
// Returns the factor or the logarithm that `result` needs, which is computed once per row.
__device__ RowState finalize(RowState total) {
    return LOG ? RowState{total.row_max, log(total.row_sum)} : RowState{finite_max(total.row_max), 1 / total.row_sum};
}
__device__ Acc result(Acc x, Acc, RowState total) {
    return LOG ? x - total.row_max - total.row_sum : exp_of(x - total.row_max) * total.row_sum;
}
