"""Each term of GLOSSARY.md is taught before lessons use it: its column names the first lesson that has it, and each
lesson in the column has it."""
import json, re
from functools import lru_cache
from pathlib import Path

import pytest
from gridstride.course.lessons import lessons
from test_language import glossary

# Terms that prose also has in another sense, so an early use is not one of the term
OTHER_SENSES = {'mask', 'phase', 'program', 'quantization', 'rank', 'remainder'}
# Terms that everyone who has trained a network knows
KNOWN = {'backward pass', 'bfloat16', 'gradient'}
# Other forms of a term in prose
FORMS = {
    '2:4 sparsity': '2:4', 'asynchronous copy': 'asynchronous cop(?:y|ies)',
    'atomic operation': 'atomic operations?|atomics', 'autotuning': 'autotun(?:e|es|ed|er|ing)',
    'block sparsity': 'block-sparse', 'branch divergence': 'diverge[sd]?|divergent',
    'compensated summation': 'compensated|Kahan', 'determinism': 'determinis(?:m|tic)|reproducible',
    'happens-before': 'happens[- ]before', 'hazard': 'hazards?|read after write|write after read',
    'kernel fusion': 'fus(?:e|es|ed|ing|ion)', 'paged KV cache': 'paged KV cache|pages',
    'partial sum': 'partial (?:sum|result)s?', 'persistent kernel': 'persistent', 'register spill': 'spill(?:s|ed)?',
    'rotary embedding': 'rotary|RoPE', 'specialization': 'speciali[sz](?:e|es|ed|ation)',
    'tensor memory': 'tensor memory(?! Accelerator)',
    'tiling': 'til(?:e|es|ed|ing)', 'tree reduction': 'trees?', 'uninitialized': 'uninitialized|never written',
    'vectorized access': 'vectorized|four (?:floats|elements) (?:at once|per load)',
}


@lru_cache
def paragraphs(path):
    "Prose of a lesson as a learner reads it: without code, solutions, tables and the targets of links"
    text = '\n\n'.join(''.join(c['source']) for c in json.loads(path.read_text(encoding='utf-8'))['cells']
                       if c['cell_type'] == 'markdown')
    for what, by in ((r'<details.*?</details>', ''), (r'```.*?```', ''), (r'`[^`\n]*`', ' '), (r'\]\([^)]*\)', ']')):
        text = re.sub(what, by, text, flags=re.S)
    return [line for line in text.splitlines() if not line.startswith('[Open in')]


@lru_cache
def sentences(path):
    "Those of the prose that use terms: without tables, and without what points to another lesson"
    prose = ' '.join(line for line in paragraphs(path) if line and line[0] not in '|>' and not line.startswith((
        'Next:', '**After this lesson**', '**Needs**', '**Follows**', '# ')))
    return [s for s in re.split(r'(?<=[.?!:;])\s', prose) if not re.search(r'\b[Ll]essons? \[?\d|\[\d\d', s)]


@lru_cache
def prose(path): return '\n'.join(sentences(path))


def uses(path, term):
    "Return the sentences of a lesson that use a term"
    if not pattern(term).search(prose(path)): return []  # one search instead of hundreds
    return [s for s in sentences(path) if pattern(term).search(s)]


@lru_cache
def pattern(term):
    plain = re.escape(without_subject(term)).replace(r'\ ', r'[\s-]') + '(?:e?s|ed)?'
    return re.compile(rf'(?<![\w-])(?:{FORMS.get(term, plain)})(?!\w)', 0 if term.isupper() else re.I)


def without_subject(term): return re.sub(r' \(.*\)', '', term)


def name(term): return re.sub(r'\W+', '_', term)


ROWS = [pytest.param(term, [Path(file).name for _, file, _ in links], id=name(term)) for term, _, links in glossary()]


@pytest.mark.parametrize('term, taught', ROWS)
def test_a_lesson_that_teaches_a_term_has_it(term, taught):
    for path in lessons():
        assert path.name not in taught or any(map(pattern(term).search, paragraphs(path))), path.name


@pytest.mark.parametrize('term, taught', ROWS)
def test_a_term_is_taught_before_it_is_used(term, taught):
    order = [p.name for p in lessons()]
    first = min(map(order.index, taught))
    early = [(p.name, s) for p in lessons()[:first] for s in uses(p, term)]
    assert not early or without_subject(term) in OTHER_SENSES | KNOWN, early[:3]


def test_each_exception_is_needed():
    rows = {without_subject(row.values[0]): row.values[1] for row in ROWS}
    order = [p.name for p in lessons()]
    for term in OTHER_SENSES | KNOWN:
        before = lessons()[:min(map(order.index, rows[term]))]
        assert any(uses(p, term) for p in before), f'{term} needs no exception'
