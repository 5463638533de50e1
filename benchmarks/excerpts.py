"""Write the rows of the committed benchmarks that lessons show to nbs/recorded/benchmarks, so that a lesson also runs
in a copy with only `utils.py` and `recorded`.

    python excerpts.py    # after a change of products.json, matmul_bfloat16.json or collectives.json
"""
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parent/'nbs/recorded/benchmarks'


def mlp(run):
    "Return the rows of the MLP's forward and backward pass, against eager PyTorch and `torch.compile`"
    return dict(made=run['made'], rows=[r for r in run['rows'] if r['tool'] == 'mlp, both'])


def speedups(row):
    "Reduce a row of matmul_bfloat16.json to the two ratios that the lesson compares"
    sides = row['columns']['read'].get('sides', {})
    ratios = {side: dict(ratio=sides[side]['ratio']) for side in ('ours', 'cublasLt') if side in sides}
    return dict(layout=row['layout'], shape=row['shape'], columns=dict(read=dict(sides=ratios)))


def random_shapes(run):
    "Return the rows of the random shapes in bfloat16 with row-major operands"
    rows = [speedups(r) for r in run['bfloat16'] if r['layout'] == 'nn' and 'failed' not in r]
    return dict(made=run['made'], bfloat16=rows)


ACTIVITIES = dict(nccl='send', PtoP='send', wait='wait', DtoD='merge', gemm='multiply', nvjet='multiply',
                  multiply='multiply')


def traced_call(rows, call=4):
    "Return rows of a trace, one per rank, with one call: activity, its number, start and end, in seconds"
    calls = []
    for row in rows:
        named = ((next((a for word, a in ACTIVITIES.items() if word in event[3]), None), *event)
                 for event in row['events'])
        kept = [event for event in named if event[0]]
        each = len(kept)//row['calls']
        calls.append(kept[each*call:each*(call + 1)])
    begin = min(start for events in calls for _, start, *_ in events)
    def stamps(events):
        counts = {}
        for activity, start, duration, *_ in events:
            counts[activity] = counts.get(activity, -1) + 1
            seconds = (round((at - begin)/1e9, 9) for at in (start, start + duration))
            yield [activity, counts[activity], *seconds]
    return [row | dict(events=list(stamps(events))) for row, events in zip(rows, calls)]


def collectives(run):
    "Return all rows except those of the checks and of other launches; of each trace, one call"
    rows = [row for row in run['rows'] if row['part'] not in ('check', 'tune', 'trace')]
    traces = {}
    for row in run['rows']:
        if row['part'] == 'trace': traces.setdefault((row['op'], row['way']), []).append(row)
    return dict(machine=run['machine'], rows=rows + [row for trace in traces.values() for row in traced_call(trace)])


EXCERPTS = {'products.json': mlp, 'matmul_bfloat16.json': random_shapes, 'collectives.json': collectives}


def excerpt(name): return EXCERPTS[name](json.loads((HERE/name).read_text(encoding='utf-8')))


if __name__ == '__main__':
    RECORDED.mkdir(exist_ok=True)
    for name in EXCERPTS: (RECORDED/name).write_text(json.dumps(excerpt(name), indent=1) + '\n', encoding='utf-8')
