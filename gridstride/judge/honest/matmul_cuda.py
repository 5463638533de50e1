#!POPCORN leaderboard matmul
#!POPCORN gpu H100
"CUDA C, lesson 06: tiles in shared memory, by torch's own load_inline as most submissions have it"

from torch.utils.cpp_extension import load_inline

cuda_src = '''
constexpr int TW = 16;

__global__ void matmul_kernel(const float *m, const float *n, float *out, int h, int w, int k) {
    int tc = threadIdx.x, tr = threadIdx.y;
    int r = blockIdx.y*TW + tr, c = blockIdx.x*TW + tc;
    __shared__ float ms[TW][TW], ns[TW][TW];
    float p = 0.0f;
    for (int ph = 0; ph < k; ph += TW) {
        ms[tr][tc] = r < h && ph + tc < k ? m[r*k + ph + tc] : 0.0f;
        ns[tr][tc] = c < w && ph + tr < k ? n[(ph + tr)*w + c] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TW; i++) p += ms[tr][i]*ns[i][tc];
        __syncthreads();
    }
    if (r < h && c < w) out[r*w + c] = p;
}

torch::Tensor matmul(torch::Tensor m, torch::Tensor n) {
    int h = m.size(0), k = m.size(1), w = n.size(1);
    auto out = torch::empty({h, w}, m.options());
    dim3 block(TW, TW), grid((w + TW - 1)/TW, (h + TW - 1)/TW);
    matmul_kernel<<<grid, block>>>(m.data_ptr<float>(), n.data_ptr<float>(), out.data_ptr<float>(), h, w, k);
    return out;
}
'''
cpp_src = 'torch::Tensor matmul(torch::Tensor m, torch::Tensor n);'
module = load_inline('judged_matmul', cpp_src, cuda_src, functions=['matmul'])


def custom_kernel(data):
    "Return m @ n"
    return module.matmul(*data)
