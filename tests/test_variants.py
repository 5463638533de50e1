"Kernels with a few words changed, and contests among them: what is refused, and in which words."
import json, re

import numpy as np
import pytest
from gridstride.bench import recording, variants
from gridstride import sim
from gridstride.bench import clocks
from gridstride.kernels.ladder.rung import Rung
from gridstride.bench.keys import key
from gridstride.bench.recording import Unavailable, claim
from gridstride.bench.variants import ChangeError, changed, code_of, compare_variants, define, source_in
from hypothesis import given, strategies as st
from found import names, saying

TW = 4
SRC = '''
__global__ void twice_k(float *x, int n) {
    int i = threadIdx.x;                // who
    if (i < n) x[i] = 2*x[i];
    if (i == 0) x[i] = 2*x[i];
}
'''


@sim.cuda.jit
def add_k(x, out):
    i = sim.cuda.grid(1)  # who
    if i < out.size: out[i] = x[i] + TW


class Jitted:
    "Keeps its function where Triton does"
    def __init__(self, fn): self.fn = fn


@Jitted
@Jitted
def scale_k(x): return TW*x  # as checked kernels are: one within the other


def said(f, *args, **kw):
    with pytest.raises(ChangeError) as e: f(*args, **kw)
    return str(e.value)


def ran(kernel):
    out = np.full(3, np.nan, np.float32)
    kernel[1, 32](np.arange(3, dtype=np.float32), out)
    return out.tolist()


# Changes

@pytest.mark.slow
@given(st.text('ab\n', max_size=6), st.text('ab\n', max_size=6), st.text('ab', max_size=3))
def test_a_text_that_is_there_once_is_replaced(before, after, new):
    assert changed(f'{before}<old>{after}', '<old>', new) == before + new + after


def test_several_words_are_replaced_in_their_order():
    assert changed('a b', {'a': 'c', 'c b': 'd'}) == 'd'


def test_the_nearest_line_is_shown():
    text = said(changed, SRC, 'if (i<n) x[i]', '')
    assert text.startswith("twice_k has no 'if (i<n) x[i]'; the nearest is line 4:\n    if (i < n) x[i] = 2*x[i];")


def test_the_line_of_several_that_is_not_there_is_named():
    error = said(changed, SRC, 'int i = threadIdx.x;                // who\n    if (i > n) x[i] = 2*x[i];', '')
    assert names(error, "'if (i > n) x[i] = 2*x[i];'", 'line 4')
    assert 'x[i] = 2*x[i]' in said(changed, SRC, 'if (i < n) x[i] = 2*x[i];\n}', '')


def test_a_text_like_none_has_no_nearest_line(): assert 'nor a' in said(changed, SRC, '@@@@', '')


def test_a_text_that_is_there_twice_names_its_lines():
    assert (names(said(changed, SRC, 'x[i] = 2*x[i];', ''), "'x[i] = 2*x[i];' 2 times", '4, 5:'))
    assert names(said(changed, 'aaa', 'a', 'b'), '3 times', 'line 1:')


def test_nothing_is_nowhere():
    assert 'twice_k' in said(changed, SRC, ' ', 'x')
    for args in (('a',), ({'a': 'b'}, 'c')):
        with pytest.raises(TypeError, match=r'changed\(original, old, new\)'): changed('a', *args)


def test_a_kernel_in_python_is_made_again():
    more = changed(add_k, '+ TW', '+ 2*TW')
    assert ran(add_k) == [4, 5, 6] and ran(more) == [8, 9, 10] and ran(changed(more, '2*TW', '3*TW', TW=1)) == [3, 4, 5]
    assert names(said(changed, add_k, '+TW', ''), 'add_k', "'+TW'", 'line 4')


def test_a_kernel_of_triton_is_made_again():
    more = changed(scale_k, 'TW*x', 'TW*x + 1')
    assert isinstance(more, Jitted) and more.fn.fn(5) == 21
    assert key(scale_k) == key(scale_k.fn.fn) != key(more)


def test_an_error_in_a_changed_kernel_shows_its_line():
    with pytest.raises(sim.MemcheckError, match=r'x\[i\+3\]'): ran(changed(add_k, 'x[i] +', 'x[i+3] +'))


def test_what_has_no_source_is_refused():
    assert 'no source' in said(changed, 7, 'a', 'b')
    space = {}
    exec(compile('def f(): pass', '<nowhere>', 'exec'), space)
    assert 'source of f ' in said(changed, space['f'], 'pass', 'return')


def test_a_rung_keeps_its_constants():
    r = Rung('r', SRC, threads=32, BM=4, BN=8)
    other = changed(r, 'if (i == 0)', 'if (i == 1)', name='other', BN=16)
    assert other.name == 'other' and other.constants == dict(BM=4, BN=16)
    assert other.src_without_constants == SRC.replace('i == 0', 'i == 1') and r.src_without_constants == SRC
    assert said(changed, r, 'if (i==0)', '').startswith('r has no ')


# Definitions

def test_a_kernel_is_defined_with_other_names(): assert ran(define(add_k, TW=8)) == [8, 9, 10]


def test_a_function_may_find_any_name_outside(monkeypatch):
    for o in ('what', 'words', 'new'): monkeypatch.setitem(add_k.py_func.__globals__, o, 7)
    assert ran(define(add_k)) == ran(changed(add_k, 'TW', '4')) == [4, 5, 6]


def test_a_closure_keeps_what_it_has():
    n = 5
    def f(): return n
    assert define(f)() == 5 and define(f, n=6)() == 6


def test_what_a_source_needs_is_requested():
    assert 'no function' in said(define, 'x = 1')
    assert 'define(text, cuda=cuda)' in said(define, '@cuda.jit\ndef k(x): pass')


@pytest.fixture
def lesson(tmp_path):
    cells = ["%load_ext x\nsrc = r'''\nint a;\n'''", '# a comment above\n@jit\ndef f(x):\n    return x',
             '%%cuda\nint f;', 'def f(', "a = 'x'", "a = 'y'"]
    cells = [dict(cell_type='code', source=o.splitlines(True)) for o in cells]
    (tmp_path/'06_cuda.ipynb').write_text(json.dumps(dict(cells=cells)))
    return tmp_path


def test_a_text_and_a_function_of_another_lesson(lesson):
    assert source_in('cuda', 'src', lesson) == '\nint a;\n'
    assert source_in('cuda', 'f', lesson) == '@jit\ndef f(x):\n    return x'


def test_what_a_lesson_lacks_is_reported(lesson):
    assert names(said(source_in, 'cuda', 'scr', lesson), '06_cuda.ipynb', 'scr', 'src')
    assert names(said(source_in, 'cuda', 'a', lesson), '06_cuda.ipynb', 'a 2 times')
    assert names(said(source_in, 'c', 'a', lesson), 'lesson', 'c ')


# Contests

class Turns(clocks.Clock):
    "A clock that knows how long each function takes"
    gpu, device, states, t = True, 'a fake GPU', (), 0.

    def now(self): return self.t

    def times(self, fn, n):
        fn()
        took = [Turns.last]*n
        self.t += sum(took)
        return took


def way(seconds, add=1.):
    def f(x, out):
        Turns.last = seconds
        out[:] = x + add
    return f


WAYS = {'slow': way(.004), 'fast': way(.001)}
SOURCES = {'slow': SRC, 'fast': add_k}


@pytest.fixture
def run(tmp_path, monkeypatch):
    "A comparison on a fake GPU, or without one"
    for v in ('GRIDSTRIDE_RECORD', 'GRIDSTRIDE_CLAIMS'): monkeypatch.delenv(v, raising=False)
    monkeypatch.setattr(recording, 'machine',
                        lambda tools=None: dict(gpu='NVIDIA H100', date='2026-11-22', versions={}))
    monkeypatch.setattr(recording, '_printed', set())

    def run(gpu, ways=WAYS, sources=SOURCES, record=False, **kw):
        monkeypatch.setenv('GRIDSTRIDE_RECORD', str(int(record)))
        monkeypatch.setattr(variants, 'backend', lambda: 'gpu' if gpu else 'sim')
        x = np.arange(5.)
        kw = dict(title='5 sums', check=x+1, writes=True, flops=4e9, columns={'registers': len}, clock=Turns(), **kw)
        return compare_variants('07_x', ways, lambda: (x, np.empty(5)), sources=sources, folder=tmp_path, **kw)
    return run


def test_the_table_says_where_and_what(run):
    c = run(True)
    assert c['slow'] == pytest.approx(4) and c.speedup('fast') == pytest.approx(4) == 1/c.speedup('slow', 'fast')
    assert c.tflops('fast') == pytest.approx(4)
    assert c.column_value('slow', 'registers') == 4 and repr(c).startswith('5 sums, NVIDIA H100, 2026-11-22\n')
    assert ['slow', '4.000', '1', '4', 'the baseline'] == c.table().rows[0] and c.table().rows[1][-1] == '4x'


def test_a_warning_about_several_is_printed_once():
    rows = dict.fromkeys('abc')
    warnings = [f'warning for {k}: {d}' for k in 'abc'
              for d in ('throttled: 1620 MHz', f'noisy: {"4" if k=="c" else "5"}%')]
    assert (repr(variants.VariantComparison('t', rows, 'a', warnings=warnings)).splitlines()[-3:]
            == ['warning for all: throttled: 1620 MHz', 'warning for a, b: noisy: 5%', 'warning for c: noisy: 4%'])


def test_a_recording_is_marked_in_the_title(run):
    run(True, record=True)
    c = run(False)
    assert c.table().title == '5 sums, recorded on an NVIDIA H100, 2026-11-22' in c._repr_html_()
    assert c['fast'] == pytest.approx(1)


def spelled(xs):
    n, b = 1, (2, 3)            # a comment
    for i, x in enumerate(xs): yield (lambda: x), {(i, n): b for i, a in xs}


def test_what_decides_is_spelled_alike_by_each_python():
    "Python 3.10 writes `(a, b) = ` and `lambda :`, and so refused recordings that were made with later ones"
    assert code_of(spelled) == """def spelled(xs):
    n, b = (1, (2, 3))
    for i, x in enumerate(xs):
        yield (lambda: x, {(i, n): b for i, a in xs})"""


def test_a_changed_comment_changes_nothing(run):
    run(True, record=True)
    other = {'slow': SRC.replace('// who', '/* me */'), 'fast': changed(add_k, '# who', '# me')}
    assert run(False, sources=other).speedup('fast') == pytest.approx(4)


@pytest.mark.parametrize('name,src',
    [('slow', SRC.replace('2*x[i];\n}', '3*x[i];\n}')), ('fast', changed(add_k, '+ TW', '- TW'))])
def test_a_changed_kernel_has_no_time_and_a_reason(run, capsys, monkeypatch, tmp_path, name, src):
    run(True, record=True)
    monkeypatch.setenv('GRIDSTRIDE_LOOKUPS', str(tmp_path/'lookups'))
    run(False)
    c = run(False, sources={**SOURCES, name: src})
    how = [line.split()[1] for line in (tmp_path/'lookups').read_text().splitlines()]
    assert 'stale' not in how[:2] and 'stale' in how[2:], 'the test of lessons reads it'
    other = next(o for o in WAYS if o != name)
    assert c[name] is None is c.speedup('fast') is c.tflops(name) is c.column_value(name, 'registers') and c[other]
    assert c.gbs(name, of=3e3) is None
    assert 'source' in repr(c)
    claim('fast', 3, c.speedup('fast'), 5, 'x')
    assert 'not measured' in capsys.readouterr().out


def test_a_row_gets_a_new_key_where_its_recording_is_named(run, monkeypatch):
    run(True, record=True)
    other = {**SOURCES, 'fast': changed(add_k, '+ TW', '- TW')}
    monkeypatch.setenv('GRIDSTRIDE_REKEY', '07_x')
    assert run(False, sources=other)['fast'] == pytest.approx(1)
    monkeypatch.delenv('GRIDSTRIDE_REKEY')
    assert run(False, sources=other)['fast'] == pytest.approx(1) and run(False)['fast'] is None


def test_what_the_text_expects_is_a_column(run, monkeypatch):
    c = run(True, record=True)
    assert 'expected' not in repr(c)
    c.expect('fast', 3, 5, guess=2).expect('slow', 3.9, 4.1, unit='ms').expect('slow', .2, .3, over='fast')
    assert names(c.expectation('fast'), '3 to 5x', '2x')
    assert re.findall(r'[\d.]+', c.expectation('slow')) == '3.9 4.1 0.2 0.3 0.25'.split()
    assert names(c.expectation('slow'), 'ms', 'fast')
    for shown in (repr(c), c._repr_html_()): assert c.expectation('slow') in shown
    head, *rows = repr(c).splitlines()[1:]
    assert 'H100' in head and head.index('expected') == rows[1].index('3 to 5x')
    assert '3 to 5x' in c._repr_html_()
    with pytest.raises(KeyError): c.expect('other', 1, 2)
    with pytest.raises(KeyError): c.expect('fast', 1, 2, over='other')


def test_what_the_text_expects_must_hold_where_outputs_are_stored(run, monkeypatch):
    run(True, record=True)
    monkeypatch.setenv('GRIDSTRIDE_CLAIMS', 'hold')
    with pytest.raises(AssertionError, match='fast'): run(True).expect('fast', 5, 6)
    assert names(run(False).expect('fast', 5, 6).expectation('fast'), '5 to 6x', 'not here')  # it stops no reader
    c = run(False, sources={**SOURCES, 'fast': 'another'})
    assert c.expect('fast', 3, 5).expectation('fast') == '3 to 5x'


def test_a_new_variant_has_a_row(run):
    run(True, record=True)
    c = run(False, ways={**WAYS, 'new': way(1)}, sources={**SOURCES, 'new': 'k'})
    assert c['new'] is None and c['slow'] == pytest.approx(4)


def test_a_wrong_variant_is_not_timed(run):
    with pytest.raises(AssertionError, match='wrong_one is'):
        run(True, ways={**WAYS, 'wrong_one': way(1, add=2.)}, sources={**SOURCES, 'wrong_one': 'k'})


def test_without_a_recording_the_reason_is_printed(run):
    with pytest.raises(Unavailable, match='NVIDIA GPU.*no recording'):
        run(False)


def test_what_decides_a_way_must_be_said(run):
    with pytest.raises(ValueError, match='sources=.*fast'): run(True, sources={'slow': SRC})
    with pytest.raises(ValueError, match='fats.*fast'): run(True, sources={**SOURCES, 'fats': 1})


def test_an_unknown_name_is_reported(run):
    with pytest.raises(KeyError, match=saying("'fats'", 'slow, fast')): run(True)['fats']
    with pytest.raises(KeyError, match="'regs'.*registers"):
        run(True).column_value('fast', 'regs')
