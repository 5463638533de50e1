"""The committed tables of benchmarks say what their JSON says, in the words of the programs that made both."""
import importlib.util, json, re, sys
from pathlib import Path

import pytest
from found import names

FOLDER = Path(__file__).parents[1]/'benchmarks'


@pytest.fixture
def program(monkeypatch):
    "Imports a benchmark as it is run, next to the modules that benchmarks share"
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name):
        spec = importlib.util.spec_from_file_location(f'benchmark_{name}', FOLDER/f'{name}.py')
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    yield load
    for o in 'rows', 'contenders': sys.modules.pop(o, None)


def test_a_walk_counts_files_functions_and_changes(program, tmp_path, monkeypatch):
    walks = program('walks')
    (tmp_path/'walk_a.py').write_text('import walk_b\ndef f(): return [walk_b.g(), walk_b.g(), 1/0]')
    (tmp_path/'walk_b.py').write_text('def g(): return h()\ndef h(): return 1')
    monkeypatch.syspath_prepend(str(tmp_path))
    f = importlib.import_module('walk_a').f
    assert walks.follow(f, tmp_path) == (2, 3, 1)
    assert walks.follow(f, tmp_path/'elsewhere') == (0, 0, 0)
    *_, row = walks.rows(tmp_path, {'f': lambda: f})
    assert row.split() == ['f', *'231231']


@pytest.mark.parametrize('name', ['attention', 'conv', 'fusion', 'latent', 'memory', 'products', 'quant', 'softmax',
                                  'sparse'])
def test_a_table_is_what_its_json_says(name, program):
    rows = json.loads((FOLDER/f'{name}.json').read_text())['rows']
    text = (FOLDER/f'{name}.txt').read_text().splitlines()
    lines = [o for o in text if any(mark in o for mark in ('/s  ', ' ratio ', ' FAILED '))]
    assert len(rows) > 20 and [program(name).format_row(row) for row in rows] == lines


def test_what_lessons_show_of_a_benchmark_is_what_it_measured(program):
    excerpts = program('excerpts')
    for name in excerpts.EXCERPTS:
        shown = json.loads((excerpts.RECORDED/name).read_text(encoding='utf-8'))
        assert shown == excerpts.excerpt(name), 'run benchmarks/excerpts.py'


def claims():
    "(what, speedup, goal or '', file of the table) of each row of the tables of claims, here and in the README"
    for row in (FOLDER/'README.md').read_text().splitlines():
        if found := re.fullmatch(r'\| (.*) \| \[.*\]\((\w+\.txt)\) \|', row):
            what, _, times, *goal = found[1].split(' | ')
            yield what, times, ''.join(goal), (FOLDER/found[2]).read_text()
    for what, times, table in re.findall(r'^\| (.*) \| .* \| \[(.*?)\]\(benchmarks/(\w+\.txt)\)',
                                         (FOLDER.parent/'README.md').read_text(), re.M):
        yield what, times, '', (FOLDER/table).read_text()


def is_there(claimed, text):
    "Is what is claimed a number of the table, rounded? A table of calls has times over the other's"
    digits, every = len(claimed.partition('.')[2]), map(float, re.findall(r'\d+(?:\.\d+)?', text))
    return any(claimed in (f'{o:.{digits}f}', f'{1/o:.{digits}f}' if o else '') for o in every)


@pytest.mark.slow
def test_the_readme_claims_what_the_tables_say():
    rows = list(claims())
    assert len(rows) > 50
    for what, times, goal, text in rows:
        lost = [o for o in re.findall(r'\d+(?:\.\d+)?', times) if not is_there(o, text)]
        assert not lost, f'{what}: its table has no {lost}'
        for o in re.findall(r'(?:^|[,;] |at most )(\d[\d.]*)(?: of its time| and none below 0.9)?(?=[:,;])', goal):
            assert f'goal {float(o)}' in text, f'{what}: its table has no goal {o}'


def test_a_claim_that_no_table_has_is_found():
    assert is_there('1.14', 'x 1.135 y') and is_there('1.9', '0.52 of torch') and not is_there('0.717', '0.727 0.7')


def test_a_run_prints_and_keeps_its_rows(program, tmp_path, monkeypatch, capsys):
    shared, (r, *_) = program('rows'), json.loads((FOLDER/'memory.json').read_text())['rows']
    made = dict(gpu='a GPU', date='today', versions=dict(torch='2'))
    monkeypatch.setattr(shared, 'machine', lambda: made)
    monkeypatch.setattr('sys.argv', ['memory.py'])
    format_row = program('memory').format_row
    shared.run('What it is', dict(one=lambda: iter([1, 2])), lambda job, seconds: [dict(r, seconds=job*seconds)],
               format_row, tmp_path/'kept.json', .5)
    assert [o['seconds'] for o in json.loads((tmp_path/'kept.json').read_text())['rows']] == [.5, 1.]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'a GPU, today, torch 2' and said[3] == 'one' and said[4] == format_row(dict(r, seconds=.5))


def test_the_table_of_launches_is_what_its_json_says(program):
    pytest.importorskip('triton')
    rows = json.loads((FOLDER/'launch.json').read_text())['rows']
    lines = [o for o in (FOLDER/'launch.txt').read_text().splitlines() if ' back to back ' in o]
    assert len(rows) > 20 and [program('launch').format_row(r) for r in rows] == lines


@pytest.mark.parametrize('name',
    ['every_shape', *(f'every_shape_seed{n}' for n in (2, 6, 7, 8, 9))])
def test_the_summary_of_every_shape_is_that_of_its_rows(name, program):
    every_shape, lines = program('every_shape'), (FOLDER/f'{name}.txt').read_text().splitlines()
    rows = json.loads((FOLDER/f'{name}.json').read_text())['rows']
    head, *families = every_shape.summary(rows)
    assert len(rows) >= 560 and head in lines and {*families} <= {*lines}
    assert [every_shape.format_row(r) in lines for r in rows].count(True) > .9*len(rows)    # the text was rounded later
    present = {r['family'] for r in rows}
    drawn = every_shape.draw_grid(json.loads((FOLDER/f'{name}.json').read_text())['seed'],
                                  [name for name in every_shape.FAMILIES if name in present])
    def key(tool, shape): return tool, tuple(shape)
    assert sorted(key(r.tool, r.shape) for r in drawn) == sorted(key(r['tool'], r['shape']) for r in rows)


@pytest.mark.parametrize('readme,names', [
    (FOLDER.parent/'README.md', ['every_shape_seed9']), (FOLDER/'README.md', ['every_shape_seed9'])])
def test_the_readmes_show_the_table_of_every_shape(readme, names, program):
    every_shape, text = program('every_shape'), readme.read_text().splitlines()
    runs = [json.loads((FOLDER/f'{name}.json').read_text())['rows'] for name in names]
    table = list(every_shape.readme_table(runs))
    families = {r['family'] for rows in runs for r in rows}
    assert len(table) == 2 + len(families) and {*table} <= {*text}


# Products compared with the library

def side(seconds, ratio, low, high, runs=()):
    return dict(seconds=seconds, fast=seconds*.99, slow=seconds*1.05, ratio=ratio, low=low, high=high, runs=[*runs])


def product_row(**more):
    "A row as `contenders.measure_product` makes it"
    sides = {'torch.matmul': side(30e-6, 1., 1., 1., [1.]*3), 'ours': side(20e-6, 1.5, 1.4, 1.6, [1.4, 1.5, 1.6]),
             'cublasLt': side(25e-6, 1.2, 1.1, 1.25, [1.2]*3)}
    row = {o: dict(mhz=[1700.2, 1980.], sides=sides) for o in ('written', 'read')}
    row |= dict(row=dict(mhz=None, sides={k: v for k, v in sides.items() if k != 'cublasLt'}),
                graph=dict(failed='RuntimeError: no'))
    return dict(shape=[64, 128, 256], dtype='bfloat16', layout='tn', way='matmul', plan='final: estimated', columns=row,
                pick=dict(number=3, tile=20), errors=dict(ours=1e-3)) | more


def test_ours_is_compared_with_each_other_side(program):
    program('matmul')
    contenders = sys.modules['contenders']
    row = product_row()
    assert contenders.speedup(row, 'read', contenders.TORCH) == (1.5, 1.4, 1.6)
    assert contenders.speedup(row, 'read', contenders.BEST) == pytest.approx((1.25, 1.4/1.25, 1.6/1.1))
    assert contenders.speedup(row, 'row', contenders.BEST) is contenders.speedup(row, 'graph', contenders.TORCH) is None
    assert contenders.row_lines(row) == [
        'bfloat16 tn 64x256 @ 256x128         0.21 TFLOP/s  final: estimated; the library\'s best is number 3; '
        'errors 1.0e-03',
        '    written      20.0 µs (19.8 to 21.0)            1.500 of torch.matmul (1.400 to 1.600) '
        'runs 1.400 1.500 1.600  1.250 of cublasLt (1.120 to 1.455)  1700 to 1980 MHz',
        '    read         20.0 µs (19.8 to 21.0)            1.500 of torch.matmul (1.400 to 1.600) '
        'runs 1.400 1.500 1.600  1.250 of cublasLt (1.120 to 1.455)  1700 to 1980 MHz',
        '    back to back 20.0 µs (19.8 to 21.0)            1.500 of torch.matmul (1.400 to 1.600) '
        'runs 1.400 1.500 1.600  clock not counted',
        '    graph        FAILED RuntimeError: no']
    assert contenders.row_lines(dict(product_row(), failed='E: x'))[0].endswith('FAILED E: x')


def test_a_mean_hides_neither_a_slow_shape_nor_a_missing_one(program):
    program('matmul')
    contenders = sys.modules['contenders']
    fast, slow = product_row(), product_row()
    slow['columns']['read'] = dict(mhz=None, sides={'torch.matmul': side(1, 1, 1, 1), 'ours': side(1, .8, .8, .8)})
    def said(*rows): return contenders.verdict(rows, 'read', contenders.TORCH, 1.02)
    assert names(said(fast, fast), '1.500', '1.500 to 1.500', '0 of 2', '0.9', '1.02', '0.9: reached')
    assert names(said(fast, slow), '1.095', '0.800 to 1.500', '1 of 2', '0.9') and said(fast, slow).endswith('MISSED')
    assert '1 without' in said(fast, dict(failed='x')) and said(fast, dict(failed='x')).endswith('MISSED')
    assert contenders.verdict([fast], 'graph', contenders.TORCH).endswith('not measured')
    part = contenders.verdict([fast], 'read', contenders.TORCH, 1.02, 40)
    assert '39 without' in part and part.endswith('MISSED'), 'a part of the shapes reaches nothing'


def test_kernels_are_named_call_by_call(program):
    program('matmul')
    contenders = sys.modules['contenders']
    mark = f'void at::native::vectorized<2, {contenders.MARK} >'
    names = ['copy', mark, 'a', 'reduce', mark, 'Fill<bfloat16>', mark, 'b', mark, 'end']
    assert contenders.split_calls(names, contenders.MARK) == [['a', 'reduce'], ['b']]


def test_rows_list_their_kernels(program, monkeypatch):
    "By a profiler that sees all launches, in the order of their beginnings, and not those before"
    from types import SimpleNamespace
    program('matmul')
    contenders, rows, launched = sys.modules['contenders'], [product_row(), product_row(failed='x')], []
    class Byte:
        def fill_(self, n): launched.append(contenders.MARK)
    made = contenders.torch.zeros(2, 2)
    monkeypatch.setattr(contenders.torch, 'zeros', lambda *_, **__: Byte())
    monkeypatch.setattr(contenders, 'operands', lambda *args: launched.append('fill') or (made,)*5)
    monkeypatch.setattr(contenders.torch, 'matmul', lambda a, b, out: launched.append('void nvjet<128>(int)'))
    monkeypatch.setattr(contenders, 'matmul', lambda a, b, out: launched.extend(['_Z7final_kv', 'sum']))
    picks = [None]*3 + [lambda m, n, out: launched.append('other')]
    monkeypatch.setattr(contenders.cublaslt, 'heuristic_kernels', lambda *args: picks)
    def profile(run):
        run()
        launched.clear()
        run()
        seen = [SimpleNamespace(kind='gpu', name=o, start=i) for i, o in enumerate(launched)]
        return SimpleNamespace(spans=[*reversed(seen), SimpleNamespace(kind='op', name='mm', start=0)])
    monkeypatch.setattr(contenders, 'profile', profile)
    contenders.add_kernel_names(rows)
    assert rows[0]['kernels'] == {'torch.matmul': ['nvjet'], 'ours': ['final_k', 'sum'], 'cublasLt': ['other']}
    assert 'kernels' not in rows[1]


def test_random_shapes_are_those_of_the_seed(program):
    m = program('matmul')
    jobs = m.bfloat16() + m.float16()
    assert len(jobs) == 240 and all(s % 8 == 0 and 64 <= s <= 8192 for o in jobs for s in o['shape'])
    kinds = [(o['dtype'], o['layout']) for o in jobs]
    assert [kinds.count(o) for o in dict.fromkeys(kinds)] == [40]*6
    assert m.random_shapes('bfloat16') == m.random_shapes('float16')
    first = [m.draw_shapes(dtype, draw)[0] for draw in (m.uniform, m.log_uniform) for dtype in ('float32', 'bfloat16')]
    assert first == [(2257, 397, 5993), (5240, 2256, 400), (2207, 73, 1657), (1408, 240, 80)], 'as in earlier tables'
    assert all(n % p for s in m.random_shapes('float32') for n in s for p in (2, 3, 5, 7))


def test_a_run_of_products_goes_on_where_it_was(program, tmp_path, monkeypatch, capsys):
    "After a failure that broke the GPU, in a new process; rows are kept one by one"
    m, path = program('matmul'), tmp_path/'rows.json'
    def made(job, seconds, runs):
        row = product_row(layout='nn', **{k: job[k] for k in ('shape', 'dtype', 'way')})
        return dict(row, failed='X: y') if len(seen) == 2 else dict(row, goal=1.45)
    seen = []
    monkeypatch.setattr(m, 'measure_job', lambda job, *args: seen.append(job) or made(job, *args))
    monkeypatch.setattr(m, 'is_gpu_broken', lambda: len(seen) == 2)
    args, res = m.parse_arguments(['goals', '--match', 'bfloat16']), dict(made={})
    assert not m.measure_parts(['goals'], args, res, path) and len(seen) == 2
    kept = json.loads(path.read_text())
    assert len(kept['goals']) == 2 and 'failed' in kept['goals'][1]
    assert m.measure_parts(['goals'], args, kept, path) and len(seen) == 2, 'all of these were done'
    said = capsys.readouterr().out
    assert names(said, 'goal 1.45', 'written reached', 'read reached') and 'FAILED X: y' in said
    late = m.parse_arguments(['bfloat16', '--most', '0'])
    monkeypatch.setattr(sys.modules['contenders'], 'compile_kernels', lambda wanted: 1/0)
    assert m.measure_parts(['bfloat16'], late, kept, path) and '120 of 120' in capsys.readouterr().out


def test_a_ladder_says_what_is_missed_and_goes_on(program, tmp_path, monkeypatch, capsys):
    "A rung that fails breaks the GPU, and the next process begins after it"
    m, path, res = program('matmul'), tmp_path/'rows.json', {}
    def measure(shape, dtype, ladder, rung, seconds, **more):
        if rung == 'shared': raise AssertionError('shared is wrong\nmore')
        return dict(seconds=1e-3, tflops=1., library_tflops=2., ratio=.5, low=.4, high=.6, error=0., library_error=0.)
    monkeypatch.setattr(m, 'measure_ladder_kernel', measure)
    monkeypatch.setattr(m, 'is_gpu_broken', lambda: True)
    args, times = m.parse_arguments(['ladders']), 0
    while not m.measure_parts(['ladders'], args, res, path): times += 1
    said = capsys.readouterr().out
    assert times == 2 and len(res['ladders']) == len(m.ladders()) and said.count('\nladders\n') == 1
    assert said.count('FAILED AssertionError: shared is wrong\n') == 2 and json.loads(path.read_text()) == \
        json.loads(json.dumps(res))
    assert names(said, 'tensor_cores: 0.500', 'goal 0.701: MISSED\n')


def test_what_was_kept_is_shown_without_a_gpu(program, tmp_path, monkeypatch, capsys):
    m, rows = program('matmul'), [product_row(kernels=dict(ours=['final_k'])), product_row(failed='X: y')]
    made = dict(gpu='a GPU', date='today', versions=dict(torch='2'), most_mhz=1980)
    (tmp_path/'kept.json').write_text(json.dumps(dict(made=made, bfloat16=rows)))
    monkeypatch.setattr('sys.argv', ['matmul.py', '--show', str(tmp_path/'kept.json')])
    m.main()
    said = capsys.readouterr().out
    assert said.startswith('a GPU, at most 1980 MHz, today, torch 2') and 'FAILED X: y' in said
    assert names(said, 'read', 'cublasLt', '1.250', '1.250 to 1.250', '0 of 1', '0.9', '39 without')
    assert said.splitlines()[-1] == 'bfloat16 tn 64x256 @ 256x128         ours         final_k'


@pytest.mark.parametrize('name', ['matmul', 'matmul_goals', 'matmul_bfloat16', 'matmul_float16', 'matmul_h200'])
def test_a_table_of_products_shows_its_json(name, program, capsys):
    program('matmul').print_results(json.loads((FOLDER/f'{name}.json').read_text()))
    assert capsys.readouterr().out == (FOLDER/f'{name}.txt').read_text()


def test_a_row_fails_alone(program, monkeypatch):
    m = program('matmul')
    def product(**given): raise AssertionError(f"{given['dtype']} is wrong\nsomewhere")
    monkeypatch.setattr(sys.modules['contenders'], 'measure_product', product)
    row = m.measure_job(dict(shape=(8, 8, 8), dtype='float16', way='tuned', columns=('none',)), .1, 1)
    assert row == dict(shape=(8, 8, 8), dtype='float16', layout='nn', way='tuned',
                       failed='AssertionError: float16 is wrong')


def test_a_product_is_timed_with_the_library(program, monkeypatch):
    "On the CPU, with a clock of its own and no cublasLt: all but the GPU's part"
    import torch
    m, contenders = program('matmul'), sys.modules['contenders']
    from gridstride.bench import clocks
    class Clock(clocks.Clock):
        most, mhz = 10, []
        def times(self, fn, n):
            self.mhz.append(1500.)
            return super().times(fn, n)
    monkeypatch.setattr(contenders, 'column_clocks', lambda names: {o: Clock for o in names})
    inputs = contenders.inputs
    def operands(shape, dtype, layout, make=inputs, real=contenders.operands):
        return real(shape, dtype, layout, lambda h, w, k, dtype, device: inputs(h, w, k, dtype))
    def no_picks(*args): raise RuntimeError('no library\nhere')
    monkeypatch.setattr(contenders, 'operands', operands)
    monkeypatch.setattr(contenders.cublaslt, 'heuristic_kernels', no_picks)
    row = contenders.measure_product((40, 24, 56), 'float32', 'tn', seconds=.01, columns=('none', 'row'), goal=1)
    assert row['goal'] == 1 and names(row['plan'], 'torch.matmul', 'GPU')
    assert row['no_pick'] == 'RuntimeError: no library'
    assert list(row['columns']['none']['sides']) == ['torch.matmul', 'ours'] and row['errors']['ours'] < 1e-6
    def wrong(a, b, out): torch.matmul(a, b, out=out)[3, 4] += 1
    wrong.name = 'wrong'
    monkeypatch.setattr(contenders, 'reads', lambda m: lambda: m.sum())
    row = contenders.measure_product((40, 24, 56), 'float32', seconds=.01, columns=('none',), reading=True, goal=1e-9)
    assert list(row['columns']['none']['sides'])[-1] == contenders.READS and contenders.READS not in row['errors']
    row |= dict(way='matmul', reading=True)
    assert sys.modules['contenders'] is m.contenders and names(m.row_lines(row)[-1], 'goal 1e-09', 'none reached')
    with pytest.raises(AssertionError, match='3, 4'): contenders.measure_product((40, 24, 56), 'float32', 'nn', wrong)
    def lazy(a, b, out): torch.matmul(a[:39], b, out=out[:39])
    lazy.name = 'lazy'
    with pytest.raises(AssertionError): contenders.measure_product((40, 24, 56), 'float32', 'nt', lazy)


def test_the_table_of_older_gpus_has_every_lesson_up_to_20(program):
    from gridstride.course import lessons
    turing = program('turing')
    stems = [p.stem for p in lessons.lessons() if p.name[:2] in turing.LESSONS]
    head, *rows = (FOLDER/'turing.txt').read_text(encoding='utf-8').splitlines()
    assert head.split()[-1] == turing.ARCH and [o.split()[0] for o in rows if not o.startswith(' ')] == stems
    made = [['CUDA C', 'a', ''], ['CUDA C', 'b', 'too large'], ['CUDA C', 'b', 'too large'], ['Triton', 'c', '']]
    count, reason = turing.lines(stems[0], made)
    assert count.split() == [stems[0], *'3102'] and reason.split() == ['b,', 'CUDA', 'C:', 'too', 'large']
