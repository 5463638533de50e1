"""Programs of tests/cuda/libraries: what NVIDIA's libraries compute, on the emulator, and what other people's programs
use next to them. Each file is one compilation for many checks."""
import re
from pathlib import Path

import pytest
from found import names
from warm import run_python

from gridstride import sim
from gridstride.cpp.lint.compile_errors import CompileError
from gridstride.cpp.program import run
from gridstride.diagnostics.errors import DeviceAssert, KernelError

FOLDER = Path(__file__).parent/'cuda/libraries'


def test_fourier_transforms_sparse_products_random_values_and_epilogues():
    "The program compares each with its definition, and prints the line of a difference"
    assert run((FOLDER/'libraries.cu').read_text(), 'libraries', ()) == 0


def test_an_array_in_host_memory_is_a_finding_of_its_call():
    "Of each array of each call; without memcheck the call returns an error"
    source = (FOLDER/'libraries.cu').read_text()
    lines, num_calls = source.splitlines(), 45
    for call in range(num_calls):
        with pytest.raises(KernelError) as e:
            run(source, 'libraries', [str(call)])
        assert (e.value.kind, e.value.code) == ('memcheck', 'library_memory')
        # of a call that takes several lines, in a function object, the line may be that of the function object
        nearby_lines = lines[e.value.line - 1:e.value.line + (0 if call < 3 else 8)]
        assert re.search(r'cu(blas|fftExec|sparseSpMV|randGenerate)', ' '.join(nearby_lines)), (call, e.value.line)
    assert run(source, 'libraries', [str(num_calls)]) == 0
    with sim.options(checks='no memcheck'):
        assert run(source, 'libraries', ['-1']) == 0


DEVICE = """1226 1e00001 127108 -2147483648 7f80027f
3 20
475 320
6 0
0 cudaErrorGraphExecUpdateFailure 11
0 0 0 1 1
205
"""


def test_ptx_for_parts_of_words_flags_pipelines_and_handles(capfd):
    src = (FOLDER/'device.cu').read_text()
    assert run(src, 'device', ()) == 0
    assert capfd.readouterr().out == DEVICE
    with pytest.raises(KernelError) as e:
        run(src, 'device', ['without_acquire'])
    assert 'pipe.' in str(e.value)


ASSERTING = """
#include <cassert>
#include <cstdlib>
__global__ void bounded(int n) { assert(threadIdx.x < n); }
int main(int, char **argv) {
    bounded<<<1, 32>>>(20);
    cudaError_t e = cudaDeviceSynchronize();
    if (e != %s) return 1;
    bounded<<<1, 8>>>(20);
    if (cudaGetLastError() != e) return 2;
    if (cudaDeviceReset()) return 3;
    bounded<<<1, 8>>>(20);
    return cudaDeviceSynchronize();
}
"""


def test_a_program_that_names_the_error_gets_it(tmp_path):
    "In a process of its own, as cudaDeviceReset frees the arrays of all modules of a process"
    (tmp_path/'asserting.cu').write_text(ASSERTING % 'cudaErrorAssert')
    ended = run_python('-m', 'gridstride.cpp', str(tmp_path/'asserting.cu'), cwd=tmp_path)
    assert ended.returncode == 0 and names(ended.stderr, 'asserting.cu:4', 'bounded', '[20,0,0]'), ended


def test_any_other_program_ends_with_the_finding():
    with pytest.raises(DeviceAssert) as e:
        run(ASSERTING % 'cudaSuccess', 'asserting', ())
    assert e.value.line == 4


LOG = """lib/a.h:7:3: warning: unused variable 'x'
    7 |   int x;
lib/a.h:9:12: error: 'size' was not declared in this scope
    9 |     return size;
      |            ^~~~
lib/b.h:1:1: warning: last
"""


def test_errors_of_a_header_come_with_file_and_text_and_without_warnings():
    text = str(CompileError('int main() {}', 'a.cu', LOG))
    assert 'lib/a.h, line 9: ' in text and 'return size;' in text and 'warning' not in text
    text = str(CompileError('#include "a.h"', 'a.cu', 'In file included from a.cu:1:\n' + LOG))
    assert text.startswith('a.cu, line 1: ') and 'lib/a.h, line 9: return size;' in text and 'warning' not in text
