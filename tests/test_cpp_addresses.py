"""The addresses of emulated device memory return when what lay there was freed, whatever lives on; and where none are
left, no kernel is given a null pointer instead of its array."""
import os
from functools import lru_cache
from pathlib import Path

import pytest, torch

from gridstride import cpp
from gridstride.cpp import load_cuda
from gridstride.diagnostics.errors import OutOfMemory
from found import finding
from warm import run_python

REPO = Path(__file__).parent.parent

SRC = '''
__global__ void add_k(float *x) { x[threadIdx.x] += 1; }
void add(torch::Tensor x) { add_k<<<1, 32>>>(x.data_ptr<float>()); }
static std::vector<void *> all;
bool take(int n, int bytes = 64 << 20) {     // n more
    for (; n; n--) {
        void *p;
        if (cudaMalloc(&p, bytes)) return cudaGetLastError() == cudaSuccess;      // the next launch checks it
        all.push_back(p);
    }
    return true;
}
void give(size_t but) {                      // all but the last so many
    size_t n = all.size() - but;
    for (size_t i = 0; i < n; i++) cudaFree(all[i]);
    all.erase(all.begin(), all.begin() + n);
}
void give_every_second() {
    size_t n = 0;
    for (size_t i = 0; i < all.size(); i++)
        if (i % 2) cudaFree(all[i]);
        else all[n++] = all[i];
    all.resize(n);
}
bool turns(int n) {                          // n times, each while the one before it is still there
    for (; n; n--) {
        if (!take(1)) return false;
        give(1);
    }
    return true;
}
'''
SYMBOL = '''
__device__ int count = 3;
__global__ void count_k(int *out) { *out = ++count; }
int counted() {
    int *p, n;
    cudaMalloc(&p, sizeof n);
    count_k<<<1, 1>>>(p);
    cudaMemcpy(&n, p, sizeof n, cudaMemcpyDeviceToHost);
    cudaFree(p);
    return n;
}'''
FIRST = 70  # blocks, with the gaps around them more than half of all addresses
ALL = 300   # more than all


@lru_cache
def compiled(): return load_cuda(SRC)


@pytest.fixture
def lib():
    yield compiled()
    compiled().give(0)


def adds(lib):
    x = torch.zeros(32)
    lib.add(x)
    return x.eq(1).all()


def test_addresses_return_while_something_lives(lib):
    assert lib.turns(ALL) and adds(lib)


def test_addresses_return_below_a_symbol(lib):
    "A library's variables stay: those of a library that is loaded late are at higher addresses than freed memory"
    assert lib.turns(FIRST)
    late = load_cuda(SYMBOL)
    assert lib.turns(1)
    lib.give(0)
    for _ in range(ALL):
        assert lib.take(1)
        lib.give(0)
    assert adds(lib) and late.counted() == 4 and late.counted() == 5


SECOND = """
import time
from test_cpp_addresses import adds, compiled
lib = compiled()
assert lib.take(10_000, 1)
lib.give_every_second()
begin = time.thread_time()
assert lib.take(10_000, 1)
print(time.thread_time() - begin)
assert adds(lib)
"""


def test_pieces_are_made_quickly_between_many_that_live():
    """Where they are is looked up seldom: 5,000 that live far apart would cost each other one half a millisecond. In a
    process of its own: nearly all addresses are taken, and other tests have things that live"""
    paths = os.pathsep.join(map(str, (REPO, REPO/'tests')))
    done = run_python('-c', SECOND, env=dict(os.environ, GRIDSTRIDE_BACKEND='sim', PYTHONPATH=paths))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < .5


def test_exhausted_addresses_are_reported(lib):
    with cpp.options(memory='64G'), pytest.warns(OutOfMemory):
        assert not lib.take(ALL) and not lib.take(20_000, 1)
    with finding('crash no_addresses'): adds(lib)
    late = load_cuda(SYMBOL.replace('3', '30'))             # its variable is where there is a gap
    lib.give(0)
    assert adds(lib) and late.counted() == 31
