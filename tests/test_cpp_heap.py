"""`malloc` and `free` in kernels: memory of the device, kept until any thread frees it;
and what goes wrong with it."""
import pytest, torch

from gridstride.cpp import load_cuda
from found import finding

SRC = r'''
#include <torch/extension.h>

__device__ int *kept;
__global__ void keep_k(int n) {
    kept = (int *)malloc(n*sizeof(int));
    for (int i = 0; i < n; i++) kept[i] = i;
}
__global__ void use_k(int *out, int n) { out[0] = kept[n-1]; free(kept); }
__global__ void each_k(int *out) {           // a piece for each of thousands of threads
    int i = blockIdx.x*blockDim.x + threadIdx.x;
    if (int *p = (int *)malloc(4*sizeof(int))) { p[i%4] = i; out[i] = p[i%4]; free(p); }
}
struct Node {
    int value;
    Node *next;
    int *ended;
    __device__ Node(int v = 0, Node *n = nullptr, int *e = nullptr) : value(v), next(n), ended(e) {}
    __device__ ~Node() { if (ended) *ended += 1; }
};
__device__ Node *list;
__global__ void build_k(int n) { for (int i = 0; i < n; i++) list = new Node(i, list); }
__global__ void sum_k(int *out) {            // out: the sum, how many were ended
    for (Node *p = list; p; ) {
        Node *next = p->next;
        out[0] += p->value;
        p->ended = out + 1;
        delete p;
        p = next;
    }
    list = nullptr;
    Node *some = new Node[3];
    for (int i = 0; i < 3; i++) some[i].ended = out + 1;
    delete[] some;
    int *plain = new int[4];
    plain[3] = 1;
    delete [] plain;
}
__global__ void newly_k(int *out, int n, int how) {
    int *p = new int[n];
    out[0] = p != nullptr;
    if (how == 6) p[n] = 1;                  // past_new
    delete[] p;
    if (how == 7) delete[] p;                // deleted twice
}
__global__ void wrong_k(int *out, int n, int how) {
    int *p = (int *)malloc(n*sizeof(int));
    if (how > 1) p[0] = 1;
    if (how == 1) out[1] = 2*p[1];           // never written
    if (how == 2) p[n] = 1;                  // past
    if (how > 2) free(p);
    if (how == 3) out[0] = p[0];             // freed
    if (how == 4) free(p);                   // twice
    if (how == 5) free(out + 1);             // never allocated
}
torch::Tensor kept_across(int n) {
    auto out = torch::full({1}, -1, torch::dtype(torch::kInt).device(torch::kCUDA));
    keep_k<<<1, 1>>>(n);
    use_k<<<1, 1>>>(out.data_ptr<int>(), n);
    return out;
}
torch::Tensor each(int blocks) {
    auto out = torch::full({blocks*64}, -1, torch::dtype(torch::kInt).device(torch::kCUDA));
    each_k<<<blocks, 64>>>(out.data_ptr<int>());
    return out;
}
torch::Tensor linked(int n) {
    auto out = torch::zeros({2}, torch::dtype(torch::kInt).device(torch::kCUDA));
    build_k<<<1, 1>>>(n);
    sum_k<<<1, 1>>>(out.data_ptr<int>());
    delete new Node(1);                      // the host's own
    return out;
}
torch::Tensor wrong(int n, int how) {
    auto out = torch::zeros({4}, torch::dtype(torch::kInt).device(torch::kCUDA));
    if (how > 5) newly_k<<<1, 1>>>(out.data_ptr<int>(), n, how);
    else wrong_k<<<1, 1>>>(out.data_ptr<int>(), n, how);
    int *host = (int *)malloc(sizeof(int));  // the host's own
    free(host);
    return out;
}
'''


@pytest.fixture(scope='module')
def m(): return load_cuda(SRC, funcs=['kept_across', 'each', 'linked', 'wrong'])


@pytest.mark.slow
def test_a_piece_is_kept_across_kernels_whatever_its_size(m):
    assert [m.kept_across(n).item() for n in (3, 1_000_000)] == [2, 999_999]


def test_every_thread_has_a_piece_of_its_own(m):
    assert torch.equal(m.each(100).cpu(), torch.arange(6400, dtype=torch.int32))


def test_new_and_delete_are_the_devices_and_end_what_they_made(m): assert m.linked(10).tolist() == [45, 13]


@pytest.mark.parametrize('how,want,facts,line', [
    (1, 'initcheck unwritten', dict(array='memory', index=(4,)), 'never written'),
    (2, 'memcheck outside', dict(array='memory', index=(40,), shape=(40,)), 'past'),
    (3, 'memcheck freed', dict(array='memory'), 'freed'),
    (4, 'memcheck not_allocated', {}, 'twice'), (5, 'memcheck not_allocated', {}, 'never allocated'),
    (6, 'memcheck outside', dict(array='memory', index=(40,), shape=(40,)), 'past_new'),
    (7, 'memcheck not_allocated', {}, 'deleted twice')])
def test_what_goes_wrong_is_named(m, how, want, facts, line):
    with finding(want, **facts) as e: m.wrong(10, how)
    assert SRC.splitlines()[e.value.line-1].endswith(f'// {line}')
