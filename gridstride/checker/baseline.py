"""The findings that a run allows: by code, or listed in a baseline, so that only new findings fail.

A baseline is a JSON file with the `findings` of a report. An entry matches findings by kind, code, file, kernel and
source line; the line number may change, so a baseline remains valid after edits of other lines."""

import json
from pathlib import Path

__all__ = ['AllowedFindings', 'entry_of', 'read_baseline', 'stale_entry_messages', 'write_baseline']

_IDENTITY = 'kind', 'code', 'file', 'kernel', 'source'  # the fields that identify a finding in a baseline
_FIELDS = *_IDENTITY, 'line', 'summary', 'test'


class AllowedFindings:
    """The findings that a run allows, by code or by the entries of a baseline, or all of them, to write a baseline.

    `finding in AllowedFindings(codes=['race'])` tests a `Finding`."""

    def __init__(self, codes=(), entries=(), allows_all=False):
        self.codes, self.allows_all = {*codes}, allows_all
        self._identities = {*map(_identity, entries)}

    def __contains__(self, finding):
        return self.allows_all or finding.code in self.codes or _identity(entry_of(finding)) in self._identities


def _identity(entry):
    "Return the values of `_IDENTITY`; those of an installed package are the same in each environment"
    kind, code, file, kernel, source = (entry.get(name) or '' for name in _IDENTITY)
    return kind, code, file.rpartition('/site-packages/')[2], kernel, ' '.join(source.split())


def entry_of(finding) -> dict:
    "Return the entry of a `Finding` in a baseline"
    values = finding.to_dict()
    return {name: values[name] for name in _FIELDS if values[name] is not None}


def read_baseline(file) -> list:  # of entries, which are dictionaries with fields of `Finding`
    "Read the entries of a baseline, or the findings of a JSON report; raises `ValueError` if the file is neither"
    try:
        entries = json.loads(Path(file).read_text(encoding='utf-8'))['findings']
        [*map(_identity, entries)]
    except (OSError, KeyError, TypeError, AttributeError, ValueError) as e:
        raise ValueError(f'{file} is not a baseline: {type(e).__name__}: {e}') from None
    return entries


def stale_entry_messages(entries, found_entries):
    "Yield a line per entry of a baseline that was not found"
    found_identities = {*map(_identity, found_entries)}
    for kind, code, file, kernel, source in sorted({*map(_identity, entries)} - found_identities):
        yield f'{file}: [{kind}/{code}] in {kernel} is in the baseline, but was not found: {source}'


def write_baseline(file, entries) -> int:
    "Write entries to a baseline, each once; returns their number"
    sorted_entries = sorted(entries, key=lambda entry: entry.get('test') or '', reverse=True)
    # of several tests with the same finding, the first in alphabetical order is kept
    entry_of_identity = {_identity(entry): entry for entry in sorted_entries}
    baseline = dict(version=1, findings=[entry_of_identity[identity] for identity in sorted(entry_of_identity)])
    Path(file).write_text(json.dumps(baseline, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    return len(entry_of_identity)
