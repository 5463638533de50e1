"""Formats of a report: text, JSON, SARIF 2.1.0, and GitHub annotations."""

import json
from typing import Any

import gridstride

from .finding import site_url

__all__ = [
    'FORMATS',
    'JSON_VERSION',
    'to_text',
    'to_json',
    'to_sarif',
    'to_github',
    'details',
    'location_text',
    'count_text',
]

JSON_VERSION = 1  # incremented when a field of the JSON output changes its meaning or is removed
_SARIF_SCHEMA = 'https://json.schemastore.org/sarif-2.1.0.json'


def _findings(results):
    return [finding for result in results for finding in result.findings]


def location_text(finding):
    "Format the location of a finding like a compiler: `a.py:12`, or `a.ipynb, cell 3:12`"
    cell = '' if finding.cell is None else f', cell {finding.cell}'
    return f'{finding.file or "?"}{cell}' + (f':{finding.line}' if finding.line else '')


def _heading(finding):
    "Format the first line of a finding: its location, level, kind and code"
    return f'{location_text(finding)}: {finding.level}: {finding.summary} [{finding.kind}/{finding.code}]'


def details(finding):
    "Yield the lines of a finding after the first"
    yield from finding.message.splitlines()[1:]
    if finding.launch:
        yield f'  Smallest launch that reproduces it: {finding.launch}'
    if finding.schedule != 'forward' and not finding.test:
        yield f'  To reproduce it: --replay {finding.schedule}'
    if finding.page:
        yield f'  {finding.page}'


def count_text(n, noun):
    """Format a count with its noun.

    >>> count_text(2, 'launch')
    '2 launches'"""
    return f'{n} {noun}{"" if n == 1 else "es" if noun.endswith("ch") else "s"}'


def to_text(results) -> str:
    "Format a report as text: a paragraph per finding, and a line with the counts"
    findings = _findings(results)
    paragraphs = ['\n'.join([_heading(f), *details(f)]) for f in findings]
    launches, schedules = (sum(r.launches for r in results), max((len(r.schedules) for r in results), default=0))
    counts = [count_text(len(findings), 'finding'), count_text(len(results), 'file'), count_text(launches, 'launch')]
    counts.append(count_text(schedules, 'schedule'))
    if num_failed := sum(bool(r.error) for r in results):
        counts.append(f'{num_failed} not checked')
    return '\n\n'.join([*paragraphs, ', '.join(counts)])


def to_json(results) -> str:
    "Format a report as JSON; `site/checker.md` documents its fields"
    report = dict(
        version=JSON_VERSION,
        tool=dict(name='gridstride', version=gridstride.__version__),
        findings=[f.to_dict() for f in _findings(results)],
        files=[r.to_dict() for r in results],
    )
    return json.dumps(report, indent=2)


def _sarif_location(file, line):
    "Return a SARIF location; without a line, it has no region"
    uri = file.replace('\\', '/').replace('%', '%25').replace(' ', '%20').replace('#', '%23')
    location = dict(artifactLocation=dict(uri=uri if not uri.startswith('/') else f'file://{uri}'))
    return dict(physicalLocation={**location, **({'region': dict(startLine=line)} if line else {})})


def _sarif_result(finding):
    line = None if finding.cell is not None else finding.line  # a line of a cell is not a line of the notebook's file
    result: dict[str, Any] = dict(
        ruleId=f'{finding.kind}/{finding.code}',
        level=finding.level,
        message=dict(text='\n'.join([_heading(finding), *details(finding)])),
        locations=[_sarif_location(finding.file, line)] if finding.file else [],
        properties=finding.to_dict(),
    )
    if finding.other and finding.other['file'] and finding.cell is None:
        related = _sarif_location(finding.other['file'], finding.other['line'])
        result['relatedLocations'] = [dict(related, id=0, message=dict(text='the other access'))]
    return result


def _sarif_rule(finding):
    rule = dict(id=f'{finding.kind}/{finding.code}', shortDescription=dict(text=f'{finding.kind}: {finding.code}'))
    return dict(rule, helpUri=finding.page) if finding.page else rule


def to_sarif(results) -> str:
    "Format a report as SARIF 2.1.0, which VS Code and GitHub's code scanning show"
    findings = _findings(results)
    rules = {rule['id']: rule for rule in map(_sarif_rule, findings)}
    driver = dict(name='gridstride', version=gridstride.__version__, rules=list(rules.values()))
    if site := site_url():
        driver['informationUri'] = site
    notes = [
        dict(level='error', message=dict(text=f'{r.file}: {r.error}'), locations=[_sarif_location(r.file, None)])
        for r in results
        if r.error
    ]
    invocation = dict(executionSuccessful=not notes, **({'toolExecutionNotifications': notes} if notes else {}))
    run = dict(tool=dict(driver=driver), invocations=[invocation], results=[_sarif_result(f) for f in findings])
    return json.dumps({'$schema': _SARIF_SCHEMA, 'version': '2.1.0', 'runs': [run]}, indent=2)


def _escape_data(text):
    "Escape the message of a GitHub workflow command"
    return str(text).replace('%', '%25').replace('\r', '%0D').replace('\n', '%0A')


def _escape_property(value):
    "Escape a property of a GitHub workflow command, including separators"
    return _escape_data(value).replace(':', '%3A').replace(',', '%2C')


def _command(level, message, **properties):
    "Format a GitHub workflow command, which annotates the file"
    fields = ','.join(f'{name}={_escape_property(value)}' for name, value in properties.items() if value)
    return f'::{level} {fields}::{_escape_data(message)}'


def to_github(results) -> str:
    "Format a report as GitHub workflow commands: an annotation per finding, and per file that was not checked"
    lines = []
    for finding in _findings(results):
        location = dict(file=finding.file, line=None if finding.cell is not None else finding.line)
        title = f'{finding.kind}/{finding.code}'
        lines.append(
            _command(finding.level, '\n'.join([_heading(finding), *details(finding)]), **location, title=title)
        )
    lines += [_command('error', f'gridstride: {r.error}', file=r.file, title='not checked') for r in results if r.error]
    return '\n'.join(lines)


FORMATS = dict(text=to_text, json=to_json, sarif=to_sarif, github=to_github)
