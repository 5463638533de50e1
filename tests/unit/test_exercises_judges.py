"What judges use besides `check`: memory that records, launchers, computed figures of a GPU."
import itertools

import numpy as np
import pytest
import torch
from gridstride.course.grading import WrongAnswer, exercise
from gridstride.course.exercises import (
    cuda_c,
    first_kernel,
    hopper_gemm,
    matmul_ladder,
    numba,
    profiling,
    shared_memory,
    shared_memory_cuda,
    source_to_sass,
    sparsity,
    tensor_cores,
    threads_and_barriers,
)
from gridstride.kernels.sparse import formats
from gridstride.course.runner import run_threads
from gridstride.sim import KernelError
from gridstride.utils import check, dim3


def test_01_blur_is_a_mean_of_what_is_there():
    np.testing.assert_allclose(first_kernel._blur(np.array([[0., 3, 6]])), [[1.5, 3, 4.5]])


def test_03_threads_go_backwards_and_forwards_again():
    seen, names = [], dict(run_threads=run_threads, note=lambda tr, tc: seen.append((tr, tc)))
    exec('def kernel(size): run_threads(note, size)', names)
    with shared_memory.reversed_threads(names['kernel']): names['kernel'](dim3(2, 2))
    names['kernel'](dim3(2, 1))
    assert seen == [(1, 1), (1, 0), (0, 1), (0, 0), (0, 0), (0, 1)]


def test_03_a_thread_may_fetch_the_halo_that_it_alone_adds(capsys):
    def window(blockIdx, blockDim, shared, x, out, n):
        first, bd = blockIdx.x*blockDim.x, blockDim.x
        def read(i): return x[i] if 0 <= i < n else 0.
        def load(tr, tc): shared[tc+1] = read(first+tc)
        def add(tr, tc):
            if tc == 0: shared[0] = read(first-1)
            if tc == bd-1: shared[bd+1] = read(first+bd)
            if first+tc < n: out[first+tc] = shared[tc] + shared[tc+1] + shared[tc+2]
        run_threads(load, blockDim)
        run_threads(add, blockDim)
    exercise('shared_memory.window')(window)
    assert 'right, on' in capsys.readouterr().out


def test_04_a_race_is_seen_whatever_the_result():
    def add_k(b, t, d, shared, syncb, out): out[0] = out[0]+1
    out = threads_and_barriers.RecordingMemory('out', [0.])
    with pytest.raises(AssertionError, match=r'race on out\[0\]: .*\(\d\).*\(\d\)'):
        threads_and_barriers.run_recorded(add_k, np.random.default_rng(), 1, 2, 0, [out], out, order='forward')


def fill(body, n=20):
    def source(): return f'__global__ void fill(float *x, float *out, int n) {{ int i = threadIdx.x; {body} }}'
    return cuda_c.launch(source, 'fill', 1, 32, x=np.ones(n, 'f4'), out=np.zeros(n, 'f4'), n=n)


def test_05_a_launch_gives_out_and_guards_the_rest():
    check(fill('if (i < n) out[i] = i;'), torch.arange(20.))
    with pytest.raises(Exception): fill('out[i] = i;')
    with pytest.raises(AssertionError, match='x was changed'): fill('if (i < n) x[i] = out[i];')
    with pytest.raises(AssertionError, match='NoneType'): cuda_c.launch(lambda: None, 'fill', 1, 1)


def reverse(body, n=32):
    head = 'template<int n> __global__ void add_k(float *m, float *n2, float *out)'
    x, out = torch.randn(n), torch.full((n,), torch.nan)
    shared_memory_cuda.launch(
        lambda: f'{head} {{ __shared__ float s[n]; {body} }}',
        'add_k',
        [(16,), (32,)],
        (32,),
        'm_at, n_at, out_at',
        (1, 1),
        (n, 1),
        x,
        x,
        out,
    )
    return x, out


@pytest.mark.slow
def test_06_an_instance_of_a_template_is_launched():
    x, out = reverse('int t = threadIdx.x; s[t] = m[t]; __syncthreads(); out[t] = s[n-1-t];')
    check(out, x.flip(0))
    with pytest.raises(KernelError, match=r'racecheck: .* on s\['):
        reverse('int t = threadIdx.x; s[t] = m[t]; out[t] = s[n-1-t];')


@pytest.mark.parametrize(
    'src,words', [('', 'no template f'), ('template<int n> __global__ void f(float *x) {}', 'no shared')]
)
def test_06_a_kernel_without_a_template_and_shared_memory_is_refused(src, words):
    x = torch.zeros(1)
    with pytest.raises(AssertionError, match=words):
        shared_memory_cuda.launch(lambda: src, 'f', [(1,)], (1,), '', (1, 1), (1, 1), x, x, x)


@pytest.fixture
def twice_k():
    from gridstride.sim import cuda

    @cuda.jit
    def twice_k(x, out):
        s = cuda.shared.array(4, np.float32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        out[t] = 2*s[t]
    return twice_k


def test_07_a_kernel_runs_in_the_simulator_and_in_c(twice_k):
    x, out, again = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)
    t = numba.run(twice_k, np.random.default_rng(), 1, 4, x, out)
    numba.run_as_c(twice_k, 1, 4, x, again)
    check(out, 2*x)
    check(again, 2*x)
    assert (
        numba.count_accesses(t, 'global', 'read') == 4
        and numba.count_accesses(t, 'shared', 'read', 'written') == 8
    )


def test_07_a_plain_function_and_a_changed_input_are_refused(twice_k):
    with pytest.raises(AssertionError, match='@cuda.jit'): numba.as_simulator_kernel(twice_k.py_func)
    with pytest.raises(AssertionError, match='x was changed'): numba.check_unchanged(x=(np.zeros(1), np.ones(1)))


def test_07_a_kernel_for_the_gpu_is_simulated():
    from numba import cuda
    @cuda.jit
    def twice_k(x, out): out[cuda.grid(1)] = 2*x[cuda.grid(1)]
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    numba.run(twice_k, np.random.default_rng(), 1, 4, x, out)
    check(out, 2*x)


def test_07_unwritten_elements_are_reported_as_such(capsys):
    from gridstride.sim import cuda
    @cuda.jit
    def swapped(x, out):
        r, c = cuda.grid(2)
        if r < out.shape[0] and c < out.shape[1]:
            out[r, c] = (np.float32(0.2989)*x[r, c, 0] + np.float32(0.5870)*x[r, c, 1] + np.float32(0.1140)*x[r, c, 2]
                         + np.float32(0.5))
    with pytest.raises(WrongAnswer, match=r'120 of 200 .*out\[0,16\]'):
        exercise('numba.grey')(swapped)


def test_07_mean_abs_rounds_as_float32():
    tenth, one = np.float32(.1), np.float32
    want = (one(3)*tenth+one(4)*tenth)/one(2)+1
    assert numba.expected_float32(np.float32([[3, -4]]), np.float32([3])) == want


def test_08_events_are_marks_in_a_queue():
    g = profiling.Gpu(lambda i, warm: 1. if warm else 2.)
    start, end = g.Event(), g.Event()
    start.record()
    g.kernel()
    g.kernel()
    end.record()
    with pytest.raises(RuntimeError, match='synchronize first'): start.elapsed_time(end)
    g.synchronize()
    assert start.elapsed_time(end) == pytest.approx(3.004)
    g.flush()
    g.kernel()
    assert g.busy_until-g.cpu_time == pytest.approx(.09+2-.004), 'the flush made the kernel cold again'


def test_08_a_timed_flush_is_reported():
    g = profiling.Gpu(lambda i, warm: 2.)
    start, middle, end = (g.Event() for _ in range(3))
    for job in (start.record, g.flush, middle.record, g.kernel, end.record, g.synchronize): job()
    middle.elapsed_time(end)
    assert not g.has_timed_flush
    assert '. A flush ' in profiling._likely_mistake(start.elapsed_time(end), g, 2., 2., [])


def scaled(body): return f'__global__ void f(float *x) {{ x[threadIdx.x] = {body}; }}'


@pytest.mark.slow
def test_09_doubles_are_found_with_their_line():
    assert not source_to_sass.fp64_instructions(source_to_sass.sass(scaled('x[threadIdx.x]*2.f')))
    listing = source_to_sass.compile_kernel(source_to_sass.sass, lambda: scaled('x[threadIdx.x]*.1'), 'f', 'sm_90')
    with pytest.raises(AssertionError, match='line 1'):
        source_to_sass.check_no_instructions(source_to_sass.fp64_instructions(listing), 'doubles')


def test_09_a_product_that_is_added_separately_is_reported():
    "Four products summed, and then added: one of them is an FMUL, and the sum an FADD"
    loop = ('float o = 0; for (int i = threadIdx.x; i < n; i += gridDim.x*blockDim.x) { float4 a = x[i], b = y[i]; '
            'o += a.x*b.x + a.y*b.y + a.z*b.z + a.w*b.w; }')
    src = (f'__global__ void dots_k(const float4 *x, const float4 *y, float *out, int n) {{ '
           f'{loop} out[threadIdx.x] = o; }}')
    with pytest.raises(AssertionError, match=r'FMUL.*o \+= a\.x\*b\.x; o \+= a\.y\*b\.y'):
        source_to_sass.check_wide_loads(lambda: src, 'sm_90')


def test_13_wavefronts_of_layouts():
    y, x = np.mgrid[:32, :32]
    layouts = 32*y+x, (32*y+x).T, (32*y+(x ^ y)).T, (33*y+x).T
    assert [matmul_ladder.max_wavefronts(o) for o in layouts] == [1, 32, 1, 1]


def test_13_wavefronts_of_loads_of_four_are_those_that_an_h100_counted():
    lane = np.arange(32)
    every = [lane*0, lane//16, lane//8, lane//4, lane//2, lane, lane % 8, lane % 16, lane*2, lane % 16*2]
    assert [matmul_ladder.quads(o) for o in every] == [2]*5 + [4]*3 + [8]*2
    assert matmul_ladder.patch_cost(128, 8, 8, 8) == .5 and matmul_ladder.patch_cost(128, 8, 8, 4) == .375


def test_13_the_useful_part_of_waves_and_tiles():
    assert matmul_ladder.useful_fraction(256, 256, 128, 128, 1, 4) == 1
    assert matmul_ladder.useful_fraction(256, 256, 128, 128, 1, 3) == pytest.approx(4/6)
    assert matmul_ladder.useful_fraction(129, 128, 128, 128, 1, 2) == pytest.approx(129/256)


@pytest.mark.parametrize('src,depths', [
    ('for (int i = 0; i < 3; i++) x[i] = 0; __syncthreads(); for (;;) { __syncthreads(); for (;;) y(); }', [0, 1]),
    ('auto f = [&](int a) { a; }; // __syncthreads()\nfor (;;) { /* for\n */ for (;;) { f(); __syncthreads(); } } '
     'do __syncthreads(); while (x); __syncthreads();', [2, 1, 0])])
def test_13_loops_around_a_barrier_are_counted(src, depths):
    assert [len(o) for o in matmul_ladder.loops(src, '__syncthreads')] == depths


@pytest.mark.parametrize('src,late', [
    ('for (;;) { for (;;) { float v = m[i]; a[j] = v; } for (int i = 0; i < 2*B; i += B*B) o += a[i] * b[i]; }', False),
    ('for (;;) for (int i = t; i < 9; i += 3*3) t[p].m[i] = n[i];', False),
    ('for (;;) for (;;) o += t.m[i] * u[p].n[i];', False),
    ('for (;;) for (;;) { float v = n[i]; o += a[i] * v; }', True),
    ('for (;;) for (;;) o = fmaf(a[i], (n[i]), o);', True),
    ('for (;;) { for (;;) o = o + m[i]*a[i]; }', True)])
def test_13_sums_of_what_is_not_in_a_tile_are_found(src, late):
    assert matmul_ladder.reads_operands_in_inner_loop(src) is late


@pytest.mark.parametrize('src,unread', [
    ('__shared__ float ms[2][4][4], ns[2][4][4]; ms[p%2][a][b] = 1; ns[1][f(a)[0]][b] = 2; o = ms[0][1][2]*3;', ['ns']),
    ('__shared__ float a[2][4], b[2][4]; a[0][1] = b[0][1] = 3; x = a[0][2] == 3; float4 *p = (float4 *)b;', []),
    ('extern __shared__ float s[]; float *ms = s; ms[0] = 1;', [])])
def test_13_tiles_that_are_only_written_are_found(src, unread): assert matmul_ladder.unread_shared_arrays(src) == unread


def test_21_positions_of_a_fragment():
    lanes = tensor_cores.positions_in_a()
    assert len(lanes) == 256 and lanes[9, 3] == (5, 1, 1)


@pytest.mark.parametrize(
    'place,rounds',
    [(lambda r, c: 32 * r + (c ^ r // 2 % 4 * 8), 1), (lambda r, c: 32 * r + c, 4), (lambda r, c: 40 * r + c, 1)],
    ids=['swizzled', 'plain', 'padded'],
)
def test_21_rounds_of_ldmatrix(place, rounds):
    chunks = [tensor_cores.bank_groups(place, range(8), i) for i in range(4)]
    assert max(four.count(x) for four in chunks for x in four) == rounds


def test_22_a_descriptor_has_its_fields():
    assert hopper_gemm.fields(hopper_gemm.descriptor(1024, 8192, 1024, 128)) == dict(
        address=64, lead=512, stride=64, swizzle=1
    )


@pytest.mark.parametrize('at_once,want', [(2, 2*10+4*100), (4, 2*10+2*100)])
def test_22_what_an_order_of_tiles_needs(at_once, want):
    assert hopper_gemm.count_loads([(0, 0), (0, 1), (1, 0), (1, 1)], 10, 100, at_once) == want


def test_a_wrong_answer_is_there_to_be_tried():
    space = {}
    with pytest.raises(WrongAnswer):
        exec("from gridstride.course.grading import exercise\n@exercise('first_kernel.invert')\n"
             "def invert(i, x, out, n): out[i] = x[i]", space)
    assert space['invert'].__name__ == 'invert'


def test_19_words_are_those_of_the_kernels():
    whole,values,words = sparsity.random_sparse_matrix(np.random.default_rng(0))
    stored = formats.compress(torch.from_numpy(whole))
    assert np.array_equal(stored.values, values)
    assert np.array_equal(formats.to_words(stored.metadata)[0,0,0,:,0].numpy().view(np.uint32), words)

def test_19_there_are_90_squares_and_35_orders():
    assert len(sparsity.valid_masks())==90
    w = np.random.default_rng(0).normal(size=(3,8))
    orders = itertools.permutations(range(8))
    assert sparsity.best_kept_magnitude(w)==max(sparsity.kept_magnitude(w[:,o]) for o in orders
                                           if o[0] < o[1] < o[2] < o[3] and o[4] < o[5] < o[6] < o[7])
