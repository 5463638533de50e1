"Keys, marks and forms: what a recording is made of."
import os
from importlib import metadata

import numpy as np
import pytest
from gridstride.bench import recording
from gridstride.bench.keys import key
from gridstride.bench.recording import (
    Unavailable, mime_representations, is_recording, machine, provenance, read, recorded, write)
from found import names


def square(x): return x*x


class Bold:
    def __init__(self, s): self.s = s
    def _repr_html_(self): return f'<b>{self.s}</b>'
    def __repr__(self): return self.s


@pytest.mark.parametrize('other', [
    (square, np.zeros(4)), (square, np.zeros(3, np.float32)), (key, np.zeros(3)), (square, np.zeros(3), 1)])
def test_a_key_is_of_source_shape_and_type_not_of_values(other):
    assert key(square, np.zeros(3)) == key(square, np.ones(3)) != key(*other)


def test_parts_do_not_run_into_each_other():
    assert key({'a': 1, 'b': 2}) == key({'b': 2, 'a': 1})
    assert key('1') != key(1) and key([1, 2]) != key(1, 2) and key('a', 'b') != key('ab')


def test_what_has_no_stable_text_is_refused():
    with pytest.raises(TypeError, match='object at'): key(object())


def test_a_mark_says_where_when_and_with_what():
    made = dict(gpu='NVIDIA A1', date='2026-01-02', versions={'torch': '2.0', 'ncu': '2025.3'})
    assert names(provenance(made), 'recorded', 'NVIDIA A1, 2026-01-02 (torch 2.0, ncu 2025.3)')
    assert provenance({**made, 'gpu': None, 'versions': {'nvcc': '13.0'}}) == 'recorded 2026-01-02 (nvcc 13.0)'


def test_a_recording_knows_the_versions_of_what_is_installed(monkeypatch):
    def version(package):
        if package != 'torch': raise metadata.PackageNotFoundError(package)
        return '2.13'
    monkeypatch.setattr(metadata, 'version', version)
    monkeypatch.setattr(recording, '_gpu', lambda: ('NVIDIA A1', '580.1'))
    made = machine({'ncu': '1'})
    assert made['gpu'] == 'NVIDIA A1' and made['versions'] == {'torch': '2.13', 'driver': '580.1', 'ncu': '1'}


def test_forms_are_those_that_a_notebook_would_show():
    assert mime_representations(Bold('12 GB/s')) == {'text/html': '<b>12 GB/s</b>', 'text/plain': '12 GB/s'}
    assert mime_representations('hello') == {'text/plain': 'hello'}


def test_data_are_kept_if_json_gives_them_back():
    values = {'a': [1, 'b']}, 3, Bold('a'), {1: 2}
    assert [recording._json_data(o) for o in values] == [{'a': [1, 'b']}, 3, None, None]


def test_a_recording_is_one_file_that_shows_itself(tmp_path):
    write('99_square', key(square), Bold('12 GB/s'), data={'GB/s': 12}, folder=tmp_path)
    rec = read('99_square', key(square), tmp_path)
    assert os.listdir(tmp_path) == ['99_square.json'] and rec.data == {'GB/s': 12}
    html = rec._repr_mimebundle_()['text/html']
    assert html.startswith('<b>12 GB/s</b>') and rec.provenance in html and rec.provenance in repr(rec)


def test_recording_is_requested_by_a_variable(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('GRIDSTRIDE_RECORD', '1')
    assert is_recording() and recorded('99_copy', lambda: {'GB/s': 12}, square, folder=tmp_path) == {'GB/s': 12}
    monkeypatch.delenv('GRIDSTRIDE_RECORD')
    assert not is_recording() and capsys.readouterr().out == 'Recorded: 99_copy\n'
    def no_gpu(): raise Unavailable('A profile needs an NVIDIA GPU')
    def load(data, mark): return data['GB/s'], mark.split()[0]
    assert recorded('99_copy', no_gpu, square, load=load, folder=tmp_path) == (12, 'recorded')
