"What fits a finding, read off the learner's lines."
import pytest

from gridstride.advice import fitting, update_of
from gridstride.cpp.emulator import array_at
from gridstride.findings import DIALECTS, Access, Call, Place, exception_of, text_of

UPDATES = [('n[i] += 1;', 'n', ('add', 'n[i]', '1')), ('if (x[i] > 0) n[0]++;', 'n', ('add', 'n[0]', '1')),
           ('--n[0];', 'n', ('sub', 'n[0]', '1')), ('found |= 4;', 'found', ('or', 'found', '4')),
           ('if i < x.size: m[0] = max(m[0], x[i])', 'm', ('max', 'm[0]', 'x[i]')),
           ('m[0] = fminf(v, m[0]);  // m[0] = 1', 'm', ('min', 'm[0]', 'v')),
           ('h[x[i]] = h[x[i]] + w;', 'h', ('add', 'h[x[i]]', 'w')), ('p[0] *= 2', 'p', ('', 'p[0]', '2')),
           ('s[t] += s[t + h]', 's', None), ('s[t] = x[t]', 's', None), ('out[t] = s[49 - t]', 's', None),
           ('n[0] = n[0] == 3;', 'n', ('', 'n[0]', 'n[0] == 3'))]


@pytest.mark.parametrize('line,array,want', UPDATES)
def test_an_update_of_one_element_is_known_from_others(line, array, want):
    assert update_of(line.split('//')[0].strip(), array) == want


def index(line, at, shape, above='', dialect='cuda', **more):
    e = exception_of('memcheck', 'outside', dialect, dict(array='x', index=at, shape=shape, **more),
                     Place('k', 'k.cu', 9, line, above=above))
    return str(e).split('\n')[3].strip()


INDICES = [
    (('out[i] = x[i];', (100,), (100,)), 'as in `if (i < n)`, where n is the number of elements, 100'),
    (('out[r*w+c] = x[r * w + c];', (100,), (100,)), 'guard both, as in `if (r < h && c < w)`'),
    (('if (i <= n) out[i] = x[i];', (100,), (100,)),
     '`i <= n` lets in one too many: with 100 elements the last index is 99'),
    (('if (i < n) out[i] = x[i+1];', (100,), (100,)),
     'The guard `i < n` lets this thread in, and `i+1` is 100: guard this index, too'),
    (('out[r*w+c] = x[r*h + c];', (100,), (100,), 'if (r >= h || c >= w) return;'),
     'The guard `r < h` lets this thread in, and `r*h + c` is 100: look at its stride'),
    (('out[i] = x[at[i]];', (100,), (100,)), 'The index `at[i]` is read from memory, where 100 stands'),
    (('out[t] = x[t];', (64,), (8, 8)), 'A thread past the end must do nothing'),
    (('out[i] = x[i] + y[i];', (100,), (100,), '', 'cuda', ('y', 10)),
     'y begins inside of x, at x[10]: counted from there it is y[90]'),
    (('out[i] = 2*x[i]', (100,), (100,), '', 'python'), 'as in `if i < x.size`'),
    (('out[r, c] = x[r, c]', (4, 0), (4, 25), '', 'python'),
     'Along axis 0 there are 0 to 3, and the index is 4. A thread past the end must do nothing: guard every axis, '
     'as in `if r < x.shape[0] and c < x.shape[1]`'),
    (('for i in range(cuda.grid(1), x.size + 1, cuda.gridsize(1)): out[i] = x[i]', (100,), (100,), '', 'python'),
     '`i <= x.size` lets in one too many'),
    (('*(x + i) = 1;', (100,), (100,)), 'as in `if (i < n)`, where n is the number of items'),
    (('out[i] = x[i] + x[i+n];', (100,), (100,)), 'as in `if (i < n)`, where n is the number of items'),
    (('total += x[r*w + c];', (62,), (62,),
      'int r = blockIdx.x*blockDim.x + threadIdx.x;\nif (r > h) return;\nfor (int c = 0; c < w; ++c)'),
     '`r <= h` lets in one too many: the last one is h - 1'),
    (('total += x[r*w + c];', (62,), (62,),
      'int r = blockIdx.x*blockDim.x + threadIdx.x;\nfor (int c = 0; c < w; ++c)'),
     'The index is `r*w + c`. A thread past the last row or the last column'),
    (('if (r < h && c < w) out[r2*w + c] = x[r2*w + c];', (12,), (12,),
      'ms[tr2][tc] = r2 < h && idx+tc < k ? m[r2*k + idx+tc] : 0;\nif (r2 < h) out[r2] = 0;'),
     'The index is `r2*w + c`. A thread past the last row or the last column'),
    (('if (i <= n-1) out[i] = x[i+1];', (100,), (100,)), 'The guard `i < n` lets this thread in, and `i+1` is 100'),
    (('if (i < n-2) out[i] = x[i+3];', (100,), (100,)), 'The guard `i < n-2` lets this thread in, and `i+3` is 100'),
    (('if (i <= n - 2) out[i] = x[2*i];', (100,), (100,)), 'The guard `i <= n - 2` lets this thread in, and `2*i` is'),
    (('if (i < n + 1) out[i] = x[2*i];', (100,), (100,)), 'The guard `i < n + 1` lets this thread in, and `2*i` is'),
    (('if r < len(x): out[r] = x[r+1]', (100,), (100,), '', 'python'),
     'The guard `r < len(x)` lets this thread in, and `r+1` is 100: guard this index, too, as in `if r+1 < x.size`'),
    (('if r < x.shape[0]: out[r] = x[r+1]', (100,), (100,), '', 'python'), 'The guard `r < x.shape[0]` lets this'),
    (('for i in range(x[r], x[r+1]): out[i] = r', (6,), (6,), '', 'python'),
     'The index that goes farthest is `r+1`: guard that one, as in `if r+1 < x.size`'),
    (('out[i] = x[i - 1] + x[i] + x[i + 2];', (100,), (100,)),
     'The index that goes farthest is `i + 2`: guard that one, as in `if (i + 2 < n)`, where n is the number of'),
    (('out[i] = x[i] - x[j+1];', (100,), (100,)), 'as in `if (i < n)`, where n is the number of items'),
    (('out[i] = x[i] - x[i+1];', (-1,), (100,)), 'A thread past the end must do nothing'),
    (('if (x[i] > 0) out[i] = x[i];', (100,), (100,)), 'A thread past the end must do nothing'),
    (('if (r < h && c < w) out[0] = x[r * 2 * w + c];', (100,), (100,)), 'look at its stride'),
    (('if (r < h) x[r*w + c] = o;', (100,), (100,)), 'guard both, as in `if (r < h && c < w)`'),
    (('ms[tr][tc] = r < h ? x[r*k + idx+tc] : 0;', (100,), (100,)), 'guard both, as in `if (r < h && c < w)`'),
    (('ms[tr][tc] = r < h && idx+tc < k ? x[r*h + idx+tc] : 0;', (100,), (100,)), 'look at its stride'),
    (('for (int c = 0; c < w; ++c) total += x[r*h + c];', (100,), (100,), 'int r = i; if (r >= h) return;'),
     'look at its stride'),
    (('for c in range(w): total += x[r*h + c]', (100,), (100,), 'if r < h:', 'python'), 'look at its stride'),
    (('out[i] = x[2*i];', (100,), (100,)), 'as in `if (2*i < n)`, where n is the number of elements, 100'),
    (('out[i] = x[i*stride + shift]', (100,), (100,), 'i = cuda.grid(1)', 'python'),
     'as in `if i*stride + shift < x.size`'),
    (('out[c] = x[r*w + c]', (100,), (100,), 'c,r = cuda.grid(2)', 'python'), 'guard both, as in `if r < h and c < w`'),
    (('x[blockIdx.x * blockDim.x + threadIdx.x] = 0;', (100,), (100,)),
     'as in `if (blockIdx.x * blockDim.x + threadIdx.x < n)`'),
]


@pytest.mark.parametrize('given,says', INDICES, ids=[o[0][0] for o in INDICES])
def test_the_advice_for_an_index_fits_its_line(given, says):
    line, at, shape, above, dialect, inner = (*given, *('', 'cuda', ('', 0))[len(given)-3:])
    assert says in index(line, at, shape, above, dialect, inner=inner[0], inner_at=inner[1])


FIXED = [('for (int i = tc; i <= tk; i += tw) x[tr][i] = 0;', 8, 'float [8]',
          '`i <= tk` lets in one too many: with 8 elements the last index is 7'),
         ('x[tr][tc] = i <= n;', 16, 'float [16]', 'The places of x there are 0 to 15'),
         ('if (r <= tw) x[r][c] = 0;', 4, 'float [4][8]', '`r <= tw` lets in one too many: with 4 elements'),
         ('x[r][0] = x[0][r];', 4, 'float [4][8]', 'The places of x there are 0 to 3')]


@pytest.mark.parametrize('line,at,type,says', FIXED)
def test_the_advice_for_an_array_of_a_fixed_size(line, at, type, says):
    assert says in str(exception_of('memcheck', 'outside_named', 'cuda', dict(array='x', index=(at,), type=type),
                                    Place('k', 'k.cu', 9, line)))


def race(line, now, other, source, above='', code='race', before='written', then='read', dialect='cuda'):
    e = exception_of('racecheck', code, dialect, dict(array='s', index=(3,), before=before, now=then),
                     Place('k', 'k.cu', now, line, above=above), Access(other, (0, 0, 0), (3, 0, 0), source))
    assert f'against line {other}, block (0), thread (3): {source}' in str(e)
    return str(e).split('\n')[-2].strip()


def test_the_advice_for_a_race_fits_both_lines():
    assert (race('out[t] = s[9 - t];', 6, 5, 's[t] = x[t];')
            == "Put a __syncthreads() between these two lines: there a block's threads wait for each other.")
    assert ('Line 5 is one round of the loop further: put a __syncthreads() at the end of each round, behind line 8'
            in race('s[t] = x[t];', 5, 8, 'v += s[j];', 'for (;;) {'))
    assert ('in different rounds of a loop: put a cuda.syncthreads()'
            in race('s[t] += s[t+h]', 5, 5, 's[t] += s[t+h]', 'while h:', dialect='python'))
    assert 'In one step: atomicAdd(&s[0], v).' in race('s[0] += v;', 5, 5, 's[0] += v;')
    assert 'In one step: cuda.atomic.add(s, (i, 0), v).' in race('s[i, 0] += v', 5, 5, 's[i, 0] += v', dialect='python')
    assert 'In one step: cuda.atomic.add(s, x[i], 1).' in race('s[x[i]] += 1', 5, 5, 's[x[i]] += 1', dialect='python')
    assert 'atomicMax(&s[0], v) for whole numbers' in race('s[0] = max(s[0], v);', 5, 5, 's[0] = max(s[0], v);',
                                                           code='race_of_blocks')
    assert ('An update in two lines reads s[3], then writes it, and another thread comes between. In one step: '
            'cuda.atomic.add(s, c, v*x[r]).' in race('s[c] = was + v*x[r]', 6, 5, 'was = s[c]', 'for c in n:',
                                                     before='read', then='written', dialect='python'))
    assert 'In one step: atomicAdd(&s[c], v).' in race('int was = s[c];', 5, 6, 's[c] = v + was;', 'for (;;) {')
    assert 'An update in two lines reads s[3]' in race('s[c] = a*v;', 6, 5, 'int a = s[c];', before='read',
                                                       then='written')
    for first in ('a = s[c + 1];', 'a = s[c] + 1;', 'b = s[c];', 'a = s[c] + s[d];'):     # not of the same element
        assert 'Put a __syncthreads() between' in race('s[c] = a + v;', 6, 5, first, before='read', then='written')
    assert 'No atomic does just that' in race('s[0] *= v;', 5, 5, 's[0] *= v;')
    assert 'give each thread a place of its own' in race('s[0] = v;', 5, 5, 's[0] = v;', then='written')


def test_nothing_is_guessed_where_no_line_is_known():
    assert fitting('memcheck', 'outside', dict(array='x', index=(3,), shape=(3,)), Place('k'), None) is None
    for dialect in DIALECTS: assert text_of('memcheck', 'outside', dialect, dict(array='x', index=(3,), shape=(3,)))[1]


@pytest.mark.parametrize('line,hint',
    [('out[threadIdx.x] = x[threadIdx.x - 1];', '`threadIdx.x - 1` is unsigned'), ('out[i] = x[i - 1];', 'cudaMalloc')])
def test_an_unsigned_index_below_0_is_told_as_such(line, hint):
    "It is 16 GB further, where the host may have something"
    assert hint in str(exception_of('memcheck', 'kernel_reads_host', 'cuda', {}, Place('k', 'k.cu', 9, line)))


@pytest.mark.parametrize('line,name', [
    ('out[i] = p[q[i^]][1];', 'q'), ('out[i] = p[q[i]^][1];', 'p'), ('out[i] = p[0] [q[i]^];', 'p'),
    ('out[i] = a.v [q[i] + 1^];', 'v'), ('out[i] = "0123"[x[i]^];', ''), ('out[i] = (const int[]){1, 2}[i^];', ''),
    ('out[i] = four(x)[i^];', ''),                                           # where g++ has the column, and clang
    ('out[i] = ^p[q[i]][1];', 'p'), ('out[i] = p[^q[i]][1];', 'q'), ('out[i] = ^"0123"[x[i]];', ''),
    ('^', ''), ('p[i]', ''),
])
def test_the_name_of_the_array_that_an_index_is_of(line, name):
    assert array_at(line.replace('^', ''), line.find('^') + 1 or 99) == name


def advised(line, at, shape, above='', dialect='cuda', called=None, onward=''):
    e = exception_of('memcheck', 'outside', dialect, dict(array='x', index=at, shape=shape),
                     Place('k', 'k.cu', 9, line, above=above, called=called, onward=onward or line))
    return e.advice, e.advice_fields


XY = 'int c = blockIdx.x*blockDim.x + threadIdx.x, r = blockIdx.y*blockDim.y + threadIdx.y;\n'
# (the line, the index, the shape, the lines above, the dialect), which advice, and some of its fields
ADVICE = [
    # `&&` for `||`, and the other way round
    (('x[r*w + c] = 1;', (100,), (100,), 'if (r >= h && c >= w) return;'), 'wrong_joint', dict(right='||')),
    (('x[i] = 1;', (100,), (100,), 'if (i >= n && j >= m) { return; }'), 'wrong_joint', dict(right='||')),
    (('x[i] = 1;', (100,), (100,), 'if (i < 0 && i >= n) return;'), 'wrong_joint', dict(right='||')),
    (('if (r < h || c < w) x[r*w + c] = 1;', (100,), (100,)), 'wrong_joint', dict(right='&&')),
    (('x[i] = 1;', (100,), (100,), 'if (i >= 0 || i < n) {'), 'wrong_joint', dict(right='&&')),
    (('x[r, c] = 1', (4, 0), (4, 25), 'if r >= h and c >= w: return', 'python'), 'wrong_joint', dict(right='or')),
    (('x[r, c] = 1', (4, 0), (4, 25), 'if r < h or c < w:', 'python'), 'wrong_joint', dict(right='and')),
    # right ones
    (('x[r*w + c] = 1;', (100,), (100,), 'if (r >= h || c >= w) return;'), 'stride', {}),
    (('if (i < n) x[i+1] = 1;', (100,), (100,), 'if (i < n || j < m) {'), 'lets_in', dict(guard='i < n')),
    (('x[i+1] = 1;', (100,), (100,), 'if (i < n || last == 1) {'), 'lets_in', dict(guard='i < n')),
    (('x[i+1] = 1;', (100,), (100,), 'while (i < n || j < m) {'), 'lets_in', dict(guard='i < n')),
    # rows and columns swapped: only where guards and the numbers of threads tell which is which
    (('if (c < w && r < h) x[c*w + r] = 1;', (100,), (100,), XY), 'swapped', dict(right='r*w + c')),
    (('if (c < w && r < h) x[r + c*w] = 1;', (100,), (100,), XY), 'swapped', dict(right='r*w + c')),
    (('if (c < w && r < h) x[c*w + r] = 1;', (100,), (100,)), 'stride', {}),
    (('if (c < w && r < h) x[c*w + r] = y[r*w + c];', (100,), (100,), XY), 'stride', {}),       # a transpose
    (('if (r < h && c < w) x[r*h + c] = 1;', (100,), (100,), XY), 'stride', {}),
    (('if r < h and c < w: x[c, r] = 1', (4, 0), (4, 25), '', 'python'), 'swapped_axes', dict(right='r, c')),
    (('x[c, r] = 1', (4, 0), (4, 25), 'c, r = cuda.grid(2)', 'python'), 'guard_axes', {}),
    (('if r < h and c < w: x[c, r] = 1', (4, 7), (4, 6), '', 'python'), 'guard_axes', {}),
    # a pointer that was moved
    (('if (i < n) s += x[i];', (100,), (100,), 'x += 4;'), 'moved_by', dict(own=96, left=96)),
    (('if (i < n) s += x[i];', (100,), (100,), 'x = x + 4;'), 'moved_by', dict(own=96, left=96)),
    (('s += x[c];', (100,), (100,), 'if (r > h) return;\nx += w*r;'), 'row_too_many',
     dict(wrote='r > h', right='r >= h')),
    (('s += x[c];', (100,), (100,), 'if (r >= h) return;\nx += w*r;\nfor (int c = 0; c < w; c++)'), 'moved', {}),
    (('s += x[i];', (100,), (100,), 'if (i < n)', 'cuda', (3, 'f(x + 5*b, n);')), 'moved', dict(move='x + 5*b')),
    (('s += x[i];', (100,), (100,), 'if (i < n)', 'cuda', (3, 'f(x, n);')), 'lets_in', dict(guard='i < n')),
    (('s += x[i];', (100,), (100,), 'for (;;) {\nif (i < n)', 'cuda', None, 's += x[i];\nx += n;\n}'), 'moved', {}),
    (('s += x[i];', (100,), (100,), 'if (i < n)', 'cuda', None, 's += x[i];\nx += n;\n'), 'lets_in', {}),
    (('s += x[i];', (100,), (100,), 'y += 4; p->x += 4;\nif (i < n)'), 'lets_in', {}),
]


@pytest.mark.parametrize('given,advice,fields', ADVICE, ids=[f'{o[1]}-{o[0][0]}' for o in ADVICE])
def test_which_advice_fits_an_index(given, advice, fields):
    found, has = advised(*given)
    assert found == advice and fields.items() <= has.items()


LOOPS = [
    ('for (int i = 0; i < n; i++) {\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n}', 'round'),
    ('for (int i = 0; i < n; i++) v += i;\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n', None),
    ('for (int i = 0; i < n; i++) { v += i; }\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n', None),
    ('for (;;) {\nif (v) {\n', 's[t] = x[t]; }\n__syncthreads();\nv += s[t + 1];\n}', 'round'),
    ('if (v) {\n', 'for (;;) { s[t] = x[t]; }\n} else {\nv += s[t + 1];\n}', None),
    ('do {\n', 's[t] = x[t];\n__syncthreads();\nv += s[t + 1];\n} while (v);', 'round'),
    ('for i in range(n):\n', '    s[t] = x[t]\n    cuda.syncthreads()\n    v += s[t + 1]\n', 'round'),
    ('for i in range(n):\n    v += i\n', 's[t] = x[t]\ncuda.syncthreads()\nv += s[t + 1]\n', None),
    ('for i in range(n):\n    if v:\n', '        s[t] = x[t]\n    cuda.syncthreads()\n    v += s[t + 1]\n', 'round'),
    ('for i in range(n):\n    if v:\n', '        s[t] = x[t]\ncuda.syncthreads()\nv += s[t + 1]\n', None)]


@pytest.mark.parametrize('above,onward,advice', LOOPS)
def test_only_lines_of_one_loop_are_in_different_iterations(above, onward, advice):
    place = Place('k', 'k.cu', 9, onward.split('\n')[0].strip(), above=above.rstrip('\n'), onward=onward)
    later = next(n for n, line in enumerate(onward.split('\n')) if 's[t + 1]' in line)
    e = exception_of('racecheck', 'race', 'python', dict(array='s', index=(3,), before='read', now='written'), place,
                     Access(9 + later, (0, 0, 0), (3, 0, 0), 'v += s[t + 1]'))
    assert e.advice == advice


def call_stack(*calls): return tuple(Call(f, 'k.cu', line) for f, line in calls)


CALLS = [  # the later access, the earlier one
    ([('f', 3), ('k', 20)], [('f', 6), ('k', 19)], 'called_twice'),
    ([('f', 3), ('k', 20)], [('f', 6), ('k', 20)], 'called_in_loop'),
    ([('f', 3), ('k', 20)], [('f', 6)], 'called_again'), ([('f', 6), ('k', 20)], [('f', 3), ('k', 20)], None),
    ([('f', 6), ('k', 21)], [('f', 3), ('k', 20)], None), ([('f', 3), ('k', 20)], [('g', 6), ('k', 19)], 'calls_apart'),
    ([('f', 3), ('k', 20)], [('k', 22)], 'round'), ([('k', 22)], [('f', 3), ('k', 20)], 'calls_apart'),
    ([('f', 3), ('g', 9), ('k', 20)], [('f', 6), ('g', 9), ('k', 19)], 'called_twice'),
    ([('k', 20)], [('k', 19)], None)]


@pytest.mark.parametrize('mine,theirs,advice', CALLS)
def test_which_advice_fits_the_calls_of_a_race(mine, theirs, advice):
    mine, theirs = call_stack(*mine), call_stack(*theirs)
    place = Place('k', 'k.cu', mine[0].line, 's[t] = v;', calls=mine, onward='s[t] = v;')
    e = exception_of('racecheck', 'race', 'cuda', dict(array='s', index=(3,), before='read', now='written'), place,
                     Access(theirs[0].line, (0, 0, 0), (3, 0, 0), 'v += s[t + 1];', '', theirs))
    assert e.advice == advice
    for code in ('race_of_blocks', 'race_of_cluster'):         # for which no barrier of a block is a remedy
        e = exception_of('racecheck', code, 'cuda', dict(array='s', index=(3,), before='read', now='written'), place,
                         Access(theirs[0].line, (0, 0, 0), (3, 0, 0), 'v += s[t + 1];', '', theirs))
        assert e.advice is None
