"""Messages of findings in other languages: reads a language's catalogue, and translates a template.

A catalogue is a gettext file, `locale/pt_BR/messages.po`, that `course.translations` writes. A message remains in
English if it is not translated, or if its translation is marked as fuzzy. This reader needs no package, so that
findings can be translated wherever they occur.
"""

import functools
import json
import re
from pathlib import Path

__all__ = ['FOLDER', 'check_language', 'find_language', 'languages', 'translated']

FOLDER = Path(__file__).parent / 'locale'  # LANGUAGE/messages.po

_STRING = r'((?:"(?:[^"\\]|\\.)*"\n?)+)'  # consecutive quoted lines, which form one string
_ENTRY = re.compile(rf'^(?:msgctxt {_STRING})?^msgid {_STRING}^msgstr {_STRING}', re.M)


def languages() -> list:
    "Return the names of the languages that have a catalogue: `['pt_BR', 'zh_CN']`"
    return sorted(p.parent.name for p in FOLDER.glob('*/messages.po'))


def find_language(
    name,  # as in the environment variable LANG: 'pt_BR', 'pt-BR', 'pt_BR.UTF-8' or 'pt'
):  # the name of its catalogue; '' for English, and for a language without a catalogue
    "Find the catalogue for a language name: `find_language('pt')` is 'pt_BR'"
    name = (name or '').partition('.')[0].replace('-', '_').lower()
    return next((language for language in languages() if name in (language.lower(), language[:2])), '')


def check_language(name):
    "Raise `ValueError` unless `name` is None, English, or a language that has a catalogue"
    if name is not None and not (isinstance(name, str) and (name[:2] in ('', 'en') or find_language(name))):
        raise ValueError(f"lang must be 'en' or {', '.join(map(repr, languages()))}; got {name!r}")


def translated(
    text,  # in English
    language,  # as `find_language` takes it
    context='',  # if the text is a single word: the field whose value it is
) -> str:
    "Translate a template, or the value of a field; the names of fields do not change"
    return _catalogue(language).get((context, text), text) if language else text


@functools.cache
def _catalogue(language):
    "Return the translations of a language: {(context, text): translation}"
    name = find_language(language)
    return read((FOLDER / name / 'messages.po').read_text(encoding='utf-8')) if name else {}


def read(po) -> dict:
    "Parse a catalogue: {(context, text): translation}, without fuzzy and missing translations"
    entries = (_ENTRY.search(entry) for entry in po.split('\n\n') if not re.search('^#,.*fuzzy', entry, re.M))
    strings = (tuple(map(_unquote, m.groups())) for m in entries if m)
    return {(context, text): translation for context, text, translation in strings if text and translation}


def _unquote(lines):
    "Return the string that consecutive quoted lines form"
    return ''.join(map(json.loads, (lines or '').splitlines()))
