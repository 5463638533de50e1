"""The committed tables of benchmarks say what their JSON says, in the words of the programs that made both."""
import importlib.util, json, sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1]/'benchmarks'


@pytest.fixture
def program(monkeypatch):
    "Imports a benchmark as it is run: beside the module that benchmarks share"
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name):
        spec = importlib.util.spec_from_file_location(f'benchmark_{name}', FOLDER/f'{name}.py')
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    yield load
    sys.modules.pop('rows', None)


@pytest.mark.parametrize('name', ['attention', 'fusion', 'latent', 'memory', 'products', 'quant', 'softmax', 'sparse'])
def test_a_table_is_what_its_json_says(name, program):
    rows = json.loads((FOLDER/f'{name}.json').read_text())['rows']
    text = (FOLDER/f'{name}.txt').read_text().splitlines()
    lines = [o for o in text if any(mark in o for mark in ('/s  ', ' ratio ', ' FAILED '))]
    assert len(rows) > 20 and [program(name).line(r) for r in rows] == lines


def test_a_run_prints_and_keeps_its_rows(program, tmp_path, monkeypatch, capsys):
    shared, (r, *_) = program('rows'), json.loads((FOLDER/'memory.json').read_text())['rows']
    made = dict(gpu='a GPU', date='today', versions=dict(torch='2'))
    monkeypatch.setattr(shared, 'machine', lambda: made)
    monkeypatch.setattr('sys.argv', ['memory.py'])
    line = program('memory').line
    shared.run('What it is', dict(one=lambda: iter([1, 2])), lambda job, seconds: [dict(r, seconds=job*seconds)],
               line, tmp_path/'kept.json', .5)
    assert [o['seconds'] for o in json.loads((tmp_path/'kept.json').read_text())['rows']] == [.5, 1.]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'a GPU, today, torch 2' and said[3] == 'one' and said[4] == line(dict(r, seconds=.5))


def test_the_table_of_launches_is_what_its_json_says(program):
    pytest.importorskip('triton')
    rows = json.loads((FOLDER/'launch.json').read_text())['rows']
    lines = [o for o in (FOLDER/'launch.txt').read_text().splitlines() if ' in a row ' in o]
    assert len(rows) > 20 and [program('launch').line(r) for r in rows] == lines
