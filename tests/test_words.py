"""What a learner reads: false and harsh findings that there are no more, messages that fit, warnings of lines;
simulator and emulator alike."""
import importlib.util, os, re, subprocess, sys, warnings
from pathlib import Path

import numpy as np, pytest, torch
from IPython.core.interactiveshell import InteractiveShell

from gridstride import cpp, sim
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.cpp.lint.compile_errors import CompileWarning
from gridstride.diagnostics.errors import *
from gridstride.sim import cuda
from gridstride.utils import cuda_begin
from found import finding

ROOT = Path(__file__).parent.parent

# Right and wrong kernels, one translation unit
SRC = r'''
#include <algorithm>
__global__ void flag(int *out, int wrong) {
    __shared__ int found, old;
    if (threadIdx.x == 0) atomicExch(&found, 7);
    if (threadIdx.x == 1) (void)atomicExch_block(&old, 3);
    if (wrong && threadIdx.x == 2) { __shared__ int fresh; out[0] = atomicExch(&fresh, 1); }
    __syncthreads();
    out[threadIdx.x] = found + old;
}
__global__ void early(float *out, int n, int wrong) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t >= n && !wrong) return;
    auto twice = [](float x) { if (x < 0) return 0.f; return 2*x; };
    s[t] = twice(t);
    if (wrong < 2 || t < n) __syncthreads();
    if (t < n) out[t] = s[n-1-t];
    if (wrong == 3 && t == 1) return;
    for (int i = 0; i < 3; i++) {
        __syncthreads();
        if (t < i) return;
    }
}
__global__ void on_one_line(float *out, int n, int wrong) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (wrong) goto end;
    s[t] = t; if (t >= n) return; __syncthreads();
    out[t] = s[n-1-t];
    return;
end:
    if (t < n) __syncthreads(); if (t >= n) return;
}
__global__ void rounds(const float *x, float *out, int first, int second) {
    __shared__ float s[32];
    int t = threadIdx.x;
    float total = 0;
    for (int j = 0; j < 3; j++) {
        s[t] = x[32*j + t];     // filled
        if (first) __syncthreads();
        for (int i = 0; i < 32; i++) total += s[i];     // used
        if (second) __syncthreads();
    }
    out[t] = total;
}
__global__ void tree(float *x, float *out) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int h = 32; h; h /= 2)
        if (t < h) s[t] += s[t + h];     // added
    if (t == 0) out[0] = s[0];
}
__global__ void count(int *n) { n[0]++; }
__global__ void take(int *top, int *out, int how) {
    if (how == 1 && threadIdx.x == 5) top[0] = 31;
    if (how == 0 && top[0] < 0) return;
    if (how == 2 && threadIdx.x == 0) out[0] = top[0];
    out[1 + threadIdx.x] = atomicAdd(top, -1);
    if (how == 3) out[33 + threadIdx.x] = atomicAdd(top, 0);
}
__global__ void in_step(float *x, float *out, int how) {
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (how == 0 && t < 32) { s[t] += s[t + 32]; s[t] += s[t + 16]; }
    if (how == 1) s[3] += x[t];
    if (how == 2 && t < 32)
        for (int h = 32; h; h /= 2) {
            float v = s[t + h];
            __syncwarp();
            s[t] += v;
            __syncwarp();
        }
    if (t == 0) out[0] = s[0];
}
__global__ void wild(const float *x, float *out, long long far, int how) {
    const float *p = how == 1 ? (const float *)0x123456789000 : x + far;
    out[threadIdx.x] = *p;
}
__global__ void four(const float4 *x, float *out) { out[threadIdx.x] = x[threadIdx.x].x; }
__global__ void shifted(const float *x, const float *y, float *out) {
    out[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x];
}
__global__ void swapped(float *x) { std::swap(x[threadIdx.x], x[threadIdx.x + 1]); }
__global__ void counted(int *n) { n[0] = printf("%d %5.*f%%%s\n", 1, 2, 3.0, "a"); }
__global__ void guarded(const float *x, float *out) { int i = threadIdx.x; out[i] = x[i]; }
'''


@pytest.fixture(scope='module')
def k():
    with cpp.on_emulator(), warnings.catch_warnings():
        warnings.simplefilter('error')
        return cuda_kernel(SRC)


def zeros(n, dtype=torch.float32): return torch.zeros(n, dtype=dtype)


def line(mark): return next(n for n, l in enumerate(SRC.splitlines(), 1) if mark in l)


def found(kind, f, *args):
    with pytest.raises(kind) as e: f(*args)
    return e.value


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_an_exchange_whose_result_is_unused_reads_nothing(k, order):
    with cpp.options(order=order):
        k.flag[1, 32](out := zeros(32, torch.int32), 0)
        assert out.tolist() == [10]*32
        assert found(InitcheckError, k.flag[1, 32], out, 1).array == 'fresh'


@pytest.mark.slow
def test_an_exchange_in_the_simulator():
    @cuda.jit
    def flag(out):
        s = cuda.shared.array(1, np.int32)
        if cuda.threadIdx.x == 0: cuda.atomic.exch(s, 0, 7)
        cuda.syncthreads()
        out[cuda.threadIdx.x] = s[0]
    for engine in ('lanes', 'c'):
        with sim.options(engine=engine): flag[1, 32](out := np.zeros(32, np.int32))
        assert out.tolist() == [7]*32


def test_a_return_before_a_barrier_is_a_warning_and_a_barrier_passed_by_an_error(k):
    with pytest.warns(EarlyReturn, match=r"early: .* 40 .*64 .*\(40\)") as w:
        k.early[1, 64](out := zeros(64), 40, 0)
    assert out.tolist() == [2.*(39-i) for i in range(40)]+[0.]*24
    assert ({int(re.match(r'line (\d+)', str(o.message))[1]) for o in w}
            == {line('if (wrong < 2'), line('for (int i = 0; i < 3; i++) {')+1})
    e = found(SynccheckError, k.early[1, 64], zeros(64), 40, 2)
    assert e.line == line('if (wrong < 2') and e.fields['here'] == 40
    with warnings.catch_warnings(), cpp.options(checks='no synccheck'):
        warnings.simplefilter('error')
        k.early[1, 64](zeros(64), 40, 0)


def test_a_return_on_the_barrier_s_line_comes_before_or_after_it(k):
    here = line('s[t] = t; if')
    with pytest.warns(EarlyReturn, match=f'line {here} .*on_one_line: .* 40 .*64 '):
        k.on_one_line[1, 64](out := zeros(64), 40, 0)
    assert out.tolist() == [39.-i for i in range(40)]+[0.]*24
    e = found(SynccheckError, k.on_one_line[1, 64], zeros(64), 40, 1)
    assert e.line == line('if (t < n) __syncthreads(); if') and e.code == 'skipped'


def test_a_missing_barrier_of_a_loop_is_named_alike_by_emulator_and_simulator(k):
    @cuda.jit
    def rounds(x, out, first, second):
        s = cuda.shared.array(32, np.float32)
        t = cuda.threadIdx.x
        total = np.float32(0)
        for j in range(3):
            s[t] = x[32*j + t]
            if first: cuda.syncthreads()
            for i in range(32): total += s[i]
            if second: cuda.syncthreads()
        out[t] = total
    start = rounds.py_func.__code__.co_firstlineno
    here = dict(filled=start+6, used=start+8)
    for first, second, before, now in ((0, 1, 'filled', 'used'), (1, 0, 'used', 'filled')):
        args = np.ones(96, np.float32), np.zeros(32, np.float32), first, second
        for order in ('forward', 'reverse', 'shuffle'):
            with sim.options(order=order):
                one, other = found(RacecheckError, rounds[1, 32], *args), found(RacecheckError, k.rounds[1, 32], *args)
            assert (one.other.line, one.line, one.fields['now']) == (here[before], here[now], other.fields['now'])
            assert (other.other.line, other.line) == (line(f'// {before}'), line(f'// {now}')), order
            assert one.advice == other.advice == ('next_iteration' if before == 'used' else None)


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_one_line_of_a_race_is_an_update_or_two_iterations(k, order):
    with cpp.options(order=order):
        e = found(RacecheckError, k.count[1, 32], zeros(1, torch.int32))
        assert (e.code, e.array, e.index) == ('race', 'n', (0,))
        assert (e.fields['before'], e.fields['now']) == ('read', 'written')
        assert 'atomicAdd(&n[0], 1)' in e.hint
        e = found(RacecheckError, k.count[8, 1], zeros(1, torch.int32))
        assert e.code == 'race_of_blocks' and e.other.source == SRC.splitlines()[e.other.line-1]
        assert 'atomicAdd(&n[0], 1)' in e.hint
        assert found(RacecheckError, k.tree[1, 64], zeros(64), zeros(1)).advice == 'same_line'


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_a_plain_access_next_to_an_atomic_gets_a_hint_to_be_one_too(k, order):
    def args(): return torch.full((1,), 31, dtype=torch.int32), zeros(65, torch.int32)
    for how in (0, 1, 2):
        with cpp.options(order=order): e = found(RacecheckError, k.take[1, 32], *args(), how)
        assert e.advice == 'one_atomic' and 'atomicAdd(&x, 0)' in e.hint, how
        assert {e.line, e.other.line} == {line(f'how == {how}'), line('atomicAdd(top, -1)')}
    with cpp.options(order=order): k.take[1, 32](top := args()[0], out := args()[1], 3)
    assert sorted(out[1:33].tolist(), reverse=True) == list(range(31, -1, -1)) and top.item() == -1


@pytest.mark.parametrize('order', ['forward', 'reverse', 'shuffle'])
def test_a_warp_that_is_assumed_to_run_in_step_gets_a_hint_on_syncwarp(k, order):
    x = torch.randn(64)
    with cpp.options(order=order):
        e, other = (found(RacecheckError, k.in_step[1, 64], x, zeros(1), how) for how in (0, 1))
        assert e.code == other.code == 'race_of_volatiles'
        assert e.advice == 'in_step' and 'Use atomicAdd' not in str(e)
        assert 'Use atomicAdd' in str(other) and other.advice is None
        k.in_step[1, 64](x, out := zeros(1), 2)
    torch.testing.assert_close(out[0], x.double().sum().float(), rtol=0, atol=64*2.0**-23*float(x.abs().sum()))


def test_next_to_an_atomic_in_the_simulator_too():
    @cuda.jit
    def pop(top, out):
        if top[0] >= 0:
            out[cuda.threadIdx.x] = cuda.atomic.add(top, 0, -1)
    for engine in ('lanes', 'c'):
        with sim.options(engine=engine):
            e = found(RacecheckError, pop[1, 32], np.array([31], np.int32), np.zeros(32, np.int32))
        assert e.advice == 'one_atomic' and 'cuda.atomic.add(array, i, 0)' in e.hint


def test_wild_addresses_are_not_host_memory(k):
    for far, how in ((10**13, 0), (0, 1), (-10**11, 0)):
        e = found(MemcheckError, k.wild[1, 1], zeros(4), zeros(4), far, how)
        assert e.code == 'no_array' and e.fields['access'] in ('read', 'write') and e.fields['address']


def test_a_view_is_as_misaligned_as_its_offset(k):
    x = torch.arange(17.)
    assert k.four[1, 4](x[:16], out := zeros(4)) is None and out.tolist() == [0, 4, 8, 12]
    k.four[1, 3](x[4:], zeros(3))
    e = found(MemcheckError, k.four[1, 4], x[1:], zeros(4))
    assert (e.code, e.array, e.index, e.fields['bytes']) == ('misaligned', 'x', (0,), 16)

def test_pairs_of_two_byte_values_get_a_hint_on_alignment():
    k = cuda_kernel(r'''
__global__ void pairs(const short *x, int *out) { out[threadIdx.x] = *(const int *)&x[3*threadIdx.x]; }''')
    with finding('memcheck misaligned', index=(3,), advice='misaligned_pair'):
        k[1,4](np.arange(16, dtype=np.int16), np.zeros(4, np.int32))


def test_an_array_that_begins_inside_another_is_named_so(k):
    x = torch.randn(100)
    e = found(MemcheckError, k.shifted[1, 100], x, x[10:], zeros(100))
    assert e.index == (100,) and e.advice == 'inside_another' and e.advice_fields == dict(inner_index=90)
    e = found(MemcheckError, k.guarded[1, 100], x[10:], zeros(100))
    assert (e.code, e.fields['access'], e.index, e.fields['shape']) == ('outside', 'read', (90,), (90,))


def test_a_line_in_a_library_s_header_is_the_learner_s_that_led_there(k):
    e = found(MemcheckError, k.swapped[1, 1], zeros(1))
    assert e.line == line('std::swap') and 'std::swap' in str(e) and e.line <= len(SRC.splitlines())


def test_printf_returns_how_many_arguments_it_printed(k, capfd):
    k.counted[1, 1](n := zeros(1, torch.int32))
    assert n.item() == 4 and capfd.readouterr().out == '1  3.00%a\n'


def test_a_line_directive_does_not_count():
    src = '#line 458 "other.cu"\n__global__ void k(float *x) {\n    x[threadIdx.x] = 1;\n}\n'
    with cpp.on_emulator(): e = found(MemcheckError, cuda_kernel(src)[1, 9], zeros(8))
    assert e.line == 3 and 'line 3: x[threadIdx.x] = 1;' in str(e) and e.file == 'k.cu'


@pytest.mark.parametrize('call',
    ['k(x.data_ptr<float>());', 'if (x.numel()) k(nullptr);', 't<float>(nullptr);', 'auto f = [&] { k(nullptr); };'])
def test_a_kernel_that_is_called_like_a_function(call):
    src = ('__global__ void k(float *x) { x[0] = 1; }\ntemplate <class T> __global__ void t(T *x) { x[0] = 1; }\n'
           'void go(torch::Tensor x) {\n    %s\n}\n')
    with cpp.on_emulator(), pytest.raises(ValueError, match=r'[kt]<<<grid, block>>>(.|\n)*line 4') as e:
        load_cuda(src % call, cuda_begin)
    assert call in str(e.value)


@pytest.mark.parametrize('returns', ['float', 'unsigned int', 'const float *', 'float &', 'auto', 'decltype(auto)'])
def test_a_kernel_that_returns_something(returns):
    "As nvcc refuses it"
    with cpp.on_emulator(), pytest.raises(ValueError, match=r'void k\((.|\n)*line 2'):
        cuda_kernel(f'// one\n__global__ {returns} k(float *x) {{ return 0; }}')


def test_what_only_looks_like_a_call_of_a_kernel():
    src = '''__global__ void k(float *x) { x[threadIdx.x] = 1; }
__global__ void k(int *x);
struct A { void k(int) {} };
void m(int) {}
__global__ void m(float *x) { x[threadIdx.x] = 2; }
void go(torch::Tensor x) { A().k(1); m(3); auto f = k; auto p = x.data_ptr<float>(); k<<<1, 4>>>(p); (void)f; }
'''.replace('__global__ void k(int *x);\n', '')
    with cpp.on_emulator(): load_cuda(src, cuda_begin, funcs='go').go(x := zeros(4))
    assert x.tolist() == [1]*4


# Warnings of the learner's lines

DOUBTFUL = '''__global__ void k(float *x, int n) {
    float v, w;
    v += x[0];
    if (n = 3) printf("%d\\n", x[0]);
    printf("%s\\n", n);
    for (int i = 0; i < n; i++) w += x[i];
    printf("%d\\n", 1, 2);
    printf("%lld %zu %ld\\n", (long long)n, (size_t)n, (long long)n);
    x[0] = v + w;
    float once, guarded;
    if (x[5] > 0) once = 3;
    if (threadIdx.x == 0) guarded = x[1];
    __syncthreads();
    x[1] = once*2;
    if (threadIdx.x == 0) x[2] = guarded;
}
'''


@pytest.mark.parametrize('begin', ['', cuda_begin])
def test_suspicious_lines_are_reported_once_with_their_lines(begin):
    "However the source begins; what passes is quiet"
    host = 'void go(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>(), 1); }\n' if begin else ''
    with cpp.on_emulator(), pytest.warns(CompileWarning) as w:
        load_cuda(begin + DOUBTFUL + host) if begin else cuda_kernel(DOUBTFUL)
    assert len(w) == 1 and w[0].filename == __file__
    said = [(int(n), what) for n, what in re.findall(r'\.cu, line (\d+): (.*)', str(w[0].message))]
    once = next(n for n, what in said if "'once'" in what)
    assert once in (11, 14) and {n for n, _ in said} == {3, 4, 5, 6, 7, once} and len(said) == len(set(said))
    for words in ('uninitialized', 'parentheses', "format '%d' expects|format specifies type 'int'",
                  "format '%s' expects|format specifies type 'char", 'too many arguments|not used by format'):
        assert any(re.search(words, what) for _, what in said), words


# How a notebook shows it, and what it shows of forty mistakes

def mistakes():
    spec = importlib.util.spec_from_file_location('mistakes', ROOT/'benchmarks/mistakes.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MISTAKES = mistakes()


@pytest.mark.parametrize('title', MISTAKES.MISTAKES)
def test_the_essential_words_of_a_mistake(title):
    "They are in what a notebook shows now, and in the printed result"
    number = list(MISTAKES.MISTAKES).index(title)+1
    recorded = re.split(r'^--- \d+\. .*\n', (ROOT/'benchmarks/mistakes.txt').read_text(), flags=re.M)[number]
    try: shown = MISTAKES.run_mistake(number, title)
    finally: InteractiveShell.clear_instance()
    for text in (shown, recorded):
        for words in MISTAKES.WORDS[title]: assert words in text, text
        assert len(text.split('\n')) < 60 and str(ROOT) not in text and 'site-packages' not in text
        assert '/gridstride/' not in text


def test_the_whole_traceback_comes_on_request(ipython):
    try:
        ipython.run_cell('from gridstride.sim import cuda\nimport numpy as np\n@cuda.jit\n'
                         'def k(x): x[cuda.grid(1)] = 1\n')
        e = ipython.run_cell('def go():\n    k[1, 9](np.zeros(8))\ngo()').error_in_exec
        short = e._render_traceback_()
        assert [o.split(': ', 1)[1] for o in short[:2]] == ['go()', 'k[1, 9](np.zeros(8))']
        assert '%xmode Verbose' in short[-1] and len(short) < 10
        ipython.run_line_magic('xmode', 'Verbose')
        assert 'gridstride/sim/launch.py' in '\n'.join(e._render_traceback_())
    finally:
        ipython.run_line_magic('xmode', 'Context')


SCRIPT = """
import sys
from gridstride.utils import check
from gridstride.sim import cuda
import numpy as np
old = sys.excepthook
sys.excepthook = lambda *args: (print('mine', file=sys.stderr), old(*args))
@cuda.jit
def k(x): x[cuda.grid(1)] = 1
def go(): k[1, 9](np.zeros(8))
dict(finding=go, wrong=lambda: check(np.zeros(3), np.ones(3)), other=lambda: 1/0)[sys.argv[1]]()
"""


@pytest.mark.parametrize('what,env,says', [
    ('finding', {}, 'memcheck: out-of-bounds'), ('wrong', {}, 'AssertionError'),
    ('finding', {'GRIDSTRIDE_TRACEBACK': '1'}, 'memcheck: out-of-bounds'), ('other', {}, 'ZeroDivisionError')])
def test_a_script_ends_with_its_own_lines_and_the_message(tmp_path, what, env, says):
    (tmp_path/'script.py').write_text(SCRIPT)
    done = subprocess.run([sys.executable, 'script.py', what], cwd=tmp_path,
                          env={**os.environ, 'PYTHONPATH': str(ROOT), **env}, capture_output=True, text=True)
    brief = what!='other' and not env
    assert (done.returncode==1 and says in done.stderr
            and f'line {len(SCRIPT.splitlines())}, in <module>' in done.stderr), done.stderr
    assert (('gridstride/sim/launch.py' in done.stderr)==(what=='finding' and not brief)
            and ('mine' in done.stderr)==(not brief) and ('GRIDSTRIDE_TRACEBACK=1' in done.stderr)==brief), done.stderr
