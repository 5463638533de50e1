"Modules that are compiled again and again are unloaded; one that something refers to, or that may be at work, stays"
import gc, weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from gridstride import cpp
from gridstride.cpp import cuda_kernel, load_cuda, open_libraries

pytestmark = pytest.mark.skipif(not Path('/proc/self/maps').exists(), reason='only Linux lists the mappings')

COUNTS = '''
__device__ int count = {n};
__constant__ int step = 1;
__global__ void k(int *x) {{ x[0] = count; count += step; }}'''


@pytest.fixture(autouse=True)
def few(monkeypatch, freeze_gc):
    "Two unused modules stay; none of other tests. Garbage is collected at each load, so only what a test makes counts"
    monkeypatch.setattr(open_libraries, 'MAX_UNREFERENCED', 2)
    monkeypatch.setattr(open_libraries, '_garbage_threshold', 0)
    with cpp.on_emulator(): yield


def mappings(path): return sum(str(path) in o for o in Path('/proc/self/maps').read_text().splitlines())


def counter(n): return cuda_kernel(COUNTS.format(n=n))


def push_out(first):
    "Load modules until those before are unloaded"
    gc.collect()
    for n in range(first, first + 4): counter(n)
    gc.collect()
    counter(first + 4)


def value(k):
    x = np.zeros(1, np.int32)
    k[1, 1](x)
    return x[0]


@pytest.mark.slow
def test_recompiled_kernels_are_unloaded_and_those_in_use_stay():
    kept, files, before = {}, [], len(open_libraries._open_libraries)
    for n in range(100, 114):
        k = counter(n)
        assert value(k) == n
        files.append(k.build_result.folder)
        if n in (102, 105): kept[n] = k
    assert sum(map(mappings, files)) <= 8 * 5 and mappings(files[0]) == 0
    assert len(open_libraries._open_libraries) <= before + 8
    gc.collect()
    counter(114)
    for n, k in kept.items(): assert [value(k), value(k)] == [n + 1, n + 2]
    assert value(counter(100)) == 100  # loaded again, with new variables


@pytest.fixture
def no_automatic_collection():
    before = gc.get_threshold()
    gc.set_threshold(0)
    yield
    gc.set_threshold(*before)


def test_garbage_does_not_replace_modules_that_were_dropped(monkeypatch, no_automatic_collection):
    "Objects that refer to themselves, as a module and its functions do, are loaded in place of modules"
    class Cycle:
        def __init__(self, name): self.itself, opened[name] = self, self

    monkeypatch.setattr(open_libraries, '_open_libraries', opened := weakref.WeakValueDictionary())
    held = [Cycle(n) for n in range(40)]
    open_libraries.collect_garbage()
    assert len(opened) == 40
    held.clear()
    gc.collect()
    for n in range(20):
        open_libraries.collect_garbage()
        Cycle(n)
    assert len(opened) <= 2*open_libraries.MAX_UNREFERENCED + 1


def test_a_module_that_is_soon_loaded_again_is_the_same():
    k = counter(200)
    assert value(k) == 200
    del k
    gc.collect()
    assert value(counter(200)) == 201


SOURCES = dict(
    plain='void f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<int>()); cudaDeviceSynchronize(); }',
    text='const char *f(torch::Tensor x) { return "its text"; }',
    thread='#include <thread>\n#include <atomic>\nstatic std::atomic<int> ends{0};\n'  # its thread stays, too, asleep
           'void f(torch::Tensor x) {\n'
           '    std::thread([] { while (!ends) std::this_thread::sleep_for(std::chrono::seconds(1)); }).detach();\n}',
    ends_thread='#include <vector>\nstd::vector<int> kept;\nvoid f(torch::Tensor x) { kept.push_back(1); }',
    handler='#include <csignal>\nvoid f(torch::Tensor x) { signal(SIGUSR1, [](int) {}); signal(SIGUSR1, SIG_DFL); }',
    address='void f(torch::Tensor x) { void *p; cudaGetSymbolAddress(&p, count); }',
    symbol='void f(torch::Tensor x) { int n = 7; cudaMemcpyToSymbol(count, &n, 4); }',
    locked='static int own[64];\n'
           'void f(torch::Tensor x) { cudaHostRegister(own, sizeof own, cudaHostRegisterDefault); }',
    graph='''
void f(torch::Tensor x) {
    cudaStream_t s; cudaGraph_t g;
    cudaStreamCreate(&s);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    k<<<1, 1, 0, s>>>(x.data_ptr<int>());
    cudaStreamEndCapture(s, &g);
    cudaStreamDestroy(s);
}''',
    local='void f(torch::Tensor x) { thread_local std::string own = "x"; own += "y"; }',
)
STAYS = {'thread', 'ends_thread', 'handler', 'address', 'locked', 'graph', 'local'}


def test_a_module_that_may_have_left_something_stays():
    "A thread, a static destructor, a handler, an address, page-locked memory, a graph, a thread's own variable"
    files, head = {}, '#include <string>\n__device__ int count;\n__global__ void k(int *x) { x[0] = count; }\n'
    for name, text in SOURCES.items():
        m = load_cuda(head + text, name=name)
        assert m.f(torch.zeros(1).int()) == ('its text' if name == 'text' else None)
        files[name] = m.__file__
        del m
    push_out(300)
    assert {name for name, file in files.items() if mappings(file)} == STAYS


@pytest.mark.parametrize('held', [lambda m: m.f, lambda m: m.f.run, lambda m: m.functions, lambda m: [m]])
def test_whatever_refers_to_a_module_keeps_it(held):
    m = load_cuda('__global__ void k(int *x) { x[0] += 3; }\n'
                  'void f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<int>()); }', name='held')
    held, file, gone = held(m), m.__file__, weakref.ref(m)
    del m
    push_out(400)
    assert mappings(file) and gone() is not None
    x = torch.zeros(1).int()
    gone().f(x)
    assert x.item() == 3
    del held


def test_no_module_is_unloaded_while_one_is_at_work():
    "A call that asks Python, which compiles: what it had no more use for stays until it has ended"
    made = []

    class Compiles(torch.Tensor):
        def sum(self, *args):
            push_out(500)
            made.append(list(open_libraries._unreferenced_handles))
            return torch.ones(())

    m = load_cuda('float f(torch::Tensor x) { return x.sum().item<float>(); }', name='asks')
    assert m.f(torch.zeros(3).as_subclass(Compiles)) == 1 and made[0]
    counter(506)
    assert not set(made[0]) & set(open_libraries._unreferenced_handles)
