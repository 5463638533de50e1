"""Formats the text of a finding: fills in the fields of its templates, and translates them.

A template names its fields as `str.format` does. Some of them mean the same in every row:

- `array`, a name, and `index`, a tuple of integers, become attributes of the exception; `element` combines the two
  as the dialect writes it, `s[3, 4]` or `s[3][4]`, and `subscript` is the index alone, `105` or `(3, 4)`. If
  the array is unknown, `space` names the memory instead: 'shared memory'.
- `access` is 'read', 'write', 'atomic', or 'access' if the kind of access is unknown; `access_to` adds its
  preposition, as in 'write to'. `extent` is derived from `shape`: '100 elements', or 'shape (4, 25)'.
- `candidates` are the elements that may have been accessed, (array, index, size); `either` lists them.
- `before` and `now` are the two accesses of a race, as in 'read' and 'written'; `hazard` is derived from them,
  'read after write'.
- `threads` is a number of threads; `waiting` is derived from it, '1 thread waits'.
- `thread` is a position (x, y, z) and is shown without the dimensions that are not used.

With `settings.lang`, `catalogues` translates the templates, phrases and values such as 'read'. Names, numbers and the
lines that give the location are not translated.
"""

import re
from collections import namedtuple
from string import Formatter

from .catalogues import translated
from .messages import DIALECTS, HINTS, FRAGMENTS, PHRASES, VALUES, MESSAGES
from .settings import settings

__all__ = ['Phrase', 'element', 'field_names', 'format_advice', 'position', 'text_of']

Phrase = namedtuple('Phrase', 'code fields', defaults=({},))  # a part of a sentence, with its own row in `PHRASES`


def position(xyz):
    """Format a position (x, y, z) without the dimensions that are not used: '(4)', '(4,1)'.

    >>> position((4, 1, 0))
    '(4,1)'"""
    x, y, z = (int(i) for i in xyz)
    return f'({x},{y},{z})' if z else f'({x},{y})' if y else f'({x})'


def element(array, index, dialect):
    """Format an element as the dialect writes it: `s[3, 4]` or `s[3][4]`; without an index the array's name.

    >>> element('s', (3, 4), 'cuda')
    's[3][4]'"""
    if index is None or len(index) == 0:
        return array
    return array + ''.join(f'[{i}]' for i in index) if dialect == 'cuda' else f'{array}[{", ".join(map(str, index))}]'


def _templates_of(kind, code, dialect):
    "Return the templates of summary and hint in a dialect"
    return tuple(_dialect_text(text, dialect) for text in MESSAGES[kind, code])


def _dialect_text(text, dialect):
    "Return the template for a dialect; Triton falls back to that of Python"
    return text if isinstance(text, str) else text.get(dialect) or text['python']


def field_names(kind, code):
    """Return the names of the fields that a report of this code must give, in any dialect.

    >>> sorted(field_names('memcheck', 'outside'))
    ['access', 'array', 'index', 'shape']"""
    texts = (text for dialect in DIALECTS for text in _templates_of(kind, code, dialect))
    names = {re.match(r'\w*', name)[0] for text in texts for _, name, _, _ in Formatter().parse(text) if name}
    return set().union(*(_DERIVED_FROM.get(name, {name}) for name in names))


_DERIVED_FROM = dict(  # derived field -> the fields that it is derived from
    element={'array', 'index'},
    subscript={'index'},
    access_to={'access'},
    extent={'shape'},
    either={'candidates'},
    waiting={'threads'},
    hazard={'before', 'now'},
)


def _fill(template, fields, dialect, hint_fields={}):
    "Translate a template and fill in its fields; without a translation both remain English"
    text = translated(template, settings.lang)
    if '{' not in text:
        return text
    language = settings.lang if text != template else ''
    return text.format(**{**_format_fields(fields, dialect, language), **hint_fields})


def _format_fields(fields, dialect, language):
    "Format the fields as the templates show them"
    text_of_field = {
        name: _format_phrase(value, dialect, language) if isinstance(value, Phrase) else value
        for name, value in (fields or {}).items()
    }
    for name in ('thread', 'in_block'):
        if name in text_of_field:
            text_of_field[name] = position(text_of_field[name])
    name = text_of_field.get('array') or text_of_field.get('space') or ''
    threads = text_of_field.get('threads')
    text_of_field['waiting'] = _format_fragment(
        'thread_waits' if threads == 1 else 'threads_wait', language, threads=threads
    )
    text_of_field.setdefault('element', element(name, text_of_field.get('index'), dialect))
    return {**text_of_field, **_translate_values(text_of_field, language), **_derive_fields(text_of_field, language)}


def _format_fragment(name, language, **fields):
    "Translate and format a row of `FRAGMENTS`"
    return translated(FRAGMENTS[name], language).format(**fields)


def _translate_values(formatted, language):
    "Translate the values of the fields in `VALUES`, such as 'read'"
    return {k: translated(formatted[k], language, k) for k in VALUES if language and formatted.get(k) in VALUES[k]}


def _derive_fields(formatted, language):
    "Derive fields from others, as the docstring of the module lists them"
    index, now, before = (formatted.get(k) for k in ('index', 'now', 'before'))
    return dict(
        subscript=index[0] if index and len(index) == 1 else index,
        **({'access_to': _with_preposition(formatted['access'], language)} if 'access' in formatted else {}),
        **({'extent': _format_extent(formatted['shape'], language)} if 'shape' in formatted else {}),
        **({'either': _format_candidates(formatted['candidates'], language)} if 'candidates' in formatted else {}),
        **({'hazard': _format_hazard(now, before, language)} if now and before else {}),
    )


def _with_preposition(access, language):
    return _format_fragment(f'{access}_to', language) if access in VALUES['access'] else f'{access} to'


def _format_extent(shape, language):
    "Format the size of an array: `100 elements`, or `shape (4, 25)`"
    if len(shape) > 1:
        return _format_fragment('has_shape', language, shape=shape)
    return (
        _format_fragment('one_element', language)
        if tuple(shape) in ((), (1,))
        else _format_fragment('elements', language, count=shape[0])
    )


def _format_candidates(candidates, language):
    "Format the elements that may have been accessed: `x[-5] (100 elements) or y[7] (50 elements)`"
    elements = (f'{array}[{index}] ({_format_extent((size,), language)})' for array, index, size in candidates)
    return _format_fragment('or', language).join(elements)


def _format_hazard(now, before, language):
    "Format the kind of a data race: 'read after write'"
    return _format_fragment(f'{_access_noun(now)}_after_{_access_noun(before)}', language)


def _access_noun(verb):
    "Return the noun for an access: 'read' for 'reads', 'write' for 'written', 'atomic' for 'changed atomically'"
    return 'read' if verb.startswith('read') else 'atomic' if 'atomic' in verb else 'write'


def _format_phrase(phrase, dialect, language):
    fields = _format_fields(phrase.fields, dialect, language)
    return translated(PHRASES[phrase.code], language).format(**fields)


def text_of(kind, code, dialect, fields=None):
    "Return (summary, hint) of a finding, with its fields filled in; raises `KeyError` for a missing field"
    return tuple(_fill(template, fields, dialect) for template in _templates_of(kind, code, dialect))


def format_advice(advice, dialect, fields):
    "Format `advice`, (name of a row of `HINTS`, its fields); None for None"
    return advice and _fill(_dialect_text(HINTS[advice[0]], dialect), fields, dialect, advice[1])
