"""Makes a page per finding, from the table of `diagnostics/messages.py` and the kernels in `site/messages`."""

import re, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from gridstride.checker.pages import LANGUAGES, examples, how_it_is_reported, printed_lines, wordings
from gridstride.diagnostics.errors import CLASSES
from gridstride.diagnostics.messages import WORDS


def named(**codes):
    "Return {(kind, code), ...} for codes by their kind"
    return {(kind, code) for kind, some in codes.items() for code in some.split()}


WITHOUT = {  # why a page has no kernels -> the findings
    'The kernel is not wrong. The detectors record the state of each byte of device memory, and reserve addresses for '
    'these records at the first launch: hundreds of gigabytes of addresses, hardly any memory. A limit on the address '
    'space of a process (`ulimit -v 8000000` in a shell, or what a cluster sets for its jobs) is too low.': named(
        crash='no_addresses'
    ),
    'The kernel is not wrong. Each thread of a block that waits has a stack of its own, of 256 KB of addresses, which '
    'are reserved when a block of that size first runs. A limit on the address space of a process (`ulimit -v` in a '
    'shell, or what a cluster sets for its jobs) is too low.': named(crash='no_stack'),
}


def wording(words):
    "Format the message and its hint, with the names of the fields, once per dialect in which they differ"
    out = []
    for dialect, *said in wordings(words):
        if dialect:
            out.append(f'{LANGUAGES[dialect]}:\n')
        out += ['\n>\n'.join(f'> {escaped(text)}' for text in said if text) + '\n']
    return '\n'.join(out)


def shown(
    example,  # its prose and its kernels
    key,  # kind and code, which give the reason if there is none
):
    "Format the kernels of a finding, wrong and right"
    if not example:
        return next((f'{why}\n' for why, keys in WITHOUT.items() if key in keys), '')
    prose, wrong, right = example
    return f'{prose}\n\n## Wrong\n\n```python\n{wrong}```\n\n## Right\n\n```python\n{right}```\n'


PRINTED_FILE = ROOT / 'site/messages/printed.json'  # {kind-code: first line of what the page's wrong kernel prints}
PRINTED = printed_lines()


def says(kind, code, words):
    "Return what a finding says: as its wrong kernel prints it, or else the table's text with its fields left out"
    line = PRINTED.get(f'{kind}-{code}') or re.sub(r'\{[^}]*\}', '…', first_wording(words))
    return escaped(line)


def page(kind, code, words, example):
    "Make the page of a finding"
    quoted = [f'> {says(kind, code, words)}\n']
    return '\n'.join(
        [
            '---\norphan: true\n---',
            f'# {kind}: {code.replace("_", " ")}\n',
            *quoted,
            shown(example, (kind, code)),
            '## What the message says\n',
            wording(words),
            'Words in braces are fields: names, values, lines.\n',
            how_it_is_reported(kind, code) + '\n',
            '[All messages](index.md)\n',
        ]
    )


def escaped(text):
    return re.sub(r'([*_<>\[\]$`\\])', r'\\\1', text)


def first_wording(words):
    "Return the message of a finding, in the first dialect that has one"
    return next(wordings(words))[1]


def is_bare(words):
    "Return whether a message consists of fields only"
    return not re.search(r'\w', re.sub(r'\{.*?\}', '', first_wording(words)))


HEAD = """# Messages

What the detectors of the simulator, the emulator and `tile` report, each with a wrong kernel and a right one.
[Eight of them in a notebook](../nbs/inside/messages.ipynb).
"""


def index(known):  # the result of `examples`
    "Make the page that lists all findings by kind"
    out = [HEAD]
    for kind, error in CLASSES.items():
        meaning = error.__doc__.strip().splitlines()[0].rstrip('.')
        out += [f'\n## {kind}\n', f'{meaning}.\n', '| finding | what it says |', '|---|---|']
        for (k, code), words in WORDS.items():
            if k == kind:
                said = known[k, code][0] if is_bare(words) and (k, code) in known else says(k, code, words)
                said = said.replace('|', '\\|')
                out.append(f'| [{code.replace("_", " ")}]({kind}-{code}.md) | {said} |')
    return '\n'.join(out) + '\n'


def pages():
    "Make {file: text} for all messages"
    known = examples()
    out = {
        f'messages/{kind}-{code}.md': page(kind, code, words, known.get((kind, code)))
        for (kind, code), words in WORDS.items()
    }
    return out | {'messages/index.md': index(known)}
