"Variables that are assigned on some paths only: which are reported, and which are right."
import pytest

from gridstride.cpp.lint.uninitialized import find_uninitialized_uses, is_guarded, may_use_uninitialized
from gridstride.cpp.frontend.reader import read_compiled

def code(body): return read_compiled('__global__ void k(float *x, int n) {\n' + body + '\n}\n')

MISSED = """
float v; if (n > 3) v = 3; x[0] = v;
float v, w = 0; if (n > 3) { v = 3; w = v; } x[0] = w; x[1] = v + 1;
int i; if (n > 3) i = n; x[i] = 1;
{ unsigned int u; if (x[0] > 0) u = 1; while (u) u--; }
float v; if (n > 3) v = 3; x[0] += (v); if (v > 0) return;
float v; if (n > 3) v = 3; return v;
float v; for (int i = 0; i < n; i++) x[i] = 0; if (n > 3) v = 3; x[0] = v;
"""
RIGHT = """
float v = 0; if (n > 3) v = 3; x[0] = v;
float v; if (n > 3) v = 3; else v = 4; x[0] = v;
float v; if (n > 3) v = 3; if (n > 3) x[0] = v;
float v; if (n > 3) v = 3; x[0] = n > 3 ? v : 0;
float v; if (n > 3) v = 3; x[0] = n > 3 && v > 0;
float v; if (n > 3) v = 3; if (n <= 3) return; x[0] = v;
float v; if (n > 3) v = 3; v = 4; x[0] = v;
float v; if (n > 3) v = 3; set(v); x[0] = v;
float v; if (n > 3) v = 3; set(&v); x[0] = v;
float v; v = 1; if (n > 3) v = 3; x[0] = v;
float v; for (int i = 0; i < n; i++) if (i == 0) v = x[0]; x[0] = v;
float v; for (int i = 0; i < n; i++) { if (i == 0) v = x[0]; x[i] = v; }
float *p; if (n > 3) p = x; p[0] = 1;
static int s; if (n > 3) s = 3; x[0] = s;
float v; if (n > 3) s.v = 3; x[0] = s.v;
float v; if (true) v = 3; x[0] = v;
float v; if (n > 3) v = 3; { float v = 2; x[0] = v; }
float v; if (n > 3) { x[1] = v = 3; } float w = 2; x[0] = w;
"""

@pytest.mark.parametrize('body', MISSED.strip().splitlines())
def test_reported(body):
    assert [line for _, line in find_uninitialized_uses(code(body))] == [2]
    assert may_use_uninitialized(code(body).src)

@pytest.mark.parametrize('body', RIGHT.strip().splitlines())
def test_right(body): assert not list(find_uninitialized_uses(code(body)))


GUARDED = ('if (threadIdx.x < n) x[0] = v;', 'if (n) { x[1] = 0; for (;;) x[0] = v; }', 'else x[0] = v;',
           'x[0] = n ? v : 0;', 'x[0] = n && v;', 'switch (n) { case 1: x[0] = v; }')
BARE = 'x[0] = v;', 'for (int i = 0; i < n; i++) x[i] = v;', 'if (v > 0) x[0] = 1;', 'x[0] = v; if (n) x[1] = v;'

@pytest.mark.parametrize('use', GUARDED + BARE)
def test_a_use_under_a_condition_is_guarded(use):
    c = code(f'float v;\nif (threadIdx.x < n) v = x[0];\n{use}')
    assert is_guarded(c, 'v', 4) is (use in GUARDED)


def test_a_variable_is_looked_for_in_its_own_function():
    kernel = '__global__ void k(float *x, int n) {\n    float v;\n    if (n) v = 1;\n    if (n) x[0] = f(v);\n}\n'
    c = read_compiled('__device__ float f(float v) { return v; }\n' + kernel)
    assert is_guarded(c, 'v', 5) and is_guarded(c, 'v', 3) and not is_guarded(c, 'w', 5)
