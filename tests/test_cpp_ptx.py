"""Inline PTX, tensor cores and asynchronous copies on the emulator: what they compute, and what the
detectors say of them."""
import pytest
import torch

from exhaustive import mark_exhaustive, some
from gridstride import cpp
from gridstride.cpp import cuda_kernel
from gridstride.cpp.toolchain.build import CompileError
from gridstride.cpp.frontend.edits import NotEmulated
from gridstride.diagnostics.errors import *
from found import finding

ADDRESS = '__device__ unsigned address(const void *p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }\n'

# What mma.sync computes

FRAGMENTS = '''#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T> __device__ unsigned word(T lower, T upper) {
    unsigned r; T both[] = {lower, upper}; memcpy(&r, both, 4); return r;
}
'''
SIXTEEN = FRAGMENTS + '''
__global__ void product(const T *a, const T *b, const float *c, float *out) {   // a: 16 x K, b: K x 8
    int g = threadIdx.x/4, t = threadIdx.x%4;
    unsigned fa[K/4], fb[K/8];
    float fc[4];
    for (int i = 0; i < K/4; i++) { int r = g + i%2*8, k = 2*t + i/2*8; fa[i] = word(a[r*K + k], a[r*K + k+1]); }
    for (int i = 0; i < K/8; i++) { int k = 2*t + i*8; fb[i] = word(b[k*8 + g], b[(k+1)*8 + g]); }
    for (int i = 0; i < 4; i++) fc[i] = c[(g + i/2*8)*8 + 2*t + i%2];
    MMA
    for (int i = 0; i < 4; i++) out[(g + i/2*8)*8 + 2*t + i%2] = fc[i];
}
'''
MMA16 = '''asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(fc[0]), "+f"(fc[1]), "+f"(fc[2]), "+f"(fc[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));'''
MMA8 = '''asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.TYPE.TYPE.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+f"(fc[0]), "+f"(fc[1]), "+f"(fc[2]), "+f"(fc[3]) : "r"(fa[0]), "r"(fa[1]), "r"(fb[0]));'''

@pytest.mark.parametrize('kind,dtype,name',
    [('__nv_bfloat16', torch.bfloat16, 'bf16'), ('__half', torch.float16, 'f16')])
@pytest.mark.parametrize('k,mma', [(16, MMA16), (8, MMA8)])
def test_mma_is_the_exact_sum_rounded_once(kind, dtype, name, k, mma):
    kernel = cuda_kernel(f'#define T {kind}\n#define K {k}\n' + SIXTEEN.replace('MMA', mma.replace('TYPE', name)),
                         name='product')
    gen = torch.Generator().manual_seed(k)
    for scale in 1,1e3,1e-3:
        a,b = torch.randn(16, k, generator=gen).to(dtype),torch.randn(k, 8, generator=gen).to(dtype)
        c,out = torch.randn(16, 8, generator=gen)*scale,torch.full((16,8), float('nan'))
        kernel[1,32](a, b, c, out)
        # 2 x 11 bits in each product: its sum of at most 17 is exact in 53 bits at these sizes
        assert out.equal((a.double()@b.double() + c.double()).float())

MATMUL = '#include <cuda_bf16.h>\n#include <cuda_pipeline.h>\ntypedef __nv_bfloat16 bf16;\n' + ADDRESS + '''
template <int left> __device__ void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory"); }
// 32 x 32 tiles, 4 warps of 16 x 16, two stages
__global__ void matmul(const bf16 *m, const bf16 *n, float *out, int h, int w, int k) {
    __shared__ alignas(16) bf16 ms[2][32][40], ns[2][32][40];
    int r = blockIdx.y*32, c = blockIdx.x*32, tr = threadIdx.x/4, tc = threadIdx.x%4*8, lane = threadIdx.x%32,
        warp = threadIdx.x/32;
    auto fetch = [&](int s, int at) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     ::"r"(address(&ms[s][tr][tc])), "l"(m + (r+tr)*k + at+tc), "r"(r+tr < h && at+tc < k ? 16 : 0)
                     : "memory");
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     ::"r"(address(&ns[s][tr][tc])), "l"(n + (at+tr)*w + c+tc), "r"(at+tr < k && c+tc < w ? 16 : 0)
                     : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    float sum[2][4] = {};
    fetch(0, 0);
    for (int i = 0; i*32 < k; i++) {
        fetch((i+1)%2, i*32 + 32);
        wait<1>();
        __syncthreads();
        for (int s = 0; s < 32; s += 16) {
            unsigned a[4], b[4];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                         : "r"(address(&ms[i%2][warp/2*16 + lane%16][s + lane/16*8])) : "memory");
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                         : "r"(address(&ns[i%2][s + lane%16][warp%2*16 + lane/16*8])) : "memory");
            for (int j = 0; j < 2; j++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                             "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                             : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2*j]), "r"(b[2*j+1]));
        }
        __syncthreads();
    }
    for (int j = 0; j < 2; j++) for (int e = 0; e < 4; e++) {
        int row = r + warp/2*16 + lane/4 + e/2*8, col = c + warp%2*16 + j*8 + lane%4*2 + e%2;
        if (row < h && col < w) out[row*w + col] = sum[j][e];
    }
}
'''

def multiplied(src, h, w, k, checks=True):
    "(its result, the exact one, what its error may be) of a matrix product"
    gen = torch.Generator().manual_seed(h+w+k)
    m,n,out = (torch.randn(h, k, generator=gen).bfloat16(),torch.randn(k, w, generator=gen).bfloat16(),
               torch.full((h,w), float('nan')))
    cuda_kernel(src, checks=checks)[(-(-w//32), -(-h//32)), 128](m, n, out, h, w, k)
    m,n = m.double(),n.double()
    return out,m@n,(m.abs()@n.abs())*2**-24*(k//16+1)  # each mma rounds once, by half an ulp of float

@pytest.mark.parametrize('order', ['forward','reverse','shuffle'])
@pytest.mark.parametrize('h,w,k', [(32,32,32), (1,8,8), (33,40,72), (65,64,200)])
def test_matmul_by_copies_ldmatrix_and_mma(h, w, k, order):
    with cpp.options(order=order): out,want,may = multiplied(MATMUL, h, w, k)
    assert ((out-want).abs() <= may).all()

def test_matmul_without_checks():
    out,want,may = multiplied(MATMUL, 70, 72, 104, checks=False)
    assert ((out-want).abs() <= may).all()

@pytest.mark.parametrize('line,instead,kind', [
    ('        wait<1>();\n', '', RacecheckError), mark_exhaustive(('wait<1>();', 'wait<2>();', RacecheckError)),
    mark_exhaustive(('wait<1>();\n        __syncthreads();', '__syncthreads();\n        wait<1>();', RacecheckError)),
    ('        }\n        __syncthreads();', '        }', RacecheckError),
    ('        asm volatile("cp.async.commit_group;" ::: "memory");\n', '', RacecheckError),
    mark_exhaustive(('40], ns[2][32][40]', '36], ns[2][32][36]', MemcheckError)),
    ('r+tr < h && at+tc < k ? 16 : 0', '16', MemcheckError),
    ('for (int s = 0; s < 32; s += 16) {', 'if (lane) for (int s = 0; s < 32; s += 16) {', SynccheckError)])
def test_mistakes_in_a_matmul_are_found(line, instead, kind):
    assert MATMUL.count(line)==1
    for order in 'forward','reverse','shuffle':
        with cpp.options(order=order), pytest.raises(kind): multiplied(MATMUL.replace(line, instead), 40, 40, 72)

# Asynchronous copies

def copies(body, grid=1, block=32, checks=True, n=128):
    "Runs a kernel with shared `int s[128]`, from x to out"
    src = f'''#include <cuda_pipeline.h>
{ADDRESS}__global__ void k(const int *x, int *out) {{
    __shared__ alignas(16) int s[128];
    int t = threadIdx.x;
{body}
}}'''
    out = torch.zeros(128, dtype=torch.int32)
    cuda_kernel(src, checks=checks)[grid,block](torch.arange(n, dtype=torch.int32), out)
    return out.numpy()

COPY = '__pipeline_memcpy_async(&s[t], x+t, 4);'

def test_what_a_copy_leaves_open():
    "Its own thread may not read before the wait, no thread may write there; both lines are reported"
    for then in 'out[t] = s[t];', 's[t] = 1;', COPY, 'if (t == 5) s[4] = 1;', 'atomicAdd(&s[t], 1);':
        with finding('racecheck copy_not_waited_for|racecheck copy_not_committed') as e:
            copies(f'{COPY}\n{then}')
        assert (e.value.line,e.value.other.line)==(7,6) and 's' in e.value.array
    with finding('racecheck copy_not_waited_for own_copy'): copies(f'{COPY}\n__pipeline_commit();\nout[t] = s[t];')
    with finding('racecheck copy_not_committed'): copies(f'{COPY}\n__pipeline_wait_prior(0);\nout[t] = s[t];')
    assert (copies(f'{COPY}\n__pipeline_commit();\n__pipeline_wait_prior(0);\nout[t] = s[t];')[:32].tolist()
            == list(range(32)))

def test_a_thread_that_copies_must_wait_even_if_it_returns():
    with cpp.options(order='reverse'), finding('racecheck copy_not_committed|racecheck copy_not_waited_for'):
        copies(f'if (t >= 32) {{ {COPY} return; }}\nout[t] = s[t+32];', block=64)

def test_groups_end_in_their_order():
    body = ('__pipeline_memcpy_async(&s[t], x+t, 4); __pipeline_commit();\n__pipeline_memcpy_async(&s[t+32], x+t+32, '
            '4); __pipeline_commit();\n__pipeline_wait_prior({});\nout[t] = s[t+{}];')
    for left,at in (1,0),(0,0),(0,32): assert copies(body.format(left, at))[1]==1+at
    for left,at in (1,32),(2,0):
        with pytest.raises(RacecheckError): copies(body.format(left, at))

def test_copies_without_a_wait_end_with_the_block():
    got = copies(f'if (blockIdx.x == 0) {{ {COPY} return; }}\ns[t] = 7; __syncthreads(); out[t] = s[31-t];', grid=2)
    assert got[:32].tolist()==[7]*32

def test_copies_that_a_gpu_refuses():
    for checks in True,False:
        with finding('memcheck copy_target') as e:
            copies('__pipeline_memcpy_async(&out[t], x+t, 4);', checks=checks)
        assert e.value.line==6
        with finding('memcheck misaligned_operand') as e:
            copies('if (t < 8) __pipeline_memcpy_async(&s[4*t], x+t, 16);', checks=checks)
        assert e.value.line==6
        with finding('memcheck no_shared_address') as e:
            copies('asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: '
                   '"r"((unsigned)(size_t)&x[t]), "l"(x+t));', checks=checks)
        assert e.value.line==6
    for kind,bytes in ('ca', 12),('cg', 8):
        with pytest.raises(CompileError, match=r'cp\.async\.ca .*4, 8 .*16 .*cp\.async\.cg 16'):
            copies(f'asm volatile("cp.async.{kind}.shared.global [%0], [%1], %2;" :: "r"(address(s)), "l"(x), '
                   f'"n"({bytes}));')

def test_what_is_read_is_checked():
    with finding('memcheck outside', array='x', index=(130,)) as e:
        copies('__pipeline_memcpy_async(&s[4*t], x+4*t+4, 16);', n=130)
    assert e.value.line==6
    copies('__pipeline_memcpy_async(&s[4*t], x+4*t+4, 16, t == 31 ? 16 : 0);', n=128)  # zeros are not read

# All lanes together

LOAD = ('unsigned a; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%0}}, [%1];" : "=r"(a) : "r"({}) : '
        '"memory"); out[t] = a;')

@pytest.mark.parametrize('body,block,want,facts', [
    ('if (t % 32 != 9) { MULTIPLY }', 32, 'warp_diverged lane_returned', dict(lane=0, other_lane=9)),
    ('MULTIPLY', 48, 'warp_diverged lane_nonexistent', dict(other_lane=16)),
    ('if (t < 16) { MULTIPLY }\nelse { MULTIPLY }', 32, 'warp_diverged lane_at_other_call', {}),
    ('if (t < 16) { MULTIPLY } __syncthreads();', 32, 'warp_diverged lane_at_other_call', dict(other_lane=16))])
def test_mma_needs_the_whole_warp(body, block, want, facts):
    multiply = ('asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4}, {%4}, '
                '{%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(t));')
    for checks in True,False:
        with finding(f'synccheck {want}', **facts) as e:
            copies('float c[4] = {};\n' + body.replace('MULTIPLY', multiply), block=block, checks=checks)
        assert e.value.line in (7,8)

def test_rows_of_ldmatrix():
    fill = 'for (int i = t; i < 128; i += 32) s[i] = x[i];\n__syncwarp();\n'
    with finding('memcheck misaligned_operand', array='s', index=(2,)) as e:
        copies(fill + LOAD.format('address(&s[2*(t%8)])'))
    assert (e.value.line,e.value.thread)==(8,(1,0,0))
    with finding('memcheck', array='s', index=(128,)) as e:
        copies(fill + LOAD.format('address(&s[100+4*(t%8)])'))
    assert (e.value.line,e.value.thread)==(8,(7,0,0))
    with pytest.raises(RacecheckError) as e: copies('s[t] = x[t];\n' + LOAD.format('address(&s[4*(t%8)])'))
    assert {e.value.line,e.value.other.line}=={6,7}
    with pytest.raises(InitcheckError) as e:
        copies('if (t != 30) s[t] = x[t];\n__syncwarp();\n' + LOAD.format('address(&s[4*(t%8)])'))
    assert (e.value.line,e.value.thread,e.value.index)==(8,(7,0,0),(30,))
    # the other lanes' addresses are not looked at
    assert copies(fill + LOAD.format('t < 8 ? address(&s[4*t]) : 0'))[:32].tolist()==list(range(32))
    with finding('memcheck no_shared_address'):
        copies(fill + LOAD.format('(unsigned)(size_t)&s[4*(t%8)]'))

# wmma

WMMA = '''#include <mma.h>
using namespace nvcuda::wmma;
__global__ void product(const half *a, const half *b, float *out) {{
    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, float> fc;
    fill_fragment(fc, 0.0f);
    load_matrix_sync(fa, a{0}, {1});
    load_matrix_sync(fb, b, 16);
    {2}mma_sync(fc, fa, fb, fc);
    store_matrix_sync(out, fc, {3}, mem_row_major);
}}
'''
def by_wmma(*how, checks=True):
    gen = torch.Generator().manual_seed(0)
    a,b,out = (torch.randn(32, 16, generator=gen).half(),torch.randn(16, 16, generator=gen).half(),
               torch.full((16,16), float('nan')))
    cuda_kernel(WMMA.format(*how), checks=checks)[1,32](a, b, out)
    return a,b,out

def test_wmma_is_the_exact_sum_rounded_once():
    for checks in True,False:
        a,b,out = by_wmma('', 16, '', 16, checks=checks)
        assert out.equal((a[:16].double() @ b.double().T).float())
    a,b,out = by_wmma('+16', 32, '', 16)
    assert out.equal((a[1::2].double() @ b.double().T).float())

@pytest.mark.parametrize('how,want,line', [
    (('+8', 16, '', 16), 'memcheck misaligned_operand', 8), (('+256+32', 16, '', 16), 'memcheck outside', 8),
    (('', 12, '', 16), 'crash trap matrix_stride', 8),
    (('', 16, 'if (threadIdx.x) ', 16), 'synccheck warp_diverged', 10),
    (('', 16, '', 20), 'memcheck outside', 11)])
def test_mistakes_with_wmma(how, want, line):
    with finding(want) as e: by_wmma(*how)
    assert e.value.line==line

@pytest.mark.parametrize('fragment', some([
    'matrix_a, 16, 16, 16, half', 'matrix_a, 16, 16, 8, half, row_major', 'matrix_a, 8, 8, 32, signed char, row_major',
    'accumulator, 16, 16, 16, double', 'matrix_b, 16, 16, 16, short, row_major', 'matrix_a, 8, 8, 4, double'], 2))
def test_fragments_that_are_not_there(fragment):
    with pytest.raises(NotEmulated, match='16x16x16'):
        cuda_kernel(f'#include <mma.h>\n__global__ void k() {{ '
                    f'nvcuda::wmma::fragment<nvcuda::wmma::{fragment.replace(", matrix", "")}> f; '
                    f'f.x[0] = 0; }}'.replace('row_major', 'nvcuda::wmma::row_major'))

NUMBERS = '''#include <mma.h>
using namespace nvcuda::wmma;
template <int m, int n, int k, class T, class S>
__global__ void product(const T *a, const T *b, const S *c, S *out, int shift, int stride) {
    fragment<matrix_a, m, n, k, T, row_major> fa;
    fragment<matrix_b, m, n, k, T, col_major> fb;
    fragment<accumulator, m, n, k, S> fc;
    load_matrix_sync(fa, a + shift, stride);
    load_matrix_sync(fb, b, k);
    load_matrix_sync(fc, c, n, mem_row_major);
    mma_sync(fc, fa, fb, fc);
    store_matrix_sync(out, fc, n, mem_row_major);
}
'''
def test_wmma_of_bytes_and_of_doubles():
    "Integers are exact, and begin again at 2^31; of doubles the sum of four products, rounded where g++ rounds it"
    shapes = {(16, 16, 16): torch.int8, (32, 8, 16): torch.uint8, (8, 32, 16): torch.int8, (8, 8, 4): torch.float64}
    words = {torch.int8: ('signed char', 'int'), torch.uint8: ('unsigned char', 'int'), torch.float64: 2*('double',)}
    names = {s: f'product<{", ".join(map(str, s))}, {", ".join(words[t])}>' for s, t in shapes.items()}
    k, gen = cuda_kernel(NUMBERS, name=list(names.values())), torch.Generator().manual_seed(3)
    for (m, n, d), T in shapes.items():
        whole = T != torch.float64
        make = (lambda *s: torch.randint(-128 + 128*(T==torch.uint8), 128, s, generator=gen).to(T)) if whole else (
            lambda *s: torch.randn(*s, generator=gen, dtype=T))
        shift = m*d//32     # in elements: the rows begin where PTX allows it, after as many as a lane holds
        a, b = torch.zeros(m, (d + 2*shift + 15)//16*16 if whole else d + 2*shift, dtype=T), make(n, d)
        a[:, shift:shift+d] = make(m, d)
        c = torch.full((m, n), 2**31 - 1, dtype=torch.int32) if whole else make(m, n)
        out = torch.zeros_like(c)
        k[names[m, n, d]][1, 32](a, b, c, out, shift, a.shape[1])
        if whole:
            with finding('memcheck misaligned_operand', array='a', bytes=shift):
                k[names[m, n, d]][1, 32](a, b, c, out, shift//2, a.shape[1])
        a = a[:, shift:shift+d]
        if whole: assert out.equal((a.long() @ b.long().T + c).to(torch.int32))
        else: torch.testing.assert_close(out, a @ b.T + c, rtol=0, atol=8*2.0**-52*float(a.abs().max()*b.abs().max()))

def test_lane_masks():
    asm = ''.join(f'asm("mov.u32 %0, %%lanemask_{o};" : "=r"(m)); out[{i}*32 + threadIdx.x] = m;'
                  for i,o in enumerate(('eq', 'lt', 'le', 'gt', 'ge')))
    out = torch.zeros(5, 32, dtype=torch.int64)
    cuda_kernel(f'__global__ void masks(long long *out) {{ unsigned m; {asm} }}')[1, 32](out)
    lanes = range(32)
    assert out.tolist()==[[sum(1 << o for o in lanes if f(o, l)) for l in lanes] for f in (
        lambda o,l: o==l, lambda o,l: o<l, lambda o,l: o<=l, lambda o,l: o>l, lambda o,l: o>=l)]
