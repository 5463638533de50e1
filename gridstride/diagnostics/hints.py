"""Selects the hint of a finding from the lines of the kernel: which index lacks a guard, which update needs an atomic.

A finding names the array, the element and the lines. The remedy depends on those lines: the code `outside` is reported
for a missing guard, a wrong guard, a wrong stride and an index from memory. `hint_for` parses the lines and returns the
row of `messages.HINTS` that fits, with its fields, or None.
It does not guess: if the line does not show the mistake, the finding keeps the general hint of its message.
`race_hints` and `index_hints` have the rules, `source_lines` parses the lines.
"""

import re

from .index_hints import connective_or_order_hint, fixed_size_hint, index_hint, moved_hint, moves_of, remainder_hint
from .race_hints import is_lockstep_exchange, race_hint
from .source_lines import strip_comment

__all__ = ['hint_for']

_OUTSIDE_ALL_ARRAYS = ('no_array', 'fault_no_array', 'fault_address', 'kernel_reads_host', 'kernel_writes_host')
_UNSIGNED = re.compile(r'\b(?:thread|block)Idx\.[xyz]\s*-\s*\w+')


def hint_for(
    kind,  # of the finding, like the next two
    code,
    fields,
    location,  # an `errors.Location`, with the function's lines before it
    other,  # an `errors.Access`, or None
):  # (name of a row of `HINTS`, its fields), or None
    "Return a hint that fits the learner's line better than the hint of the finding's row; None if there is none"
    if advice := fields.get('advice'):  # the engine has recognized the mistake by the addresses of the access
        return advice
    line = strip_comment(location.source)
    preceding_lines = [strip_comment(text) for text in location.preceding_lines.split('\n')]
    if (
        kind == 'memcheck'
        and code in ('outside', 'before')
        and line
        and (hint := connective_or_order_hint(fields, line, preceding_lines))
    ):
        return hint
    if kind == 'memcheck' and code == 'before' and line and not fields.get('inner'):
        return remainder_hint(fields, line, preceding_lines)
    if kind == 'memcheck' and code == 'outside' and line and not fields.get('inner'):
        if moves := moves_of(fields['array'], location):
            return moved_hint(fields, line, preceding_lines, moves)
    if kind == 'memcheck' and code == 'outside' and line:
        return index_hint(fields, line, preceding_lines)
    if kind == 'memcheck' and code == 'outside_named' and line:
        return fixed_size_hint(fields, line, preceding_lines)
    if kind == 'memcheck' and code in _OUTSIDE_ALL_ARRAYS and (unsigned_difference := _UNSIGNED.search(line)):
        return 'below_0', dict(expr=unsigned_difference[0])
    if kind == 'racecheck' and code in ('race', 'race_of_blocks', 'race_of_cluster') and line and other:
        return race_hint(code, fields, line, location, other, preceding_lines)
    if code == 'race_of_volatiles' and is_lockstep_exchange(fields, line, location, other):
        return 'in_step', {}
    if kind == 'memcheck' and code == 'misaligned' and fields['bytes'] == 4:
        return 'misaligned_pair', {}
    if kind == 'synccheck' and code == 'deadlock' and fields['why'].code == 'at_grid':
        return 'at_grid', {}
    return None
