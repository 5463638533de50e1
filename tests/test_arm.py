"""The emulator on Arm: its runtime and programs of tests/cuda, compiled by a cross compiler, run under qemu.

Debian's packages: g++-aarch64-linux-gnu and qemu-user. qemu translates instructions to those of this machine, whose
memory keeps a stricter order than Arm's: races between threads of the runtime are not found here."""
import json, re, shutil, subprocess
from pathlib import Path

import pytest
from gridstride.cpp import emulator
from gridstride.cpp.toolchain import compilers, runtime_library
from gridstride.cpp.toolchain.build import _include_first, emulated_flags
from gridstride.cpp.toolchain.cache import build, headers_hash
from gridstride.cpp.finding import CFinding, RuntimeFinding
from test_cpp_programs import HERE, joined, name, on_gpu

CXX, QEMU = shutil.which('aarch64-linux-gnu-g++'), shutil.which('qemu-aarch64') or shutil.which('qemu-aarch64-static')
LIBRARIES = '/usr/aarch64-linux-gnu'  # where Debian has those of Arm
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive, pytest.mark.skipif(
    not (CXX and QEMU and Path(LIBRARIES).is_dir()),
    reason='no g++-aarch64-linux-gnu and qemu-user, which compile for Arm and run that')]

SAME = ['11_shuffles', '14_atomics_integer', '21_half', '22_bfloat16', '23_printf', '25_math', '28_groups_tiles',
        '29_cuda_atomic', '30_cuda_barrier', '33_inheritance', '36_struct_arguments', '50_reduce_last_block',
        '74_asynchronous_copies', '76_mma_sync']
WRONG = ['01_no_guard', '16_tile_without_barrier', '30_last_block_without_fence', '31_atomic_and_plain',
         '37_never_written', '45_barrier_in_a_branch', '82_wild_address']
PATHS = [*(HERE/f'same/{o}.cu' for o in SAME), *(HERE/f'wrong/{o}.cu' for o in WRONG), HERE/'boxes.cu']

BOX = next(o for o in json.loads((HERE/'boxes.json').read_text()).items() if o[1].endswith('no error'))
FORWARD, SHUFFLED, ALL = 0, 2, 30  # as `gridstride_options` has them

# Per thread of a block: how many frames on its stack belong to other libraries than its kernel
FRAMES = r'''
#include <cstdio>
#include <dlfcn.h>
#include <execinfo.h>
__global__ void count_frames(int *outside) {
    void *frames[64];
    Dl_info kernel, other;
    __syncthreads();
    const int n = backtrace(frames, 64);
    dladdr(frames[0], &kernel);
    for (int i = 0; i < n; i++)
        outside[threadIdx.x] += !dladdr(frames[i], &other) || other.dli_fbase != kernel.dli_fbase;
}
int main() {
    int h[3] = {}, *outside;
    cudaMalloc(&outside, sizeof h);
    cudaMemcpy(outside, h, sizeof h, cudaMemcpyHostToDevice);
    count_frames<<<1, 3>>>(outside);
    cudaMemcpy(h, outside, sizeof h, cudaMemcpyDeviceToHost);
    cudaFree(outside);
    printf("%d %d %d\n", h[0], h[1], h[2]);
}
'''

# A loop without end in code of the program that has no line, as a stub that calls a library has none
ENDLESS = r'''
#include <cstdio>
extern "C" void endless();
__device__ void wait() {
    endless();  // loops
}
__global__ void calls() {
    wait();  // called
}
int main() {
    calls<<<1, 1>>>();
    cudaDeviceSynchronize();
}
'''

# An integer is divided by zero, or the smallest by -1, by a function of a kernel, or by host code
DIVISION = r'''
#include <cstdio>
template <class T> __host__ __device__ T remainder_of(T x, T by) {
    return x % by + x / by;  // divides
}
template <class T> __global__ void divide(T *x) {
    x[threadIdx.x] = remainder_of(T(7), T(2 - threadIdx.x));
}
template <class T> __global__ void negate(T *x, T smallest) {
    x[threadIdx.x] = remainder_of(smallest, T(threadIdx.x < 2 ? -2 : -1)) + remainder_of(T(smallest + 1), T(-1));
}
template <class T> void launch() {
    T *x;
    cudaMalloc(&x, 4 * sizeof *x);
    divide<<<1, 2>>>(x);
    cudaDeviceSynchronize();
    printf("right");
    divide<<<1, 3>>>(x);
    cudaDeviceSynchronize();
}
template <class T> void launch_smallest() {
    T *x, smallest = T(1ull << (8 * sizeof(T) - 1));
    cudaMalloc(&x, 4 * sizeof *x);
    negate<<<1, 2>>>(x, smallest);
    cudaDeviceSynchronize();
    printf("right");
    negate<<<1, 3>>>(x, smallest);
    cudaDeviceSynchronize();
}
'''
DIVIDES = dict(int='launch<int>();', size_t='launch<size_t>();', host='printf("right%d", remainder_of(7, argc - 1));')
OVERFLOWS = dict(smallest_int='launch_smallest<int>();', smallest_long='launch_smallest<long>();',
                 smallest_host='printf("right%d", remainder_of(int(1u << 31), -argc));')

OWN = {'frames': FRAMES, 'endless': ENDLESS,
       **{f'divides_{k}': f'{DIVISION}int main(int argc, char **) {{ {v} return 0; }}'
          for k, v in {**DIVIDES, **OVERFLOWS}.items()}}

# Runs the program that is named, in an order, with checks or without, as Python would. What is found goes to stderr,
# as Python reads it.
MAIN = r'''
asm(".pushsection .text.endless, \"ax\"\n.rept 16\nnop\n.endr\n"
    "endless: .cfi_startproc\nb endless\n.cfi_endproc\n.rept 16\nnop\n.endr\n.popsection");
static_assert(char(-1) < 0, "char is signed on every machine");
static int run_box() {
    char words[][12] = {"boxes", BOX}, *argv[10];
    for (int i = 0; i < 10; i++) argv[i] = words[i];
    return program_boxes::main(10, argv);
}
GRIDSTRIDE_EXPORT(run_box)
int main(int, char **argv) {
    const gridstride_options how = {atoi(argv[3]), atoi(argv[2]), 3, 2, atof(argv[4])};
    gridstride_set_options(&how);
    const auto *program = gridstride::bindings::exports;
    while (strcmp(program->name, argv[1])) program = program->next;
    gs_call call{};
    const int64_t code = program->call(&call);
    if (gridstride_finding()->kind) fwrite(gridstride_finding(), sizeof(gridstride::Finding), 1, stderr);
    return code ? int(code) : int(call.result[1]);
}
'''


@pytest.fixture(scope='module')
def program(tmp_path_factory):
    "The file that holds all programs, for Arm"
    own = {tmp_path_factory.mktemp('arm')/f'{o}.cu': src for o, src in OWN.items()}
    for path, src in own.items(): path.write_text(src)
    words = ', '.join(f'"{o}"' for o in BOX[0].split())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('CXX', CXX)
        c, text = compilers.compiler(), joined([*PATHS, *own]) + MAIN.replace('BOX', words)
        sources = {'programs.cpp': f'{_include_first([text])}{text}'}
        compiling = [c.path, *emulated_flags(c, text, checks=True), '-c', 'programs.cpp', '-o', 'programs.o']
        headers = headers_hash(compilers.CPP_FOLDER/'include')
        compiled = build(sources, [compiling], c, headers, shared=True).folder/'programs.o'
        # -O1 takes a quarter less to compile, and qemu no longer to run
        runtime = runtime_library._build_runtime('-fopenmp', '-DGRIDSTRIDE_ADDRESSES=(1ul<<28)', '-O1')
    link = [c.path, str(compiled), str(runtime), '-o', 'programs', f'-Wl,-rpath,{runtime.parent}', '-pthread']
    return build({}, [link], c, shared=True).folder/'programs'


def run(program, what, order, checks, seconds=30):
    "What a program prints, and its finding or None"
    words = [QEMU, '-L', LIBRARIES, program, f'run_{what}', order, checks, seconds]
    done = subprocess.run(list(map(str, words)), capture_output=True, timeout=100)
    found = RuntimeFinding(CFinding.from_buffer_copy(done.stderr)) if done.stderr else None
    assert done.returncode == 0 or found, done
    return done.stdout.decode(), found


@pytest.mark.parametrize('path', PATHS[:len(SAME)], ids=lambda p: p.stem)
def test_same_as_on_a_gpu(program, path):
    "Checked, with blocks and threads in another order than theirs, and without checks by two threads of the host"
    assert run(program, name(path), SHUFFLED, ALL) == (on_gpu(path), None)
    assert run(program, name(path), FORWARD, 0) == (on_gpu(path), None)


@pytest.mark.parametrize('path', PATHS[len(SAME):-1], ids=lambda p: p.stem)
def test_wrong(program, path, monkeypatch):
    _, found = run(program, name(path), FORWARD, ALL)
    monkeypatch.setattr(emulator, 'last_finding', lambda: found)
    src = path.read_text()
    kind, lines = re.match(r'// expect: (\w+) line ([\d or]+)$', src.splitlines()[0]).groups()
    e = emulator.last_exception({f'{name(path)}.cu': src})
    assert e.kind == kind and str(e.line) in lines.split(' or ') and src.splitlines()[e.line-1].strip() in str(e), e


def test_an_argument_by_value_is_where_arm_puts_it(program):
    "Tensor maps, which ask for a multiple of 64"
    assert run(program, 'box', FORWARD, ALL) == (f'{BOX[1]}\n', None)


def test_a_search_for_callers_ends_where_a_thread_begins(program):
    "In the runtime's function that starts threads. On Arm that had itself for a caller, and the search read garbage"
    assert run(program, 'program_frames', FORWARD, 0) == ('1 1 1\n', None)


def test_an_endless_loop_in_a_stub_has_the_line_of_its_caller(program):
    "Which Arm keeps in a register, where the stack has the caller of that one"
    _, found = run(program, 'program_endless', FORWARD, 0, .5)
    here, called = (n for n, line in enumerate(ENDLESS.splitlines(), 1) if '// ' in line)
    assert (found.code, found.line, found.call_line) == ('time_limit', here, called)


@pytest.mark.parametrize('checks', [ALL, 0])
@pytest.mark.parametrize('what', [*DIVIDES, *OVERFLOWS])
def test_a_division_without_a_result(program, what, checks):
    "Arm gives 0, or the smallest integer again, and does not trap"
    printed, found = run(program, f'program_divides_{what}', FORWARD, checks)
    line, = (n for n, line in enumerate(DIVISION.splitlines(), 1) if '// divides' in line)
    on_host = 'host' in what
    code = ('host_' if on_host else '') + ('division_overflows' if what in OVERFLOWS else 'division')
    assert (found.kind, found.code, found.line, found.thread) == ('crash', code, line, None if on_host else (2, 0, 0))
    assert printed == ('' if on_host else 'right')
