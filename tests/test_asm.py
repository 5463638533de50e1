"""What the compilers made of kernels: occupancy against CUDA's calculator and a GPU, listings against what is known of
the source, and what happens without compilers."""
import json, os, random, re, select, signal, subprocess, sys, threading, time
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from gridstride import asm, sim
from gridstride.asm import CompileError, CompilerMissing, side_by_side, occupancy, ptx, report, resources, sass, tools
from gridstride.asm.magic import load_ipython_extension
from gridstride.asm.limits import SM_LIMITS, sm_of
from gridstride.asm.listing import KINDS, Listing, text_lines
from gridstride.asm.read import read_ptx, read_sass
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.cpp import magic as cpp_magic
from gridstride.cpp.frontend.reader import device_only, kernels
from gridstride.kernels.ptx import PTX, TCGEN05
from once import build_once
from exhaustive import mark_exhaustive
from found import saying

HERE = Path(__file__).parent/'asm'
ARCHS = [f'sm_{o}' for o in SM_LIMITS]
MATMULS = """#include <torch/extension.h>
template<int tw> __global__ void tiled_k(float *m, float *n, float *out, int k, int w) {
    __shared__ float ms[tw][tw], ns[tw][tw];
    int tc = threadIdx.x, tr = threadIdx.y, c = blockIdx.x*tw+tc, r = blockIdx.y*tw+tr;
    float p = 0.0f;
    #pragma unroll 1
    for (int ph = 0; ph < k; ph += tw) {
        ms[tr][tc] = m[r*k + ph+tc];
        ns[tr][tc] = n[(ph+tr)*w + c];
        __syncthreads();
        for (int i = 0; i < tw; i++)
            p += ms[tr][i] * ns[i][tc];
        __syncthreads();
    }
    out[r*w+c] = p;
}

__global__ void naive_k(float *m, float *n, float *out, int k, int w) {
    int r = blockIdx.y, c = blockIdx.x*blockDim.x+threadIdx.x;
    float p = 0.0f;
    #pragma unroll 1
    for (int i = 0; i < k; i++) p += m[r*k+i] * n[i*w+c];
    out[r*w+c] = p;
}

void run(torch::Tensor m) { naive_k<<<1, 32>>>(nullptr, nullptr, nullptr, 1, 2); }
"""


# Occupancy

def cases():
    """(arch, registers, static, dynamic, block, barriers): every number of registers, every number of warps, shared
    memory in small steps, and mixtures"""
    rnd = random.Random(1)
    for arch in ARCHS:
        most = sm_of(arch).max_shared
        for registers in range(0, 258):
            for block in (1, 31, 32, 33, *range(64, 1025, 64), 1025): yield arch, registers, 0, 0, block, 1
        for shared in range(0, most+513, 96): yield arch, 16, min(shared, 48*1024), max(0, shared-48*1024), 32, 1
        for _ in range(2000):
            yield (arch, rnd.randrange(256), rnd.randrange(49000), rnd.randrange(most), rnd.randrange(1, 1025),
                   rnd.randrange(17))


@pytest.mark.slow
def test_occupancy_is_that_of_cudas_calculator():
    folder = next((o for o in tools.include_folders() if (Path(o)/'cuda_occupancy.h').is_file()), None)
    if sys.platform != 'linux': pytest.skip('CUDA\'s headers are for Linux')
    assert folder, 'cuda_occupancy.h is missing: pip install nvidia-cuda-runtime'
    made = build_once('g++', ['g++', '-O1', '-I.', '-I', folder, 'occupancy.cpp', '-o', 'occupancy'],
                     sources={o.name: o.read_text() for o in (HERE/'occupancy.cpp', Path(folder)/'cuda_occupancy.h')})
    asked = list(cases())
    def line(arch, *rest):
        sm, number = sm_of(arch), int(arch[3:])
        return ' '.join(map(str, (number//10, number%10, sm.threads, sm.shared, sm.max_shared, sm.reserved, *rest)))
    said = subprocess.run([made/'occupancy'], input='\n'.join(line(*o) for o in asked), text=True,
                          capture_output=True, check=True).stdout.splitlines()
    assert len(said) == len(asked) > 50_000
    wrong = []
    for (arch, registers, static, dynamic, block, barriers), text in zip(asked, said):
        blocks, by_registers, by_shared, by_warps, by_blocks, by_barriers, _ = map(int, text.split())
        o = occupancy(registers, static+dynamic, block, arch, barriers)
        limits = {'registers': by_registers, 'shared memory': by_shared, 'warps': by_warps, 'blocks': by_blocks,
                  'barriers': by_barriers}
        factors = tuple(k for k, v in limits.items() if v == blocks and (k != 'barriers' or barriers > 1))
        if o.blocks != blocks or o.limiter != factors or any(limits[k] != v for k, v in o.limits.items()):
            wrong.append(((arch, registers, static, dynamic, block, barriers), o, text))
    assert not wrong, f'{len(wrong)} of {len(asked)} differ, first {wrong[0]}'


def test_occupancy_is_that_of_a_gpu():
    "The driver of an H100 said how many blocks fit: tests/asm/record_occupancy.py"
    gpu = json.loads((HERE/'h100.json').read_text())
    assert len(gpu['cases']) > 500 and len({c[0] for c in gpu['cases']}) > 12
    wrong = [(c, o) for c in gpu['cases'] if (o := occupancy(c[0], c[1]+c[2], c[3], gpu['arch'])).blocks != c[4]]
    assert not wrong, wrong[:5]
    sm = sm_of(gpu['arch'])
    assert ((sm.threads, sm.shared, sm.max_shared, sm.reserved, sm.blocks, 65536)
            == tuple(gpu['sm'][k] for k in ('threads', 'shared', 'most', 'reserved', 'blocks', 'registers')))


def test_ctrl_c_interrupts_system_calls_after_nvrtc_has_compiled():
    resources(f'// {time.time()}\n__global__ void k(float *x) {{ x[threadIdx.x] *= 2; }}')
    reads, writes = os.pipe()
    interrupted = threading.Event()

    def interrupt(main=threading.main_thread().ident):
        time.sleep(.3)
        signal.pthread_kill(main, signal.SIGINT)
        if not interrupted.wait(60): os.write(writes, b'x')  # so that a read that is not interrupted ends, too
    thread = threading.Thread(target=interrupt)
    thread.start()
    try: read = os.read(reads, 1)
    except KeyboardInterrupt: read = None
    finally: interrupted.set()
    thread.join()
    assert read is None and not select.select([reads], [], [], 0)[0]
    os.close(reads); os.close(writes)


@pytest.mark.slow
@pytest.mark.parametrize('step', [21, mark_exhaustive(7)])
def test_resources_are_those_that_a_gpu_reports(step):
    sys.path.insert(0, str(HERE))
    try: from record_occupancy import kernel
    finally: sys.path.remove(str(HERE))
    gpu = json.loads((HERE/'h100.json').read_text())
    here = resources(kernel(0), arch=gpu['arch']).by
    if here != gpu['kernels'][0]['by']:
        pytest.skip(f"the GPU ran what {gpu['kernels'][0]['by']} compiled, and here is {here}")
    for k in gpu['kernels'][::step]:
        r = resources(kernel(k['static']), arch=gpu['arch'], flags=(f"-maxrregcount={k['cap']}",))
        assert (r.registers, r.shared, r.local) == (k['registers'], k['shared'], k['local'])


@pytest.mark.parametrize('args,words',
    [(dict(registers=-1), 'registers .*-1'), (dict(registers=32, block=0), 'positive integer'),
     (dict(registers=32, shared=.5), 'non-negative integer'), (dict(registers=32, arch='hopper'), 'sm_90')])
def test_occupancy_refuses(args, words):
    with pytest.raises(ValueError, match=words): occupancy(**args)


# Listings

@pytest.mark.slow
def test_inner_loops_are_what_the_source_says():
    static, naive = sass(MATMULS, name='tiled_k<16>'), sass(MATMULS, name='naive_k')
    assert naive.loop().ops()['LDG.E'] == 2 and naive.loop().count()['float'] == 1
    assert static.loop().count()['float'] == 16 and static.loop().count()['barrier'] == 2
    assert static.loop().count()['local'] == 0
    assert static.loop().count()['shared'] == 2+16+4, 'two stores, 16 loads of a column, and a row in 4 vectors'
    assert len(ptx(MATMULS, name='naive_k').loop().instructions) > 4


@pytest.mark.parametrize('make', [sass, ptx])
def test_instructions_have_the_line_they_came_from(make):
    at = {n: {o.kind for o in found} for n, text, found in make(MATMULS, name='tiled_k<16>').lines}
    text = {n: t for n, t, _ in make(MATMULS, name='tiled_k<16>').lines}
    assert 'global' in at[8] and 'global' in at[9] and 'barrier' in at[10] and 'barrier' in at[13]
    assert 'global' in at[15]
    assert 'float' in at[12] and 'barrier' not in at[12] and text[12] == '            p += ms[tr][i] * ns[i][tc];'
    assert not set(at) & set(range(17, 40)), 'nothing of the other kernel'


@pytest.mark.slow
def test_a_device_function_has_its_own_lines_and_a_header_those_of_its_caller():
    src = ('#include <cuda_fp16.h>\n__device__ float third(float x) {\n  return x*0.3f;\n}\n'
           '__global__ void k(float *x, __half *y) {\n  x[0] = third(x[0]);\n  y[0] = __float2half(x[1]);\n}')
    for make in (sass, ptx):
        at = {n: {o.kind for o in found} for n, _, found in make(src).lines}
        assert 'float' in at[3] and 'convert' in at[7]


MAKES = [
    ('x[i] = x[i]*0.1;', 'convert', 'DMUL'),
    ('float t[500]; for (int j = 0; j < 500; j++) t[j] = x[j]; x[0] = t[i];', 'local', 'STL'),
    ('atomicAdd(x, 1.f);', 'global', 'RED'),
    ('__shared__ int s[9]; atomicAdd(s+i%9, i); __syncthreads(); x[i] = s[0];', 'shared', 'ATOMS'),
    ('x[i] = __shfl_xor_sync(~0, x[i], 1);', 'warp', 'SHFL'), ('x[i] = sqrtf(x[i]);', 'float', 'MUFU'),
    ('__threadfence();', 'barrier', 'MEMBAR'), ('x[i] = i/7;', 'integer', 'IMAD')]


@lru_cache
def machine_code_of_kinds():
    "The instructions of a kernel per line of `MAKES`; their machine code is read at once"
    src = ''.join(f'__global__ void k{n}(float *x) {{ int i = threadIdx.x; {code} }}\n'
                  for n, (code, *_) in enumerate(MAKES))
    _, cubin, *_ = tools.nvrtc(src, 'k0')
    text = tools.disassemble(cubin)
    found = [read_sass(text, f'_Z2k{n}Pf', 'kernel.cu', {}) for n in range(len(MAKES))]
    return [Listing('\n'.join(text_lines(items)), items, {}, 'sass', 'k', 'sm_90', '') for items in found]


@pytest.mark.slow
@pytest.mark.parametrize('n', range(len(MAKES)), ids=[o[2] for o in MAKES])
def test_kinds(n):
    s, (_, kind, makes) = machine_code_of_kinds()[n], MAKES[n]
    assert any(o.kind == kind for o in s.instructions) and any(o.op.startswith(makes) for o in s.instructions), s.items
    assert s.count(makes) >= 1 and sum(s.count().values()) == len(s.instructions)


WMMA = """#include <mma.h>
using namespace nvcuda;
__global__ void k(half *a, half *b, float *c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}"""
WGMMA = """__global__ void k(float *out, unsigned long long a, unsigned long long b) {
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
    for (int j = 0; j < 4; j++) out[threadIdx.x*4+j] = d[j];
}"""
BULK = """__global__ void k(char *x, int n) {
    extern __shared__ __align__(128) char s[];
    unsigned to = __cvta_generic_to_shared(s), bar = to + 4096;
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(to), "l"(x), "r"(n), "r"(bar) : "memory");
}"""


@pytest.mark.slow
@pytest.mark.parametrize('arch', [*map(mark_exhaustive, ['sm_75', 'sm_80', 'sm_100']), 'sm_90', 'sm_120'])
def test_tensor_cores(arch):
    assert sass(WMMA, arch=arch).count()['tensor'] >= 2 and ptx(WMMA, arch=arch).count()['tensor'] == 1


@pytest.mark.slow
def test_hoppers_own_instructions():
    s, p = sass(WGMMA, arch='sm_90a'), ptx(WGMMA, arch='sm_90a')
    assert [o.op.split('.')[0] for o in s.instructions if o.kind == 'tensor'] == ['HGMMA'] and s.count()['barrier']
    assert p.count()['tensor'] == 1 and p.count()['barrier'] == 3
    s = sass(BULK)
    assert any(o.op.startswith('UBLKCP') and o.kind == 'global' for o in s.instructions)
    assert any(o.op.startswith('SYNCS') and o.kind == 'barrier' for o in s.instructions)


INCLUDE = re.compile(r'^[ \t]*#[ \t]*include.*\n', re.M)
MACRO = re.compile(r'^[ \t]*#[ \t]*define[ \t]+(\w+)', re.M)


def as_one_source(sources):
    "The device code of `sources` as one, each in a namespace of its own"
    codes = [device_only(o) for o in sources]
    spaces = [f'namespace s{i} {{\n{INCLUDE.sub("", src)}\n}}\n' for i, src in enumerate(codes)]
    ends = [''.join(f'#undef {o}\n' for o in MACRO.findall(src)) for src in codes]
    return ''.join([*dict.fromkeys(o for src in codes for o in INCLUDE.findall(src)), *map(str.__add__, spaces, ends)])


def is_known(name, src, arch):
    "Does the compiler know, of an old GPU, all that the kernel asks for?"
    try: return bool(ptx(src, name=name, arch=arch).instructions)
    except CompileError as e:
        assert 'is undefined' in str(e) or 'requires .target sm_' in str(e), e


@pytest.mark.slow
@pytest.mark.parametrize('arch', [mark_exhaustive('sm_75'), 'sm_90', mark_exhaustive('sm_120')])
def test_every_instruction_of_many_kernels_has_a_kind(arch):
    "The kernels of the programs that a GPU and the emulator run alike, compiled and read in one go"
    sources = [path.read_text() for path in sorted((HERE.parent/'cuda/same').glob('*.cu'))[::6]]
    first = [(k[0].name, src) for src in sources if (k := [o for o in kernels(src) if not o.template])]
    good = [o for o in first if arch != 'sm_75' or is_known(*o, arch)]
    text, cubin, *_ = tools.nvrtc(as_one_source([src for _, src in good]), f's0::{good[0][0]}', arch)
    printed, entries = tools.disassemble(cubin), [o[6:] for o in tools.section_sizes(cubin) if o.startswith('.text.')]
    for name, _ in good: assert any(name in o for o in entries)
    listings = [read_ptx(text, o, 'kernel.cu') for o in re.findall(r'\.entry (\w+)', text)]
    assert len(listings) >= len(good) > 9
    found = [[o for o in items if not isinstance(o, str)]
             for items in (sum(listings, []), sum((read_sass(printed, o, 'kernel.cu', {}) for o in entries), []))]
    assert all(len(o) > 2000 for o in found)
    assert {o.op for o in sum(found, []) if o.kind == 'other'} <= {'NOP'}


# Which kernel

@pytest.mark.slow
def test_a_kernel_is_meant_in_many_ways():
    whole = sass(MATMULS, name='naive_k')
    assert sass(load_cuda(MATMULS), name='naive_k') == whole == sass(cuda_kernel(MATMULS, 'naive_k'))
    assert sass(cuda_kernel(MATMULS, 'tiled_k<8>')).loop().count()['float'] == 8
    assert 'naive_k' in ptx(MATMULS, name='naive_k') and '_Z' not in ptx(MATMULS, name='naive_k')
    with pytest.raises(ValueError, match="name='tiled_k'"): sass(MATMULS)
    with pytest.raises(ValueError, match='arguments'): sass(MATMULS, name='tiled_k')
    with pytest.raises(TypeError, match='cuda_kernel.*len'): sass(len)


def test_an_error_is_shown_with_its_line():
    with pytest.raises(CompileError, match='line 2: identifier "y" is undefined\n  +x\\[0\\] = y;'):
        sass('__global__ void k(float *x) {\n  x[0] = y;\n}')


@pytest.mark.slow
def test_libraries_of_cuda_and_of_the_host():
    assert sass('#include <cooperative_groups.h>\n#include <stdio.h>\nnamespace cg = cooperative_groups;\n'
                '__global__ void k(int *x) { auto t = cg::this_thread_block(); '
                'x[t.thread_rank()] = INT32_C(3); }'.replace('INT32_C(3)', '3')).count()['global']
    assert sass('#include <cstdint>\n#include <vector>\n#include <limits>\nstd::vector<int> host() { return {}; }\n'
                '__global__ void k(uint64_t *x) { x[0] = std::numeric_limits<uint32_t>::max(); }').count()['global']


@pytest.mark.slow
def test_options_arrive():
    src = '__global__ void k(float *x, float y) { x[0] = x[0]/y; }'
    assert (len(sass(src, flags=('--use_fast_math',)).instructions) < len(sass(src).instructions)
            < len(sass(src, opt=False).instructions))
    assert 'sm_80' in ptx(src, arch='sm_80') and sass(src, arch='sm_80') != sass(src)
    assert resources(src, block=64, shared_bytes=100_000).occupancy.blocks == 2


# Other languages

@pytest.mark.slow
def test_kernels_of_the_simulator_and_of_numba():
    if sys.platform != 'linux': pytest.skip('the course installs numba-cuda on Linux')
    import numba.cuda
    from gridstride.sim import cuda
    w = 8
    def made(cuda):
        @cuda.jit(device=True)
        def plus(a, b): return a+b
        @cuda.jit
        def sums_k(x, out):
            s = cuda.shared.array(w, np.float32)
            i = cuda.threadIdx.x
            s[i] = x[i]
            cuda.syncthreads()
            t = np.float32(0)
            for j in range(w): t = plus(t, s[j])
            out[i] = t
        return sums_k
    x = np.zeros(w, np.float32)
    ours, theirs = sass(made(cuda), x, x), sass(made(numba.cuda), 'void(float32[::1], float32[::1])')
    assert ours == theirs and ours.count()['barrier'] == 1 and ours.count()['float'] >= w-1 and 'Numba' in ours.by
    assert resources(made(cuda), x, x).shared == 4*w
    assert any('t = plus(t, s[j])' in text for _, text, _ in ours.lines)
    assert len(sass(made(cuda), x[::2], x).instructions) != len(ours.instructions), 'a stride is not known'
    with pytest.raises(TypeError, match='got 1'): sass(made(cuda), x)


@pytest.mark.slow
def test_kernels_of_triton(tmp_path, monkeypatch):
    if sys.platform != 'linux': pytest.skip('Triton is for Linux')
    import triton  # noqa: F401, the course installs it
    import torch
    (tmp_path/'in_triton.py').write_text(
        'import triton, triton.language as tl\n@triton.jit\ndef double_k(x, n, BLOCK: tl.constexpr):\n'
        '    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)\n    tl.store(x+i, 2*tl.load(x+i, mask=i<n), mask=i<n)\n'
        '@triton.jit\ndef copy_k(x, out):\n    out.store([0, 0], x.load([0, 0]))\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv('TRITON_CACHE_DIR', str(tmp_path/'cache'))
    from in_triton import double_k
    x = torch.zeros(4096)
    s, r = sass(double_k, x, 4096, BLOCK=1024), resources(double_k, x, 4096, BLOCK=1024, num_warps=8)
    assert s.ops()['LDG.E.128'] == 2 and 'Triton' in s.by and r.block == 256 and r.registers
    assert sass(double_k, x, 4095, BLOCK=1024).ops()['LDG.E.128'] == 0, 'that a row is whole is not known'
    assert any('tl.store' in text and any(o.kind == 'global' for o in found) for _, text, found in s.lines)
    layouts = asm.ttgir(double_k, x, 4096, BLOCK=1024)
    assert '#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4]' in layouts
    assert 'loc(' not in layouts and '#loc' not in layouts
    from in_triton import copy_k
    from triton.tools.tensor_descriptor import TensorDescriptor
    described = TensorDescriptor.from_tensor(x.view(64, 64), [16, 32])
    assert sass(copy_k, described, described).ops()['UTMALDG.2D'] == 1, 'a rectangle is fetched by TMA'
    with pytest.raises(TypeError, match='copy_k .*Triton'): asm.ttgir('__global__ void copy_k() {}')

def test_a_kernel_of_the_shim_finds_what_triton_made(tmp_path, monkeypatch):
    "Where Triton is not installed, a recording is found by the same key"
    if sys.platform != 'linux': pytest.skip('Triton is for Linux')
    kernel = ('def double_k(x, n, BLOCK: tl.constexpr):\n    i = tl.program_id(0)*BLOCK + tl.arange(0, BLOCK)\n'
              '    tl.store(x+i, 2*tl.load(x+i, mask=i<n), mask=i<n)\n')
    for name,room in dict(with_triton='triton', without='gridstride.tile').items():
        head = f'import {room}.language as tl'
        (tmp_path/f'{name}.py').write_text(f'{head}\n{kernel}')
    monkeypatch.syspath_prepend(tmp_path)
    import triton
    from gridstride.tile.triton_shim import JITFunction
    from with_triton import double_k as real
    from without import double_k as ours
    kernels, x = (triton.jit(real), JITFunction(ours)), np.zeros(64, np.float32)
    keys = [report.find_kernel_source(k, (x, 64), options=dict(BLOCK=32)).key for k in kernels]
    assert keys[0] == keys[1] and "{'BLOCK': 32}" in keys[0]


# Without compilers

@pytest.fixture
def bare(monkeypatch):
    "As on a machine without NVIDIA's compilers"
    def hide():
        monkeypatch.setattr(tools, 'toolkit_folders', lambda: [])
        monkeypatch.setattr(tools, 'find_program',
                            lambda name, why: (_ for _ in ()).throw(tools.missing_tool(name, why, name)))
        for o in (tools._load_nvrtc, tools._load_jitlink): o.cache_clear()
        report._code_by_file.clear()
    yield hide
    for o in (tools._load_nvrtc, tools._load_jitlink): o.cache_clear()
    report._code_by_file.clear()
    asm.recordings(None)


def test_a_missing_compiler_is_named_with_the_command_that_brings_it(bare):
    bare()
    with pytest.raises(CompilerMissing, match=saying('NVRTC', 'pip install', 'cuda-toolkit')
                       if sys.platform == 'linux' else 'On Linux'):
        sass(MATMULS, name='naive_k')


def test_recordings_replace_only_their_own_source(bare, tmp_path, monkeypatch, capsys):
    asm.recordings(tmp_path/'recorded')
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    report._code_by_file.clear()
    here = {make: make(MATMULS, name='naive_k') for make in (sass, ptx, resources)}
    files = list((tmp_path/'recorded').iterdir())
    assert len(files) == 1 and files[0].name.startswith('naive_k.')
    assert not re.search(r'/(tmp|home|work|root)/', files[0].read_text()), 'no folder of this machine'
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    capsys.readouterr()
    report._note_recording.cache_clear()
    bare()
    for make, want in here.items():
        got = make(MATMULS, name='naive_k')
        assert got == want and str(got) == str(want)
    said = capsys.readouterr().out
    assert said.count('\n') == 1 and f'for sm_90 is recorded, and was generated by {here[sass].by}' in said
    assert sass(MATMULS, name='naive_k').lines == here[sass].lines
    assert sass(MATMULS, name='naive_k').loop() == here[sass].loop()
    for change in (dict(arch='sm_80'), dict(opt=False), dict(flags=('-maxrregcount=16',))):
        with pytest.raises(CompilerMissing, match='this source'): sass(MATMULS, name='naive_k', **change)
    with pytest.raises(CompilerMissing, match='this source'):
        sass(MATMULS.replace('p += m', 'p -= m'), name='naive_k')


def test_a_recording_does_not_depend_on_the_host_code_of_to_cuda():
    from gridstride.translate import to_cuda
    @sim.cuda.jit
    def double_k(x): x[0] *= 2
    src = to_cuda(double_k, np.ones(1, np.float32))
    key = report.find_kernel_source(src).key
    assert key == report.find_kernel_source(src.replace('TORCH_CHECK(', 'TORCH_CHECK (')).key
    assert key != report.find_kernel_source(src.replace('*=', '+=')).key and 'TORCH_CHECK(' in src


def test_machine_code_is_read_once_and_only_when_requested(bare, monkeypatch):
    report._code_by_file.clear()
    read = []
    monkeypatch.setattr(report, 'disassemble', lambda cubin: read.append(cubin) or tools.disassemble(cubin))
    assert ptx(MATMULS, name='naive_k').instructions and resources(MATMULS, name='naive_k').registers and not read
    assert sass(MATMULS, name='naive_k').instructions == sass(MATMULS, name='naive_k').instructions and len(read) == 1


@pytest.mark.slow
def test_what_nvdisasm_printed_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path))
    _, cubin, *_ = tools.nvrtc('__global__ void k(float *x) { x[threadIdx.x] += 3; }', 'k')
    text = tools.disassemble(cubin)
    for _ in range(2):
        with pytest.raises(RuntimeError, match='machine code'): tools.disassemble(cubin[:99])
    def start(*args, **how): raise AssertionError('nvdisasm was started')
    monkeypatch.setattr(tools.subprocess, 'run', start)
    assert tools.disassemble(cubin) == text and 'FADD' in text
    _, other, *_ = tools.nvrtc('__global__ void k(float *x) { x[threadIdx.x] *= 3; }', 'k')
    with pytest.raises(AssertionError, match='started'): tools.disassemble(other)


@pytest.mark.slow
@pytest.mark.parametrize('driver_keeps', [False, True])
def test_what_nvrtc_made_is_kept(tmp_path, monkeypatch, driver_keeps):
    """By all that it depends on, headers of the folder, too; a broken entry is made again, once more where the
    driver has kept it without the assembler's messages, as it may on a machine with a GPU"""
    monkeypatch.setenv('GRIDSTRIDE_CACHE', str(tmp_path/'cache'))
    monkeypatch.chdir(tmp_path)
    (tmp_path/'own.h').write_text('#define SCALE 3.f\n')
    src = '#include "own.h"\n__global__ void k(float *x) { x[threadIdx.x] *= SCALE; }'
    compiled, calls = tools._run_nvrtc, []
    def compile_counted(*args):
        fresh = tools._NO_CACHE in args[4]
        if not fresh: calls.append(args)
        made = compiled(*args)
        return made if fresh or not driver_keeps else (*made[:2], '', made[3])
    monkeypatch.setattr(tools, '_run_nvrtc', compile_counted)
    made = tools.nvrtc(src, 'k')
    assert tools.nvrtc(src, 'k') == made and len(calls) == 1 and made[1][:4] == b'\x7fELF'
    (path,) = (tmp_path/'cache/cubin').glob('*/result')
    for broken in (path.read_bytes()[:-100], path.read_bytes().replace(b'ELF', b'elf'), b'', None):
        if broken is None: path.unlink()
        else: path.write_bytes(broken)
        assert tools.nvrtc(src, 'k')[:2] == made[:2]        # what the assembler said has the time that it took
    assert len(calls) == 5 and tools.nvrtc(src, 'k')[:2] == made[:2] and len(calls) == 5
    for o in (dict(arch='sm_80'), dict(opt=False), dict(flags=('--fmad=false',)), dict(file='other.cu')):
        tools.nvrtc(src, 'k', **o)
    assert len(calls) == 9
    (tmp_path/'own.h').write_text('#define SCALE 5.f\n')
    assert tools.nvrtc(src, 'k')[1] != made[1] and len(calls) == 10
    for _ in range(2):
        with pytest.raises(CompileError): tools.nvrtc('__global__ void k() { y; }', 'k')


def test_machine_code_is_the_same_in_every_folder(tmp_path, monkeypatch):
    "So that what is kept of it is found; and a source's own headers are those of the folder"
    made = []
    for folder in (tmp_path/'a', tmp_path/'another'):
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv('GRIDSTRIDE_CACHE', str(folder/'cache'))
        made.append(tools.nvrtc('__global__ void k(float *x) { x[threadIdx.x] *= 3; }', 'k')[:2])
    assert made[0] == made[1]
    (folder/'own.h').write_text('#define SCALE 3.f\n')
    assert tools.nvrtc('#include "own.h"\n__global__ void k(float *x) { x[threadIdx.x] *= SCALE; }', 'k')[1]
    with pytest.raises(CompileError, match='^kernel.cu, line 1: identifier') as e: tools.nvrtc('void k() { x; }', 'k')
    assert '/kernel.cu' not in str(e.value)


def test_nothing_is_recorded_unless_asked(bare, tmp_path):
    asm.recordings(tmp_path/'recorded')
    sass(MATMULS, name='naive_k')
    assert not (tmp_path/'recorded').exists()


# Display

class Balanced(HTMLParser):
    "The text of HTML, whose tags must match"
    def __init__(self):
        super().__init__()
        self.open, self.text = [], ''
    def handle_starttag(self, tag, attrs): self.open.append(tag)
    def handle_endtag(self, tag): assert self.open.pop() == tag
    def handle_data(self, data): self.text += data


def text_of(x):
    parser = Balanced()
    parser.feed(x._repr_html_())
    parser.close()
    assert not parser.open
    return parser.text


def test_html_shows_every_line_and_every_instruction_once():
    s, p = sass(MATMULS, name='tiled_k<16>'), ptx(MATMULS, name='tiled_k<16>')
    text = text_of(s)
    for o in s.instructions: assert text.count(o.text) >= 1, o
    for line in MATMULS.splitlines()[1:16]: assert line.strip() in text
    assert f'{len(s.instructions)} instructions of SASS for sm_90' in text and 'shared memory' in text
    both = text_of(side_by_side(p, s))
    assert all(o.text in both for l in (p, s) for o in l.instructions)
    assert '<script' not in s._repr_html_() and 'url(' not in s._repr_html_()
    assert set(re.findall(r'background-color:(#\w+)', s._repr_html_())) <= {c for c, _ in KINDS.values()} | {'#fbfaf7'}


def test_as_text_it_is_text():
    s, r = sass(MATMULS, name='naive_k'), resources(MATMULS, name='naive_k')
    assert isinstance(s, str) and repr(s) == str(s) == '\n'.join(s.splitlines()) and '<' not in s
    assert f'registers      {r.registers}' in str(r) and '100%' in text_of(r) and repr(r) == str(r)


def test_a_stored_result_of_a_class_that_is_gone_counts_as_missing(tmp_path):
    "As an older version of the package wrote it"
    import hashlib
    from gridstride.asm import tools
    for data, want in ((b'cgridstride.asm.tools\nGone\n.', None), (b'cgone.module\nGone\n.', None), (b'I7\n.', 7)):
        (tmp_path/'result').write_bytes(hashlib.blake2b(data).digest() + data)
        assert tools._read_result(tmp_path) == want


TENSOR_CELL = PTX + TCGEN05 + '''
__global__ void product(float *out, u64 a, u64 b) {
    tensor_multiply(0, a, b, tensor_instruction(128, 16, false), 0);
    float x;
    tensor_load(x, 0);
    out[threadIdx.x] = x;
}
'''


def test_a_cell_shows_its_machine_code_for_blackwell(monkeypatch):
    "Registers, then SASS, for an architecture that this machine does not have; the cell is compiled as ever"
    shown, defined = [], {}
    monkeypatch.setattr('IPython.display.display', lambda *items: shown.extend(items))
    monkeypatch.setattr(cpp_magic, 'show_sass', None)
    with pytest.raises(ValueError, match=saying('gridstride.asm')):
        cpp_magic.cuda('--sass sm_100a', TENSOR_CELL, defined)
    load_ipython_extension(SimpleNamespace(register_magic_function=lambda *args: None))
    cpp_magic.cuda('--sass sm_100a', TENSOR_CELL, defined)
    usage, listing = shown
    assert listing.arch == 'sm_100a' and 8 <= usage.registers <= 64 and list(defined) == ['product']
    assert {'UTCHMMA', 'LDTM'} <= {o.op.split('.')[0] for o in listing.instructions}
