"""Represent PTX or SASS as text with its instructions, source lines, kinds and loops; in a notebook it is coloured."""

from collections import Counter
from html import escape

from .read import Instruction


# Each kind of instruction has a colour and a text for the legend. The colours are pale with dark text on a pale card,
# so that they are legible on a dark page, too.
INK, CARD, LINE = '#1f2933', '#fbfaf7', '#9aa5b1'
KINDS = {
    'global': ('#f7b79c', 'global memory'),
    'shared': ('#bcd9f5', 'shared memory'),
    'local': ('#ff8f8f', 'local memory: spills, arrays'),
    'constant': ('#dcd3c4', 'constants, arguments'),
    'float': ('#c4e3b9', 'floats'),
    'tensor': ('#7fd18b', 'tensor cores'),
    'convert': ('#f2e394', 'conversions'),
    'integer': ('#e3e6ea', 'integers, addresses'),
    'move': ('#f1f1ee', 'moves'),
    'warp': ('#d8c9ef', 'lanes of a warp'),
    'barrier': ('#f8d6a0', 'barriers'),
    'control': ('#b9e4df', 'jumps'),
    'other': ('#ffffff', 'the rest'),
}
_MONOSPACE = 'font-family:DejaVu Sans Mono,Menlo,Consolas,monospace;font-size:12px;line-height:1.5;white-space:pre'


def _kind_badge(text, kind):
    color, words = KINDS[kind]
    style = f'background-color:{color};color:{INK};border-radius:3px;padding:0 4px'
    return f'<span style="{style}" title="{words}">{escape(text)}</span>'


def _counts(instructions):
    return {k: n for k in KINDS if (n := sum(i.kind == k for i in instructions))}


def _kind_badges(instructions, words=False):
    return ' '.join(_kind_badge(f'{n} {KINDS[k][1]}' if words else str(n), k) for k, n in _counts(instructions).items())


def _instruction_html(instruction):
    "Return an instruction as HTML, with its opcode in the colour of its kind"
    before, _, after = instruction.text.partition(instruction.op)
    return f'{escape(before):<5}' + _kind_badge(instruction.op, instruction.kind) + escape(after)


class Listing(str):
    "The PTX or SASS of a kernel: a string, with `instructions`, `lines`, `count`, `loops` and `loop`"

    def __new__(cls, text, items, source, what, name, arch, by):
        self = super().__new__(cls, text)
        self.items = items
        self.source = source
        self.what = what
        self.name = name
        self.arch = arch
        self.by = by
        return self

    def __reduce__(self):
        return Listing, (str(self), self.items, self.source, self.what, self.name, self.arch, self.by)

    def __repr__(self):
        return str(self)

    @property
    def instructions(self) -> list:
        "The `Instruction`s, in order"
        return [item for item in self.items if isinstance(item, Instruction)]

    @property
    def lines(self) -> list:
        """[(line number, its text, its `Instruction`s)] of all source lines with instructions; line 0 has the
        instructions that belong to no line"""
        found = {}
        for instruction in self.instructions:
            found.setdefault(instruction.line, []).append(instruction)
        return [(n, self.source.get(n, ''), found[n]) for n in sorted(found)]

    def count(self, *text):
        "Count the instructions of each kind; with an argument, count a substring like `str.count`"
        return super().count(*text) if text else Counter(_counts(self.instructions))

    def ops(self) -> Counter:
        "Count the instructions by opcode, such as `LDG.E`"
        return Counter(i.op for i in self.instructions)

    @property
    def loops(self) -> list:
        "The innermost loops, the longest first, each as a `Listing`"
        spans = {(a, b) for a, b in _spans(self.items) if b > a + 1}
        inner = [s for s in spans if not any(other != s and s[0] <= other[0] and other[1] <= s[1] for other in spans)]
        return [self._part(self.items[a : b + 1]) for a, b in sorted(inner, key=lambda s: (s[0] - s[1], s))]

    def loop(self, n=0):
        "Return the nth longest innermost loop. Raises ValueError if there are not so many"
        if n < len(loops := self.loops):
            return loops[n]
        raise ValueError(
            f'{self.name} has {len(loops)} loops in its {self.what.upper()}'
            + ('' if loops else ': it has none, or the compiler unrolled them completely')
        )

    def stretch(self, kind):  # one of `KINDS`
        """Return the straight-line part with the most instructions of a kind, between two labels, jumps or barriers.
        Raises ValueError if no instruction is of that kind"""
        stretches = [[]]
        for item in self.items:
            if isinstance(item, str) or item.kind in ('barrier', 'control'):
                stretches.append([])
            if isinstance(item, Instruction) and item.kind != 'barrier':
                stretches[-1 - (item.kind == 'control')].append(item)
        most = max(stretches, key=lambda part: sum(i.kind == kind for i in part))
        if any(i.kind == kind for i in most):
            return self._part(most)
        raise ValueError(f'{self.name} has no instructions of the kind {kind!r} in its {self.what.upper()}')

    def _part(self, items):
        return Listing('\n'.join(text_lines(items)), items, self.source, self.what, self.name, self.arch, self.by)

    def _repr_html_(self):
        return html(self)


def _spans(items):
    "Return (first, last) index of each loop: from a label to the last jump back to it"
    at = {item: i for i, item in enumerate(items) if isinstance(item, str)}
    res = {}
    for i, item in enumerate(items):
        if isinstance(item, Instruction) and at.get(item.target, i) < i:
            res[at[item.target]] = i
    return list(res.items())


def text_lines(items) -> list:  # of lines
    "Return instructions and labels as lines of plain text"
    return [f'{item}:' if isinstance(item, str) else f'    {item.text}' for item in items]


# In HTML, each source line is followed by its instructions, folded. Lines without instructions are shown, too. Listings
# of one source are shown side by side.
_MAX_GAP = 6  # more lines without instructions most likely belong to another kernel: they are omitted


def _column(instructions):
    body = '\n'.join(map(_instruction_html, instructions))
    return f'<div style="{_MONOSPACE};border-left:2px solid {LINE};padding-left:8px;margin-right:24px">{body}</div>'


def _line_html(n, text, columns, wide):
    "Return a source line as HTML; `columns`: its instructions in each listing"
    if text is None:
        return f'<div style="{_MONOSPACE};padding-left:1.1em">     ⋮</div>'
    head = f'<span style="color:{LINE}">{n or "":>4}</span>  {escape(text)}'
    if not any(columns):
        return f'<div style="{_MONOSPACE};padding-left:1.1em">{head}</div>'
    chips = '  |  '.join(_kind_badges(column) for column in columns)
    return (
        f'<details><summary style="{_MONOSPACE};cursor:pointer">{head}{" " * (wide - len(text))}  {chips}</summary>'
        f'<div style="display:flex;margin:2px 0 6px 5.5em">{"".join(map(_column, columns))}</div></details>'
    )


def _rows(listings):
    """Return [(line number, text, instructions per listing)] from the first source line with instructions to the last;
    a gap has the text None"""
    source = listings[0].source
    have = [{n: found for n, _, found in l.lines} for l in listings]
    res = []
    known = sorted({n for h in have for n in h} & set(source))
    for before, n in zip([None] + known, known):
        if before and n - before > _MAX_GAP:
            res.append((0, None, []))
        elif before:
            res += [(i, source.get(i, ''), []) for i in range(before + 1, n)]
        res.append((n, source[n], [h.get(n, []) for h in have]))
    unattributed = [[i for n, instructions in h.items() if n not in source for i in instructions] for h in have]
    return res + ([(0, 'from no line of this source', unattributed)] if any(unattributed) else [])


def card(*parts) -> str:
    "Return HTML on a pale card, which is legible on light and dark pages"
    frame = f'border:1px solid {LINE};border-radius:8px;padding:10px 14px;overflow-x:auto'
    return f'<div style="background-color:{CARD};color:{INK};{frame}">{"".join(parts)}</div>'


def heading(text) -> str:
    "Return the title of a card as HTML"
    return f'<div style="font-weight:bold">{escape(text)}</div>'


def _head(l):
    "Return the title of a listing as HTML, with its instructions by kind"
    count = f'{len(l.instructions)} instructions of {l.what.upper()}'
    chips = f'<div style="margin:4px 0 8px 0;line-height:1.8;font-size:12px">{_kind_badges(l.instructions, True)}</div>'
    return heading(f'{l.name}: {count} for {l.arch}, by {l.by}') + chips


def html(*listings) -> str:  # of one source
    "Return a card with a legend and the source with its instructions, as HTML"
    rows = _rows(listings)
    wide = min(100, max((len(t) for _, t, shown in rows if any(shown)), default=0))
    return card(*map(_head, listings), *(_line_html(*r, wide) for r in rows))


class SideBySide:
    "Listings of one source, such as its PTX and its SASS, side by side"

    def __init__(self, *listings):
        self.listings = listings

    def __repr__(self):
        return '\n\n'.join(f'{l.name}, {l.what.upper()}:\n{l}' for l in self.listings)

    def _repr_html_(self):
        return html(*self.listings)


def side_by_side(*listings) -> SideBySide:  # of one source
    "Show listings of one source side by side. Raises ValueError for different sources"
    if len({tuple(l.source.items()) for l in listings}) != 1:
        raise ValueError('these listings are of different sources, so they have no lines in common')
    return SideBySide(*listings)
