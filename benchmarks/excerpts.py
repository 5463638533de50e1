"""Write the rows of the committed benchmarks that lessons show to nbs/recorded/benchmarks, so that a lesson also runs
in a copy with only `utils.py` and `recorded`.

    python excerpts.py    # after a change of products.json or matmul_bfloat16.json
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


EXCERPTS = {'products.json': mlp, 'matmul_bfloat16.json': random_shapes}


def excerpt(name): return EXCERPTS[name](json.loads((HERE/name).read_text(encoding='utf-8')))


if __name__ == '__main__':
    RECORDED.mkdir(exist_ok=True)
    for name in EXCERPTS: (RECORDED/name).write_text(json.dumps(excerpt(name), indent=1) + '\n', encoding='utf-8')
