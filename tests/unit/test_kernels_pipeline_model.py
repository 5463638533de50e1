"The model of producers and consumers: lessons 25a and 25b show it, cell by cell, and lesson 25c imports it."
import ast, json
from pathlib import Path

import pytest
from gridstride.kernels.ladder import pipeline_model as model

ROOT = Path(__file__).resolve().parents[2]


def undocumented(tree):
    "The tree without docstrings, which the lesson's cells leave out"
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None: del node.body[0]
    return ast.dump(tree)


def definitions(text):
    "name -> the tree of each class and function"
    return {o.name: undocumented(o) for o in ast.parse(text).body if isinstance(o, (ast.ClassDef, ast.FunctionDef))}


def test_the_lessons_show_this_model():
    paths = [path for slug in ('tma_and_wgmma', 'producers') for path in ROOT.glob(f'nbs/*_{slug}.ipynb')]
    cells = [''.join(c['source']) for path in paths for c in json.loads(path.read_text(encoding='utf-8'))['cells']
             if c['cell_type'] == 'code']
    shown = {name: tree for text in cells if not text.lstrip().startswith(('#@title', '%'))
             for name, tree in definitions(text).items()}
    mine = definitions(Path(model.__file__).read_text(encoding='utf-8'))
    assert set(mine) == set(model.__all__)
    assert {name: shown[name] for name in mine} == mine


def test_a_phase_completes_after_arrivals_and_bytes():
    barrier = model.Barrier(2)
    barrier.expect(100)
    barrier.complete(100)
    assert not barrier.completed(0)
    barrier.arrive()
    assert barrier.completed(0) and not barrier.completed(1) and barrier.completed(2)


@pytest.mark.parametrize('changes, outcome, fewest', [
    ({}, 'right', 200), (dict(produced=dict(before=0)), 'Deadlock', 200),
    (dict(consumed=dict(before=1)), 'EarlyRead', 1),
    (dict(produced=dict(announced=100)), 'EarlyRead', 1),
    (dict(consumed=dict(waits_for_product=False)), 'EarlyRead', 1),
    (dict(consumers=2), 'right', 200), (dict(consumers=2, count=1), 'EarlyRead', 1)])
def test_outcomes_of_right_and_wrong_waits(changes, outcome, fewest):
    found = model.outcomes(**changes)
    assert found[outcome] >= fewest and sum(found.values()) == 200
