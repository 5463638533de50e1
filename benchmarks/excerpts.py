"""Writes what lessons show of the committed benchmarks to nbs/recorded/benchmarks, so that a lesson that is copied
elsewhere with `utils.py` and `recorded` runs.

    python excerpts.py    # after a new products.json or matmul_bfloat16.json
"""
import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parent/'nbs/recorded/benchmarks'


def mlp(run):
    "Forward and backward of the MLP, against eager PyTorch and `torch.compile`"
    return dict(made=run['made'], rows=[r for r in run['rows'] if r['tool'] == 'mlp, both'])


def speedups(row):
    "A row of matmul_bfloat16.json with the two ratios that the lesson compares"
    sides = row['columns']['read'].get('sides', {})
    kept = {k: dict(ratio=sides[k]['ratio']) for k in ('ours', 'cublasLt') if k in sides}
    return dict(layout=row['layout'], shape=row['shape'], columns=dict(read=dict(sides=kept)))


def random_shapes(run):
    "The random shapes of bfloat16 with both operands row-major"
    rows = [speedups(r) for r in run['bfloat16'] if r['layout'] == 'nn' and 'failed' not in r]
    return dict(made=run['made'], bfloat16=rows)


EXCERPTS = {'products.json': mlp, 'matmul_bfloat16.json': random_shapes}


def excerpt(name): return EXCERPTS[name](json.loads((HERE/name).read_text(encoding='utf-8')))


if __name__ == '__main__':
    RECORDED.mkdir(exist_ok=True)
    for name in EXCERPTS: (RECORDED/name).write_text(json.dumps(excerpt(name), indent=1) + '\n', encoding='utf-8')
