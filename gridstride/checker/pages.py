"""`gridstride explain CODE`: prints the page of a message, with a wrong kernel and a corrected one."""

import argparse
import json
import re
import textwrap
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from .finding import page_url

__all__ = ['LANGUAGES', 'examples', 'printed_lines', 'describe_report', 'message_variants', 'page_text', 'main']

LANGUAGES = dict(python="Python, in Numba's dialect", cuda='CUDA C', triton='Triton')
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = _PACKAGE / 'messages', _PACKAGE.parent / 'site/messages'  # in a wheel, and in the repository

_IMPORTS = {  # pattern in a code block -> the import that the block needs
    r'\bnp\.': 'import numpy as np',
    r'\btorch\.': 'import torch',
    r'\bcuda\.': 'from gridstride.sim import cuda',
    r'\bcuda_kernel\(': 'from gridstride import cuda_kernel',
    r'\bload_cuda\(': 'from gridstride import load_cuda',
    r'\bcdiv\(': 'from gridstride import cdiv',
    r'\bPTX \+ r': 'from gridstride.kernels.ptx import PTX',
    r'\bPTX \+ TCGEN05': 'from gridstride.kernels.ptx import PTX, TCGEN05',
    r'\bPTX \+ wgmma': 'from gridstride.kernels.ptx import PTX, wgmma',
    r'\btensor_map\(': 'from gridstride.kernels.tensor_maps import tensor_map',
    r'\btriton\.': 'from gridstride import triton',
    r'\btl\.': 'tl = triton.language',
    r'\bsim\.': 'from gridstride import sim',
    r'\bcpp\.': 'from gridstride import cpp',
}


def _with_imports(code):
    "Prepend the imports that a code block needs"
    lines = [line for pattern, line in _IMPORTS.items() if re.search(pattern, code)]
    return '\n'.join(lines) + '\n\n' + code if lines else code


def _files(pattern):
    "Return the files of the message pages that match a pattern"
    return sorted(path for folder in _FOLDERS for path in folder.glob(pattern))


@cache
def examples():
    "Read {(kind, code): (prose, wrong kernel, right kernel)} from the pages: a file per kind, a section per code"
    example_of_message = {}
    for path in _files('*.md'):
        _, *sections = re.split(r'^## (\w+)\n', path.read_text(encoding='utf-8'), flags=re.M)
        for code, text in zip(sections[::2], sections[1::2]):
            prose, wrong, _, right, _ = re.split(r'^```(?:python)?\n', text, flags=re.M)
            example_of_message[path.stem, code] = prose.strip(), _with_imports(wrong), _with_imports(right)
    return example_of_message


def printed_lines():
    "Read {kind-code: first line that the wrong kernel of a page prints}"
    return next((json.loads(path.read_text(encoding='utf-8')) for path in _files('printed.json')), {})


def _in_dialects(text):
    "Return {dialect: text} for an entry of the message table; the key '' means all dialects"
    return {'': text} if isinstance(text, str) else text


def message_variants(row):
    "Yield (dialect, message, hint) of a row of the table, with field names in braces; dialect '' means all dialects"
    summaries, hints = _in_dialects(row.summary), _in_dialects(row.hint)
    for dialect in sorted({*summaries, *hints} - {''}) or ['']:
        summary, hint = (texts.get(dialect, texts.get('', '')) for texts in (summaries, hints))
        if summary or hint:
            yield dialect, summary, hint


def describe_report(kind, code):
    "Describe which error or warning reports a message, and how to disable the check"
    from ..diagnostics.errors import ALWAYS_REPORTED, CLASSES, WARNINGS, how_to_disable

    if code in WARNINGS:
        reported = f'It is a warning, `{WARNINGS[code][1].__name__}`: the kernel continues.'
    else:
        reported = f'It is raised as `{CLASSES[kind].__name__}`.'
    if code in ALWAYS_REPORTED.get(kind, '').split():
        return f'{reported} It is reported even with checks disabled, because the kernel could not continue.'
    advice = how_to_disable(kind, code, 'python')
    general_advice = advice.replace('sim.options', '`sim.options`, `cpp.options` or `tile.options`', 1)
    return f'{reported} {general_advice}' if advice else reported


def _wrap(text, indent=''):
    return textwrap.fill(text, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def page_text(kind, code) -> str:
    "Return the page of a message as plain text; raises `KeyError` for an unknown code"
    from ..diagnostics.messages import MESSAGES

    paragraphs = [f'{kind}/{code}', _wrap(printed_lines().get(f'{kind}-{code}', ''), '  ')]
    if example := examples().get((kind, code)):
        prose, *kernels = example
        paragraphs.append(_wrap(prose))
        for title, kernel in zip(('Wrong:', 'Right:'), kernels):
            paragraphs += [title, textwrap.indent(kernel.strip(), '    ')]
    paragraphs.append('Text of the message (names in braces are fields):')
    for dialect, *texts in message_variants(MESSAGES[kind, code]):
        language = [f'  {LANGUAGES[dialect]}:'] if dialect else []
        paragraphs.append('\n'.join([*language, *(_wrap(text, '    ') for text in texts if text)]))
    paragraphs += [_wrap(describe_report(kind, code)), page_url(kind, code)]
    return '\n\n'.join(filter(str.strip, paragraphs))


def _keys_of(text):
    "Return the (kind, code) keys that an argument selects: `race`, `racecheck/race`, `racecheck-race`, or a kind"
    from ..diagnostics.messages import MESSAGES

    kind, _, code = text.replace('-', '/').rpartition('/')
    by_code = [key for key in MESSAGES if key[1] == code and kind in ('', key[0])]
    return by_code or [key for key in MESSAGES if key[0] == text]


def main(argv=None) -> int:  # exit status
    "Print the page of a message, or the codes of a kind; returns 2 for an unknown code"
    from ..diagnostics.messages import MESSAGES

    parser = argparse.ArgumentParser(prog='gridstride explain', description='Explain a message of the checker.')
    parser.add_argument(
        'code',
        metavar='CODE',
        nargs='?',
        help='a code, such as race or racecheck/race, or a kind; default: list all codes',
    )
    code = parser.parse_args(argv).code
    keys = _keys_of(code) if code else list(MESSAGES)
    if not keys:
        close_matches = get_close_matches(code, [known for _, known in MESSAGES], 3)
        suggestion = f'; did you mean {", ".join(close_matches)}?' if close_matches else ''
        parser.error(f'no message has the code {code}{suggestion}')
    print(page_text(*keys[0]) if len(keys) == 1 else '\n'.join(f'{kind}/{known}' for kind, known in keys))
    return 0
