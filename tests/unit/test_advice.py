"What fits a finding, read off the learner's lines."
import pytest

from gridstride.diagnostics.hints import hint_for
from gridstride.diagnostics.race_hints import update_of
from gridstride.cpp.emulator import access_at, array_at
from gridstride.diagnostics.errors import Access, Call, Location, exception_of
from gridstride.diagnostics.formatting import text_of
from gridstride.diagnostics.messages import DIALECTS

UPDATES = [('n[i] += 1;', 'n', ('add', 'n[i]', '1')), ('if (x[i] > 0) n[0]++;', 'n', ('add', 'n[0]', '1')),
           ('--n[0];', 'n', ('sub', 'n[0]', '1')), ('found |= 4;', 'found', ('or', 'found', '4')),
           ('if i < x.size: m[0] = max(m[0], x[i])', 'm', ('max', 'm[0]', 'x[i]')),
           ('m[0] = fminf(v, m[0]);  // m[0] = 1', 'm', ('min', 'm[0]', 'v')),
           ('h[x[i]] = h[x[i]] + w;', 'h', ('add', 'h[x[i]]', 'w')), ('p[0] *= 2', 'p', ('', 'p[0]', '2')),
           ('s[t] += s[t + h]', 's', None), ('s[t] = x[t]', 's', None), ('out[t] = s[49 - t]', 's', None),
           ('n[0] = n[0] == 3;', 'n', ('', 'n[0]', 'n[0] == 3')), ('y = a * n;', 'n', None),
           ('*n += x[i];', 'n', ('add', 'n[0]', 'x[i]')), ('if (i < k) *n += x[i];', 'n', ('add', 'n[0]', 'x[i]')),
           ('(*n)++;', 'n', ('add', 'n[0]', '1')), ('*n = max(*n, v);', 'n', ('max', 'n[0]', 'v'))]


@pytest.mark.parametrize('line,array,want', UPDATES)
def test_an_update_of_one_element_is_known_from_others(line, array, want):
    assert update_of(line.split('//')[0].strip(), array) == want


def index(line, at, shape, above='', dialect='cuda', **more):
    e = exception_of('memcheck', 'outside', dialect, dict(access='read', array='x', index=at, shape=shape, **more),
                     Location('k', 'k.cu', 9, line, preceding_lines=above))
    assert str(e).count('\n') == 3
    return e


# (the line, the index, the shape, the lines above, the dialect, another array inside), the hint, and some of its fields
INDICES = [
    (('out[i] = x[i];', (100,), (100,)), 'guard', dict(expr='i')),
    (('out[r*w+c] = x[r * w + c];', (100,), (100,)), 'guard_flat', dict(expr='r * w + c')),
    (('if (i <= n) out[i] = x[i];', (100,), (100,)), 'one_too_many', dict(guard='i <= n', last=99)),
    (('if (i < n) out[i] = x[i+1];', (100,), (100,)), 'guard_of_other_size', dict(guard='i < n', expr='i+1')),
    (('out[r*w+c] = x[r*h + c];', (100,), (100,), 'if (r >= h || c >= w) return;'), 'stride',
     dict(guard='r < h', expr='r*h + c')),
    (('out[i] = x[at[i]];', (100,), (100,)), 'from_memory', dict(expr='at[i]', at=100)),
    (('out[t] = x[t];', (64,), (8, 8)), None, dict()),
    (('out[i] = x[i] + y[i];', (100,), (100,), '', 'cuda', ('y', 10)), 'inside_another', dict(inner_index=90)),
    (('out[i] = 2*x[i]', (100,), (100,), '', 'python'), 'guard', dict(expr='i')),
    (('out[r, c] = x[r, c]', (4, 0), (4, 25), '', 'python'), 'guard_axes',
     dict(axis=0, last=3, conditions='r < x.shape[0] and c < x.shape[1]')),
    (('for i in range(cuda.grid(1), x.size + 1, cuda.gridsize(1)): out[i] = x[i]', (100,), (100,),
      '', 'python'), 'one_too_many', dict(guard='i <= x.size', last=99)),
    (('*(x + i) = 1;', (100,), (100,)), None, dict()),
    (('out[i] = x[i] + x[i+n];', (100,), (100,)), None, dict()),
    (('total += x[r*w + c];', (62,), (62,),
      'int r = blockIdx.x*blockDim.x + threadIdx.x;\nif (r > h) return;\nfor (int c = 0; c < w; ++c)'),
     'row_too_many', dict(guard='r <= h', bound='h')),
    (('total += x[r*w + c];', (62,), (62,),
      'int r = blockIdx.x*blockDim.x + threadIdx.x;\nfor (int c = 0; c < w; ++c)'), 'guard_flat', dict(expr='r*w + c')),
    (('if (r < h && c < w) out[r2*w + c] = x[r2*w + c];', (12,), (12,),
      'ms[tr2][tc] = r2 < h && idx+tc < k ? m[r2*k + idx+tc] : 0;\nif (r2 < h) out[r2] = 0;'),
     'guard_flat', dict(expr='r2*w + c')),
    (('if (i <= n-1) out[i] = x[i+1];', (100,), (100,)), 'guard_of_other_size', dict(guard='i < n', expr='i+1')),
    (('if (i < n-2) out[i] = x[i+3];', (100,), (100,)), 'guard_of_other_size', dict(guard='i < n-2', expr='i+3')),
    (('if (i <= n - 2) out[i] = x[2*i];', (100,), (100,)), 'guard_of_other_size', dict(guard='i <= n - 2', expr='2*i')),
    (('if (i < n + 1) out[i] = x[2*i];', (100,), (100,)), 'guard_of_other_size', dict(guard='i < n + 1', expr='2*i')),
    (('if r < len(x): out[r] = x[r+1]', (100,), (100,), '', 'python'), 'guard_of_other_size',
     dict(guard='r < len(x)', expr='r+1')),
    (('if r < x.shape[0]: out[r] = x[r+1]', (100,), (100,), '', 'python'), 'guard_of_other_size',
     dict(guard='r < x.shape[0]', expr='r+1')),
    (('for i in range(x[r], x[r+1]): out[i] = r', (6,), (6,), '', 'python'), 'farthest', dict(expr='r+1')),
    (('out[i] = x[i - 1] + x[i] + x[i + 2];', (100,), (100,)), 'farthest', dict(expr='i + 2')),
    (('out[i] = x[i] - x[j+1];', (100,), (100,)), None, dict()),
    (('out[i] = x[i] - x[i+1];', (-1,), (100,)), None, dict()),
    (('if (x[i] > 0) out[i] = x[i];', (100,), (100,)), 'guard', dict(expr='i')),
    (('if (r < h && c < w) out[0] = x[r * 2 * w + c];', (100,), (100,)), 'stride',
     dict(guard='r < h', expr='r * 2 * w + c')),
    (('if (r < h) x[r*w + c] = o;', (100,), (100,)), 'guard_flat', dict(expr='r*w + c')),
    (('ms[tr][tc] = r < h ? x[r*k + idx+tc] : 0;', (100,), (100,)), 'guard_flat', dict(expr='r*k + idx+tc')),
    (('ms[tr][tc] = r < h && idx+tc < k ? x[r*h + idx+tc] : 0;', (100,), (100,)), 'stride',
     dict(guard='r < h', expr='r*h + idx+tc')),
    (('for (int c = 0; c < w; ++c) total += x[r*h + c];', (100,), (100,), 'int r = i; if (r >= h) return;'), 'stride',
     dict(guard='c < w', expr='r*h + c')),
    (('for c in range(w): total += x[r*h + c]', (100,), (100,), 'if r < h:', 'python'), 'stride',
     dict(guard='r < h', expr='r*h + c')),
    (('out[i] = x[2*i];', (100,), (100,)), 'guard', dict(expr='2*i')),
    (('out[i] = x[i*stride + shift]', (100,), (100,), 'i = cuda.grid(1)', 'python'), 'guard',
     dict(expr='i*stride + shift')),
    (('out[c] = x[r*w + c]', (100,), (100,), 'c,r = cuda.grid(2)', 'python'), 'guard_flat', dict(expr='r*w + c')),
    (('x[blockIdx.x * blockDim.x + threadIdx.x] = 0;', (100,), (100,)), 'guard',
     dict(expr='blockIdx.x * blockDim.x + threadIdx.x')),
]


@pytest.mark.parametrize('given,advice,fields', INDICES, ids=[o[0][0] for o in INDICES])
def test_the_advice_for_an_index_fits_its_line(given, advice, fields):
    line, at, shape, above, dialect, inner = (*given, *('', 'cuda', ('', 0))[len(given)-3:])
    e = index(line, at, shape, above, dialect, inner=inner[0], inner_at=inner[1])
    assert e.advice == advice and fields.items() <= e.advice_fields.items()


@pytest.mark.parametrize('line,above,expr', [
    ('out[i] = x[(i - shift)%n];', '', '(i - shift)%n'), ('out[i] = x[j];', 'int j = (i-1) % n;', '(i-1) % n'),
    ('out[i] = x[i%n - 1];', '', None), ('out[i] = x[i-1];', 'int j = i%n;', None)])
def test_a_negative_index_may_be_a_remainder(line, above, expr):
    e = exception_of('memcheck', 'before', 'cuda', dict(access='read', array='x', index=(-1,), shape=(7,)),
                     Location('k', 'k.cu', 9, line, preceding_lines=above))
    assert (e.advice, e.advice_fields.get('expr')) == ('remainder' if expr else None, expr)


FIXED = [('for (int i = tc; i <= tk; i += tw) x[tr][i] = 0;', 8, 'float [8]', 'one_too_many', dict(guard='i <= tk')),
         ('x[tr][tc] = i <= n;', 16, 'float [16]', 'fixed', dict(last=15)),
         ('if (r <= tw) x[r][c] = 0;', 4, 'float [4][8]', 'one_too_many', dict(guard='r <= tw', size=4)),
         ('x[r][0] = x[0][r];', 4, 'float [4][8]', 'fixed', dict(last=3))]


@pytest.mark.parametrize('line,at,type,advice,fields', FIXED)
def test_the_advice_for_an_array_of_a_fixed_size(line, at, type, advice, fields):
    e = exception_of('memcheck', 'outside_named', 'cuda', dict(access='read', array='x', index=(at,), type=type),
                     Location('k', 'k.cu', 9, line))
    assert e.advice == advice and fields.items() <= e.advice_fields.items()


def race(line, now, other, source, above='', code='race', before='written', then='read', dialect='cuda'):
    e = exception_of('racecheck', code, dialect, dict(array='s', index=(3,), before=before, now=then),
                     Location('k', 'k.cu', now, line, preceding_lines=above),
                     Access(other, (0, 0, 0), (3, 0, 0), source))
    assert f'against line {other}, block (0), thread (3): {source}' in str(e)
    assert str(e).count('\n') == 4
    return e.advice, e.hint


def test_the_advice_for_a_race_fits_both_lines():
    assert race('out[t] = s[9 - t];', 6, 5, 's[t] = x[t];')[0] is None
    assert race('s[t] = x[t];', 5, 8, 'v += s[j];', 'for (;;) {')[0] == 'next_iteration'
    assert race('s[t] += s[t+h]', 5, 5, 's[t] += s[t+h]', 'while h:', dialect='python')[0] == 'same_line'
    for line, call, dialect in (('s[0] += v;', 'atomicAdd(&s[0], v).', 'cuda'),
                                ('s[i, 0] += v', 'cuda.atomic.add(s, (i, 0), v).', 'python'),
                                ('s[x[i]] += 1', 'cuda.atomic.add(s, x[i], 1).', 'python')):
        advice, hint = race(line, 5, 5, line, dialect=dialect)
        assert advice == 'update' and call in hint
    advice, hint = race('s[0] = max(s[0], v);', 5, 5, 's[0] = max(s[0], v);', code='race_of_blocks')
    assert advice == 'update_max' and 'atomicMax(&s[0], v)' in hint
    advice, hint = race('s[c] = was + v*x[r]', 6, 5, 'was = s[c]', 'for c in n:', before='read', then='written',
                        dialect='python')
    assert advice == 'update_apart' and 'cuda.atomic.add(s, c, v*x[r]).' in hint
    assert 'atomicAdd(&s[c], v).' in race('int was = s[c];', 5, 6, 's[c] = v + was;', 'for (;;) {')[1]
    assert race('s[c] = a*v;', 6, 5, 'int a = s[c];', before='read', then='written')[0] == 'update_other_apart'
    for first in ('a = s[c + 1];', 'a = s[c] + 1;', 'b = s[c];', 'a = s[c] + s[d];'):     # not of the same element
        assert race('s[c] = a + v;', 6, 5, first, before='read', then='written')[0] is None
    assert race('s[0] *= v;', 5, 5, 's[0] *= v;')[0] == 'update_other'
    assert race('s[0] = v;', 5, 5, 's[0] = v;', then='written')[0] == 'one_element'


def test_nothing_is_guessed_where_no_line_is_known():
    assert hint_for('memcheck', 'outside', dict(array='x', index=(3,), shape=(3,)), Location('k'), None) is None
    fields = dict(access='read', array='x', index=(3,), shape=(3,))
    for dialect in DIALECTS: assert text_of('memcheck', 'outside', dialect, fields)[1]


@pytest.mark.parametrize('line,advice',
    [('out[threadIdx.x] = x[threadIdx.x - 1];', 'below_0'), ('out[i] = x[i - 1];', None)])
def test_an_unsigned_index_below_0_is_reported_as_such(line, advice):
    "It is 16 GB further, where the host may have something"
    assert exception_of('memcheck', 'kernel_reads_host', 'cuda', {}, Location('k', 'k.cu', 9, line)).advice == advice


@pytest.mark.parametrize('line,name', [
    ('out[i] = p[q[i^]][1];', 'q'), ('out[i] = p[q[i]^][1];', 'p'), ('out[i] = p[0] [q[i]^];', 'p'),
    ('out[i] = a.v [q[i] + 1^];', 'v'), ('out[i] = "0123"[x[i]^];', ''), ('out[i] = (const int[]){1, 2}[i^];', ''),
    ('out[i] = four(x)[i^];', ''),                                           # where g++ has the column, and clang
    ('out[i] = ^p[q[i]][1];', 'p'), ('out[i] = p[^q[i]][1];', 'q'), ('out[i] = ^"0123"[x[i]];', ''),
    ('^', ''), ('p[i]', ''),
])
def test_the_name_of_the_array_that_an_index_is_of(line, name):
    assert array_at(line.replace('^', ''), line.find('^') + 1 or 99) == name


@pytest.mark.parametrize('line,access', [
    ('t[i^] = 1;', 'write'), ('x[0] = t[i^];', 'read'), ('t[i^] += 1;', 'read'), ('if (t[i^] == 1) x[0] = 1;', 'read'),
    ('t[i^].x = 1;', 'write'), ('atomicAdd(&t[i^], 1);', 'access'), ('float &r = t[i^];', 'access'),
    ('t[u[i]^] = 1;', 'write'), ('t[u[i^]] = 1;', 'read'), ('t[0][i^] = 1;', 'write'), ('"0123"[x[i]^];', 'access'),
    ('^t[i] = 1;', 'write'), ('x[0] = ^t[i];', 'read'), ('t[^u[i]] = 1;', 'read'), ('^', 'access'),
])
def test_what_is_done_with_the_element_that_an_index_is_of(line, access):
    assert access_at(line.replace('^', ''), line.find('^') + 1) == access


def advised(line, at, shape, above='', dialect='cuda', called=None, onward=''):
    lines = dict(preceding_lines=above, following_lines=onward or line)
    e = exception_of('memcheck', 'outside', dialect, dict(access='read', array='x', index=at, shape=shape),
                     Location('k', 'k.cu', 9, line, call_site=called, **lines))
    return e.advice, e.advice_fields


XY = 'int c = blockIdx.x*blockDim.x + threadIdx.x, r = blockIdx.y*blockDim.y + threadIdx.y;\n'
# (the line, the index, the shape, the lines above, the dialect), which advice, and some of its fields
ADVICE = [
    # `&&` for `||`, and the other way round
    (('x[r*w + c] = 1;', (100,), (100,), 'if (r >= h && c >= w) return;'), 'wrong_connective', dict(corrected='||')),
    (('x[i] = 1;', (100,), (100,), 'if (i >= n && j >= m) { return; }'), 'wrong_connective', dict(corrected='||')),
    (('x[i] = 1;', (100,), (100,), 'if (i < 0 && i >= n) return;'), 'wrong_connective', dict(corrected='||')),
    (('if (r < h || c < w) x[r*w + c] = 1;', (100,), (100,)), 'wrong_connective', dict(corrected='&&')),
    (('x[i] = 1;', (100,), (100,), 'if (i >= 0 || i < n) {'), 'wrong_connective', dict(corrected='&&')),
    (('x[r, c] = 1', (4, 0), (4, 25), 'if r >= h and c >= w: return', 'python'), 'wrong_connective',
     dict(corrected='or')),
    (('x[r, c] = 1', (4, 0), (4, 25), 'if r < h or c < w:', 'python'), 'wrong_connective', dict(corrected='and')),
    # right ones
    (('x[r*w + c] = 1;', (100,), (100,), 'if (r >= h || c >= w) return;'), 'stride', {}),
    (('if (i < n) x[i+1] = 1;', (100,), (100,), 'if (i < n || j < m) {'), 'guard_of_other_size', dict(guard='i < n')),
    (('x[i+1] = 1;', (100,), (100,), 'if (i < n || last == 1) {'), 'guard_of_other_size', dict(guard='i < n')),
    (('x[i+1] = 1;', (100,), (100,), 'while (i < n || j < m) {'), 'guard_of_other_size', dict(guard='i < n')),
    # rows and columns swapped: only where guards and thread counts distinguish them
    (('if (c < w && r < h) x[c*w + r] = 1;', (100,), (100,), XY), 'swapped', dict(corrected='r*w + c')),
    (('if (c < w && r < h) x[r + c*w] = 1;', (100,), (100,), XY), 'swapped', dict(corrected='r*w + c')),
    (('if (c < w && r < h) x[c*w + r] = 1;', (100,), (100,)), 'stride', {}),
    (('if (c < w && r < h) x[c*w + r] = y[r*w + c];', (100,), (100,), XY), 'stride', {}),       # a transpose
    (('if (r < h && c < w) x[r*h + c] = 1;', (100,), (100,), XY), 'stride', {}),
    (('if r < h and c < w: x[c, r] = 1', (4, 0), (4, 25), '', 'python'), 'swapped_axes', dict(corrected='r, c')),
    (('x[c, r] = 1', (4, 0), (4, 25), 'c, r = cuda.grid(2)', 'python'), 'guard_axes', {}),
    (('if r < h and c < w: x[c, r] = 1', (4, 7), (4, 6), '', 'python'), 'guard_axes', {}),
    # a pointer that was moved
    (('if (i < n) s += x[i];', (100,), (100,), 'x += 4;'), 'moved_by', dict(new_index=96, remaining=96)),
    (('if (i < n) s += x[i];', (100,), (100,), 'x = x + 4;'), 'moved_by', dict(new_index=96, remaining=96)),
    (('s += x[c];', (100,), (100,), 'if (r > h) return;\nx += w*r;'), 'row_too_many',
     dict(comparison='r > h', corrected='r >= h')),
    (('s += x[c];', (100,), (100,), 'if (r >= h) return;\nx += w*r;\nfor (int c = 0; c < w; c++)'), 'moved', {}),
    (('s += x[i];', (100,), (100,), 'if (i < n)', 'cuda', (3, 'f(x + 5*b, n);')), 'moved', dict(move='x + 5*b')),
    (('s += x[i];', (100,), (100,), 'if (i < n)', 'cuda', (3, 'f(x, n);')), 'guard_of_other_size', dict(guard='i < n')),
    (('s += x[i];', (100,), (100,), 'for (;;) {\nif (i < n)', 'cuda', None, 's += x[i];\nx += n;\n}'), 'moved', {}),
    (('s += x[i];', (100,), (100,), 'if (i < n)', 'cuda', None, 's += x[i];\nx += n;\n'), 'guard_of_other_size', {}),
    (('s += x[i];', (100,), (100,), 'y += 4; p->x += 4;\nif (i < n)'), 'guard_of_other_size', {}),
]


@pytest.mark.parametrize('given,advice,fields', ADVICE, ids=[f'{o[1]}-{o[0][0]}' for o in ADVICE])
def test_which_advice_fits_an_index(given, advice, fields):
    found, has = advised(*given)
    assert found == advice and fields.items() <= has.items()


LOOPS = [
    ('for (int i = 0; i < n; i++) {\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n}', 'next_iteration'),
    ('for (int i = 0; i < n; i++) v += i;\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n', None),
    ('for (int i = 0; i < n; i++) { v += i; }\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n', None),
    ('for (;;) {\nif (v) {\n', 's[t] = x[t]; }\n__syncthreads();\nv += s[t + 1];\n}', 'next_iteration'),
    ('if (v) {\n', 'for (;;) { s[t] = x[t]; }\n} else {\nv += s[t + 1];\n}', None),
    ('do {\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n} while (v);', 'next_iteration'),
    ('for i in range(n):\n', '    s[t] = x[t]\n    cuda.syncthreads()\n    v += s[t + 1]\n', 'next_iteration'),
    ('for i in range(n):\n    v += i\n', 's[t] = x[t]\ncuda.syncthreads()\nv += s[t + 1]\n', None),
    ('for i in range(n):\n    if v:\n', '        s[t] = x[t]\n    cuda.syncthreads()\n    v += s[t + 1]\n',
     'next_iteration'),
    ('for i in range(n):\n    if v:\n', '        s[t] = x[t]\ncuda.syncthreads()\nv += s[t + 1]\n', None)]


@pytest.mark.parametrize('above,onward,advice', LOOPS)
def test_only_lines_of_one_loop_are_in_different_iterations(above, onward, advice):
    lines = dict(preceding_lines=above.rstrip('\n'), following_lines=onward)
    location = Location('k', 'k.cu', 9, onward.split('\n')[0].strip(), **lines)
    later = next(n for n, line in enumerate(onward.split('\n')) if 's[t + 1]' in line)
    e = exception_of('racecheck', 'race', 'python', dict(array='s', index=(3,), before='read', now='written'), location,
                     Access(9 + later, (0, 0, 0), (3, 0, 0), 'v += s[t + 1]'))
    assert e.advice == advice


def call_stack(*calls): return tuple(Call(f, 'k.cu', line) for f, line in calls)


CALLS = [  # the later access, the earlier one
    ([('f', 3), ('k', 20)], [('f', 6), ('k', 19)], 'called_twice'),
    ([('f', 3), ('k', 20)], [('f', 6), ('k', 20)], 'called_in_loop'),
    ([('f', 3), ('k', 20)], [('f', 6)], 'called_again'), ([('f', 6), ('k', 20)], [('f', 3), ('k', 20)], None),
    ([('f', 6), ('k', 21)], [('f', 3), ('k', 20)], None), ([('f', 3), ('k', 20)], [('g', 6), ('k', 19)], 'calls_apart'),
    ([('f', 3), ('k', 20)], [('k', 22)], 'next_iteration'), ([('k', 22)], [('f', 3), ('k', 20)], 'calls_apart'),
    ([('f', 3), ('g', 9), ('k', 20)], [('f', 6), ('g', 9), ('k', 19)], 'called_twice'),
    ([('k', 20)], [('k', 19)], None)]


@pytest.mark.parametrize('mine,theirs,advice', CALLS)
def test_which_advice_fits_the_calls_of_a_race(mine, theirs, advice):
    mine, theirs = call_stack(*mine), call_stack(*theirs)
    location = Location('k', 'k.cu', mine[0].line, 's[t] = v;', calls=mine, following_lines='s[t] = v;')
    e = exception_of('racecheck', 'race', 'cuda', dict(array='s', index=(3,), before='read', now='written'), location,
                     Access(theirs[0].line, (0, 0, 0), (3, 0, 0), 'v += s[t + 1];', '', theirs))
    assert e.advice == advice
    for code in ('race_of_blocks', 'race_of_cluster'):         # for which no barrier of a block is a remedy
        e = exception_of('racecheck', code, 'cuda', dict(array='s', index=(3,), before='read', now='written'), location,
                         Access(theirs[0].line, (0, 0, 0), (3, 0, 0), 'v += s[t + 1];', '', theirs))
        assert e.advice is None
