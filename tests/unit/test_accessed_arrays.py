"Which arrays an access may be to whose address is in none, read off the learner's lines."
import pytest

from gridstride.diagnostics.accessed_arrays import ExecutedLine, accessed_arrays

ARRAYS = 'x', 'y', 'z', 'idx'
HEAD = '__global__ void k(const float *x, float *y, float *z, int *idx, View v, int w, int h) {\n'
FAR, NEAR = 'int i = w*h;', 'int i = threadIdx.x;'
READS = [  # a line, what is before it, the arrays that it may read there, whether it uses no other pointer
    ('y[i] = x[i];', FAR, ['x'], True),
    ('y[i] += x[i];', FAR, ['y', 'x'], True),
    ('y[i]++;', FAR, ['y'], True),
    ('const float a = x[i], b = z[j];', FAR + 'int j = threadIdx.x;', ['x'], True),
    ('if (x[i] > y[j]) z[i] = 1;', FAR + 'int j = blockIdx.x*blockDim.x + threadIdx.x;', ['x'], True),
    ('y[i] = x[idx[i]];', NEAR, ['x'], True),
    ('s[t] = x[i] + s[t + 1];', 'extern __shared__ float s[];' + FAR + 'int t = threadIdx.x;', ['x'], True),
    ('y[i] = x[i]*2;  // x[w*h] + z[i]', FAR, ['x'], True),
    ('sum += a[j]*b[j];', 'const float *a = x + w*h, *b = v.data;\nint j = threadIdx.x;', ['x'], False),
    ('sum += a[j]*b[j];', 'int j = threadIdx.x;\nconst float *a = x + j;\nconst float *b = y + w*h;', ['y'], True),
    ('sum += *p++;', 'const float *p = x + w*h;', ['x'], True),
    ('float4 q = reinterpret_cast<const float4 *>(x)[i];', FAR, ['x'], True),
    ('float4 q = ((const float4 *)x)[i];', FAR, ['x'], True),
    ('auto &e = x[i];', FAR, ['x'], True),
    ('y[0] = x[i] + v.data[i];', FAR, ['x'], False),
    ('y[0] = x[j] + v.data[i];', FAR + 'int j = threadIdx.x;', [], False),
    ('y[0] = n->next->value;', 'Node *n = v.head;', [], False),
    ('y[0] = f(i);', FAR, [], True),
]


@pytest.mark.parametrize('line,above,names,alone', READS)
def test_what_a_line_may_read(line, above, names, alone):
    assert accessed_arrays('read', [ExecutedLine('k', line, HEAD + above)], ARRAYS) == (names, alone)


@pytest.mark.parametrize('access,line,names', [
    ('write', 'y[i] = x[i];', ['y']), ('write', '*q = x[i];', ['z']), ('write', 'x[i] = y[i] = 0;', ['x', 'y']),
    ('atomic', 'atomicAdd(&y[i], x[i]);', ['y']), ('atomic', 'atomicAdd(y + i, x[i]);', ['y'])])
def test_what_a_line_may_change(access, line, names):
    above = f'{HEAD}{FAR}\nfloat *q = &z[w*h];'
    assert accessed_arrays(access, [ExecutedLine('k', line, above)], ARRAYS) == (names, True)


@pytest.mark.parametrize('line,head,called,names', [
    ('return a[i*w + j];', 'float at(const float *a, int i, int j, int w) {', 'y[t] = at(x, h-1, 3, w) + z[0];', ['x']),
    ('return a[i];', 'template <class T> T at(const T a[], int i) {', 'y[t] = at<float>(x + w*h, 3);', ['x']),
    ('return v.p[i];', 'float at(View v, int i) {', 'y[t] = at(v, w*h);', [])])
def test_a_parameter_is_the_array_that_the_call_passes(line, head, called, names):
    calls = [ExecutedLine('at', line, f'__device__ {head}'), ExecutedLine('k', called, HEAD)]
    assert accessed_arrays('read', calls, ARRAYS)[0] == names
