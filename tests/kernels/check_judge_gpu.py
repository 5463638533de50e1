"""What only a GPU can check of the judge: times by events, work on other streams, kernels by the profiler. By hand,
from the root of the repository:

    python tests/kernels/check_judge_gpu.py             # all; some six minutes, one of them load_inline's compiler
    python tests/kernels/check_judge_gpu.py streams     # one of them
    python tests/kernels/check_judge_gpu.py cheats_are_rejected:constant times_are_those_of_the_gpu:add,sum
    python tests/kernels/check_judge_gpu.py honest_ones_are_accepted:matmul_triton...   # this one and all after it

Next to each verdict is what the judge's thresholds are compared with: the longest wait for the GPU after an answer
was copied, and what the judge's clock sees in a call that events do not show, here and with the reference."""
import sys, time
from pathlib import Path

from checking import chosen, run
from gridstride.judge import calls, cheats, honest, judge, referee, write_submission
from gridstride.judge.tasks import TASKS

sys.path.append(str(Path(__file__).parents[1]))
from cheat_reasons import reasons_for

after, unseen = [], []
check_finished, unseen_of = calls.CallChecker.check_finished, referee._seconds_outside_events


def noted_ends(self, facts):
    after.append(facts.get('busy_seconds', 0))
    check_finished(self, facts)


def noted_unseen(bench):
    unseen.append(unseen_of(bench))
    return unseen[-1]


calls.CallChecker.check_finished, referee._seconds_outside_events = noted_ends, noted_unseen


def verdict_of(*args):
    "The verdict, printed with what was measured"
    after.clear(), unseen.clear()
    start = time.time()
    v = judge(*args)
    clocks = f", unseen {' and '.join(f'{s*1e3:.1f} ms' for s in unseen)}" if unseen else ''
    print(f'    {v}\n      measured: after {max(after, default=0)*1e6:.0f} us{clocks}; '
          f'{time.time() - start:.1f} s', flush=True)
    return v


SIDE = '''import torch
side = torch.cuda.Stream()


def custom_kernel(data):
    {before}
    out = torch.empty_like(data)
    with torch.cuda.stream(side):
        torch.softmax(data, -1, out=out)
        {work}
    {after}
    return out
'''
WAIT, JOIN = 'side.wait_stream(torch.cuda.current_stream())', 'torch.cuda.current_stream().wait_stream(side)'
LONG = 'torch.cuda._sleep(20_000_000)'


def honest_ones_are_accepted(*names):
    for name, path in chosen(honest(), names).items():
        v = verdict_of(path)
        if not v: yield str(v)
        elif not v.speedup > 0: yield f'{name}: no ratio'


def cheats_are_rejected(*names):
    for name, path in chosen(cheats(), names).items():
        v = verdict_of(path)
        if v.code not in (wanted := reasons_for(name, on_gpu=True)): yield f'{name}, not {", ".join(wanted)}: {v}'


def streams():
    """Work on another stream is accepted if both wait for each other, and else rejected, however long it takes. What is
    slow comes after the softmax: before it, its time would be the wait for inputs, and the answer right"""
    for before in '', WAIT:
        for work in '', LONG:
            for join in '', JOIN:
                text = SIDE.format(before=before or 'pass', work=work or 'pass', after=join or 'pass')
                print(f'    waits: {bool(before)}, long: {bool(work)}, is waited for: {bool(join)}')
                v = verdict_of(text, 'softmax')
                if bool(v) != bool(before and join): yield str(v)


def events_that_misreport():
    "A submission that fakes events is rejected by the judge's clock, if the hidden work is long enough"
    text = '''import sys, torch
machines = sys.modules['gridstride.judge.devices']
def take(self, items, old=machines.Gpu.take_output):
    items, facts = old(self, items)
    return items, {**facts, 'event_seconds': 1e-6}
machines.Gpu.take_output.__code__ = (
    lambda self, items: ([x.clone() for x in items], dict(event_seconds=1e-6, busy_seconds=0.0))).__code__


def custom_kernel(data):
    torch.cuda._sleep(400_000_000)                      # some 0.2 s; transfers of a call take as long
    return torch.softmax(data, -1)
'''
    v = verdict_of(text, 'softmax')
    if v.code not in ('clock', 'stream'): yield str(v)


def torch_compile_is_honest():
    "Its threads and its compiler's processes are none of the submission's"
    text = 'import torch\n\n\n@torch.compile\ndef custom_kernel(data): return torch.softmax(data, -1)\n'
    v = verdict_of(text, 'softmax')
    if not v: yield str(v)


def times_are_those_of_the_gpu(*names):
    "The reference against itself: as fast as itself"
    for name in chosen(TASKS, names):
        v = verdict_of(TASKS[name].baseline(), name)
        if not v or not .9 < v.speedup < 1.1: yield f'{name}: {v}'


def written_submissions_are_accepted(*names):
    for name, path in chosen(honest(), names).items():
        if name == 'add_streams': continue              # leaderboards reject the word
        v = verdict_of(write_submission(path, name.rsplit('_', 1)[0]))
        if not v: yield str(v)


CHECKS = [honest_ones_are_accepted, cheats_are_rejected, streams, events_that_misreport, torch_compile_is_honest,
          times_are_those_of_the_gpu, written_submissions_are_accepted]

if __name__ == '__main__': run(CHECKS, globals())
