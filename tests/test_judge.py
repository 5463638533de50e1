"The judge: honest kernels are accepted, cheats rejected each for its own reason, and nothing of them is left."
import math
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from exhaustive import mark_exhaustive, some
import torch
from gridstride.judge import TASKS, FormError, Task, cheats, honest, processes, read_submission, write_submission
from gridstride.judge.__main__ import main
from gridstride.judge.tolerance import find_mismatch
from cheat_reasons import REASONS, reasons_for
from found import names, saying
from judging import ON_GPU, cpu_only, judge, where

pytestmark = where
HEAD = 'import torch\n\n'


def softmax(body, head=''):
    "A submission for softmax"
    return f'{HEAD}{head}\n\ndef custom_kernel(data):\n    {body}\n'


def verdict(body, head='', **options): return judge(softmax(body, head), 'softmax', **options)


def test_there_are_enough():
    assert sorted(REASONS) == sorted(cheats()) and len(cheats()) >= 12 and len(honest()) >= 12


@pytest.mark.parametrize('name', sorted(REASONS))
def test_a_cheat_is_refused_for_its_own_reason(name):
    v = judge(cheats()[name])
    assert not v and v.code in reasons_for(name, ON_GPU), str(v)


@pytest.mark.parametrize('name', some(sorted(honest()), 2))
def test_an_honest_kernel_is_accepted(name):
    v = judge(honest()[name])
    assert v and v.code == 'accepted', str(v)
    has_kernels = not name.endswith(('torch', 'model', 'streams'))
    assert v.num_calls > 8 and v.num_sizes > 2
    assert bool(v.launch_counts) == (ON_GPU or has_kernels)  # a GPU runs kernels of torch, too


@pytest.fixture
def unconfined(monkeypatch):
    "As on a system that has neither namespaces nor Landlock"
    monkeypatch.setattr(processes, '_servers', {})
    monkeypatch.setattr(processes, '_DISABLED_PROTECTIONS', ('processes', 'landlock'))
    yield
    processes.stop()


def running(seconds):
    "The processes that sleep for so many seconds, a number that no other test takes"
    return [p for p in Path('/proc').glob('[0-9]*') if f'sleep\0{seconds}\0' in read(p/'cmdline')]


def read(path):
    try: return path.read_text()
    except OSError: return ''


def look_at_what_is_left(seconds):
    "Neither the process, nor what it started, in whatever session; nor its folder"
    head = f'''import os, subprocess
a = os.getpid()
subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)
c = os.fork()
if not c:
    if os.fork(): os._exit(0)
    os.setsid()
    os.execvp('sleep', ['sleep', '{seconds}'])
os.waitpid(c, 0)
print('folder', os.getcwd(), flush=True)
'''
    v = verdict('return torch.softmax(data, -1)', head)
    assert v.code == 'late' and '2 processes' in v.reason, str(v)
    folder = re.search('^folder (/.+)', v.log, re.M)[1]  # there may be warnings, too
    assert not Path(folder).exists() and not running(seconds)


def test_nothing_is_left_of_a_submission(): look_at_what_is_left('600.25')


@pytest.mark.slow
@pytest.mark.exhaustive
def test_nothing_is_left_of_a_submission_that_is_not_isolated(unconfined): look_at_what_is_left('600.5')


@pytest.mark.parametrize('body,head,code,said', [
    ('while True: pass', '', 'time', r'call 1: .*0\.5 s'),
    ('return torch.softmax(data, -1)', 'while True: pass', 'time', r'the import: .*(0\.5|15) s'),
    ('os._exit(3)', 'import os', 'died', 'exit code 3'),
    ('os.kill(os.getpid(), 11)', 'import os', 'died', 'SIGSEGV'),
    ('raise SystemExit', '', 'raised', 'SystemExit'),
    ('return undefined', '', 'raised', saying('NameError', "'undefined'", 'line 6:', 'undefined')),
    ('return torch.softmax(data, -1)', 'import no_such_module', 'raised', "'no_such_module'"),
    ('return None', '', 'type', 'NoneType'),
    ('return data.cpu().numpy()', '', 'type', 'ndarray'),
    ('return torch.softmax(data, -1), data', '', 'alias', 'input 0'),
    ('return torch.softmax(data, -1), data + 1', '', 'type', saying('2 tensors', 1)),
    ('return torch.softmax(data, -1).double()', '', 'type', saying('float64 [7, 100]', 'float32 [7, 100]')),
    ('return torch.softmax(data, -1)[:-1]', '', 'type', saying('float32 [6, 100]', 'float32 [7, 100]')),
    ('return torch.zeros(10**6)', '', 'type', saying('at most', 'bytes')),
    ('return torch.softmax(data, 0)', '', 'wrong', saying('call 1: wrong', '700 of 700', '[0, 0]')),
    ('return torch.softmax(data, -1) * 0.9999', '', 'precision', saying('TF32', 'float16', 'float32')),
])
def test_what_is_wrong_is_said(body, head, code, said, monkeypatch):
    if ON_GPU: monkeypatch.setattr(processes, '_COMPILE_SECONDS', 15)  # imports may compile there
    v = verdict(body, head, timeout=.5 if code == 'time' else 20)
    assert v.code == code and re.search(said, v.reason), str(v)


@pytest.mark.slow
def test_a_program_that_judges_ends_without_a_word():
    "Processes of the judge once ended with what Python says of a generator that it closes too late"
    code = "from gridstride.judge import honest, judge; assert judge(honest()['softmax_triton'])"
    ended = subprocess.run([sys.executable, '-c', code], cwd=Path(__file__).parent.parent, capture_output=True,
                           text=True)
    assert (ended.returncode, ended.stderr) == (0, '')


def test_a_submission_that_speaks_for_the_judge_gets_nowhere():
    "Whatever it writes into whatever is open: a verdict, no error, and not 'accepted'"
    shout = """for fd in set(map(int, os.listdir('/dev/fd'))) - {{0, 1, 2}}:
        try: os.write(fd, {text})
        except OSError: pass
    return torch.zeros_like(data)"""
    for text in "b'x'*100", "b'\\x02' + bytes(7) + b'{}'", "b'[1]\\n'*999", "b'\\0\\0\\1' + bytes(5) + b'['*65536":
        v = judge(softmax(shout.format(text=text), 'import os'), 'softmax')
        # 'time': it wrote into a full pipe that is never read, as processes with a GPU have
        assert v.code in ('type', 'wrong', 'patched', 'time'), str(v)


@pytest.mark.slow
@pytest.mark.parametrize('whom,what', [('supervisor', 'SIGSTOP'), mark_exhaustive(('server', 'SIGKILL'))])
def test_who_attacks_what_watches_over_it_is_ended_all_the_same(whom, what, monkeypatch, unconfined):
    "Stopped or killed: nothing is left, and the next submission is judged as ever. Isolated, it reaches neither"
    monkeypatch.setattr('gridstride.judge.processes._GRACE_SECONDS', .5)
    head = f'''import os, signal, subprocess
child = subprocess.Popen(['sleep', '600.75'], start_new_session=True).pid
whom = os.getppid()
if {whom!r} == 'server':
    whom = int(open(f'/proc/{{whom}}/stat').read().split()[3])
'''
    v = verdict(f'os.kill(whom, signal.{what}); return torch.softmax(data, -1)', head)
    assert not v, str(v)
    assert judge(honest()['softmax_torch'])
    assert not running('600.75')


def test_a_submission_that_stops_listening_does_not_stop_the_judge():
    "It sends a right message for a wrong one, and leaves what is sent next where it is"
    head = '''import json, os, stat, struct, time
text = json.dumps(dict(op='loaded', blobs=[])).encode()
sent = 0
for o in map(int, os.listdir('/dev/fd')):
    try:
        if stat.S_ISSOCK(os.fstat(o).st_mode): sent += os.write(o, struct.pack('<Q', len(text)) + text)
    except OSError: pass
assert sent, 'no socket is open'
time.sleep(600)'''
    task = replace(TASKS['softmax'], tests=(dict(rows=100, n=10000, seed=1),))  # more than a socket holds
    v = judge(softmax('return data', head), task, timeout=.5)
    assert v.code == 'time' and 'call 1:' in v.reason, str(v)


@pytest.mark.parametrize('head', [
    'from collections import namedtuple\nimport warnings, logging\nA = namedtuple("A", "b")\nwarnings.warn("hello")',
    'torch.manual_seed = torch._disable_dynamo(torch.manual_seed)',            # as torch._dynamo does when imported
    'import torch\nsoftmax = torch.compile(torch.softmax, dynamic=True)\n\n@torch.compile\ndef f(x): return x',
    'import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()',
    'import subprocess\nsubprocess.run(["true"])',
    'from task import input_t, output_t',
    'import numba\n\n@numba.jit\ndef f(x): return x',                          # no kernel
])
def test_what_is_usual_is_not_suspected(head):
    assert (v := verdict('return torch.softmax(data.cuda(), dim=-1)', head)), str(v)


def test_the_command(tmp_path, capsys):
    path = tmp_path/'submission.py'
    assert main([str(honest()['softmax_torch'])]) == 0
    assert re.search(f"softmax, {'.*' if ON_GPU else 'CPU'}: accepted", capsys.readouterr().out)
    assert main([str(cheats()['constant']), '--task', 'softmax']) == 1
    assert 'rejected (constant)' in capsys.readouterr().out
    assert main(['submit', 'sum_triton', '--leaderboard', 'vectorsum_v2', '--gpu', 'B200', '--out', str(path)]) == 0
    assert names(capsys.readouterr().out, 'leaderboard vectorsum_v2', 'nothing')
    assert path.read_text().startswith('#!POPCORN leaderboard vectorsum_v2\n#!POPCORN gpu B200\n')
    for wrong, said in (
            ([str(path)], ["'vectorsum_v2'", 'grey, add, add_into, matmul, sum, softmax', '--task NAME']),
            ([str(path), '--timeout', '0'], ['--timeout', '0']),
            (['submit', 'nothing'], ['nothing']),
            (['submit', 'sum_triton', '--out', str(tmp_path/'none'/'x.py')], [str(tmp_path/'none'/'x.py')]),
            (['submit', 'sum_triton', '--leaderboard', 'a b', '--out', str(path)], ['leaderboard', "'a b'"])):
        with pytest.raises(SystemExit): main(wrong)
        assert names(capsys.readouterr().err.splitlines()[-1], *said)


@pytest.mark.slow
def test_what_it_printed_is_kept(monkeypatch):
    "All of it, and nothing else, though its process is killed"
    monkeypatch.delenv('PYTHONUNBUFFERED', raising=False)
    monkeypatch.setattr(processes, '_servers', {})
    assert verdict("print('hello'); return data").log == 'hello'
    processes.stop()


@cpu_only
def test_a_kernel_that_breaks_the_rules_of_memory_is_found_out():
    "On a CPU kernels run checked"
    text = honest()['add_triton'].read_text().replace('tl.load(b_ptr + i, mask=i < n)', 'tl.load(b_ptr + i + 1)')
    v = judge(text)
    assert v.code == 'raised' and 'MemcheckError' in v.reason, str(v)


def test_a_thread_of_a_library_is_none_of_the_submission():
    head = 'from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)'
    assert (v := verdict('pool.submit(int).result(); return torch.softmax(data, -1)', head)), str(v)


@pytest.mark.slow
def test_threads_are_told_apart_by_whose_code_they_run(tmp_path, monkeypatch):
    "A library may be anywhere on the path, as torch.compile's own may"
    (tmp_path/'neighbour.py').write_text('import threading, time\n\ndef nap(): time.sleep(1)\n\n'
                                      'def begin(f=nap): threading.Thread(target=f, daemon=True).start()\n')
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    monkeypatch.setattr(processes, '_servers', {})                             # one that begins with this path
    body = 'begin({})\n    return torch.softmax(data, dim=-1)'
    head = 'import time\nfrom neighbour import begin\n\ndef nap(): time.sleep(1)'
    assert (v := verdict(body.format(''), head)), str(v)
    v = verdict(body.format('nap'), head)
    assert v.code == 'late' and 'submission.py, line ' in v.reason, str(v)
    processes.stop()


def test_sides_are_timed_alternately():
    v = judge(honest()['softmax_torch'], timing=True)
    assert v and len(v.times) == len(v.reference_times) == 10 and v.speedup > 0 and (ON_GPU or 'emulator' in str(v))


# Files that are not submissions
@pytest.mark.parametrize('text,said', [
    ('x = (1,\n', saying('submission.py, line 1:', "'('")),
    ('import torch\n', saying('nothing', '`def custom_kernel(data): ...`', '`class ModelNew')),
    ('def kernel(data):\n    return data\n', 'defines kernel'),
    ('def custom_kernel(a, b): return a\n', saying('line 1: custom_kernel', 'a, b', 'one argument')),
    ('def custom_kernel(): return 1\n', saying('line 1: custom_kernel', 'nothing', 'one argument')),
    ('def custom_kernel(data, *, out): return data\n', saying('line 1: custom_kernel', 'data, out')),
])
def test_a_file_that_is_not_a_submission(text, said, tmp_path):
    v = judge(text, 'softmax')
    assert v.code == 'form' and re.search(said, v.reason), str(v)
    with pytest.raises(FormError): read_submission(text)


@pytest.mark.parametrize('call,error,said', [
    (lambda: judge(3), TypeError, saying('path', 'int')),
    (lambda: judge(softmax, 'softmax'), TypeError, '`write_submission`'),
    (lambda: verdict('return data', device='gpu'), ValueError, saying('device', "'cpu'", "'cuda'", "'gpu'")),
    (lambda: verdict('return data', timeout=0), ValueError, saying('timeout must', 'positive', 0)),
    (lambda: write_submission(lambda data: data, 'softmax'), FormError, 'lambda'),
    (lambda: write_submission(torch.softmax, 'softmax'), FormError, 'no source'),
    (lambda: write_submission(verdict, 'soft max'), FormError, saying('leaderboard', "'soft max'")),
])
def test_a_wrong_call_of_the_judge_is_rejected(call, error, said):
    with pytest.raises(error, match=said): call()


def test_a_text_of_one_line_is_taken_for_a_path():
    for text in 'def custom_kernel(data): return data', 'x'*5000:
        assert 0 < judge(text, 'add').reason.count(text[:300]) and 'x'*301 not in judge(text, 'add').reason


def test_attributes_that_torch_compile_adds_are_not_methods():
    "It notes by sets, on a GPU from the second size on, which sizes vary"
    body = 'out = torch.softmax(data, -1); out._dynamo_{} = {}; return out'
    assert (v := verdict(body.format('weak_dynamic_indices', '{0}'))), str(v)
    assert verdict(body.format('method', 'out.cpu')).code == 'subclass'


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path/'latin.py').write_bytes(b'# \xe9\n')
    assert 'UTF-8' in judge(tmp_path/'latin.py', 'sum').reason
    assert 'none.py' in judge(tmp_path/'none.py', 'sum').reason
    with pytest.raises(ValueError, match=saying("'fft'", 'grey, add')): judge(honest()['grey_torch'], 'fft')
    with pytest.raises(ValueError, match=saying('task', 'leaderboard')): judge(softmax('return data'))


def test_the_head_of_a_file():
    s = read_submission('#!POPCORN leaderboard vectoradd_v2\n#!POPCORN gpus H100 B200\n' + softmax('return data'))
    assert (s.leaderboard, s.gpus, s.form, s.kernels) == ('vectoradd_v2', ('H100', 'B200'), 'custom_kernel', ())
    assert read_submission(honest()['softmax_model']).form == 'ModelNew'
    assert read_submission(honest()['matmul_cuda']).kernels == ('matmul_kernel',)
    assert read_submission(cheats()['falls_back']).kernels == ('softmax_kernel',)


# How near is near enough: sums of float32 pass however they are ordered, sums with fewer digits do not
@pytest.mark.parametrize('terms', (1, 33, 1000, 40000))
@pytest.mark.parametrize('shift', (0, 1))
def test_a_sum_passes_in_its_type_alone(terms, shift):
    rng = torch.Generator().manual_seed(terms)
    m, n = (torch.randn(s, generator=rng) + shift for s in ((8, terms), (terms, 8)))
    want, scale = m.double() @ n.double(), m.double().abs() @ n.double().abs()
    one_by_one = torch.zeros(8, 8)
    for i in range(terms): one_by_one += m[:, i, None]*n[i]
    for got in m @ n, one_by_one: assert find_mismatch(got, want, scale, 'float32', terms) is None
    if terms*shift > 1000: return                                          # float32, one by one, is as far off itself
    for t in torch.float16, torch.bfloat16:
        rough = (m.to(t).double() @ n.to(t).double()).float()              # elements are rounded, sums are exact
        assert find_mismatch(rough, want, scale, 'float32', terms).code == 'precision'
    assert find_mismatch(want.half(), want, scale, 'float16', terms) is None  # the answer's own type is rounded to
    assert find_mismatch(one_by_one + torch.eye(8), want, scale, 'float32', terms)


@pytest.mark.parametrize('dtype', ['float64', 'float32', 'float16', 'bfloat16'])
def test_a_nan_that_was_computed_is_not_called_unwritten(dtype):
    t, want = getattr(torch, dtype), torch.ones(2, 3, dtype=torch.float64)
    zero, one = torch.zeros(3, dtype=t), torch.ones(3, dtype=t)
    bits = torch.full((3,), -1, dtype=torch.int64).view(t)[:3]
    for made in zero/zero, (one/zero) - (one/zero), torch.full((3,), math.nan, dtype=t), -(zero/zero):
        found = find_mismatch(torch.stack([one, made]), want, want, dtype, 1)
        assert found.code == 'nan' and names(found.text, '3 of 6', [1, 0], '0/0', 'inf - inf'), found
        found = find_mismatch(torch.stack([made, bits]), want, want, dtype, 1)
        assert found.code == 'unwritten' and names(found.text, '3 of 6', [1, 0]) and '0/0' not in found.text, found


@pytest.mark.parametrize('body,code,said', [
    ('out = torch.empty_like(data); out[:2] = torch.softmax(data[:2], -1); return out', 'unwritten', '500 of 700'),
    ('out = torch.softmax(data, -1); out[3] = (data[3]-data[3])/(data[3]-data[3]); return out', 'nan', '100 of 700'),
    ('e = torch.exp(1000 + data); return e/e.sum(-1, keepdim=True)', 'nan', '700 of 700'),
    ('return torch.full_like(data, float("nan"))', 'nan', '700 of 700'),
    ('out = torch.empty_like(data); return torch.softmax(data, -1).where(data > data.mean(), out)', 'unwritten', ''),
])
def test_nan_of_each_origin_has_its_code(body, code, said):
    v = verdict(body)
    assert v.code == code and said in v.reason and ('0/0' in v.reason) == (code == 'nan'), str(v)


def test_an_output_of_a_task_that_is_not_written_is_called_so():
    text = 'def custom_kernel(data):\n    a, b, out = data\n    out[5:] = (a + b)[5:]\n    return out\n'
    v = judge(HEAD + text, 'add_into')
    assert v.code == 'unwritten' and names(v.reason, '5 of 1000', [0]), str(v)


def test_hidden_sizes_differ_from_the_published_ones():
    "The published vectors are multiples of 8, so none of the hidden ones is"
    rng = random.Random(0)
    assert all(TASKS['sum'].draw_hidden_sizes(rng)['n'] % 8 for _ in range(500))


def test_a_task_of_ones_own():
    "In the leaderboards' form, with a check of its own"
    def generate_input(n, seed): return torch.randint(0, 100, (n,), generator=torch.Generator().manual_seed(seed))
    def check(data, output): return bool((output.diff() >= 0).all()), 'it is not sorted'
    task = Task('sort', generate_input, lambda data: data.sort().values, (dict(n=50, seed=1),),
                lambda rng: dict(n=rng.randrange(1, 99)), dtype='int64', check_implementation=check)
    assert judge(softmax('return data.sort().values'), task)
    v = judge(softmax('return data.clone()'), task)
    assert v.code == 'wrong' and 'wrong in' in v.reason, str(v)
    assert task.baseline() is None or 'custom_kernel' in task.baseline()


# Submissions that are written
@pytest.mark.parametrize('name', ('grey_cuda', 'grey_numba', 'matmul_ladder', 'softmax_triton', 'softmax_model'))
def test_a_written_submission_needs_nothing_of_ours_and_is_right(name, tmp_path):
    path = tmp_path/'submission.py'
    text = write_submission(honest()[name], name.split('_')[0], ('H100', 'B200'), path)
    assert text == path.read_text() and 'gridstride' not in text and 'stream' not in text
    assert text.startswith(f'#!POPCORN leaderboard {name.split("_")[0]}\n#!POPCORN gpu H100 B200\n')
    assert (v := judge(path)), str(v)


def test_what_a_function_uses_is_taken_along():
    with pytest.raises(FormError, match='word stream'): write_submission(honest()['add_streams'], 'add')
    assert 'HALF = 0.5' in write_submission(uses_others, 'sum')
    assert judge(write_submission(uses_others, 'sum'))


HALF = .5


def twice(x):
    "Used below"
    return x/HALF


def uses_others(data):
    "The sum, in a roundabout way"
    return twice(data.sum().reshape(1))*HALF
