"""Parse Nsight Compute's report, pages of comma-separated text, into `Kernel`s, and show them as tables.

A report has a page of sections and rules (`details`), one of raw metrics (`raw`), and one of source lines with their
counters (`lines`). `Ncu` shows a report in a notebook: the advice first, then the sections.
"""

import csv
import io
import re
from collections import namedtuple
from html import escape

from .show import brief, short, si
from ..support.tables import CellText, Share, Table

__all__ = ['ROOFLINE', 'Kernel', 'Line', 'Metric', 'Ncu', 'Rule', 'advice', 'details', 'from_plain', 'lines', 'raw']

# Each row is a metric or the advice of a rule. Rows of metrics have the full name of their section, rows of rules a
# short one; a rule belongs to the section above it. The output of the program may come before and after the table, and
# newer versions have more columns.
Metric = namedtuple('Metric', 'name value unit')  # value: a number, or text

# kind: 'OPT', 'INF' or 'WRN'; speedup: a fraction of the time, or None; scope: 'global' or 'local'.
Rule = namedtuple('Rule', 'section name kind text speedup scope')
Line = namedtuple('Line', 'number text samples counters', defaults=({},))


def parse_number(text):
    "Convert a number with commas; return other text unchanged"
    try:
        number = float(text.replace(',', ''))
    except ValueError:
        return text
    return int(number) if number == int(number) and '.' not in text else number


class Kernel:
    """One launch that ncu measured: `sections[title]` is a list of `Metric`, `rules` the advice, `lines` the source
    lines with their counters, `raw` the metrics by their names in ncu"""

    def __init__(self, name, grid='', block='', device=''):
        self.name = name
        self.grid = grid
        self.block = block
        self.device = device
        self.sections = {}
        self.rules = []
        self.lines = []
        self.raw = {}

    def __getitem__(self, name):
        "Return the value of a metric by its name, by `section: name`, or by its name in ncu"
        if name in self.raw:
            return self.raw[name].value
        section, _, metric = name.rpartition(': ')
        matches = [m for s, ms in self.sections.items() if section in ('', s) for m in ms if m.name == metric]
        if matches:
            return matches[0].value
        words = set(metric.lower().split())
        similar = sorted({m.name for ms in self.sections.values() for m in ms if words & set(m.name.lower().split())})
        hint = f"similar: {', '.join(similar[:6])}" if similar else f"its sections: {', '.join(self.sections)}"
        raise KeyError(f'{short(self.name)} has no metric {name!r}; {hint}')

    @property
    def seconds(self):
        "The duration in seconds, or None if it was not measured"
        metrics = [*self.raw.values(), *(m for ms in self.sections.values() for m in ms)]
        durations = (m for m in metrics if m.name in ('gpu__time_duration.sum', 'Duration') and m.unit in _SECONDS)
        return next((m.value * _SECONDS[m.unit] for m in durations), None)

    @property
    def bytes(self):
        "Bytes of DRAM traffic, or None; needs `metrics=ROOFLINE`"
        return self._sum({'dram__bytes.sum': 1})

    @property
    def flops(self):
        "Floating-point operations of CUDA cores and tensor cores, or None; needs `metrics=ROOFLINE`"
        return self._sum(_FLOPS_OF_METRIC)

    def _sum(self, weights):
        "Return the weighted sum of metrics, or None if none of them was measured; `weights`: name in ncu -> weight"
        values = [(weight, self.raw[name].value) for name, weight in weights.items() if name in self.raw]
        products = [weight * value for weight, value in values if isinstance(value, (int, float))]
        return sum(products) if products else None


_TENSOR_PATHS = ('bf16_dst_fp32', 'fp16', 'fp16_dst_fp16', 'fp16_dst_fp32', 'tf32_dst_fp32', 'fp64', 'fp8_sparsity_off')
_FLOPS_OF_INSTRUCTION = {f'{t}{op}': w for t in 'fd' for op, w in (('add', 1), ('mul', 1), ('fma', 2))}
_FLOPS_OF_METRIC = {
    **{f'smsp__sass_thread_inst_executed_op_{op}_pred_on.sum': w for op, w in _FLOPS_OF_INSTRUCTION.items()},
    **{f'sm__ops_path_tensor_src_{op}.sum': 1 for op in _TENSOR_PATHS},
}
ROOFLINE = (
    'dram__bytes.sum',
    *_FLOPS_OF_METRIC,
)  # the metrics of arithmetic intensity; a GPU has only those of its generation
_SECONDS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1.0}
_SECONDS.update(nsecond=1e-9, usecond=1e-6, msecond=1e-3, second=1.0)


def _csv(text, first_column):
    "Return the rows of the table whose header begins with `first_column`; other output may come before and after it"
    lines = text.splitlines()
    start = next((i for i, l in enumerate(lines) if l.startswith(f'"{first_column}"')), None)
    return [] if start is None else list(_parse_rows(lines[start:]))


def _parse_rows(lines):
    "Return the rows of a table; all of its lines begin with a quote"
    return csv.reader(io.StringIO('\n'.join(l for l in lines if l.startswith('"'))))


def _dicts(rows):
    return [dict(zip(rows[0], r)) for r in rows[1:] if len(r) > 1] if rows else []


def details(
    text: str,  # output of `ncu --csv --page details`
) -> dict:  # launch number -> `Kernel`
    "Return the sections, metrics and rules of each launch"
    kernel_of_launch = {}
    section = ''
    for r in _dicts(_csv(text, 'ID')):
        kernel = Kernel(r['Kernel Name'], r.get('Grid Size', ''), r.get('Block Size', ''))
        k = kernel_of_launch.setdefault(int(r['ID']), kernel)
        if r.get('Metric Name'):
            section = r['Section Name']
            metric = Metric(r['Metric Name'], parse_number(r['Metric Value']), r['Metric Unit'])
            k.sections.setdefault(section, []).append(metric)
        if r.get('Rule Name'):
            k.rules.append(_rule(r, section))
    return kernel_of_launch


def _rule(r, section):
    "Return the `Rule` of a row; before version 2023 its text contained the speedup"
    text = r['Rule Description']
    speedup = r.get('Estimated Speedup') or ''
    scope = r.get('Estimated Speedup Type') or ''
    if not speedup and (m := re.search(r'(?:estimated|Est\.)( local)? speedup:? (?:of )?([\d.]+)', text, re.I)):
        speedup = m[2]
        scope = 'local' if m[1] else 'global'
    return Rule(section, r['Rule Name'], r['Rule Type'], text, float(speedup) / 100 if speedup else None, scope)


# The raw page has one row per launch, below a row of units. The source page has, per source line, a row with the sums
# over its instructions, followed by the instructions; only the sums are used.
def raw(
    text: str,  # output of `ncu --csv --page raw`
) -> dict:  # launch number -> {ncu's name: `Metric`}
    "Return all metrics of each launch by their names in ncu"
    rows = _csv(text, 'ID')
    if len(rows) < 3:
        return {}
    names, units = rows[0], rows[1]
    return {
        int(r[0]): {n: Metric(n, parse_number(v), u) for n, u, v in zip(names, units, r) if '__' in n and v}
        for r in rows[2:]
        if r[0].isdigit()
    }


def lines(
    text: str,  # output of `ncu --csv --page source --print-source cuda,sass`
) -> list:  # (function, list of `Line`), in the order of the launches
    "Return the source lines of each launch with their counters; needs line information in the program"
    lines_of_launches = []
    header = None
    for r in _parse_rows(text.splitlines()):
        if r[0] == 'Function Name':
            lines_of_launches.append((r[1], []))
        elif r[0] == 'Line No':
            header = r
        elif header and lines_of_launches and len(r) == len(header) and r[0].isdigit() and r[2] == '-':
            lines_of_launches[-1][1].append(_line(header, r))
    return lines_of_launches


_SAMPLE_COLUMNS = ('# Samples', 'Warp Stall Sampling (All Samples)', 'Sampling Data (All)')  # of different versions


def _line(header, r):
    "Return the `Line` of a row"
    counters = {n: v for n, v in zip(header[4:], map(parse_number, r[4:])) if v not in ('-', '')}
    samples = next((counters[n] for n in _SAMPLE_COLUMNS if n in counters), 0)
    return Line(int(r[0]), r[1], samples, counters)


# A report shows the advice first, sorted by estimated speedup, then each section as a folded table. With `lines=True`
# it shows the source with the fraction of samples per line: the sampler records the current instruction of a warp every
# few thousand cycles, so lines with many samples take most of the time.
_EXCESS_NAMES = {
    'L2 Theoretical Sectors Global Excessive': 'sectors too many',
    'L1 Wavefronts Shared Excessive': 'bank conflicts',
}


def _speedup_text(r):
    return '' if r.speedup is None else f"{Share(r.speedup)}{' locally' if r.scope == 'local' else ''}"


def _strip_links(text):
    "Return the text of a rule without its links"
    return re.sub(r'@(?:url|section):([^:@]*)(?::[^@]*)?@', r'\1', text)


# Rules about their own metrics, which no change of the kernel can fix
_IGNORED_RULES = re.compile('optional metric .* could not be found')


def advice(
    k,  # a `Kernel`
) -> Table:
    "Return the rules that recommend a change, sorted by estimated speedup"
    recommended = [r for r in k.rules if r.kind != 'INF' and not _IGNORED_RULES.search(r.text)]
    recommended.sort(key=lambda r: (r.scope == 'local', -(r.speedup or 0)))
    rows = [[_speedup_text(r), r.section, _strip_links(r.text)] for r in recommended]
    return Table(['est. speed-up', '<section', '<advice'], rows, title='Advice')


_STALL_NAMES = {
    'barrier': 'the barrier',
    'branch_resolving': 'a branch',
    'dispatch': 'dispatch',
    'drain': 'stores to finish',
    'gmma': 'tensor cores',
    'imc': 'constant memory',
    'lg': 'the queue to global memory',
    'long_sb': 'global memory',
    'math': 'an arithmetic unit',
    'membar': 'a memory fence',
    'mio': 'the queue to shared memory',
    'misc': 'other things',
    'no_inst': 'instructions',
    'not_selected': 'its turn',
    'short_sb': 'shared memory, special units',
    'sleep': 'its sleep',
    'tex': 'the queue to textures',
    'wait': 'the instruction before',
}


def _main_stall(l):
    "Return the main stall reason of a line in plain words, with its fraction of the samples, as text"
    names = [n for n in l.counters if n.startswith('stall_') and '(' not in n and n != 'stall_selected']
    stalls = {n[6:]: l.counters[n] for n in names if not isinstance(l.counters[n], str)}
    main = max(stalls, key=stalls.get, default=None)
    if not (main and stalls[main] and l.samples):
        return ''
    return f'{_STALL_NAMES.get(main, main)} ({Share(stalls[main] / l.samples)})'


def source_table(
    k,  # a `Kernel`
    min_fraction=0.005,  # omit lines with a smaller fraction of the samples
) -> Table:
    "Return the source lines with their fraction of the samples, main stall reason, and excess memory transactions"
    total = sum(l.samples for l in k.lines) or 1
    excess_titles = {n: title for n, title in _EXCESS_NAMES.items() if any(_counter(l, n) for l in k.lines)}

    def row(l):
        line = [l.number or '', CellText(l.text.strip(), l.text)]
        share = Share(l.samples / total)
        count, *counts = [f'{l.counters.get(n, 0):,}' for n in ('Instructions Executed', *excess_titles)]
        return [*line, share, count, _main_stall(l), *counts]

    rows = [
        row(l) for l in k.lines if l.samples / total >= min_fraction or any(l.counters.get(n) for n in excess_titles)
    ]
    head = ['line', '<source', 'samples', 'instructions', '<waits for', *excess_titles.values()]
    return Table(head, rows, title=f'Where the time goes: {total:,} samples')


def _counter(l, name):
    "Return a counter of a line, or 0 if it has no value"
    v = l.counters.get(name)
    return v if isinstance(v, (int, float)) else 0


def _metric_row(m):
    return [m.name, f'{m.value:,}' if isinstance(m.value, (int, float)) else m.value, m.unit]


class Ncu:
    "A report of Nsight Compute: `kernels` in the order of their launches, shown as tables"

    def __init__(self, kernels, version='', warnings=(), mark=''):
        self.kernels, self.version, self.warnings, self.mark = list(kernels), version, list(warnings), mark

    def __getitem__(self, key):
        "Return a kernel by index or (short) name; if there is only one kernel, also a metric by name"
        if isinstance(key, int):
            return self.kernels[key]
        for k in self.kernels:
            if key in (k.name, short(k.name)):
                return k
        if len(self.kernels) == 1:
            return self.kernels[0][key]
        raise KeyError(f'no kernel {key!r}; there are {", ".join(dict.fromkeys(short(k.name) for k in self.kernels))}')

    def __len__(self):
        return len(self.kernels)

    def _title(self, k):
        configuration = f', grid {k.grid}, block {k.block}' if k.grid else ''
        duration = f": {si(k.seconds, 's')}" if k.seconds else ''
        return f'{brief(short(k.name))}{configuration}{duration}'

    def _tables(self, k):
        "Return (advice and source, one table per section)"
        overview = [advice(k)] if any(r.kind != 'INF' for r in k.rules) else []
        if k.lines:
            overview.append(source_table(k))
        rows = {s: [_metric_row(m) for m in ms if m.value != 'n/a'] for s, ms in k.sections.items()}
        return overview, [Table(['<metric', 'value', '<unit'], rows_of, title=s) for s, rows_of in rows.items()]

    def _footer(self):
        return '\n'.join([*self.warnings, *([f'[{self.mark}]'] if self.mark else [])])

    def __repr__(self):
        parts = []
        for k in self.kernels:
            overview, sections = self._tables(k)
            parts += [self._title(k), *map(repr, overview + sections)]
        return '\n\n'.join(filter(None, [*parts, self._footer()]))

    def _repr_html_(self):
        return f'{"".join(map(self._kernel_html, self.kernels))}<p>{escape(self._footer())}</p>'

    def _kernel_html(self, k):
        "Return the tables of a kernel as HTML; all sections but the first are folded"
        overview, sections = self._tables(k)
        parts = [f'<h4 title="{escape(k.name)}">{escape(self._title(k))}</h4>', *(t._repr_html_() for t in overview)]
        for i, t in enumerate(sections):
            name = escape(t.title)
            t.title = ''
            parts.append(f'<details{" open" * (i == 0)}><summary>{name}</summary>{t._repr_html_()}</details>')
        return ''.join(parts)

    def plain(self):
        "Return the report as data for JSON, in lists where the order matters"

        def plain_kernel(k):
            sections = [[s, [list(m) for m in ms]] for s, ms in k.sections.items()]
            lists = {
                n: [list(row) for row in v] for n, v in dict(rules=k.rules, lines=k.lines, raw=k.raw.values()).items()
            }
            return dict(name=k.name, grid=k.grid, block=k.block, sections=sections, **lists)

        return dict(version=self.version, warnings=self.warnings, kernels=[plain_kernel(k) for k in self.kernels])


def from_plain(d, mark='') -> Ncu:
    "Return the report from the data that `plain` returned"
    return Ncu([_kernel(kernel) for kernel in d['kernels']], d['version'], d['warnings'], mark)


def _kernel(data):
    "Return the `Kernel` from its data in JSON"
    k = Kernel(data['name'], data['grid'], data['block'])
    k.sections = {s: [Metric(*m) for m in ms] for s, ms in data['sections']}
    k.rules, k.lines = [Rule(*r) for r in data['rules']], [Line(*l) for l in data['lines']]
    k.raw = {m[0]: Metric(*m) for m in data['raw']}
    return k
