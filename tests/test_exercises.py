"Every exercise: its stub is not tried yet, its solution passes, other right answers, too; wrong ones are refused."
import ast
import importlib
import json
import linecache
import os
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest
from exhaustive import mark_exhaustive

from gridstride.course.grading import WrongAnswer, exercise, hint, problems
from gridstride.diagnostics.errors import SameValueRace
from gridstride.course.curriculum import lesson_of_file
from gridstride.course.lessons import RENAMED, read_progress
from gridstride.support.short_tracebacks import RUN_FIRST_CELL, point_to_first_cell
from gridstride.sim import cuda
from right import answers as right_answers
from wrong import answers
from found import names, saying
from warm import run_python

root = Path(__file__).parents[1]
lessons = sorted((root/'nbs').glob('[0-9]*.ipynb'))
for f in sorted(o for kind in ('right', 'wrong') for o in Path(__file__).parent.glob(f'{kind}/[a-z]*.py')):
    importlib.import_module(f'{f.parent.name}.{f.stem}')


@lru_cache(None)
def cells(nb, kind):
    return [(''.join(c['source']), c['metadata'].get('tags', []))
            for c in json.loads(nb.read_text(encoding='utf-8'))['cells'] if c['cell_type']==kind]

def name_in(src): return (m := re.search(r"@exercise\('([\w.]+)'\)", src)) and m[1]

def stubs(nb): return {name_in(src): src for src,_ in cells(nb, 'code') if name_in(src)}

def solutions(nb):
    "Solution code by exercise, from the folded cells"
    folded = [src for src,tags in cells(nb, 'markdown') if 'solution' in tags]
    for src in folded: assert re.match(r'<details><summary>Solution of [\w.]+</summary>\n\n```python\n', src), src[:60]
    return {name_in(src): re.search(r'```python\n(.*?)```', src, re.S)[1] for src in folded}

def imports_of(src):
    "The lines of a cell that import, and not those of texts in it"
    try: return [ast.unparse(o) for o in ast.parse(src).body if isinstance(o, (ast.Import, ast.ImportFrom))]
    except SyntaxError: return [l for l in src.splitlines() if l.startswith(('from ','import '))] # it has magics, too

@lru_cache(None)
def imports(nb):
    "All that a lesson imports, and the runners"
    return '\n'.join([*(l for s,_ in cells(nb, 'code') for l in imports_of(s)),
                      'from gridstride.course.runner import *'])

def run(nb, src, name):
    "Run `src` as a cell of `nb` would, after `imports`"
    space = {}
    exec(imports(nb), space)
    file = f'<{name}>'
    linecache.cache[file] = (len(src), None, src.splitlines(True), file)
    exec(compile(src, file, 'exec'), space)

by_name = {name: nb for nb in lessons for name in stubs(nb)}
chapters = {}  # chapter -> its lessons
for nb in lessons: chapters.setdefault(lesson_of_file(nb.name).chapter, []).append(nb)


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch): monkeypatch.setenv('GRIDSTRIDE_PROGRESS', str(tmp_path/'progress.json'))


FEWER = dict(flash_attention_hopper=1)  # exercises of a chapter that waits for more


@pytest.mark.parametrize('chapter', chapters)
def test_chapter_has_its_exercises(chapter):
    importlib.import_module(f'gridstride.course.exercises.{chapter}')
    mine = {k for k in problems if k.partition('.')[0] == chapter}
    assert all(set(stubs(nb)) == set(solutions(nb)) for nb in chapters[chapter])
    assert {k for nb in chapters[chapter] for k in stubs(nb)} == mine and len(mine) >= FEWER.get(chapter, 3)
    for k in mine: assert len(problems[k].hints) >= 2 and len(problems[k].cases) >= 3

@pytest.mark.parametrize('name', by_name)
def test_stub_is_not_tried(name, capsys):
    run(by_name[name], stubs(by_name[name])[name], name)
    assert 'not tried' in capsys.readouterr().out
    assert read_progress() == {}

@pytest.mark.slow
@pytest.mark.parametrize('name', by_name)
def test_solution_passes_and_is_remembered(name, capsys):
    run(by_name[name], solutions(by_name[name])[name], name)
    assert capsys.readouterr().out.count(f'{name}: right, on all') == 1
    assert list(read_progress()) == [name]

@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize('name', by_name)
def test_solution_passes_again_and_again(name, capsys):
    "Each time with other random inputs"
    for _ in range(3): run(by_name[name], solutions(by_name[name])[name], name)
    assert capsys.readouterr().out.count(f'{name}: right, on all') == 3

@lru_cache(None)
def refusal(name, fn):
    "The message that refuses a wrong answer, judged once; nothing counts as solved"
    with pytest.raises(WrongAnswer) as e: exercise(name)(fn)
    assert read_progress() == {}
    return str(e.value)

def cases_of_each(answers):
    "Cases of a test, of which the first answer to each exercise runs each time"
    seen = set()
    for answer in answers:
        yield mark_exhaustive(answer) if answer[0] in seen else answer
        seen.add(answer[0])

def ids_of(answers): return [f'{name}-{fn.__name__}' for name,fn in answers]


@pytest.mark.slow
@pytest.mark.parametrize('name,fn', cases_of_each(answers), ids=ids_of(answers))
def test_wrong_answer_is_refused(name, fn):
    said = refusal(name, fn)
    assert said.startswith(name) and f"hint('{name}')" in said
    assert 'ChangeError' not in said # it is not an answer: `changed` did not find its text

@pytest.mark.slow
@pytest.mark.parametrize('name,fn', cases_of_each(right_answers), ids=ids_of(right_answers))
def test_another_right_answer_is_accepted(name, fn):
    exercise(name)(fn)
    assert list(read_progress()) == [name]

@pytest.mark.slow
@pytest.mark.parametrize('name,changes', [
    ('cuda_c.linear', {'linear_k<<<blocks': '// linear_k<<<1, 256>>> would do it alone\n        linear_k<<<blocks'}),
    ('source_to_sass.wide', {'float o = 0': 'float4 s = make_float4(0, 0, 0, 0)',
                 'a = x4[i], b = y4[i]': 'a = __ldg(x4 + i), b = __ldg(y4 + i)',
                 'o += a.x*b.x; o += a.y*b.y; o += a.z*b.z; o += a.w*b.w;\n    }':
                 's.x += a.x*b.x; s.y += a.y*b.y; s.z += a.z*b.z; s.w += a.w*b.w;\n    }\n'
                 '    float o = s.x + s.y + s.z + s.w;'}),
    ('shared_memory_cuda.swap', {' mine[': ' tiles.mine[', ' other[': ' tiles.other[',
                 '__shared__ float tiles.mine[tw][tw], tiles.other[tw][tw]':
                 'struct Tiles { float mine[tw][tw], other[tw][tw]; };\n    __shared__ Tiles tiles'})])
def test_a_solution_may_be_written_otherwise(name, changes):
    src = solutions(by_name[name])[name]
    for old, new in changes.items():
        assert old in src
        src = src.replace(old, new)
    run(by_name[name], src, name)
    assert list(read_progress()) == [name]

def changed_solution(name, old, new):
    "The lesson's own solution with `new` in place of `old`"
    src = solutions(by_name[name])[name]
    assert old in src
    return src.replace(old, new, 1)

def refused(src, name):
    "What a notebook shows when `src`, a cell, hands in a wrong answer"
    with pytest.raises(WrongAnswer) as e: run(by_name[name], src, name)
    return '\n'.join(e.value._render_traceback_())

def test_a_wrong_answer_shows_its_message_and_its_own_line():
    "The line number is that in its cell, whatever is above the function; in a file, that in the file"
    src = "import math\n\n@exercise('first_kernel.invert')\ndef f(i, x, out, n):\n    out[i] = 1-x[i]\n"
    said = refused(src, 'first_kernel.invert')
    assert '64 started' in said and 'a guard' in said and names(said, 'line 5', ': out[i] = 1-x[i]')
    def f(i, x, out, n): out[i] = 1-x[i]
    with pytest.raises(WrongAnswer, match=rf'in line {f.__code__.co_firstlineno} of test_exercises.py: def f'):
        exercise('first_kernel.invert')(f)

@pytest.mark.parametrize('name,size', [('a_range_per_block', 'arange(0, 0)'), ('a_shape_per_block', '[1, 0]')])
def test_the_advice_on_an_empty_block_keeps_to_the_task(name, size):
    "In quantization.two, G may be greater than BLOCK"
    wrong = next(fn for task, fn in answers if task == 'quantization.two' and fn.__name__ == name)
    with pytest.raises(WrongAnswer) as e: exercise('quantization.two')(wrong)
    said = str(e.value)
    assert names(said, 'G=32', 'BLOCK=16', size, 'BLOCK//G', 'c//G') and 'next' not in said, said

def test_an_optional_argument_without_a_default_is_not_called_read():
    wrong = next(fn for task, fn in answers if fn.__name__ == 'optional_without_default')
    with pytest.raises(WrongAnswer) as e: exercise('custom_ops.schema')(wrong)
    assert "'read')" not in str(e.value).partition('an argument is')[2], str(e.value)

def test_a_finding_has_its_line_once():
    src = """# one line above it
@exercise('reductions.rows')
def norms():
    @cuda.jit
    def k(x, out): out[cuda.grid(1)] = x[0,0]
    return k
"""
    said = refused(src, 'reductions.rows')
    assert 'line 5: def k' in said and said.count('out[cuda.grid(1)] = ') == 1

def test_a_warning_of_one_line_is_shown_once_for_all_cases():
    src = """@exercise('reductions.rows')
def norms():
    @cuda.jit
    def k(x, out):
        r,v = cuda.grid(1)//32,np.float32(0)
        if r < x.shape[0]:
            for c in range(cuda.threadIdx.x % 32, x.shape[1], 32): v += x[r,c]**2
        for d in (16, 8, 4, 2, 1): v += cuda.shfl_xor_sync(0xffffffff, v, d)
        if r < x.shape[0]: out[r] = v**.5
    return k
"""
    with pytest.warns(SameValueRace) as caught: run(by_name['reductions.rows'], src, 'reductions.rows')
    races = [str(o.message) for o in caught if issubclass(o.category, SameValueRace)]
    assert len(races) == 1, races                   # others warn of what they like meanwhile

def test_a_message_shows_how_a_kernel_may_call_a_host_function():
    src = """@exercise('reductions.rows')
def norms():
    @cuda.jit
    def k(x, out): out[cdiv(cuda.grid(1), 32)] = 0
    return k
"""
    assert 'cdiv = cuda.jit(device=True)(cdiv)' in refused(src, 'reductions.rows')

def test_an_answer_that_is_not_a_function_is_refused():
    def f(i, x, out, n): out[i] = 1-x[i]
    with pytest.raises(TypeError, match=r"@exercise\('first_kernel.invert'\)"): exercise(f)
    with pytest.raises(TypeError, match='cuda_c.axpy .*str.*@exercise'):
        exercise('cuda_c.axpy')('__global__ void axpy() {}')
    with pytest.raises(LookupError, match="'99.invert'.*'first_kernel.invert'"): exercise('99.invert')
    with pytest.raises(LookupError, match='first_kernel.invert, first_kernel.flip'): exercise('01.inver')

@pytest.mark.parametrize('name', ['1.invert', ' 01.invert', ' first_kernel.invert ', 'invert', None])
def test_a_hint_is_found_by_a_short_name(name, capsys, monkeypatch):
    "And with no name it is of the exercise whose cell was run last"
    invert = 'first_kernel.invert'
    run(by_name[invert], stubs(by_name[invert])[invert], invert)
    monkeypatch.setattr(problems['first_kernel.invert'], 'shown', 0)
    hint(name) if name else hint()
    assert problems['first_kernel.invert'].hints[0] in capsys.readouterr().out

@pytest.mark.parametrize('cell, pointed', [
    ("@exercise('first_kernel.invert')\ndef invert(i, x, out, n): ...", True), ("hint('first_kernel.invert')", True),
    ("np\n@exercise('first_kernel.invert')\ndef invert(i, x, out, n): ...", True), ('nothing_of_ours', False)])
def test_an_exercise_before_the_first_cell_says_what_to_run(cell, pointed, ipython, capsys):
    point_to_first_cell()
    ipython.run_cell(cell, store_history=True)
    assert (RUN_FIRST_CELL in (said := capsys.readouterr().out)) == pointed and 'NameError' in said

def test_a_hint_before_any_exercise_says_how_to_ask(monkeypatch, capsys):
    monkeypatch.setattr('gridstride.course.grading._last', None)
    hint()
    assert "hint('first_kernel.invert')" in capsys.readouterr().out

@pytest.mark.parametrize('src, own', [
    ("@exercise('first_kernel.invert')\ndef invert(x, out): out[0] = 1-x[0]\n", 'invert(x, out)'),
    ("@exercise('first_kernel.invert')\ndef invert(i, x, out, n, m): out[i] = 1-x[i]\n", 'invert(i, x, out, n, m)'),
    ("@exercise('reductions.rows')\ndef norms(x, out): return cuda.jit(lambda x, out: 0)\n", 'norms(x, out)')])
def test_a_changed_def_line_is_named(src, own):
    name = src[11:src.index("')")]
    assert own in refused(src, name)
    src = "@exercise('first_kernel.invert')\ndef invert(i, x, out, n): max(1, 2, kay=3)\n"
    assert own not in refused(src, 'first_kernel.invert')

def test_the_first_of_several_faults_is_shown_alone(recwarn):
    "An early return leads to all that follows it"
    index = 't = cuda.threadIdx.x\n'
    src = changed_solution('reductions.keep', index, f'{index}        if t >= x.size: return\n')
    said = refused(src, 'reductions.keep')
    assert 'thread (8) has' in said and not [w for w in recwarn if w.category.__name__ == 'EarlyReturn']
    assert said.index('has returned') < said.index('count[0]')

def test_atomics_are_named_before_what_they_lead_to():
    src = """@exercise('reductions.keep')
def keep():
    @cuda.jit
    def keep_k(x, out, count):
        t = cuda.threadIdx.x
        if t < x.size and x[t] > 0: out[cuda.atomic.add(count, 0, 1)] = x[t]
    return keep_k
"""
    said = refused(src, 'reductions.keep')
    assert 'atomic' in said and 'out[-1]' not in said
    src = """@exercise('reductions.last')
def last():
    @cuda.jit
    def sum_k(x, parts, ticket, out):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)): cuda.atomic.add(out, 0, x[i])
    return sum_k
"""
    said = refused(src, 'reductions.last')
    assert 'atomic' in said and 'cuda.atomic.add(ticket, 0, 1)' in said and 'NaN' not in said

@pytest.mark.parametrize('name, old, new, shown', [
    ('quantization.order', '[0, 2, 4, 6, 1, 3, 5, 7]', '[0, 1, 2, 3, 4, 5, 6, 7]',
     r'q\[0, 0:8\] = \[(-?\d, ){7}-?\d\]'),
    ('quantization.three', 'b[...,0] | b[...,1] << 8 | b[...,2] << 16', 'b[...,2] | b[...,1] << 8 | b[...,0] << 16',
     r'\[(\d+, ){2}\d+\]: 24 bits [01]{24}')])
def test_a_wrong_word_is_shown_with_its_input(name, old, new, shown):
    assert re.search(shown, refused(changed_solution(name, old, new), name))

def test_an_endless_loop_is_reported():
    "Memory counts; if it cannot, an interrupt shows the line of the loop and nothing of the judge"
    def ends_never(blockIdx, threadIdx, blockDim, gridDim, x, out, n):
        i = blockIdx.x*blockDim.x + threadIdx.x
        while i < n: out[i] = 2*x[i]
    with pytest.raises(WrongAnswer, match=saying('200,001', 'loop', '\n  in line')):
        exercise('blocks_and_threads.grid_stride')(ends_never)
    def stopped(k, tw): raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt) as e: exercise('threads_and_barriers.waits')(stopped)
    said, = e.value._render_traceback_()
    assert re.fullmatch(r'Interrupted: threads_and_barriers.waits .* k=256, tw=16:\n'
                        r'  in line \d+ of test_exercises.py: def stopped.*\n.*\?', said)

def test_a_missing_return_is_named():
    "A source alone is not a stub, and None is not an answer; a kernel returns nothing"
    def no_return(x): x + x
    def text():
        "__global__ void put() {}"
    for name,fn in (('shared_memory.split',no_return), ('matmul_ladder.edges',text), ('matmul_ladder.buffers',text)):
        with pytest.raises(WrongAnswer, match=saying(name, 'not right', 'no `return`')): exercise(name)(fn)
    with pytest.raises(WrongAnswer, match='a kernel'): exercise('memory.transpose')(cuda.jit(no_return))

# The facts in the message of a wrong answer (indices, counts, sizes, the code to write): lesson -> (answer, facts)
FACTS = {
    'first_kernel': [
        ('catches_out_of_bounds', 'x[', '0 to 32'), ('returns', '`out[i] = ...`'),
        ('renames_out', '`out = ...`', '`out[i]`'), ('kernel_of_cuda', '@cuda.jit'), ('calls_memory', ' x[i]'),
        ('mirrors_the_whole_picture', 'read 6 ', ' 1:'), ('row_and_column_as_index', 'x[r*w + c]'),
        ('row_with_a_remainder', '.0]', '//'), ('rotates_the_whole_picture', 'read 105 ', ' 3:')],
    'blocks_and_threads': [
        ('maxima_of_all_rows', 'index 0 read 99 ', ' 3:'), ('whole_product', 'read 42 ', ' 6:'),
        ('two_brackets', 'x[r*w + c]', 'x[r][c]'), ('whole_dim3', 'blockIdx.x'),
        ('not_transposed', '3 rows of 9', '9 rows of 3'), ('one_each', 'the first 12 of 50 ')],
    'shared_memory': [
        ('lists', 'view 0 ', 'list'), ('pads_all_of_x', 'read 15 ', ' 1:'), ('list_for_shared', '`shared`'),
        ('catches_the_end', 'x[-1]', '0 to 8')],
    'threads_and_barriers': [
        ('no_wait', 'block (0) in line 26', 'barrier'), ('wait_in_the_if', 'line 72', 'barrier'),
        ('thread_0_reverses', '1 of 8 threads'), ('calls_the_barrier', 'syncb.wait()'),
        ('each_adds_up_its_own', '6 steps', 'd = 1, 2, 4'), ('thread_0_adds_up', 'thread (0) reads 40 '),
        ('index_without_cuda', "'blockIdx'", 'cuda.blockIdx')],
    'cuda_c': [
        ('first_thread_does_all', 'out[128]'), ('first_block_does_all', 'out[128]'),
        ('index_of_sixteen_bits', 'n=40000'),
        ('arguments_in_another_order', '(a, x, y, out, n)', '(a, y, x, out, n)'),
        ('double_arrays', 'float32', '.to(torch.float64)'), ('index_without_a_type', '`int i = ...`'),
        ('returns_the_sum', '`void`'), ('writes_what_is_const', '`const`'), ('one_number_for_out', '`float *x`'),
        ('index_with_a_fraction', '`int i = ...`'), ('writes_the_elements_of_others', 'out['),
        ('divides_as_in_python', '`//`', '`/`'), ('one_thread_a_row', 'out[1'), ('guard_left', '`r <= h`'),
        ('product_of_torch', '__global__'), ('one_thread_for_all_results', 'one block'),
        ('two_brackets', 'angle brackets')],
    'shared_memory_cuda': [
        ('one_thread_for_all_tiles', 'first block'), ('one_pair_of_brackets', 'brackets per index'),
        ('tiles_of_tw', ' tk,'), ('tile_for_nothing', 'ms '), ('everyone_fills_the_row', 'the same value')],
    'numba': [
        ('a_plain_function', '@cuda.jit'), ('and_of_bits', '`and`', '`r < out.shape[0] & c < out.shape[1]`'),
        ('one_thread_for_the_picture', '1 thread wrote 256 '), ('one_thread_for_all_rows', '1 thread wrote 64 '),
        ('first_warp_brings_the_tile', '32 threads', ' 256 '), ('first_block_counts_all', '256 threads read 2145 '),
        ('first_threads_add_all', '2 threads added 512 '), ('one_pixel_each', '512 of 2000 ', '16 rows', '32 columns'),
        ('wide_sum', 'double total')],
    'profiling': [('none_for_no_operator', "''", 'None')],
    'source_to_sass': [
        ('counts_of_sixteen_bits', 'h=4, w=70000, equal=True'), ('one_thread_for_all', ' 63 of 64 threads')],
    'memory': [
        ('calls_the_library', '`gridstride.layout`'), ('one_warp_of_eight', 'thread 0 writes 32 ', ' 256 ', '4'),
        ('one_block_for_all_tiles', 'thread 0 writes 24 ')],
    'checklist': [
        ('one_thread_for_all_pieces', '1 thread counted 64 '), ('one_thread_for_all_columns', '1 thread wrote 64 ')],
    'reductions': [
        ('one_warp_for_all_rows', '1 warp wrote 4 rows'), ('by_the_school_formula', 'm2 is', 'Square'),
        ('the_first_block_does_all', 'block 0 ', 'grid-stride loop'),
        ('one_thread_without_a_ticket', '0 tickets for 1 block'),
        ('the_last_block_does_all', 'parts[0]', 'NaN')],
    'softmax': [
        ('one_thread_does_all', 'thread 0 writes 64 of 64 '), ('one_warp_of_two', 'thread 0 writes 2 of 64 '),
        ('all_threads_add_up_the_row', ' 1038 times', ' 511:', '`m`', '`s`'),
        ('one_program_writes_all', 'program 0 writes 5 rows'), ('one_number_after_the_other', ' 1 of 4 ', ' BLOCK, 4 '),
        ('a_block_that_holds_all_rows_here', ' 9 of 9 '), ('one_program_does_all', 'program 0 writes 3 rows')],
    'flash_attention_hopper': [('values_alone', '(tile, masked)', '0')],
    'flash_attention': [
        ('queries_alone', 'dq, dk and dv', 'ndarray')],
    'quantization': [
        ('one_program_does_all', 'program 0 writes y[2]', '0 to 1'),
        ('a_block_that_holds_all_columns_here', ' 24 of 24 columns', 'BLOCK'),
        ('one_column_after_the_other', ' 4 of 16 columns')],
    'sparsity': [
        ('one_thread_for_all', 'no thread adds', 'atomic'), ('a_column_each', 'atomic', 'row of the matrix'),
        ('one_warp_for_all', 'threads add', 'atomic')],
    'ring_attention': [
        ('keeps_all_parts', 'rank 0 of 3 keeps 3 '), ('returns_at_once', '`yield`'),
        ('the_left_neighbour_again', 'rank 0 of 3', '[0, 2, 2]'), ('once_too_often', '2 exchanges', ' 1 '),
        ('a_mean', 'rank 0 of 2', 'keys'), ('with_its_lse', 'rank 0 of 2 returned 2 ', '`out`'),
        ('one_element_short', 'dk of rank 0 of 2', 'rank 1'), ('keys_alone', '33.7422 us', '67.4601 us'),
        ('without_a_mask', '3 ranks', '[1, 1, 2, 0, 0, 2]', '1.000000', '0.636364'), ('all_keys_at_once', '`attend`'),
        ('rows_go_round', 'rank 0 of 2', 'rows of rank 1', '`q`'),
        ('every_rank_has_everything', 'rank 0 of 2', 'rows of rank 1')],
    'tensor_cores': [
        ('not_swizzled', 'columns 0 to 7', '0, 2, 4, 6', '0 to 3'), ('leaves_the_row', 'row 4 ', '128 to 159', ' 160'),
        ('two_columns_at_one_address', 'row 0', '0 and 8', ' 0'), ('quarters_of_a', '`a[1]`', '`a[2]`'),
        ('halves_of_b', '`b[0]`', '`b[1]`'), ('registers_of_d', '`d[1]`', '`d[2]`'), ('sums_start_again', 'along k'),
        ('quarters_as_in_the_lesson', '`a[1]`', '`a[2]`'), ('a_is_not_transposed', 'quarter of `a`', 'transposed'),
        ('a_as_it_is_stored', '16x16', '`a`', 'transposed'), ('b_is_not_transposed', '8x8', '`b`', 'transposed')],
    'hopper_gemm': [
        ('no_swizzle', 'byte 128', 'byte 144', 'got 128'), ('consumers_of_this_block_only', 'empty', ' 4; got 2'),
        ('what_this_producer_orders', ' 49152; got 32768'), ('every_producer_announces', 'full', ' 1; got 2'),
        ('bytes_not_sixteens', '0x40', 'at=0x400, lead=8192, stride=1024, swizzle=128', '16 bytes'),
        ('a_single_stage_will_do', ' 1', 'count as 0', 'got 1'),
        ('pairs_of_column_and_row', '(0, 16)', '0 to 31', '0 to 15'),
        ('counts_of_tiles', '(row, column)', 'got [0, 1, '), ('by_rows', ' 1.03 ')],
    'latent_attention': [
        ('as_if_contiguous', '2, 2, 2', '5 pages'), ('heads_share_the_bytes', ' 0.000389664 ', ' 4.5921e-05'),
        ('scale_of_the_wide_row', '`scores`', '`means`'), ('positions_forgotten', '`scores`', 'last 2 '),
        ('pieces_in_one_list', '(sequence, first, end)', 'got 0'),
        ('equal_pages', 'SM 7 ', '[(3, 18, 22), (4, 0, 5), (5, 0, 1)]', ' 25', ' 17'),
        ('all_weigh_the_same', 'out: '), ('the_largest_lse', 'lse: ')],
    'where_next': [
        ('steps_of_32', 'warps of 64', 'blocks of 64', '32'), ('atomics_instead', 'atomic', 'shuffles'),
        ('a_tree_in_shared_memory', 'barriers', 'shuffles'), ('counts_of_elements', '(0, 0)', '(0, 4)', '2 by 4'),
        ('columns_first', '(0, 2)', '(2, 0)', '2 by 4')],
}

@pytest.mark.parametrize('lesson,which,facts',
                         [(n, which, facts) for n, rows in FACTS.items() for which, *facts in rows])
def test_a_message_has_the_facts(lesson, which, facts):
    name,fn = next((name, fn) for name,fn in answers if fn.__name__==which and name.startswith(f'{lesson}.'))
    said = refusal(name, fn).partition(f'{name} is not right yet')[2].rpartition('\n  hint(')[0]
    assert [o for o in facts if o not in said] == [], said

@pytest.mark.parametrize('name', by_name)
def test_an_answer_is_returned_or_written(name):
    exercise(name)      # which knows the problems of its lesson from now on
    solution = next(o for o in ast.parse(solutions(by_name[name])[name]).body
                    if isinstance(o, ast.FunctionDef) and o.decorator_list)
    inner = {r for o in ast.walk(solution) if isinstance(o, ast.FunctionDef) and o is not solution for r in ast.walk(o)}
    assert problems[name].returns == any(isinstance(o, ast.Return) and o.value is not None and o not in inner
                                         for o in ast.walk(solution))

@pytest.mark.slow
def test_progress_is_kept_next_to_the_lessons(tmp_path, monkeypatch):
    "In each copy of the notebooks, wherever the package is installed, also when a cell leaves the folder"
    monkeypatch.delenv('GRIDSTRIDE_PROGRESS')
    nb = by_name['first_kernel.invert']
    code = '\n'.join(['import os', *(l for s,_ in cells(nb, 'code') for l in s.splitlines()
        if l.startswith(('from gridstride','from utils'))), "os.chdir('/')", "exec(open(os.environ['CELL']).read())"])
    (tmp_path/'cell.py').write_text(solutions(nb)['first_kernel.invert'])
    for who in ('anne', 'bob'):
        (tmp_path/who).mkdir()
        (tmp_path/who/nb.name).write_text('{"cells": []}')
    env = {**os.environ, 'CELL': str(tmp_path/'cell.py'), 'HOME': str(tmp_path), 'PYTHONPATH': str(root)}
    for where in (tmp_path/'anne', tmp_path):
        run_python('-c', code, cwd=where, env=env).check_returncode()
    found = {str(p.relative_to(tmp_path)): list(read_progress(p)) for p in sorted(tmp_path.rglob('*progress.json'))}
    assert found == dict.fromkeys(['.gridstride/progress.json', 'anne/.progress.json'], ['first_kernel.invert'])

def test_exercises_that_were_renamed_stay_solved(tmp_path):
    "Those that a reader solved when ids had the number of the lesson, too"
    path = tmp_path/'progress.json'
    path.write_text('{"solved": {"13.turns": "2026-01-02", "01.invert": "2026-01-01", "24.wide": "2026-01-03",'
                    ' "cuda_c.axpy": "2026-01-04", "99.none": "2026-01-05", "17.tiles": "2026-01-06"}}')
    assert read_progress(path) == {
        'matmul_ladder.buffers': '2026-01-02', 'first_kernel.invert': '2026-01-01', 'where_next.wide': '2026-01-03',
        'cuda_c.axpy': '2026-01-04', '99.none': '2026-01-05', 'flash_attention_hopper.tiles': '2026-01-06'}
    assert set(RENAMED.values()) <= set(by_name) and not set(RENAMED) & set(by_name)

def test_three_wrong_answers_each():
    counts = Counter(name for name,_ in answers)
    assert {name for name in by_name if counts[name] < 3} == set()
