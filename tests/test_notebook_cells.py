"""Cells that a notebook must survive: host code that ends the process, crashes in a thread or forks; odd sources, odd
tensors, odd surroundings. Each gives a clear error or the right result, and all that follows runs."""
import os, shutil

import numpy as np
import pytest
import torch
from gridstride import cpp
from gridstride.cpp import cuda_kernel, load_cuda
from gridstride.cpp.frontend.tokens import WrongSource
from gridstride.diagnostics.errors import MemcheckError, WrongArgument
from warm import run_python

HOST = r'''
#include <cstdio>
#include <cstdlib>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <sys/wait.h>
__global__ void k(int *x) { x[0] = 7; }
void throws() noexcept { throw 1; }
void on_signal(int) { _exit(9); }
int status_of(int pid) { int s = 0; waitpid(pid, &s, 0); return WIFEXITED(s) ? WEXITSTATUS(s) : -1; }
int f(int what, torch::Tensor x) {
    switch (what) {
    case 0: _exit(3); break;
    case 1: std::_Exit(4); break;
    case 2: quick_exit(5); break;
    case 3: signal(SIGSEGV, on_signal); *(volatile int *)nullptr = 1; break;
    case 4: throws(); break;
    case 5: { std::thread t([] { usleep(1000); }); } break;
    case 6: { std::thread t([] { throw 4; }); t.join(); } break;
    case 7: { std::thread t([] { *(volatile int *)nullptr = 1; }); t.join(); } break;
    case 8: { std::thread t([] { std::terminate(); }); t.join(); k<<<1, 1>>>(x.data_ptr<int>()); } break;
    case 9: { int pid = fork(); if (!pid) { printf("the child\n"); exit(5); } return status_of(pid); }
    case 10: { int pid = fork(); if (!pid) return 1; return 100 + status_of(pid); }
    case 11: { int pid = fork(); if (!pid) *(volatile int *)nullptr = 1; return 100 + status_of(pid); }
    case 12: { int pid = fork(); if (!pid) _exit(6); return status_of(pid); }
    case 13: throw 5;
    case 14: throw std::runtime_error("bytes \xff that are no text");
    default: k<<<1, 1>>>(x.data_ptr<int>()); cudaDeviceSynchronize();
    }
    return what;
}
'''
CELLS = f'''
import os, torch
from gridstride.cpp import load_cuda, cuda_kernel
from gridstride.diagnostics.errors import KernelError
m, me = load_cuda({HOST!r}, name='cells'), os.getpid()
for what in [*range(15), 15]:
    x = torch.zeros(1).int()
    try: said = m.f(what, x), x.item()
    except (KernelError, RuntimeError) as e:
        said = type(e).__name__, getattr(e, 'code', str(e)), getattr(e, 'fields', {{}})
    assert os.getpid() == me
    print(what, *said, flush=True)
'''
SAID = '''0 KernelCrash exits {'status': 3}
1 KernelCrash exits {'status': 4}
2 KernelCrash exits {'status': 5}
3 KernelCrash exits {'status': 9}
4 KernelCrash host {}
5 KernelCrash host {}
6 KernelCrash host {}
7 KernelCrash host_memory {}
8 KernelCrash host {}
the child
9 5 0
10 100 0
11 101 0
12 6 0
13 RuntimeError the function threw an object that is not a std::exception {}
14 RuntimeError bytes \ufffd that are no text {}
15 15 7'''


def test_host_code_cannot_end_the_notebook():
    "Nor can a thread of its own; what it forks ends where it would return to Python"
    done = run_python('-c', CELLS, env={**os.environ, 'GRIDSTRIDE_BACKEND': 'sim', 'GRIDSTRIDE_QUIET': '1'})
    assert done.returncode == 0 and done.stdout.splitlines() == SAID.splitlines(), done.stdout + done.stderr


@pytest.fixture
def k(): return cuda_kernel('__global__ void k(float *x) { x[0] = 1; }')


@pytest.fixture(autouse=True)
def emulated():
    with cpp.on_emulator(): yield


def test_a_current_folder_that_is_gone(tmp_path, monkeypatch):
    (folder := tmp_path/'gone').mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    x = np.zeros(1, np.float32)
    cuda_kernel('__global__ void k(float *x) { x[0] = 2; }')[1, 1](x)
    assert x[0] == 2


def test_a_finding_of_a_module_whose_cache_was_deleted():
    bad = cuda_kernel('__global__ void k(float *x) { x[3] = 1; }  // deleted')
    shutil.rmtree(bad.build_result.folder)
    with pytest.raises(MemcheckError) as e: bad[1, 1](np.zeros(1, np.float32))
    assert (e.value.code, e.value.fields['index']) == ('outside', (3,))


def test_half_of_a_character():
    "In a comment, too: no file can hold it"
    src = 'void f() {}\n__global__ void k() {} // \udc80'
    for make in (cuda_kernel, load_cuda):
        with pytest.raises(WrongSource, match='surrogate.*\n.*line 2'): make(src)


@pytest.mark.parametrize('view, fix', [
    (lambda: torch._neg_view(torch.ones(3)), 'resolve_neg'),
    (lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), r'\.values'),
    (lambda: torch.ones(2, dtype=torch.complex64).conj().imag, 'resolve_neg')])
@pytest.mark.filterwarnings('ignore')
def test_a_tensor_whose_memory_holds_other_values_is_refused(k, view, fix):
    with pytest.raises(WrongArgument, match=fix): k[1, 1](view())
    k[1, 1](x := torch.zeros(3))
    assert x.tolist() == [1, 0, 0]


def test_what_print_raises_is_raised(monkeypatch, capsys):
    "After the launch, which goes on"
    said = cuda_kernel('#include <cstdio>\n__global__ void k(int *x) { printf("a\\n"); x[0] = 5; }')
    closed = open(os.devnull, 'w')
    closed.close()
    monkeypatch.setattr('sys.stdout', closed)
    with pytest.raises(ValueError, match='closed file'): said[1, 1](x := np.zeros(1, np.int32))
    assert x[0] == 5
