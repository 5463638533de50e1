"""Parse Nsight Compute's report, pages of comma-separated values, into `Kernel`s, and show them as tables.

A report has a page of sections and rules (`parse_details`), one of raw metrics (`parse_raw_metrics`), and one of source
lines with their counters (`parse_source_lines`). `Ncu` shows a report in a notebook, first the advice, then the
sections.
"""

import csv
import io
import re
from collections import namedtuple
from html import escape

from .show import format_si, short_name, truncate_middle
from ..support.tables import CellText, Percentage, Table

__all__ = ['ROOFLINE', 'Kernel', 'Line', 'Metric', 'Ncu', 'Rule', 'advice_table', 'parse_details', 'parse_raw_metrics']
__all__ += ['parse_source_lines', 'report_from_json']

# Each row is a metric or the advice of a rule. Rows of metrics have the full name of their section, rows of rules an
# abbreviated one; a rule belongs to the section above it. The output of the program may precede and follow the table,
# and newer versions have more columns.
Metric = namedtuple('Metric', 'name value unit')  # value: a number, or a string

# kind: 'OPT', 'INF' or 'WRN'; speedup: a fraction of the time, or None; scope: 'global' or 'local'.
Rule = namedtuple('Rule', 'section name kind text speedup scope')
Line = namedtuple('Line', 'number text samples counters', defaults=({},))


def parse_number(text):
    "Convert a number with commas; return any other string unchanged"
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
        section, _, metric_name = name.rpartition(': ')
        matches = [
            metric_row
            for title, metrics in self.sections.items()
            if section in ('', title)
            for metric_row in metrics
            if metric_row.name == metric_name
        ]
        if matches:
            return matches[0].value
        words = set(metric_name.lower().split())
        similar = sorted(
            {
                metric_row.name
                for metrics in self.sections.values()
                for metric_row in metrics
                if words & set(metric_row.name.lower().split())
            }
        )
        hint = f"similar: {', '.join(similar[:6])}" if similar else f"its sections: {', '.join(self.sections)}"
        raise KeyError(f'{short_name(self.name)} has no metric {name!r}; {hint}')

    @property
    def seconds(self):
        "The duration in seconds, or None if it was not measured"
        metrics = [
            *self.raw.values(),
            *(metric for section_metrics in self.sections.values() for metric in section_metrics),
        ]
        durations = (
            metric
            for metric in metrics
            if metric.name in ('gpu__time_duration.sum', 'Duration') and metric.unit in _SECONDS
        )
        return next((metric.value * _SECONDS[metric.unit] for metric in durations), None)

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
_FLOPS_OF_INSTRUCTION = {
    f'{precision}{op}': flops for precision in 'fd' for op, flops in (('add', 1), ('mul', 1), ('fma', 2))
}
_FLOPS_OF_METRIC = {
    **{f'smsp__sass_thread_inst_executed_op_{op}_pred_on.sum': flops for op, flops in _FLOPS_OF_INSTRUCTION.items()},
    **{f'sm__ops_path_tensor_src_{op}.sum': 1 for op in _TENSOR_PATHS},
}
ROOFLINE = (
    'dram__bytes.sum',
    *_FLOPS_OF_METRIC,
)  # the metrics of arithmetic intensity; a GPU has only those of its generation
_SECONDS = {'ns': 1e-9, 'us': 1e-6, 'ms': 1e-3, 's': 1.0}
_SECONDS.update(nsecond=1e-9, usecond=1e-6, msecond=1e-3, second=1.0)


def _find_table(text, first_column):
    "Return the rows of the table whose header begins with `first_column`; other output may come before and after it"
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith(f'"{first_column}"')), None)
    return [] if start is None else list(_parse_rows(lines[start:]))


def _parse_rows(lines):
    "Return the rows of a table; all of its lines begin with a quote"
    return csv.reader(io.StringIO('\n'.join(line for line in lines if line.startswith('"'))))


def _rows_as_dicts(rows):
    return [dict(zip(rows[0], row)) for row in rows[1:] if len(row) > 1] if rows else []


def parse_details(
    text: str,  # output of `ncu --csv --page details`
) -> dict:  # launch number -> `Kernel`
    "Return the sections, metrics and rules of each launch"
    kernel_of_launch = {}
    section = ''
    for row in _rows_as_dicts(_find_table(text, 'ID')):
        new_kernel = Kernel(row['Kernel Name'], row.get('Grid Size', ''), row.get('Block Size', ''))
        kernel = kernel_of_launch.setdefault(int(row['ID']), new_kernel)
        if row.get('Metric Name'):
            section = row['Section Name']
            metric = Metric(row['Metric Name'], parse_number(row['Metric Value']), row['Metric Unit'])
            kernel.sections.setdefault(section, []).append(metric)
        if row.get('Rule Name'):
            kernel.rules.append(_parse_rule(row, section))
    return kernel_of_launch


def _parse_rule(row, section):
    "Return the `Rule` of a row; before version 2023 its text contained the speedup"
    text = row['Rule Description']
    speedup = row.get('Estimated Speedup') or ''
    scope = row.get('Estimated Speedup Type') or ''
    if not speedup and (match := re.search(r'(?:estimated|Est\.)( local)? speedup:? (?:of )?([\d.]+)', text, re.I)):
        speedup = match[2]
        scope = 'local' if match[1] else 'global'
    return Rule(section, row['Rule Name'], row['Rule Type'], text, float(speedup) / 100 if speedup else None, scope)


# The raw page has one row per launch, below a row of units. The source page has, per source line, a row with the sums
# over its instructions, followed by the instructions; only the sums are used.
def parse_raw_metrics(
    text: str,  # output of `ncu --csv --page raw`
) -> dict:  # launch number -> {ncu's name: `Metric`}
    "Return all metrics of each launch by their names in ncu"
    rows = _find_table(text, 'ID')
    if len(rows) < 3:
        return {}
    names, units = rows[0], rows[1]
    return {
        int(row[0]): {
            name: Metric(name, parse_number(value), unit)
            for name, unit, value in zip(names, units, row)
            if '__' in name and value
        }
        for row in rows[2:]
        if row[0].isdigit()
    }


def parse_source_lines(
    text: str,  # output of `ncu --csv --page source --print-source cuda,sass`
) -> list:  # (function, list of `Line`), in the order of the launches
    "Return the source lines of each launch with their counters; needs line information in the program"
    lines_of_launches = []
    header = None
    for row in _parse_rows(text.splitlines()):
        if row[0] == 'Function Name':
            lines_of_launches.append((row[1], []))
        elif row[0] == 'Line No':
            header = row
        elif header and lines_of_launches and len(row) == len(header) and row[0].isdigit() and row[2] == '-':
            lines_of_launches[-1][1].append(_parse_line(header, row))
    return lines_of_launches


_SAMPLE_COLUMNS = ('# Samples', 'Warp Stall Sampling (All Samples)', 'Sampling Data (All)')  # of different versions


def _parse_line(header, row):
    "Return the `Line` of a row"
    counters = {name: value for name, value in zip(header[4:], map(parse_number, row[4:])) if value not in ('-', '')}
    samples = next((counters[name] for name in _SAMPLE_COLUMNS if name in counters), 0)
    return Line(int(row[0]), row[1], samples, counters)


# A report shows the advice first, sorted by estimated speedup, then each section as a folded table. With `lines=True`
# it shows the source with the fraction of samples per line: the sampler records the current instruction of a warp every
# few thousand cycles, so lines with many samples take most of the time.
_EXCESS_NAMES = {
    'L2 Theoretical Sectors Global Excessive': 'excess sectors',
    'L1 Wavefronts Shared Excessive': 'bank conflicts',
}


def _format_speedup(rule):
    return '' if rule.speedup is None else f"{Percentage(rule.speedup)}{' locally' if rule.scope == 'local' else ''}"


def _strip_links(text):
    "Return the text of a rule without its links"
    return re.sub(r'@(?:url|section):([^:@]*)(?::[^@]*)?@', r'\1', text)


# Rules about missing metrics, which no change of the kernel can fix
_IGNORED_RULES = re.compile('optional metric .* could not be found')


def advice_table(
    kernel,  # a `Kernel`
) -> Table:
    "Return the rules that recommend a change, sorted by estimated speedup"
    rules = [rule for rule in kernel.rules if rule.kind != 'INF' and not _IGNORED_RULES.search(rule.text)]
    rules.sort(key=lambda rule: (rule.scope == 'local', -(rule.speedup or 0)))
    rows = [[_format_speedup(rule), rule.section, _strip_links(rule.text)] for rule in rules]
    return Table(['est. speedup', '<section', '<advice'], rows, title='Advice')


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
    'misc': 'other reasons',
    'no_inst': 'instructions',
    'not_selected': 'nothing: another warp was selected',
    'short_sb': 'shared memory, special units',
    'sleep': '__nanosleep',
    'tex': 'the queue to textures',
    'wait': 'the previous instruction',
}


def _main_stall(line):
    "Return the main stall reason of a line in plain words, with its fraction of the samples"
    names = [
        name for name in line.counters if name.startswith('stall_') and '(' not in name and name != 'stall_selected'
    ]
    stalls = {name[6:]: line.counters[name] for name in names if not isinstance(line.counters[name], str)}
    main_reason = max(stalls, key=stalls.get, default=None)
    if not (main_reason and stalls[main_reason] and line.samples):
        return ''
    return f'{_STALL_NAMES.get(main_reason, main_reason)} ({Percentage(stalls[main_reason] / line.samples)})'


def source_table(
    kernel,  # a `Kernel`
    min_fraction=0.005,  # omit lines with a smaller fraction of the samples
) -> Table:
    "Return the source lines with their fraction of the samples, main stall reason, and excess memory transactions"
    total = sum(line.samples for line in kernel.lines) or 1
    excess_titles = {
        name: title
        for name, title in _EXCESS_NAMES.items()
        if any(_numeric_counter(line, name) for line in kernel.lines)
    }

    def row(line):
        line_cells = [line.number or '', CellText(line.text.strip(), line.text)]
        fraction = Percentage(line.samples / total)
        count, *counts = [f'{line.counters.get(name, 0):,}' for name in ('Instructions Executed', *excess_titles)]
        return [*line_cells, fraction, count, _main_stall(line), *counts]

    rows = [
        row(line)
        for line in kernel.lines
        if line.samples / total >= min_fraction or any(line.counters.get(name) for name in excess_titles)
    ]
    header = ['line', '<source', 'samples', 'instructions', '<waits for', *excess_titles.values()]
    return Table(header, rows, title=f'Where the time goes: {total:,} samples')


def _numeric_counter(line, name):
    "Return a counter of a line, or 0 if it has no value"
    value = line.counters.get(name)
    return value if isinstance(value, (int, float)) else 0


def _metric_row(metric):
    return [metric.name, f'{metric.value:,}' if isinstance(metric.value, (int, float)) else metric.value, metric.unit]


class Ncu:
    "A report of Nsight Compute: `kernels` in the order of their launches, shown as tables"

    def __init__(self, kernels, version='', warnings=(), provenance=''):
        self.kernels, self.version, self.warnings, self.provenance = list(kernels), version, list(warnings), provenance

    def __getitem__(self, key):
        "Return a kernel by index or (short) name; if there is only one kernel, also a metric by name"
        if isinstance(key, int):
            return self.kernels[key]
        for kernel in self.kernels:
            if key in (kernel.name, short_name(kernel.name)):
                return kernel
        if len(self.kernels) == 1:
            return self.kernels[0][key]
        names = dict.fromkeys(short_name(kernel.name) for kernel in self.kernels)
        raise KeyError(f'no kernel {key!r}; available: {", ".join(names)}')

    def __len__(self):
        return len(self.kernels)

    def _title(self, kernel):
        configuration = f', grid {kernel.grid}, block {kernel.block}' if kernel.grid else ''
        duration = f": {format_si(kernel.seconds, 's')}" if kernel.seconds else ''
        return f'{truncate_middle(short_name(kernel.name))}{configuration}{duration}'

    def _tables(self, kernel):
        "Return (advice and source, one table per section)"
        overview = [advice_table(kernel)] if any(rule.kind != 'INF' for rule in kernel.rules) else []
        if kernel.lines:
            overview.append(source_table(kernel))
        rows_of_section = {
            title: [_metric_row(metric) for metric in metrics if metric.value != 'n/a']
            for title, metrics in kernel.sections.items()
        }
        return overview, [
            Table(['<metric', 'value', '<unit'], section_rows, title=title)
            for title, section_rows in rows_of_section.items()
        ]

    def _footer(self):
        return '\n'.join([*self.warnings, *([f'[{self.provenance}]'] if self.provenance else [])])

    def __repr__(self):
        blocks = []
        for kernel in self.kernels:
            overview, sections = self._tables(kernel)
            blocks += [self._title(kernel), *map(repr, overview + sections)]
        return '\n\n'.join(filter(None, [*blocks, self._footer()]))

    def _repr_html_(self):
        return f'{"".join(map(self._kernel_html, self.kernels))}<p>{escape(self._footer())}</p>'

    def _kernel_html(self, kernel):
        "Return the tables of a kernel as HTML; all sections but the first are folded"
        overview, sections = self._tables(kernel)
        blocks = [
            f'<p title="{escape(kernel.name)}"><b>{escape(self._title(kernel))}</b></p>',
            *(table._repr_html_() for table in overview),
        ]
        for i, table in enumerate(sections):
            name = escape(table.title)
            table.title = ''
            blocks.append(f'<details{" open" * (i == 0)}><summary>{name}</summary>{table._repr_html_()}</details>')
        return ''.join(blocks)

    def to_json(self):
        "Return the report as data for JSON, in lists where the order matters"

        def kernel_to_json(kernel):
            sections = [[title, [list(metric) for metric in metrics]] for title, metrics in kernel.sections.items()]
            lists = {
                name: [list(row) for row in rows]
                for name, rows in dict(rules=kernel.rules, lines=kernel.lines, raw=kernel.raw.values()).items()
            }
            return dict(name=kernel.name, grid=kernel.grid, block=kernel.block, sections=sections, **lists)

        return dict(
            version=self.version, warnings=self.warnings, kernels=[kernel_to_json(kernel) for kernel in self.kernels]
        )


def report_from_json(data, provenance='') -> Ncu:
    "Return the report from the data that `to_json` returned"
    return Ncu([_kernel_from_json(kernel) for kernel in data['kernels']], data['version'], data['warnings'], provenance)


def _kernel_from_json(data):
    "Return the `Kernel` from its data in JSON"
    kernel = Kernel(data['name'], data['grid'], data['block'])
    kernel.sections = {title: [Metric(*metric) for metric in metrics] for title, metrics in data['sections']}
    kernel.rules, kernel.lines = [Rule(*rule) for rule in data['rules']], [Line(*line) for line in data['lines']]
    kernel.raw = {metric[0]: Metric(*metric) for metric in data['raw']}
    return kernel
