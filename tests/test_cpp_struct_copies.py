"Clang checks the alignment of structs that are copied as g++ does, because their accesses are rewritten"
import re
from types import SimpleNamespace

import pytest

from exhaustive import mark_exhaustive
from found import finding
from gridstride import load_cuda
from gridstride.cpp.rewriters.struct_copies import check_struct_copies, lacks_alignment_of_copies
from gridstride.cpp.toolchain import build

# « and » are around each access that is rewritten
MARKED = r'''
#define FETCH(p) («reinterpret_cast<float4 *>(&(p))[0]»)
struct __align__(16) Pack { int a[4]; };
__device__ float4 twice(float4 v) { return make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w); }
template <class T> __device__ void copy(T *to, const T *__restrict__ from, int i) {
    «to[i]» = «from[i]»; «*to» = «*from»;
}
__global__ void forms(float *x, float *y, Pack *packs, int n) {
    const float4 *wide = reinterpret_cast<const float4 *>(x), *b = wide;
    auto out = (float4 *)y;
    float4 v = «wide[n]», *c = out, list[2] = {«*wide», b[1]}, (*rows)[2] = &list;
    if (n) «out[n]» = «wide[n]»;
    v = twice(«*(wide + n)»); v = «*(const float4 *)&x[4 * n]»; v = «*reinterpret_cast<const float4 *>(x + 4)»;
    «((float4 *)y)[1]» = v; «*(float4 *)(y + 4)» = «*((const float4 *)x + 1)»;
    int i = n * n; *c++ = v; c -= 1; float z = wide[i].x * x[i]; const float4 *first = &wide[i], &one = (*rows)[1];
    FETCH(y[4]) = FETCH(x[4]);
    for (float4 *p = out, *wide = p; p < out; p++) y[n] = z;
    Pack pack = «packs[i]»; «packs[0]» = pack; «*out» = twice(«wide[i]»); copy(out + 1, first, 0); («*out») = one;
}
'''
SOURCE = re.sub('[«»]', '', MARKED)
INSERTED = re.compile(r'\n#line (\d+)\n( *)(\S*)')


def test_accesses_to_whole_structs_are_rewritten():
    "But no declarations, scalars, members and addresses; each token keeps its line and column"
    rewritten, lines = check_struct_copies(SOURCE), SOURCE.splitlines()
    expected = MARKED.replace('«', '::gridstride::aligned(').replace('»', ')')
    assert ''.join(INSERTED.sub(r'\3', rewritten).split()) == ''.join(expected.split())
    assert MARKED.count('«') == 20
    for line, indentation, token in INSERTED.findall(rewritten):
        assert lines[int(line) - 1].startswith(token.split(')')[0], len(indentation)), (line, token)


def test_only_clang_before_version_23_needs_it():
    compilers = [('gcc', 12), ('clang', 22), ('clang', 23)]
    assert [lacks_alignment_of_copies(SimpleNamespace(kind=k, version=v)) for k, v in compilers] == [False, True, False]


HOST = '''
void run(torch::Tensor x, torch::Tensor y, torch::Tensor packs, int shift) {
    forms<<<1, 1>>>(x.data_ptr<float>() + shift, y.data_ptr<float>(), (Pack *)packs.data_ptr<int>(), 0);
}
'''


@pytest.mark.parametrize('shift', [mark_exhaustive(0), mark_exhaustive(1)])
def test_the_rewritten_program_computes_the_same(monkeypatch, shift):
    "Even if g++ compiles it: then the misaligned access has the same line"
    import torch
    monkeypatch.setattr(build, 'lacks_alignment_of_copies', lambda c: True)
    module = load_cuda(SOURCE + HOST, funcs=['run'])
    x, y, packs = torch.arange(17.), torch.zeros(8), torch.ones(4, dtype=torch.int32)
    if shift:
        with finding('memcheck misaligned', line=11): module.run(x, y, packs, 1)
    else:
        module.run(x, y, packs, 0)
        assert y.tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
