"""Makes a page per finding, from the table of `diagnostics/messages.py` and the kernels in `site/messages`."""

import base64, json, re, sys, zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from gridstride.checker.pages import LANGUAGES, examples, describe_report, printed_lines, message_variants
from gridstride.diagnostics.errors import CLASSES
from gridstride.diagnostics.messages import MESSAGES


def keys_of_codes(**codes):
    "Return the keys of `MESSAGES`, (kind, code), for lists of codes by their kind"
    return {(kind, code) for kind, code_names in codes.items() for code in code_names.split()}


REASON_WITHOUT_KERNELS = {  # text of a page without kernels -> the keys of its findings
    'The kernel is not wrong. The detectors record the state of each byte of device memory, and reserve addresses for '
    'these records at the first launch: hundreds of gigabytes of addresses, hardly any memory. A limit on the address '
    'space of a process (`ulimit -v 8000000` in a shell, or the limit of a cluster for its jobs) '
    'is too low.': keys_of_codes(crash='no_addresses'),
    'The kernel is not wrong. Each thread of a block that waits has a stack of its own, of 256 KB of addresses, which '
    'are reserved when a block of that size first runs. A limit on the address space of a process (`ulimit -v` in a '
    'shell, or the limit of a cluster for its jobs) is too low.': keys_of_codes(crash='no_stack'),
}


def format_wording(message):
    "Format the templates of a message and its hint, once per dialect that has its own"
    lines = []
    for dialect, *paragraphs in message_variants(message):
        if dialect:
            lines.append(f'{LANGUAGES[dialect]}:\n')
        lines += ['\n>\n'.join(f'> {escape_markdown(text)}' for text in paragraphs if text) + '\n']
    return '\n'.join(lines)


def format_kernels(
    example,  # (prose, wrong kernel, right kernel), or None
    key,  # (kind, code)
    run_here,  # whether to link to the playground
):
    "Format the kernels of a finding, wrong and right, or the reason why it has none"
    if not example:
        return next((f'{reason}\n' for reason, keys in REASON_WITHOUT_KERNELS.items() if key in keys), '')
    prose, *texts = example
    sections = [
        f'## {side.capitalize()}\n\n```python\n{text}```\n{run_link(program_name(*key, side), text) * run_here}'
        for side, text in zip(SIDES, texts)
    ]
    return '\n'.join([f'{prose}\n', *sections])


SIDES = 'wrong', 'right'
RUN_HERE = '../lite/playground/index.html'
NEEDS_TRITON = re.compile(r'\btriton\b')  # which a browser lacks
# name of a program -> 'as natively', or what it ends with in a browser: `lite/run_pages.mjs`
IN_BROWSER = json.loads((ROOT / 'site/lite/pages.json').read_text(encoding='utf-8'))


def program_name(kind, code, side):
    "Return the name of a page's program in `lite/pages.json`"
    return f'{kind}-{code} {side}'


def programs() -> list:  # of dicts
    "List the programs that a browser may run: their names, their texts, and the messages that are expected"
    return [
        dict(name=program_name(*key, side), text=text, expected=PRINTED['-'.join(key)] if side == 'wrong' else None)
        for key, (_, *texts) in examples().items()
        for side, text in zip(SIDES, texts)
        if not NEEDS_TRITON.search(text)
    ]


def run_link(name, code):
    "Return a link that opens a program in the playground, or the reason why there is none"
    if NEEDS_TRITON.search(code):
        return '\n*A browser cannot run this program: it needs Triton.*\n'
    if IN_BROWSER.get(name) != 'as natively':
        return '\n*A browser cannot run this program, or finds something else in it.*\n'
    compressor = zlib.compressobj(9, wbits=-15)
    data = compressor.compress(code.encode()) + compressor.flush()
    fragment = base64.urlsafe_b64encode(data).decode().rstrip('=')
    return f'\n<a class="run-here" href="{RUN_HERE}#program={fragment}">Run this</a>\n'


PRINTED_FILE = ROOT / 'site/messages/printed.json'  # {kind-code: first line of what the page's wrong kernel prints}
PRINTED = printed_lines()


def format_finding(kind, code, message):
    "Return the message of a finding: as its wrong kernel prints it, or else the template with `…` for fields"
    line = PRINTED.get(f'{kind}-{code}') or re.sub(r'\{[^}]*\}', '…', first_wording(message))
    return escape_markdown(line)


def page(kind, code, message, example, run_here):
    "Make the page of a finding"
    quote = [f'> {format_finding(kind, code, message)}\n']
    return '\n'.join(
        [
            '---\norphan: true\n---',
            f'# {kind}: {code.replace("_", " ")}\n',
            *quote,
            format_kernels(example, (kind, code), run_here),
            '## What the message says\n',
            format_wording(message),
            'Words in braces are fields: names, values, lines.\n',
            describe_report(kind, code) + '\n',
            '[All messages](index.md)\n',
        ]
    )


def escape_markdown(text):
    return re.sub(r'([*_<>\[\]$`\\])', r'\\\1', text)


def first_wording(message):
    "Return the template of a finding in its first dialect"
    return next(message_variants(message))[1]


def has_only_fields(message):
    "Return whether a message consists of fields only"
    return not re.search(r'\w', re.sub(r'\{.*?\}', '', first_wording(message)))


INDEX_HEAD = """# Messages

What the detectors of the simulator, the emulator and `tile` report, each with a wrong kernel and a right one.
[Eight of them in a notebook](../nbs/inside/messages.ipynb).
"""


def index(example_of_key):  # the result of `examples`
    "Make the page that lists all findings by kind"
    lines = [INDEX_HEAD]
    for kind, error in CLASSES.items():
        meaning = error.__doc__.strip().splitlines()[0].rstrip('.')
        lines += [f'\n## {kind}\n', f'{meaning}.\n', '| finding | what it says |', '|---|---|']
        for (k, code), message in MESSAGES.items():
            if k == kind:
                description = (
                    example_of_key[k, code][0]
                    if has_only_fields(message) and (k, code) in example_of_key
                    else format_finding(k, code, message)
                )
                description = description.replace('|', '\\|')
                lines.append(f'| [{code.replace("_", " ")}]({kind}-{code}.md) | {description} |')
    return '\n'.join(lines) + '\n'


def pages(run_here=False):
    "Make {file: text} for all messages; `run_here`: with links that run their kernels in the browser"
    example_of_key = examples()
    page_of_file = {
        f'messages/{kind}-{code}.md': page(kind, code, message, example_of_key.get((kind, code)), run_here)
        for (kind, code), message in MESSAGES.items()
    }
    return page_of_file | {'messages/index.md': index(example_of_key)}
