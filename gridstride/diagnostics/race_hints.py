"""Hints for data races: which atomic fits an update, and where in a loop or between two calls a barrier is missing."""

import re

from .source_lines import strip_comment, split_indices, share_loop, statement_of, find_uses

__all__ = ['is_lockstep_exchange', 'race_hint', 'update_of']

_ATOMICS = {'+': 'add', '-': 'sub', '&': 'and', '|': 'or', '^': 'xor', 'max': 'max', 'min': 'min'}


def update_of(
    line,
    array,  # its name
):  # (operation, element, value), as ('add', 'n[i]', '1'); the operation is '' if there is no such atomic; or None
    """Parse a line that updates one element: `n[i] += 1`, `n[i]++`, `m[0] = max(m[0], v)`, `*n += 1`.

    >>> update_of('n[i] += 2', 'n')
    ('add', 'n[i]', '2')"""
    line = _index_dereferences(line, array)
    elements = find_uses(line, array)
    if not elements or len({indices for *_, indices in elements}) > 1:
        return None
    start, end, _ = elements[0]
    element = line[start:end]
    suffix = line[end:].lstrip()
    increment = re.match(r'(\+\+|--)', suffix) or re.search(r'(\+\+|--)\s*$', line[:start])
    if increment and len(elements) == 1:
        return _ATOMICS[increment[1][0]], element, '1'
    if (m := re.match(r'(<<|>>|\*\*|//|[-+*/%&|^])=(?!=)', suffix)) and len(elements) == 1:
        return _ATOMICS.get(m[1], ''), element, statement_of(suffix[m.end() :])
    if (m := re.match(r'=(?!=)', suffix)) and len(elements) > 1:
        return _parse_assignment(element, statement_of(suffix[m.end() :]))
    return None


def _index_dereferences(line, array):
    "Replace `*n` and `(*n)` by `n[0]`, but not a product"
    name = re.escape(array or '')
    if not re.fullmatch(r'\w+', name):
        return line
    line = re.sub(rf'\(\s*\*\s*{name}\s*\)', f'{array}[0]', line)
    line = re.sub(rf'\*\s*{name}(?=\s*(?:[-+*/%&|^]|<<|>>)?=(?!=))', f'{array}[0]', line)  # the target of an assignment
    return re.sub(rf'(^|[;{{}}(=,?:&|<>+-])(\s*)\*\s*{name}\b(?!\s*[\[(.\w]|\s*->)', rf'\1\2{array}[0]', line)


def _parse_assignment(element, value):
    "Parse the update `element = value`, as `update_of` does"
    element_pattern = r'\s*'.join(map(re.escape, re.findall(r'\w+|\W', element.replace(' ', ''))))
    if m := re.fullmatch(rf'{element_pattern}\s*([-+&|^])\s*(.+)', value):
        return _ATOMICS[m[1]], element, m[2]
    if m := re.fullmatch(rf'(.+?)\s*([+&|^])\s*{element_pattern}', value):
        return _ATOMICS[m[2]], element, m[1]
    if m := re.fullmatch(rf'(?:\w+::)?f?(max|min)f?\(\s*{element_pattern}\s*,\s*(.+)\)', value):
        return m[1], element, m[2]
    if m := re.fullmatch(rf'(?:\w+::)?f?(max|min)f?\(\s*(.+)\s*,\s*{element_pattern}\s*\)', value):
        return m[1], element, m[2]
    return '', element, value


_COMPARE_AND_SWAP = re.compile(r'\b(atomicCAS\w*|compare_exchange_\w+|compare_and_swap|atomic\.cas)\s*\(')


def race_hint(code, fields, line, location, other, preceding_lines):
    "Select the hint for a data race: an atomic for an update, a barrier between lines, calls or iterations"
    if name_and_index := fields.get('second'):
        name, index = name_and_index
        return 'two_names', dict(second_element=f'{name}[{", ".join(map(str, index))}]')
    if fields.get('expanded'):
        return 'expanded', {}
    line_number = location.line
    if 'read' in (fields['before'], fields['now']) and _COMPARE_AND_SWAP.search(
        line if fields['before'] == 'read' else strip_comment(other.source)
    ):
        return 'before_swap', {}
    if other.line != line_number:
        if update := _update_in_two_lines(fields, line, strip_comment(other.source)):
            return _atomic_hint(update, fields['array'], '_apart')
        if code == 'race' and (hint := _calls_hint(location, other)):
            return hint
        if (
            code == 'race'
            and other.line > line_number
            and _are_in_one_function(location, other)
            and share_loop(location, other.line)
        ):
            return 'next_iteration', dict(line=line_number, earlier=other.line)
        return ('one_atomic', {}) if code == 'race' and _only_one_is_atomic(fields, line, other) else None
    if update := update_of(line, fields['array']):
        return _atomic_hint(update, fields['array'])
    if fields['before'] == fields['now'] == 'written':
        return 'one_element', {}
    if code != 'race':
        return None
    return _calls_hint(location, other) or (
        'same_line' if share_loop(location, line_number) else 'in_line',
        dict(line=line_number),
    )


def _are_in_one_function(location, other):
    "Return whether both accesses are in one function, as far as their calls are known"
    return not (location.calls and other.calls) or location.calls[0].function == other.calls[0].function


def _calls_hint(location, other):
    "Select the hint for two accesses in called functions, with no barrier in between; None if none fits"
    these_calls, other_calls = location.calls, other.calls
    if not (these_calls and other_calls) or len(these_calls) == len(other_calls) == 1:
        return None
    outer_lines = next(
        (
            (call.line, other_call.line)
            for call, other_call in zip(these_calls[::-1], other_calls[::-1])
            if call.line != other_call.line
        ),
        None,
    )
    hint_fields = dict(function=these_calls[0].function)
    if these_calls[0].function == other_calls[0].function:
        if other.line < location.line:  # the order of two calls would be reversed
            return None
        if len(these_calls) != len(other_calls):
            return 'called_again', hint_fields
        inner_lines = next(
            (
                (call.line, other_call.line)
                for call, other_call in zip(these_calls[:0:-1], other_calls[:0:-1])
                if call.line != other_call.line
            ),
            None,
        )
        if not inner_lines and other.line == location.line:
            return None
        return ('called_twice', dict(hint_fields, now=inner_lines[0], earlier=inner_lines[1])) if inner_lines else (
            'called_in_loop', dict(hint_fields, line=these_calls[-1].line))  # fmt: skip
    if these_calls[-1].function != other_calls[-1].function or not outer_lines:
        return None
    return ('calls_apart', dict(now=outer_lines[0], earlier=outer_lines[1])) if outer_lines[1] < outer_lines[0] else (
        'next_iteration', dict(line=outer_lines[0], earlier=outer_lines[1]))  # fmt: skip


def is_lockstep_exchange(fields, line, location, other):
    "Return whether two lanes of one warp exchange a value as if they ran in lockstep"
    if not (location.thread and other and other.thread) or location.block != other.block:
        return False
    (x, *row), (other_x, *other_row) = location.thread, other.thread
    return row == other_row and x // 32 == other_x // 32 and not update_of(line, fields['array'])


_ATOMIC_CALL = re.compile(r'\batomic(?:\w+|\.\w+)\(([^,;]*)')


def _only_one_is_atomic(fields, line, other):
    "Return whether one of the two accesses is atomic and the other plain, according to their lines"
    name = '' if fields['array'] == 'memory' else rf'(?<![\w.]){re.escape(fields["array"])}(?!\w)'

    def is_atomic_here(text):
        return any(re.search(name, m[1]) for m in _ATOMIC_CALL.finditer(text))

    return is_atomic_here(line) != is_atomic_here(strip_comment(other.source))


def _update_in_two_lines(fields, line, other):
    "Parse an update in two lines, `v = n[i]`, then `n[i] = v + 1`; returns the same as `update_of`"
    if {fields['before'], fields['now']} != {'read', 'written'}:
        return None
    first, second = (other, line) if fields['now'] == 'written' else (line, other)
    elements = find_uses(first, fields['array'])
    name = re.search(r'(\w+)\s*=\s*$', first[: elements[0][0]]) if len(elements) == 1 else None
    if not name or statement_of(first[elements[0][1] :]):
        return None
    element = first[elements[0][0] : elements[0][1]]
    return update_of(re.sub(rf'(?<![\w.]){name[1]}\b', lambda _: element, second), fields['array'])


def _atomic_hint(update, name, suffix=''):
    "Return the row of `HINTS`, and its fields, for an update of the array, as `update_of` returns it"
    operation, element, value = update
    array_text = element.partition('[')[0]
    indices = find_uses(element, name)[0][2]
    expressions = [expression for index in indices for expression in split_indices(index)] or ['0']
    index = expressions[0] if len(expressions) == 1 else f'({", ".join(expressions)})'
    row = f'update_{operation}' if operation in ('max', 'min') else 'update' if operation else 'update_other'
    return row + suffix, dict(operation=operation + '_' * (operation in ('and', 'or')), Operation=operation.title(),
                             target=element, array_text=array_text.strip(), index_text=index, value=value)  # fmt: skip
