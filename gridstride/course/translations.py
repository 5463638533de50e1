"""Catalogues for translators: the prose of a lesson, and the messages of findings, as gettext files.

    python -m gridstride.course.translations                                  # list the catalogues
    python -m gridstride.course.translations update [pt_BR first_kernel]      # write one, or all that exist
    python -m gridstride.course.translations build pt_BR first_kernel FOLDER  # write the translated notebook

`nbs/locale/pt_BR/first_kernel.po` has a message per markdown cell of a lesson, with the id of the cell as its context;
code is not translated. `gridstride/diagnostics/locale/pt_BR/messages.po` has the templates of `diagnostics.messages`;
`diagnostics.catalogues` reads it when a kernel runs. `update` marks a translation as fuzzy if its source has changed,
and a fuzzy translation is not used. A comment `unreviewed: ...` at the head of a catalogue becomes the notice in the
first cell of the notebook; a reviewer deletes it.
"""

import argparse
import difflib
import io
import json
import re
import sys
from collections import Counter, namedtuple
from itertools import chain
from pathlib import Path

from .curriculum import lesson_of_file
from .lessons import NBS, ROOT, read
from .publishing import settings, without_links
from ..diagnostics import catalogues, messages
from ..support.atomic_write import write_atomically
from ..support.lazy_exports import require, run_command
from ..support.tables import Table

__all__ = [
    'Source',
    'build',
    'catalogue_paths',
    'differences',
    'main',
    'path_of',
    'read_catalogue',
    'sources_of',
    'table',
    'translated_notebook',
    'unreviewed_notice',
    'update',
    'updated_catalogue',
]

LOCALE = NBS / 'locale'
FINDINGS = 'messages'  # the name of the catalogue of findings; other catalogues are named after a lesson's slug
_UNREVIEWED = 'unreviewed: '
_HEADER_FIELDS = 'header_comment msgid_bugs_address last_translator language_team revision_date fuzzy'.split()

Source = namedtuple(
    'Source', 'context text comment', defaults=('',)
)  # a message: its context, English text, and a comment for translators


# The strings to translate


def lesson_file(slug) -> Path:
    "Return the notebook of a lesson; raises `LookupError` for an unknown slug"
    if lesson := lesson_of_file(f'00_{slug}.ipynb'):
        return NBS / lesson.file
    raise LookupError(f'There is no lesson {slug}. `python -m gridstride.course.curriculum` lists them.')


def sources_of(
    name,  # slug of a lesson, or 'messages'
) -> list:  # of `Source`
    "Return the strings that belong to a catalogue, in order"
    return _finding_sources() if name == FINDINGS else [Source(*item) for item in _prose(read(lesson_file(name)))]


def _prose(nb):
    "Yield (id, text) of each markdown cell, without the line of links below the title"
    for i, cell in enumerate(nb['cells']):
        if cell['cell_type'] == 'markdown':
            text = ''.join(cell['source'])
            yield cell['id'], text if i else without_links(text)


def _finding_sources():
    "Return the templates of findings, each once, with the names of its rows"
    rows = {}
    for text, row in _finding_texts():
        if re.search('[a-z]', re.sub(r'\{[^}]*\}', '', text)):  # fields alone need no translation
            rows.setdefault(text, []).append(row)
    values = [Source(field, value) for field, values in messages.VALUES.items() for value in values]
    return [Source('', text, ', '.join(dict.fromkeys(row_names))) for text, row_names in rows.items()] + values


def _finding_texts():
    "Yield (template, name of its row) of all tables"
    for (kind, code), message in messages.MESSAGES.items():
        for text in message:
            yield from ((template, f'{kind} {code}') for template in _templates(text))
    for name, text in chain(messages.HINTS.items(), messages.PHRASES.items(), messages.FRAGMENTS.items()):
        yield from ((template, name) for template in _templates(text))


def _templates(text):
    "Return the templates of an entry of a table: the string itself, or one template per dialect"
    return [text] if isinstance(text, str) else [*text.values()]


# Catalogues


def path_of(language, name) -> Path:
    "Return the file of a catalogue: `path_of('pt_BR', 'first_kernel')`"
    folder = catalogues.FOLDER if name == FINDINGS else LOCALE
    return folder / language / f'{name}.po'


def catalogue_paths() -> list:
    "Return the files of all catalogues"
    return sorted([*LOCALE.glob('*/*.po'), *catalogues.FOLDER.glob('*/*.po')])


def read_catalogue(path):  # a `babel.messages.catalog.Catalog`
    "Read a catalogue; a new one if there is none"
    require('babel', 'gridstride.course.translations')
    from babel.messages import pofile
    from babel.messages.catalog import Catalog

    if path.exists():
        return pofile.read_po(io.BytesIO(path.read_bytes()), locale=path.parent.name)
    comment = f'# {_UNREVIEWED}This translation has not been reviewed.'
    address = settings(ROOT)['repository'] + '/issues'
    return Catalog(path.parent.name, header_comment=comment, msgid_bugs_address=address, fuzzy=False)


def updated_catalogue(
    catalogue,
    sources,  # the current strings, as `sources_of` returns them
):  # a new catalogue
    "Return a catalogue of the current strings; mark the translation of a changed string as fuzzy"
    from babel.messages.catalog import Catalog

    new = Catalog(catalogue.locale, **{name: getattr(catalogue, name) for name in _HEADER_FIELDS})
    present = {(source.context, source.text) for source in sources}
    removed_messages = [m for m in catalogue if m.id and m.string and ((m.context or ''), m.id) not in present]
    for source in sources:
        _add(new, source, catalogue.get(source.text, source.context or None), removed_messages)
    return new


def _add(catalogue, source, old, removed):
    "Add a string with its message in the old catalogue, or else with the fuzzy translation of its earlier version"
    earlier = None if old else _find_earlier(source, removed)
    message = old or earlier
    catalogue.add(
        source.text,
        message.string if message else '',
        flags={'fuzzy'} if earlier else message.flags & {'fuzzy'} if message else (),
        auto_comments=[source.comment] if source.comment else (),
        user_comments=message.user_comments if message else (),
        context=source.context or None,
    )


def _find_earlier(source, removed):
    "Return the message of the earlier version: that of the same cell, or for findings the most similar one; or None"
    candidates = {m.id: m for m in removed if (m.context or '') == source.context}
    closest = difflib.get_close_matches(source.text, candidates, 1) if not source.context else [*candidates]
    return candidates[closest[0]] if closest else None


def update(language, name):
    "Write a catalogue with the current strings"
    path = path_of(language, name)
    catalogue = updated_catalogue(read_catalogue(path), sources_of(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _po_text(catalogue))


# Lines of a header that Babel writes with placeholders, and those that differ with each run
_VARYING_HEADER_LINE = re.compile(
    r'^"(?:.*(?:VERSION|EMAIL@ADDRESS|YEAR-MO|<LL@li).*|POT-Creation.*|Generated-By.*)\\n"\n', re.M
)


def _po_text(catalogue):
    "Return the content of the .po file"
    from babel.messages import pofile

    file = io.BytesIO()
    pofile.write_po(file, catalogue, width=0)
    header, end, entries = file.getvalue().decode().partition('\n\n')
    return _VARYING_HEADER_LINE.sub('', header + '\n') + end[1:] + entries


def unreviewed_notice(catalogue) -> str:
    "Return the notice that a translation is unreviewed, in its language; '' after a review"
    lines = [line.lstrip('# ') for line in catalogue.header_comment.splitlines()]
    return next((line.removeprefix(_UNREVIEWED) for line in lines if line.startswith(_UNREVIEWED)), '')


# What a translation must preserve

_FENCE = re.compile(r'^```.*?^```', re.M | re.S)
_CODE = re.compile(r'`[^`]+`')
_LINK = re.compile(r'\]\([^)\s]+\)')
_KEPT_PATTERNS = {  # searched in this order; the matches of each are removed before the next search
    'code block': _FENCE,
    'code': _CODE,
    'link': _LINK,
    'formula': re.compile(r'\$[^$\n]+\$'),
    'field': re.compile(r'\{[^{}]*\}'),
    'HTML tag': re.compile(r'</?[a-z][^<>]*>'),
    'heading': re.compile(r'^#+ ', re.M),
    'table cell': re.compile(r'\|'),
    'number': re.compile(r'\d+(?:[.,:]\d+)*'),
}


def differences(source, translation) -> dict:  # {kind: (missing, added)}
    "Compare a translation with its source: code, links, formulas, fields, HTML tags, headings, table cells, numbers"
    changes = {}
    for kind, pattern in _KEPT_PATTERNS.items():
        before, after = (Counter(map(_comparable, pattern.findall(text))) for text in (source, translation))
        if before != after:
            changes[kind] = (sorted((before - after).elements()), sorted((after - before).elements()))
        source, translation = (pattern.sub(' ', text) for text in (source, translation))
    return changes


def _comparable(text):
    "Return a number without its separators, which depend on the language; any other string unchanged"
    return re.sub('[.,]', '', text) if text[0].isdigit() else text


# Translated notebooks


def translated_notebook(
    nb,  # of the lesson, as `lessons.read` returns it
    catalogue,
):  # (notebook, ids of the cells that remain English)
    "Translate the prose of a notebook; a cell whose translation is missing or fuzzy remains English"
    texts = {m.context: m.string for m in catalogue if m.id and m.string and not m.fuzzy}
    prose = dict(_prose(nb))
    current = {id: texts[id] for id, text in prose.items() if id in texts and catalogue.get(text, id)}
    new = {id: current.get(id, text) for id, text in prose.items()}
    if notice := unreviewed_notice(catalogue):
        first = next(iter(new))
        new[first] = new[first].replace('\n\n', f'\n\n> **{notice}**\n\n', 1)
    cells = [{**c, 'source': new[c['id']].splitlines(True)} if c['id'] in new else c for c in nb['cells']]
    return {**nb, 'cells': cells}, [id for id in prose if id not in current]


def build(language, slug, folder):  # (path of the notebook, ids of the cells that remain English)
    "Write the translated notebook of a lesson into a folder"
    source, path = lesson_file(slug), path_of(language, slug)
    if not path.exists():
        raise LookupError(f'There is no catalogue {path.relative_to(ROOT)}. Create it with `update {language} {slug}`.')
    nb, untranslated_ids = translated_notebook(read(source), read_catalogue(path))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / source.name, json.dumps(nb, indent=1, ensure_ascii=False) + '\n')
    return folder / source.name, untranslated_ids


# The command


def _fuzzy_messages(catalogue):
    "Return the context of each fuzzy message, or the beginning of its source string if it has no context"
    return [m.context or f'{m.id[:40]}...' for m in catalogue if m.id and m.fuzzy]


def table() -> Table:
    "Return a table of the catalogues: how many strings are translated, and which translations are fuzzy"
    rows = []
    for path in catalogue_paths():
        catalogue = read_catalogue(path)
        num_translated = sum(bool(m.string) and not m.fuzzy for m in catalogue if m.id)
        rows.append(
            (
                path.parent.name,
                path.stem,
                f'{num_translated} of {len(catalogue)}',
                ', '.join(_fuzzy_messages(catalogue)),
            )
        )
    return Table(('<language', '<catalogue', 'translated', '<fuzzy'), rows)


def _update_all(language, name):
    "Update one catalogue, all of a language, or all"
    for path in [path_of(language, name)] if name else catalogue_paths():
        if language in (None, path.parent.name):
            update(path.parent.name, path.stem)
    print(table())


def _build(language, slug, folder):
    "Build a notebook, and print which cells remain English"
    path, untranslated_ids = build(language, slug, folder)
    print(path)
    if untranslated_ids:
        print(f'Cells without a current translation, which remain English: {", ".join(untranslated_ids)}')


def _parser():
    description = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog='python -m gridstride.course.translations', description=description)
    commands = parser.add_subparsers(dest='command')
    update_parser = commands.add_parser('update', help='update one catalogue to the current strings, or all catalogues')
    update_parser.add_argument('language', nargs='?')
    update_parser.add_argument('name', nargs='?', help="slug of a lesson, or 'messages'")
    build_parser = commands.add_parser('build', help='write the translated notebook of a lesson')
    for name in ('language', 'slug', 'folder'):
        build_parser.add_argument(name)
    return parser


def main(argv=None):  # None: the command line
    "List or update catalogues, or build a translated notebook"
    args = _parser().parse_args(argv)
    try:
        if args.command == 'build':
            return _build(args.language, args.slug, args.folder)
        return _update_all(args.language, args.name) if args.command else print(table())
    except LookupError as e:
        return e.args[0]


if __name__ == '__main__':
    sys.exit(run_command(main))
