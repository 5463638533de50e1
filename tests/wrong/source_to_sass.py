from gridstride.asm import occupancy

from . import wrong
from .shared_memory_cuda import changed


GELU = r'''
__global__ void gelu_k(const float *x, float *out, int n) {
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], u = 0.7978845608f*(v + 0.044715f*v*v*v);
    out[i] = 0.5f*v*(1.f + tanhf(u));
}'''

@wrong('source_to_sass.floats')
def as_it_was():
    return changed(GELU, ('0.7978845608f*(v + 0.044715f*v*v*v)', '0.7978845608*(x[i] + 0.044715*x[i]*x[i]*x[i])'),
                   ('0.5f*v*(1.f + tanhf(u))', '0.5*x[i]*(1.0 + tanh(u))'))

@wrong('source_to_sass.floats')
def one_is_left(): return changed(GELU, ('0.044715f', '0.044715'))

@wrong('source_to_sass.floats')
def floats_at_the_end(): return changed(GELU, ('0.5f*v*(1.f + tanhf(u))', '(float)(0.5*v*(1. + tanh((double)u)))'))

@wrong('source_to_sass.floats')
def integers_instead(): return changed(GELU, ('0.5f*', '1/2*'))

@wrong('source_to_sass.floats')
def no_guard(): return changed(GELU, ('    if (i >= n) return;\n', ''))


COUNT = r'''
__global__ void count_k(const int *x, int *out, int h, int w) {
    int r = blockIdx.x*blockDim.x + threadIdx.x;
    if (r >= h) return;
    int count[4] = {};
    for (int c = 0; c < w; c++) {
        int v = x[r*w + c];
        for (int j = 0; j < 4; j++) count[j] += v == j;
    }
    for (int j = 0; j < 4; j++) out[r*4 + j] = count[j];
}'''
BY_VALUE = ('for (int j = 0; j < 4; j++) count[j] += v == j;', 'count[v]++;')

@wrong('source_to_sass.local')
def indexed_by_a_value(): return changed(COUNT, BY_VALUE)

@wrong('source_to_sass.local')
def in_shared_memory():
    return changed(COUNT, BY_VALUE, ('int count[4] = {};',
        '__shared__ int all[32][4]; int *count = all[threadIdx.x]; for (int j = 0; j < 4; j++) count[j] = 0;'))

@wrong('source_to_sass.local')
def in_global_memory():
    return changed(COUNT, BY_VALUE,
                   ('int count[4] = {};', 'int *count = out + 4*r; for (int j = 0; j < 4; j++) count[j] = 0;'),
                   ('    for (int j = 0; j < 4; j++) out[r*4 + j] = count[j];\n', ''))

@wrong('source_to_sass.local')
def three_of_four(): return changed(COUNT, ('for (int j = 0; j < 4; j++) count', 'for (int j = 0; j < 3; j++) count'))

@wrong('source_to_sass.local')
def along_the_column(): return changed(COUNT, ('x[r*w + c]', 'x[c*h + r]'))

@wrong('source_to_sass.local')
def counts_of_sixteen_bits():
    return changed(COUNT, ('int count[4] = {};', 'unsigned long long count = 0;'),
                   ('for (int j = 0; j < 4; j++) count[j] += v == j;', 'count += 1ull << 16*v;'),
                   ('out[r*4 + j] = count[j];', 'out[r*4 + j] = count >> 16*j & 65535;'))


def share(registers, smem, block, arch): return occupancy(registers, smem*block, block, arch).fraction

@wrong('source_to_sass.block')
def always_256(registers, smem, arch): return 256

@wrong('source_to_sass.block')
def the_largest(registers, smem, arch):
    return max(range(32, 1025, 32), key=lambda b: (share(registers, smem, b, arch), b))

@wrong('source_to_sass.block')
def never_zero(registers, smem, arch): return max(range(32, 1025, 32), key=lambda b: share(registers, smem, b, arch))

@wrong('source_to_sass.block')
def bytes_of_the_block(registers, smem, arch):
    return max(range(32, 1025, 32), key=lambda b: occupancy(registers, smem, b, arch).fraction)

@wrong('source_to_sass.block')
def for_an_h100(registers, smem, arch):
    best = max(range(32, 1025, 32), key=lambda b: share(registers, smem, b, 'sm_90'))
    return best if share(registers, smem, best, 'sm_90') else 0

@wrong('source_to_sass.block')
def powers_of_two(registers, smem, arch):
    best = max((32,64,128,256,512,1024), key=lambda b: share(registers, smem, b, arch))
    return best if share(registers, smem, best, arch) else 0


DOTS = r'''
__global__ void dots_k(const float *x, const float *y, float *out, int n) {
    int t = blockIdx.x*blockDim.x + threadIdx.x, all = gridDim.x*blockDim.x;
    const float4 *x4 = (const float4 *)x, *y4 = (const float4 *)y;
    float o = 0;
    for (int i = t; i < n/4; i += all) {
        float4 a = x4[i], b = y4[i];
        o += a.x*b.x; o += a.y*b.y; o += a.z*b.z; o += a.w*b.w;
    }
    for (int i = n/4*4 + t; i < n; i += all) o += x[i]*y[i];
    out[t] = o;
}'''

@wrong('source_to_sass.wide')
def one_if_for_the_tail():
    return changed(DOTS, ('for (int i = n/4*4 + t; i < n; i += all) o += x[i]*y[i];',
                          'if (n/4*4 + t < n) o += x[n/4*4 + t]*y[n/4*4 + t];'))

@wrong('source_to_sass.wide')
def summed_before_it_is_added():
    return changed(DOTS, ('o += a.x*b.x; o += a.y*b.y; o += a.z*b.z; o += a.w*b.w;',
                          'o += a.x*b.x + a.y*b.y + a.z*b.z + a.w*b.w;'))

@wrong('source_to_sass.wide')
def one_by_one(): return r'''
__global__ void dots_k(const float *x, const float *y, float *out, int n) {
    int t = blockIdx.x*blockDim.x + threadIdx.x, all = gridDim.x*blockDim.x;
    float o = 0;
    for (int i = t; i < n; i += all) o += x[i]*y[i];
    out[t] = o;
}'''

@wrong('source_to_sass.wide')
def the_rest_forgotten(): return changed(DOTS, ('    for (int i = n/4*4 + t; i < n; i += all) o += x[i]*y[i];\n', ''))

@wrong('source_to_sass.wide')
def fours_past_the_end():
    return changed(DOTS, ('i < n/4;', '4*i < n;'),
                   ('    for (int i = n/4*4 + t; i < n; i += all) o += x[i]*y[i];\n', ''))

@wrong('source_to_sass.wide')
def pairs():
    return changed(DOTS, ('const float4 *x4 = (const float4 *)x, *y4 = (const float4 *)y;',
                          'const float2 *x4 = (const float2 *)x, *y4 = (const float2 *)y;'),
                   ('n/4;', 'n/2;'), ('float4 a', 'float2 a'), (' o += a.z*b.z; o += a.w*b.w;', ''), ('n/4*4', 'n/2*2'))

@wrong('source_to_sass.wide')
def written_by_some(): return changed(DOTS, ('    out[t] = o;', '    if (t < n) out[t] = o;'))

@wrong('source_to_sass.wide')
def unrolled_not_wide():
    return changed(DOTS, ('float4 a = x4[i], b = y4[i];', ''),
                   ('o += a.x*b.x; o += a.y*b.y; o += a.z*b.z; o += a.w*b.w;',
                    'o += x[i]*y[i]; o += x[n/4+i]*y[n/4+i]; o += x[n/4*2+i]*y[n/4*2+i]; o += x[n/4*3+i]*y[n/4*3+i];'))

@wrong('source_to_sass.wide')
def a_longer_loop_for_the_rest():
    return changed(DOTS, ('for (int i = n/4*4 + t; i < n; i += all)',
                          '\n    #pragma unroll 32\n    for (int i = t ? n : n/4*4; i < n; i++)'))

@wrong('source_to_sass.wide')
def remainder_counted_by_all(): return changed(DOTS, ('n/4*4 + t; i < n; i += all', 'n/4*4; i < n; i++'))

@wrong('source_to_sass.wide')
def one_thread_for_all():
    return changed(DOTS, ('for (int i = t; i < n/4; i += all)', 'for (int i = 0; i < n/4 && t == 0; i++)'))
