"""Programs of others that need a checkout of their project, which an environment variable names.

`CUTLASS_DIR=/path/to/cutlass pytest tests/test_cpp_libraries.py`: CuTe's tutorials compile, run with every check, and
multiply right. The table in gridstride/cpp/include/cuda/README.md says what else was tried."""
import os, time
from pathlib import Path

import pytest

from gridstride import cpp
from gridstride.cpp.program import run
from gridstride.diagnostics.errors import FencecheckError, KernelError

FOLDER = os.environ.get('CUTLASS_DIR')
pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(not FOLDER, reason='CUTLASS_DIR names no checkout of github.com/NVIDIA/cutlass')]

VERIFY = r"""
#define main tutorial_main
#include "%(tutorial)s.cu"
#undef main
// Compares `gemm` of the tutorial, which only times it, with sums in double; inputs are multiples of 1/4, so exact.
template <class T> int verify(char op_a, char op_b, int m, int n, int k) {
    std::vector<T> a(m * k), b(n * k), c(m * n);
    for (auto *v : {&a, &b})
        for (auto &x : *v) x = T(float(rand() %% 9 - 4) / 4);
    thrust::device_vector<T> da(a.begin(), a.end()), db(b.begin(), b.end()), dc(m * n);
    const int lda = op_a == 'N' ? m : k, ldb = op_b == 'N' ? k : n;
    gemm(op_a, op_b, m, n, k, T(1), da.data().get(), lda, db.data().get(), ldb, T(0), dc.data().get(), m);
    cudaDeviceSynchronize();
    thrust::copy(dc.begin(), dc.end(), c.begin());
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += double(float(op_a == 'N' ? a[i + l * m] : a[l + i * k])) *
                       double(float(op_b == 'T' ? b[j + l * n] : b[l + j * k]));
            if (!(std::abs(sum - double(float(c[i + j * m]))) <= std::abs(sum) / 1024)) return 1; // half has 11 bits
        }
    return 0;
}
int main() { return %(calls)s; }
"""


def multiply(tutorial, *calls, checks=None):
    "Return 0 if the tutorial's products `(type, op_a, op_b, m, n, k)` are right"
    examples = Path(FOLDER, 'examples/cute/tutorial')
    text = ' + '.join(f"verify<{type}>('{a}', '{b}', {m}, {n}, {k})" for type, a, b, m, n, k in calls)
    include = [Path(FOLDER, 'include'), Path(FOLDER, 'tools/util/include'), examples, examples/'hopper']
    options = dict(folder=examples, include=include, extensions=('constexpr',))
    return run(VERIFY % dict(tutorial=tutorial, calls=text), f'verify_{tutorial}', (), checks, **options)


FLOATS = ('float', 'N', 'T', 128, 128, 24), ('float', 'T', 'N', 128, 256, 16)


@pytest.mark.parametrize('tutorial,calls', [
    ('sgemm_1', FLOATS), ('sgemm_2', FLOATS), ('sgemm_sm80', [('cute::half_t', 'T', 'N', 128, 128, 192)])])
def test_tutorials_multiply_right_with_every_check(tutorial, calls):
    assert multiply(tutorial, *calls) == 0


def test_a_compiled_tutorial_starts_from_the_cache():
    multiply('sgemm_1', *FLOATS)
    start = time.perf_counter()
    assert multiply('sgemm_1', *FLOATS) == 0
    assert time.perf_counter() - start < 10  # mostly of running: compiling takes twenty to thirty seconds


def test_a_finding_names_the_line_of_the_kernel():
    "k is not a multiple of the tile, which the tutorial requires: threads read past the end of A"
    with pytest.raises(KernelError) as e:
        multiply('sgemm_1', ('float', 'N', 'T', 128, 128, 4))
    assert e.value.kind == 'memcheck' and e.value.call_line and 'sgemm_1.cu: copy(tAgA' in str(e.value)


BLACKWELL = {'01_mma_sm100': (128, 256, 128), '02_mma_tma_sm100': (128, 256, 128),
             '03_mma_tma_multicast_sm100': (512, 1024, 64), '04_mma_tma_2sm_sm100': (1024, 1024, 128),
             '05_mma_tma_epi_sm100': (1024, 1024, 64)}


@pytest.mark.parametrize('tutorial', BLACKWELL)
def test_blackwell_tutorials_need_fences_only(tutorial, capfd):
    "They check themselves and print the result; clusters have up to 16 blocks. Each takes two minutes to compile"
    folder = Path(FOLDER, 'examples/cute/tutorial/blackwell')
    include = [Path(FOLDER, 'include'), Path(FOLDER, 'tools/util/include'), folder]
    defines = 'GRIDSTRIDE_ARCH=sm_100a', 'CUTLASS_ARCH_MMA_SM100_SUPPORTED', 'CUTLASS_ARCH_MMA_SM100A_ENABLED', 'NDEBUG'
    options = dict(folder=folder, include=include, defines=defines, extensions=('constexpr', 'lambda'))
    source, sizes = (folder/f'{tutorial}.cu').read_text(), [*map(str, BLACKWELL[tutorial])]
    with cpp.options(seconds=900):
        assert run(source, tutorial, sizes, 'no fencecheck', **options) == 0
        assert 'Execution is successful' in capfd.readouterr().out
        with pytest.raises(FencecheckError): run(source, tutorial, sizes, **options)
