"""Products with a 2:4 sparse operand, register for register: mma.sp of a warp and wgmma.mma_async.sp of a warpgroup.
Inputs, and the results of an H100, are in sparse_products.json.

    python sparse_products.py [FILE]    # on an H100, into FILE instead of sparse_products.json

An array is kept as its bytes, in base64. 'exact' values are multiples of 1/4, so that none of their sums is rounded:
there the emulator must give the same bits. Of 'normal' ones the GPU cuts off low bits, and the emulator rounds.
"""
import base64, json, sys, zlib
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
FILE = HERE/'sparse_products.json'

ADDRESS = '__device__ unsigned address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n'
SMALL = '''
__global__ void {name}(const unsigned *a, const unsigned *b, const unsigned *meta, const float *c, float *out) {{
    int t = threadIdx.x;
    float d[4];
    for (int i = 0; i < 4; i++) d[i] = c[t*4 + i];
    asm volatile("mma.sp{ordered}.sync.aligned.m16n8k{k}.row.col.f32.{type}.{type}.f32 "
                 "{{%0,%1,%2,%3}}, {{{a}}}, {{{b}}}, {{%0,%1,%2,%3}}, %{e}, {selector};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : {ins}, "r"(meta[t]));
    for (int i = 0; i < 4; i++) out[t*4 + i] = d[i];
}}
'''
WIDE = '''
__global__ void {name}(const unsigned *a, const unsigned *b, const unsigned *meta, const float *c, float *out,
                       const unsigned *of_a, long long da, long long db) {{
    __shared__ alignas(1024) unsigned as[2048], bs[2048];
    int t = threadIdx.x;
    for (int i = t; i < 2048; i += 128) {{ as[i] = a[i]; bs[i] = b[i]; }}
    unsigned words[4], e = meta[t];
    float d[4];
    for (int i = 0; i < 4; i++) {{ d[i] = c[t*4 + i]; words[i] = of_a[t*4 + i]; }}
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    da += address(as) >> 4; db += address(bs) >> 4;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.{type}.{type} "
                 "{{%0,%1,%2,%3}}, {a}, {b}, {e}, {selector}, 1, 1, 1, {turns};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : {ins}, "l"(db), "r"(e) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++) out[t*4 + i] = d[i];
}}
'''

def small_source(name, type, k, selector, ordered=True):
    "CUDA C of one mma.sp.m16n8k`k`"
    n = k//8
    a,b = (','.join(f'%{4+first+i}' for i in range(n)) for first in (0,n))
    ins = ', '.join(f'"r"({x}[t*{n} + {i}])' for x in 'ab' for i in range(n))
    return SMALL.format(name=name, ordered='::ordered_metadata' if ordered else '', k=k, type=type, a=a, b=b, e=4+2*n,
                        selector=selector, ins=ins)

def wide_source(name, type, selector, registers=False, turned=0):
    "CUDA C of one wgmma.mma_async.sp.m64n8k32"
    a,first = ('{%4,%5,%6,%7}',8) if registers else ('%4',5)
    ins = ', '.join(f'"r"(words[{i}])' for i in range(4)) if registers else '"l"(da)'
    turns = f'{turned}' if registers else f'0, {turned}'
    b,e = f'%{first}',f'%{first+1}'
    return WIDE.format(name=name, type=type, a=a, b=b, e=e, selector=selector, ins=ins, turns=turns)

PAIRS = np.array([4, 8, 12, 9, 13, 14])        # the six pairs of increasing indices; the lower bits are the first one

def words_of(groups):
    "Eight groups of 4 bits each make a word, the first in the lowest bits"
    return (np.asarray(groups, np.uint32) << 4*np.arange(8, dtype=np.uint32)).sum(-1, dtype=np.uint32)

def numbers(rng, shape, type, exact):
    "Random values as the words of registers: two per word, the first in the lower half"
    x = rng.standard_normal(shape).astype(np.float32)
    if exact: x = np.round(4*x).clip(-31, 31)/4
    if type=='f16': half = x.astype(np.float16).view(np.uint16)
    else: half = (x.view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(half).view(np.uint32)

def widened(words, type):
    "The values in words"
    half = np.ascontiguousarray(words).view(np.uint16)
    if type=='f16': return half.view(np.float16).astype(np.float64)
    return (half.astype(np.uint32) << 16).view(np.float32).astype(np.float64)

def sums(rng, shape, exact):
    c = rng.standard_normal(shape).astype(np.float32)
    return np.round(16*c)/16 if exact else c

def metadata(rng, lanes, wrong=None):
    groups = rng.choice(PAIRS, (lanes,8))
    if wrong=='descending': groups = groups%4*4 + groups//4
    if wrong=='equal': groups = rng.choice([0, 5, 10, 15], (lanes,8))
    return words_of(groups)

def small_case(type, k, selector, exact=True, ordered=True, wrong=None, seed=0):
    rng,n = np.random.default_rng(k+selector+seed),k//8
    name = f"mma_{type}_{k}_{selector}{'' if ordered else '_plain'}"
    return dict(name=name, kind='mma', type=type, k=k, selector=selector, exact=exact, ordered=ordered, wrong=wrong,
                a=numbers(rng, (32,2*n), type, exact), b=numbers(rng, (32,2*n), type, exact),
                meta=metadata(rng, 32, wrong), c=sums(rng, (32,4), exact))

def wide_case(type, selector, exact=True, registers=False, turned=0, swizzle=128, wrong=None, seed=0):
    "a: 64 rows of 16 elements, b: 8 of 32, in their memory layout"
    rng = np.random.default_rng(100+selector+swizzle+seed)
    name = f"wgmma_{type}_{selector}{'_registers' if registers else ''}{'_turned' if turned else ''}"
    return dict(name=name, kind='wgmma', type=type, k=32, selector=selector, exact=exact, registers=registers,
                turned=turned, swizzle=swizzle, wrong=wrong,
                a=numbers(rng, (64,16), type, exact), b=numbers(rng, (32,8) if turned else (8,32), type, exact),
                meta=metadata(rng, 128, wrong), c=sums(rng, (128,4), exact))

def cases(seed=0):
    small,wide = partial(small_case, seed=seed),partial(wide_case, seed=seed)
    res = [small(type, k, selector) for type in ('f16','bf16') for k,n in ((16,4),(32,2)) for selector in range(n)]
    res += [small(type, k, 0, exact=False) for type in ('f16','bf16') for k in (16,32)]
    res += [small('bf16', 32, 0, ordered=False)]
    res += [wide(*o) for o in (('bf16',0),('bf16',1),('f16',0,True,True),('f16',1,True,True,1))]
    res += [wide('bf16', 0, swizzle=s) for s in (0,32,64)]
    res += [wide('f16', 0, turned=1, swizzle=0), wide('bf16', 0, exact=False)]
    res += [small('bf16', 32, 0, ordered=o, wrong=w) for o,w in
            ((False,'descending'),(True,'descending'),(True,'equal'),(False,'equal'))]
    return res + [wide('bf16', 0, wrong=w) for w in ('descending','equal')]

def source(case):
    if case['kind']=='mma': return small_source(*(case[o] for o in ('name','type','k','selector','ordered')))
    return wide_source(*(case[o] for o in ('name','type','selector','registers','turned')))

def image(x, swizzle):
    "Rows of bytes as 8 KB of shared memory hold them, and the descriptor but for its address"
    r,i = np.indices(x.shape)
    width = swizzle or 16
    groups,pieces = x.shape[0]//8,x.shape[1]//16
    if not swizzle: stride,lead = 128*pieces,128
    else: stride,lead = 8*swizzle,(8*swizzle*groups if x.shape[1] > swizzle else 16)
    at = r//8*stride + r%8*width + i//width*lead + i%width
    at ^= (at >> 7 & max(swizzle//16-1, 0))*16
    res = np.full(8192, 0x7f, np.uint8)
    res[at] = x
    return res.view(np.uint32),lead >> 4 << 16 | stride >> 4 << 32 | {0:0, 128:1, 64:-2, 32:-1}[swizzle] << 62

def in_registers(a):
    "The words of `a`, 64 rows of 16 elements, that each of 128 threads holds"
    t,w = np.indices((128,4))
    return np.ascontiguousarray(a[t//32*16 + t%32//4 + w%2*8, w//2*4 + t%4])

def across(b):
    "Memory for b with k along its columns, 32 rows of 8 elements, unswizzled: 8 rows of 16 bytes are contiguous"
    res = np.full(8192, 0x7f, np.uint8)
    res[:512] = b.view(np.uint8).ravel()
    return res.view(np.uint32),128 >> 4 << 16 | 128 >> 4 << 32

def arguments(case):
    "The arrays and scalars that the kernel takes, `out` (NaN) among them; how many threads"
    a,b,meta,c = (case[o] for o in ('a','b','meta','c'))
    out = np.full_like(c, np.nan)
    if case['kind']=='mma': return (a, b, meta, c, out),32
    ia,da = image(a.view(np.uint8), min(case['swizzle'], 32))
    ib,db = across(b) if case['turned'] else image(b.view(np.uint8), case['swizzle'])
    return (ia, ib, meta, c, out, in_registers(a), da, db),128

def compiled(cases, **options):
    "Their kernels, by name"
    from gridstride.cpp import cuda_kernel
    sources = {o['name']: source(o) for o in cases}
    return cuda_kernel(ADDRESS + ''.join(sources.values()), name=list(sources), **options)

def run(case, kernels, device='cpu'):
    "What the kernel computes: (lanes, 4)"
    import torch
    args,threads = arguments(case)
    args = [torch.from_numpy(o).to(device) if isinstance(o, np.ndarray) else o for o in args]
    kernels[case['name']][1,threads](*args)
    return args[4].cpu().numpy()

def packed(x): return base64.b64encode(zlib.compress(np.ascontiguousarray(x).tobytes(), 9)).decode()

def unpacked(text, dtype, shape): return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape)

def recorded():
    "The cases as they were recorded, with `out`"
    return [o | {k: unpacked(*o[k]).copy() for k in ARRAYS} for o in json.loads(FILE.read_text())]

def record(to):
    given = cases()
    kernels = compiled(given, checks=False)
    out = [o | dict(out=run(o, kernels, 'cuda')) for o in given]
    out = [o | {k: (packed(o[k]), str(o[k].dtype), o[k].shape) for k in ARRAYS} for o in out]
    Path(to).write_text('[\n' + ',\n'.join(json.dumps(o) for o in out) + '\n]\n')

ARRAYS = 'a','b','meta','c','out'
if __name__=='__main__': record(*sys.argv[1:] or [FILE])
