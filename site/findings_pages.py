"""Makes a page per finding, from the table of `diagnostics/messages.py` and the kernels in `site/messages`."""

import json, re, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from gridstride.diagnostics.errors import ALWAYS_REPORTED, CLASSES, WARNINGS, how_to_disable
from gridstride.diagnostics.messages import WORDS

LANGUAGES = dict(python="Python, in Numba's dialect", cuda='CUDA C', triton='Triton')


IMPORTS = {  # what a block uses -> the line that it begins with
    r'\bnp\.': 'import numpy as np',
    r'\btorch\.': 'import torch',
    r'\bcuda\.': 'from gridstride.sim import cuda',
    r'\bcuda_kernel\(': 'from gridstride import cuda_kernel',
    r'\bload_cuda\(': 'from gridstride import load_cuda',
    r'\bcdiv\(': 'from gridstride import cdiv',
    r'\bPTX \+ r': 'from gridstride.kernels.ptx import PTX',
    r'\bPTX \+ wgmma': 'from gridstride.kernels.ptx import PTX, wgmma',
    r'\btensor_map\(': 'from gridstride.kernels.tensor_maps import tensor_map',
    r'\btriton\.': 'from gridstride import triton',
    r'\btl\.': 'tl = triton.language',
    r'\bsim\.': 'from gridstride import sim',
    r'\bcpp\.': 'from gridstride import cpp',
}


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


def with_imports(code):
    "Prepend imports, so that a code block runs as it is"
    lines = [line for used, line in IMPORTS.items() if re.search(used, code)]
    return '\n'.join(lines) + '\n\n' + code if lines else code


def examples():
    "Read {(kind, code): (prose, wrong, right)} from `site/messages`: a file per kind, a section per finding"
    out = {}
    for path in sorted((ROOT / 'site/messages').glob('*.md')):
        _, *sections = re.split(r'^## (\w+)\n', path.read_text(encoding='utf-8'), flags=re.M)
        for code, text in zip(sections[::2], sections[1::2]):
            prose, wrong, _, right, _ = re.split(r'^```(?:python)?\n', text, flags=re.M)
            out[path.stem, code] = prose.strip(), with_imports(wrong), with_imports(right)
    return out


def in_dialects(text):
    "Return {dialect: text} for a text of the table; the key is '' if all dialects have the same"
    return {'': text} if isinstance(text, str) else text


def wording(words):
    "Format the message and its hint, with the names of the fields, once per dialect in which they differ"
    whats, hints = in_dialects(words.summary), in_dialects(words.hint)
    out = []
    for dialect in sorted({*whats, *hints} - {''}) or ['']:
        said = [texts.get(dialect, texts.get('', '')) for texts in (whats, hints)]
        if any(said):
            if dialect:
                out.append(f'{LANGUAGES[dialect]}:\n')
            out += ['\n>\n'.join(f'> {escaped(text)}' for text in said if text) + '\n']
    return '\n'.join(out)


def how_it_is_reported(kind, code):
    "Return a sentence with the name of its error or warning, and how to run without the check"
    if code in WARNINGS:
        reported = f'It is a warning, `{WARNINGS[code][1].__name__}`: the kernel continues.'
    else:
        reported = f'It is raised as `{CLASSES[kind].__name__}`.'
    if code in ALWAYS_REPORTED.get(kind, '').split():
        return f'{reported} It is reported even with checks disabled, because the kernel could not continue.'
    off = how_to_disable(kind, code, 'python')
    everywhere = off.replace('sim.options', '`sim.options`, `cpp.options` or `tile.options`', 1)
    return f'{reported} {everywhere}' if off else reported


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
PRINTED = json.loads(PRINTED_FILE.read_text(encoding='utf-8')) if PRINTED_FILE.exists() else {}


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
    return next(iter(in_dialects(words.summary).values()))


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
