"A lesson opens alone: the links to where it can be opened, the cell that installs the package, and its recordings."
import ast, json
from pathlib import Path

import pytest
from gridstride.asm import report
from gridstride.bench import recording
from gridstride.course import curriculum, lessons
from gridstride.course.publishing import (clone_commands, is_setup, launch_links, settings, setup_cell, with_links,
                                          without_links)

ROOT = Path(__file__).resolve().parents[1]
META = {'repository': 'https://github.com/a/b', 'branch': 'main', 'site': 'https://a.github.io/b'}
LESSONS = [ROOT/'nbs'/o.file for o in curriculum.LESSONS]


def source(cell): return ''.join(cell['source'])


def test_links_are_made_from_the_address():
    links = launch_links('01_x.ipynb', META, 'lite/01_x')
    colab, kaggle, browser = links.values()
    assert colab == 'https://colab.research.google.com/github/a/b/blob/main/nbs/01_x.ipynb'
    assert kaggle == 'https://kaggle.com/kernels/welcome?src=https://github.com/a/b/blob/main/nbs/01_x.ipynb'
    assert browser == f'{META["site"]}/lite/01_x'
    assert len(launch_links('09_x.ipynb', META)) == 2, 'that lesson does not run in the browser'
    assert clone_commands(META) == 'git clone https://github.com/a/b\ncd b'


def test_links_are_below_the_title_and_written_once():
    links = launch_links('01_x.ipynb', META)
    text = with_links('# 01 X\n\n> quote\n\nText', links)
    assert text.split('\n\n')[0] == '# 01 X' and text.split('\n\n')[2:] == ['> quote', 'Text']
    assert with_links(text, links) == text and without_links(text) == '# 01 X\n\n> quote\n\nText'


@pytest.mark.parametrize('path', LESSONS, ids=lambda p: p.stem)
def test_each_lesson_has_its_links_and_installs_what_is_missing(path):
    nb, meta = lessons.read(path), settings(ROOT)
    assert all(url in source(nb['cells'][0]) for url in launch_links(path.name, meta).values())
    setup, = filter(is_setup, nb['cells'])
    assert setup == setup_cell() and nb['cells'][1] == setup, 'before the first code'
    without = dict(nb, cells=[c for c in nb['cells'] if c is not setup])
    assert lessons.code_hash(without) == lessons.code_hash(nb), 'outputs do not depend on it'


def test_the_addresses_in_pages_are_those_of_the_settings():
    meta = settings(ROOT)
    assert clone_commands(meta) in (ROOT/'README.md').read_text(encoding='utf-8')
    table = (ROOT/'nbs/README.md').read_text(encoding='utf-8')
    assert all(url in table for p in LESSONS for url in launch_links(p.name, meta).values())


def run_setup(present, monkeypatch, capsys):
    "What the set-up cell prints, and the arguments of the pip that it runs, where these packages are present"
    from IPython.core.inputtransformer2 import TransformerManager
    calls = []

    class Shell:
        def run_line_magic(self, *args): calls.append(args[:2])

    def find_spec(name, package=None): return object() if name in present else None

    code = TransformerManager().transform_cell(source(setup_cell()))
    ast.parse(code)
    with monkeypatch.context() as patch:
        patch.setattr('importlib.util.find_spec', find_spec)
        exec(code, {'get_ipython': Shell})
    return capsys.readouterr().out, calls


def test_the_setup_cell_does_nothing_where_all_is_installed(monkeypatch, capsys):
    assert run_setup({'gridstride', 'torch', 'matplotlib', 'ml_dtypes'}, monkeypatch, capsys) == ('', [])


@pytest.mark.parametrize('missing', ['gridstride', 'ml_dtypes'])
def test_the_setup_cell_installs_what_is_missing(missing, monkeypatch, capsys):
    out, calls = run_setup({'gridstride', 'torch', 'matplotlib', 'ml_dtypes'} - {missing}, monkeypatch, capsys)
    (magic, arguments), = calls
    assert missing in out and magic == 'pip' and arguments.split()[-1] == '"gridstride[lesson]"'
    assert 'lesson_requirements' in settings(ROOT)


# Recordings of a lesson that has no folder `recorded` next to it

@pytest.fixture
def shipped(tmp_path, monkeypatch):
    "The folder of recordings of an installed package; the lesson's folder is empty"
    package, lesson = tmp_path/'package', tmp_path/'lesson'
    (package/'recorded').mkdir(parents=True)
    lesson.mkdir()
    monkeypatch.setattr(recording, '_SHIPPED', (package/'recorded', tmp_path/'none'))
    monkeypatch.chdir(lesson)
    return package/'recorded'


def test_a_lesson_alone_shows_the_recordings_of_the_package(shipped):
    recording.write('99_x', 'key', 'shipped', folder=shipped)
    assert recording.read('99_x', 'key').representations['text/plain'] == 'shipped'
    recording.write('99_x', 'key', 'own')
    assert recording.read('99_x', 'key').representations['text/plain'] == 'own', 'a reader\'s own recording comes first'
    with pytest.raises(recording.Unavailable, match='99_y'): recording.read('99_y', 'key')


def test_other_recorded_files_and_folders(shipped):
    (shipped/'a.txt').write_text('a')
    assert recording.recorded_file('recorded/a.txt').read_text() == 'a'
    assert recording.recorded_file('recorded') == shipped
    assert recording.recorded_file('recorded/b.txt') == Path('recorded/b.txt')
    assert recording.recorded_file('a.txt') == Path('a.txt'), 'only recordings are shipped'


def test_machine_code_of_the_package(shipped, monkeypatch):
    (shipped/'asm').mkdir()
    (shipped/'asm/k.json').write_text(json.dumps({'by': 'nvcc', 'arch': 'sm_90', 'ptx': 'ret;'}))
    monkeypatch.setattr(report, '_folders', [Path('recorded/asm')])
    assert report._load_recording('k.json', None)['ptx'] == 'ret;'
