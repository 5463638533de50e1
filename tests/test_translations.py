"Catalogues of translations: they have the present texts, keep code and links, and fall back to English."
import os, re, subprocess, sys, threading
from collections import Counter
from types import SimpleNamespace

import pytest
from gridstride import sim
from gridstride.course import lessons, translations as T
from gridstride.diagnostics import catalogues
from gridstride.diagnostics.errors import exception_of
from gridstride.diagnostics.formatting import text_of
from gridstride.diagnostics.messages import FRAGMENTS, MESSAGES
from gridstride.diagnostics.settings import settings
from gridstride.support import lazy_exports

PATHS = T.catalogue_paths()
LESSONS = [p for p in PATHS if p.stem != T.FINDINGS]
UPDATE = 'Run: python -m gridstride.course.translations update'


def name(path): return f'{path.parent.name} {path.stem}'


@pytest.fixture(scope='module')
def catalogue_of(): return {p: T.read_catalogue(p) for p in PATHS}.__getitem__


def translations(catalogue): return [m for m in catalogue if m.id and m.string and not m.fuzzy]


# The catalogues of the repository

def test_both_languages_have_the_first_lesson_and_findings():
    want = {f'{lang} {o}' for lang in ('pt_BR', 'zh_CN') for o in ('first_kernel', 'messages')}
    assert {name(p) for p in PATHS} >= want


@pytest.mark.parametrize('path', PATHS, ids=name)
def test_a_catalogue_has_exactly_the_present_texts(path, catalogue_of):
    found = [(m.context or '', m.id) for m in catalogue_of(path) if m.id]
    assert found == [(s.context, s.text) for s in T.sources_of(path.stem)], UPDATE


@pytest.mark.parametrize('path', PATHS, ids=name)
def test_translations_keep_code_links_formulas_tags_and_fields(path, catalogue_of):
    wrong = {m.context or m.id: d for m in translations(catalogue_of(path)) if (d := T.differences(m.id, m.string))}
    assert translations(catalogue_of(path)) and not wrong


def shape(text):
    "How often each kind of element occurs in a text as Markdown shows it, and the marks that it shows as text"
    from markdown_it import MarkdownIt
    tokens = [o for t in MarkdownIt().enable('table').parse(text) for o in (t, *(t.children or ()))]
    kinds = Counter(t.type for t in tokens if t.type.endswith('_open') and t.type not in ('em_open', 'paragraph_open'))
    return kinds, [t.content for t in tokens if t.type == 'text' and '**' in t.content]


@pytest.mark.parametrize('path', LESSONS, ids=name)
def test_translations_have_the_elements_of_their_sources(path, catalogue_of):
    "In Chinese, bold text that ends in a bracket does not end for Markdown"
    assert shape('**a（b）**c')[1]
    for m in translations(catalogue_of(path)): assert shape(m.string) == shape(m.id), m.context


@pytest.mark.parametrize('path', PATHS, ids=name)
def test_a_catalogue_says_that_it_is_unreviewed(path, catalogue_of):
    assert 'unreviewed' in T.unreviewed_notice(catalogue_of(path))


@pytest.mark.parametrize('path', LESSONS, ids=name)
def test_a_built_notebook_has_the_same_cells_and_code(path, catalogue_of, tmp_path):
    made, english = T.build(path.parent.name, path.stem, tmp_path)
    new, old = lessons.read(made), lessons.read(T.lesson_file(path.stem))
    assert made.name == T.lesson_file(path.stem).name and not lessons.is_stale(new)
    assert [c['id'] for c in new['cells']] == [c['id'] for c in old['cells']]
    assert not [c for c, o in zip(new['cells'], old['cells']) if c != o and c['cell_type'] == 'code']
    first = ''.join(new['cells'][0]['source'])
    assert first.startswith('# ') and T.unreviewed_notice(catalogue_of(path)) in first.split('\n\n')[1]
    assert sorted(english) == sorted(m.context for m in catalogue_of(path) if m.id and (m.fuzzy or not m.string))


# What changes

def source(text, context='a1'): return T.Source(context, text)


@pytest.fixture
def lesson():
    "A lesson of two cells, and its catalogue, translated"
    empty = T.read_catalogue(T.path_of('pt_BR', 'no_lesson'))
    old = T.updated_catalogue(empty, [source('# One'), source('Two `x`', 'b2')])
    for m, text in zip([m for m in old if m.id], ('# Um', 'Dois `x`')): m.string = text
    cells = [dict(cell_type='markdown', id=i, source=[s]) for i, s in (('a1', '# One'), ('b2', 'Two `x`'))]
    return SimpleNamespace(catalogue=old, nb=dict(cells=cells))


def prose(nb): return [''.join(c['source']) for c in nb['cells']]


def test_what_has_not_changed_keeps_its_translation(lesson):
    lesson.catalogue.header_comment = '# reviewed'
    new = T.updated_catalogue(lesson.catalogue, [*map(source_of, lesson.nb['cells'])])
    nb, english = T.translated_notebook(lesson.nb, new)
    assert prose(nb) == ['# Um', 'Dois `x`'] and english == []


def source_of(cell): return source(''.join(cell['source']), cell['id'])


def test_a_changed_cell_is_fuzzy_and_remains_english(lesson):
    lesson.nb['cells'][1]['source'] = ['Three `x`']
    assert T.translated_notebook(lesson.nb, lesson.catalogue)[1] == ['b2'], 'before the update, too'
    new = T.updated_catalogue(lesson.catalogue, [*map(source_of, lesson.nb['cells'])])
    (m,) = [m for m in new if m.fuzzy]
    assert (m.context, m.id, m.string) == ('b2', 'Three `x`', 'Dois `x`')
    nb, english = T.translated_notebook(lesson.nb, new)
    assert prose(nb)[1] == 'Three `x`' and english == ['b2'] and T._fuzzy_messages(new) == ['b2']
    again = T.updated_catalogue(new, [*map(source_of, lesson.nb['cells'])])
    assert [m.context for m in again if m.fuzzy] == ['b2'], 'until a translator removes the mark'


def test_a_cell_that_is_gone_leaves_the_catalogue_and_a_new_one_enters(lesson):
    new = T.updated_catalogue(lesson.catalogue, [source('# One'), source('Three', 'c3')])
    assert [(m.context, m.string, m.fuzzy) for m in new if m.id] == [('a1', '# Um', False), ('c3', '', False)]


def test_a_finding_that_is_reworded_keeps_the_translation_as_fuzzy(lesson):
    old = T.updated_catalogue(lesson.catalogue, [source('a race on {element}', ''), source('quite another text', '')])
    for m in old: m.string = m.id and 'corrida em {element}'
    new = T.updated_catalogue(old, [source('a data race on {element}', ''), source('misaligned: {bytes}', '')])
    assert [(m.string, m.fuzzy) for m in new if m.id] == [('corrida em {element}', True), ('', False)]


def test_a_catalogue_is_written_and_read_back(tmp_path, monkeypatch, lesson):
    monkeypatch.setattr(T, 'LOCALE', tmp_path)
    monkeypatch.setattr(T, 'sources_of', lambda name: [source('"a" \\ `b`\n\nc'), source('100% {x}', 'b2')])
    T.update('fr', 'no_lesson')
    written = T.path_of('fr', 'no_lesson').read_text(encoding='utf-8')
    written = written.replace('msgctxt', "# a translator's note\n#, fuzzy\nmsgctxt", 1)
    T.path_of('fr', 'no_lesson').write_text(written.replace('msgstr ""\n\n', 'msgstr "d"\n\n', 1), encoding='utf-8')
    T.update('fr', 'no_lesson')
    written = T.path_of('fr', 'no_lesson').read_text(encoding='utf-8')
    assert "# a translator's note\n#, fuzzy\n" in written
    T.update('fr', 'no_lesson')
    assert T.path_of('fr', 'no_lesson').read_text(encoding='utf-8') == written and 'EMAIL@ADDRESS' not in written
    found = T.read_catalogue(T.path_of('fr', 'no_lesson'))
    assert [m.id for m in found if m.id] == ['"a" \\ `b`\n\nc', '100% {x}'] and T.unreviewed_notice(found)
    assert [m.string for m in found if m.fuzzy] == ['d']


@pytest.mark.parametrize('kind,before,after', [
    ('code', 'a `x[i]`', 'a `x[j]`'), ('code block', '```\na\n```', '```\nb\n```'), ('link', '[a](b.md)', '[a](c.md)'),
    ('formula', '$n^2$', '$n$'), ('HTML tag', '<b>a</b>', 'a'), ('field', '{a}', '{b}'), ('heading', '## A', '# A'),
    ('table cell', '| a | b |', '| a b |'), ('number', '34,200', '34.201'), ('number', '2 of 3', '2')])
def test_what_a_translation_does_not_keep_is_found(kind, before, after):
    assert [*T.differences(before, after)] == [kind] and T.differences(before, before) == {}


def test_a_number_may_have_the_separators_of_the_language():
    assert T.differences('34,200 in 0.28 s', '34.200 em 0,28 s') == {}


def test_an_unknown_lesson_or_catalogue_is_an_error_that_names_it(tmp_path):
    assert 'first_kernell' in T.main(['build', 'pt_BR', 'first_kernell', str(tmp_path)])
    assert 'fr/first_kernel.po' in T.main(['build', 'fr', 'first_kernel', str(tmp_path)]) and not [*tmp_path.iterdir()]


def test_without_babel_the_message_names_the_extra(monkeypatch):
    find = lazy_exports.find_spec
    monkeypatch.setattr(lazy_exports, 'find_spec', lambda package: None if package == 'babel' else find(package))
    line = lazy_exports.run_command(T.main, [])
    assert 'gridstride[site]' in line and len(line.splitlines()) == 1


# Findings

OUTSIDE = dict(access='read', array='x', index=(105,), shape=(100,))
RACE = dict(array='s', index=(3,), before='written', now='read')


def test_a_finding_is_translated_with_its_words_and_keeps_kind_code_and_fields():
    plain = exception_of('memcheck', 'outside', 'python', OUTSIDE)
    for lang in 'pt_BR', 'zh_CN':
        with sim.options(lang=lang): e = exception_of('memcheck', 'outside', 'python', OUTSIDE)
        assert str(e) != str(plain) and (e.kind, e.code, e.fields) == (plain.kind, plain.code, plain.fields)
        assert 'x[105]' in e.summary and '100' in e.summary and '`if i < n`' in e.hint
        assert not re.search('read|element', e.summary.replace('elemento', ''))
        with sim.options(lang=lang): race = text_of('racecheck', 'race', 'cuda', RACE)
        assert 's[3]' in race[0] and 'after' not in race[0] and '__syncthreads()' in race[1]
    assert str(exception_of('memcheck', 'outside', 'python', OUTSIDE)) == str(plain)


def test_a_finding_without_a_translation_remains_english_with_its_words():
    fields = dict(access='read', array='x', index=(3,), bytes=8)
    with sim.options(lang='pt_BR'): translated = text_of('memcheck', 'misaligned', 'cuda', fields)
    assert translated == text_of('memcheck', 'misaligned', 'cuda', fields), 'translate another row here'


def test_the_reader_of_findings_reads_what_babel_reads(catalogue_of):
    for path in (p for p in PATHS if p.stem == T.FINDINGS):
        want = {(m.context or '', m.id): m.string for m in translations(catalogue_of(path))}
        assert catalogues.read(path.read_text(encoding='utf-8')) == want and len(want) > 50


def test_a_fuzzy_or_empty_translation_is_not_used():
    po = '\n\n'.join(['msgid ""\nmsgstr "a"', '#, fuzzy\nmsgid "b"\nmsgstr "c"', 'msgid "d"\nmsgstr ""',
                      '#, python-brace-format\n#| msgid "e"\nmsgid ""\n"f\\n"\n"\\"g"\nmsgstr "h"',
                      '#~ msgid "i"\n#~ msgstr "j"'])
    assert catalogues.read(po) == {('', 'f\n"g'): 'h'}


@pytest.mark.parametrize('given,found', [
    ('pt_BR', 'pt_BR'), ('pt-br', 'pt_BR'), ('zh_CN.UTF-8', 'zh_CN'), ('zh', 'zh_CN'), ('zh_TW', ''), ('en_US', ''),
    ('', ''), ('C', '')])
def test_a_language_is_found_by_the_usual_names(given, found): assert catalogues.find_language(given) == found


@pytest.mark.parametrize('lang', ['xx', 3, 'zh_TW'])
def test_an_unknown_language_is_refused(lang):
    with pytest.raises(ValueError, match='pt_BR'):
        with sim.options(lang=lang): pass
    assert not settings.lang


def test_english_can_be_selected_and_another_thread_keeps_its_own_language():
    with sim.options(lang='pt_BR'):
        with sim.options(lang='en'): assert 'out-of-bounds' in text_of('memcheck', 'outside', 'python', OUTSIDE)[0]
    found = []
    def run():
        with sim.options(lang='zh_CN'): found.append(text_of('crash', 'division', 'cuda')[0])
    thread = threading.Thread(target=run)
    thread.start(); thread.join()
    assert found != [text_of('crash', 'division', 'cuda')[0]] == [MESSAGES['crash', 'division'].summary]


@pytest.mark.parametrize('lang', ['zh_CN', 'xx'])
def test_the_environment_selects_the_language_without_babel(lang):
    code = ('import sys; sys.modules["babel"] = None\n'
            'from gridstride.diagnostics.formatting import text_of\n'
            'sys.stdout.buffer.write(text_of("crash", "division", "cuda")[0].encode())')
    done = subprocess.run([sys.executable, '-c', code], env={**os.environ, 'GRIDSTRIDE_LANG': lang},
                          capture_output=True, check=True)
    assert ('GRIDSTRIDE_LANG' in done.stderr.decode()) is (lang == 'xx')
    assert (done.stdout.decode() == MESSAGES['crash', 'division'].summary) is (lang == 'xx')


def test_parts_make_the_fields_of_every_language():
    "Each part has the fields of its English text, or a finding would fail to format"
    for lang in catalogues.languages():
        for text in FRAGMENTS.values(): assert 'field' not in T.differences(text, catalogues.translated(text, lang))
