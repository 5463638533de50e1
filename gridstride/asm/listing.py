"""Listings of PTX or SASS: strings whose instructions have source lines and kinds; coloured in a notebook."""

from collections import Counter
from html import escape

from .read import Instruction


# Each kind of instruction has a colour and a label for the legend. Dark text on pale colours, inside a pale card, is
# legible on a dark page, too.
INK, CARD, LINE = '#1f2933', '#fbfaf7', '#9aa5b1'
KINDS = {
    'global': ('#f7b79c', 'global memory'),
    'shared': ('#bdd8fb', 'shared memory'),
    'local': ('#ff8f8f', 'local memory: spills, arrays'),
    'constant': ('#d4d8ca', 'constants, arguments'),
    'float': ('#d7f6c6', 'floats'),
    'tensor': ('#7fd18b', 'tensor cores'),
    'convert': ('#f4e99c', 'conversions'),
    'integer': ('#e3e6ea', 'integers, addresses'),
    'move': ('#f1f1ee', 'moves'),
    'warp': ('#d1b2ce', 'lanes of a warp'),
    'barrier': ('#ecc598', 'barriers'),
    'control': ('#bbf7f8', 'jumps'),
    'other': ('#ffffff', 'the rest'),
}
_MONOSPACE = 'font-family:DejaVu Sans Mono,Menlo,Consolas,monospace;font-size:12px;line-height:1.5;white-space:pre'


def _kind_badge(text, kind):
    "Return text as HTML on the background colour of a kind of instruction"
    color, label = KINDS[kind]
    style = f'background-color:{color};color:{INK};border-radius:3px;padding:0 4px'
    return f'<span style="{style}" title="{label}">{escape(text)}</span>'


def _count_kinds(instructions):
    "Return {kind: number of instructions}, without kinds that do not occur"
    return {kind: count for kind in KINDS if (count := sum(instruction.kind == kind for instruction in instructions))}


def _kind_badges(instructions, with_labels=False):
    "Return the number of instructions per kind as HTML, with the names of the kinds if `with_labels`"
    return ' '.join(
        _kind_badge(f'{count} {KINDS[kind][1]}' if with_labels else str(count), kind)
        for kind, count in _count_kinds(instructions).items()
    )


def _instruction_html(instruction):
    "Return an instruction as HTML, with its opcode in the colour of its kind"
    predicate, _, operands = instruction.text.partition(instruction.op)
    return f'{escape(predicate):<5}' + _kind_badge(instruction.op, instruction.kind) + escape(operands)


class Listing(str):
    "The PTX or SASS of a kernel: a string, with `instructions`, `lines`, `count`, `loops` and `loop`"

    def __new__(cls, text, items, source, language, name, arch, by):
        self = super().__new__(cls, text)
        self.items = items
        self.source = source
        self.language = language
        self.name = name
        self.arch = arch
        self.by = by
        return self

    def __reduce__(self):
        return Listing, (str(self), self.items, self.source, self.language, self.name, self.arch, self.by)

    def __repr__(self):
        return str(self)

    @property
    def instructions(self) -> list:
        "The `Instruction`s, in order"
        return [item for item in self.items if isinstance(item, Instruction)]

    @property
    def lines(self) -> list:
        """[(line number, source line, `Instruction`s)] of all source lines that have instructions.

        Instructions that belong to no source line have the line number 0."""
        instructions_of_line = {}
        for instruction in self.instructions:
            instructions_of_line.setdefault(instruction.line, []).append(instruction)
        return [(line, self.source.get(line, ''), instructions_of_line[line]) for line in sorted(instructions_of_line)]

    def count(self, *substring):
        "Count the instructions of each kind; with an argument, count a substring like `str.count`"
        return super().count(*substring) if substring else Counter(_count_kinds(self.instructions))

    def ops(self) -> Counter:
        "Count the instructions by opcode, such as `LDG.E`"
        return Counter(instruction.op for instruction in self.instructions)

    @property
    def loops(self) -> list:
        "The innermost loops, the longest first, each as a `Listing`"
        spans = {(first, last) for first, last in _loop_spans(self.items) if last > first + 1}
        innermost = [
            span
            for span in spans
            if not any(other != span and span[0] <= other[0] and other[1] <= span[1] for other in spans)
        ]
        sorted_spans = sorted(innermost, key=lambda span: (span[0] - span[1], span))
        return [self._listing_of(self.items[first : last + 1]) for first, last in sorted_spans]

    def loop(self, n=0):
        "Return the `n`-th longest innermost loop, counting from 0. Raises ValueError if there are fewer loops"
        if n < len(loops := self.loops):
            return loops[n]
        num_loops = '1 innermost loop' if len(loops) == 1 else f'{len(loops)} innermost loops'
        raise ValueError(
            f'loop({n}) does not exist: the {self.language.upper()} of {self.name} has {num_loops}'
            + ('' if loops else ': its source has none, or the compiler unrolled them completely')
        )

    def basic_block(self, kind):  # one of `KINDS`
        """Return the basic block with the most instructions of a kind; barriers end a block, too.

        Raises ValueError if no instruction is of this kind."""
        blocks = [[]]
        for item in self.items:
            if isinstance(item, str) or item.kind in ('barrier', 'control'):
                blocks.append([])
            if isinstance(item, Instruction) and item.kind != 'barrier':
                blocks[-1 - (item.kind == 'control')].append(item)
        longest_block = max(blocks, key=lambda items: sum(item.kind == kind for item in items))
        if any(item.kind == kind for item in longest_block):
            return self._listing_of(longest_block)
        raise ValueError(f'{self.name} has no instructions of the kind {kind!r} in its {self.language.upper()}')

    def _listing_of(self, items):
        "Return a `Listing` of some of the items"
        return Listing('\n'.join(text_lines(items)), items, self.source, self.language, self.name, self.arch, self.by)

    def _repr_html_(self):
        return html(self)


def _loop_spans(items):
    "Return (first, last) index of each loop: from a label to the last branch back to it"
    index_of_label = {item: i for i, item in enumerate(items) if isinstance(item, str)}
    end_of_loop = {}
    for i, item in enumerate(items):
        if isinstance(item, Instruction) and index_of_label.get(item.target, i) < i:
            end_of_loop[index_of_label[item.target]] = i
    return list(end_of_loop.items())


def text_lines(items) -> list:  # of lines
    "Return instructions and labels as lines of plain text"
    return [f'{item}:' if isinstance(item, str) else f'    {item.text}' for item in items]


# In HTML, each source line is a `<details>` element that contains its instructions. Lines without instructions are
# shown, too. Listings of the same source are shown side by side.
_MAX_GAP = 6  # more lines without instructions probably belong to another kernel, and are omitted


def _column_html(instructions):
    "Return the instructions of one listing as HTML"
    body = '\n'.join(map(_instruction_html, instructions))
    return f'<div style="{_MONOSPACE};border-left:2px solid {LINE};padding-left:8px;margin-right:24px">{body}</div>'


def _line_html(line_number, text, columns, width):
    "Return a source line as HTML; `columns`: its instructions, per listing"
    if text is None:
        return f'<div style="{_MONOSPACE};padding-left:1.1em">     ⋮</div>'
    source_html = f'<span style="color:{LINE}">{line_number or "":>4}</span>  {escape(text)}'
    if not any(columns):
        return f'<div style="{_MONOSPACE};padding-left:1.1em">{source_html}</div>'
    badges = '  |  '.join(_kind_badges(column) for column in columns)
    padding = ' ' * (width - len(text))
    return (
        f'<details><summary style="{_MONOSPACE};cursor:pointer">{source_html}{padding}  {badges}</summary>'
        f'<div style="display:flex;margin:2px 0 6px 5.5em">{"".join(map(_column_html, columns))}</div></details>'
    )


def _rows(listings):
    """Return [(line number, text, instructions per listing)] from the first source line with instructions to the last.

    A gap has the text None; instructions without a source line come last."""
    source = listings[0].source
    instructions_of_line = [{line: instructions for line, _, instructions in listing.lines} for listing in listings]
    rows = []
    lines_with_code = sorted({line for items_of_line in instructions_of_line for line in items_of_line} & set(source))
    for previous_line, line in zip([None] + lines_with_code, lines_with_code):
        if previous_line and line - previous_line > _MAX_GAP:
            rows.append((0, None, []))
        elif previous_line:
            rows += [(i, source.get(i, ''), []) for i in range(previous_line + 1, line)]
        rows.append((line, source[line], [items_of_line.get(line, []) for items_of_line in instructions_of_line]))
    unattributed_instructions = [
        [i for line, items in items_of_line.items() if line not in source for i in items]
        for items_of_line in instructions_of_line
    ]
    if any(unattributed_instructions):
        rows.append((0, 'not attributed to a line of this source', unattributed_instructions))
    return rows


def card(*parts) -> str:
    "Return HTML on a pale card, which is legible on light and dark pages"
    frame = f'border:1px solid {LINE};border-radius:8px;padding:10px 14px;overflow-x:auto'
    return f'<div style="background-color:{CARD};color:{INK};{frame}">{"".join(parts)}</div>'


def heading(text) -> str:
    "Return the title of a card as HTML"
    return f'<div style="font-weight:bold">{escape(text)}</div>'


def _legend(listing):
    "Return the title of a listing, and the number of its instructions by kind, as HTML"
    description = f'{len(listing.instructions)} instructions of {listing.language.upper()}'
    badges = _kind_badges(listing.instructions, with_labels=True)
    return (
        heading(f'{listing.name}: {description} for {listing.arch}, by {listing.by}')
        + f'<div style="margin:4px 0 8px 0;line-height:1.8;font-size:12px">{badges}</div>'
    )


def html(*listings) -> str:  # of one source
    "Return a card with a legend and the source with its instructions, as HTML"
    rows = _rows(listings)
    width = min(100, max((len(text) for _, text, columns in rows if any(columns)), default=0))
    return card(*map(_legend, listings), *(_line_html(*row, width) for row in rows))


class SideBySide:
    "Listings of one source, such as its PTX and its SASS, side by side"

    def __init__(self, *listings):
        self.listings = listings

    def __repr__(self):
        return '\n\n'.join(f'{listing.name}, {listing.language.upper()}:\n{listing}' for listing in self.listings)

    def _repr_html_(self):
        return html(*self.listings)


def side_by_side(*listings) -> SideBySide:  # of one source
    "Show listings of one source side by side. Raises ValueError for different sources"
    if len({tuple(listing.source.items()) for listing in listings}) != 1:
        raise ValueError('listings must come from the same source to be shown side by side')
    return SideBySide(*listings)
