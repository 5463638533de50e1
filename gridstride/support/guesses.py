"""A reader's guess before a result: `guess` prints it, and does not show the result; the next cell does."""

__all__ = ['guess', 'guessed']


def _text(value, unit=''):
    "Format one guess: 0.3 ms, 2x, 45%, or a text as it is"
    if isinstance(value, str) or not hasattr(value, '__float__'):
        return str(value)
    return f'{value:g}{unit}' if unit in ('x', '%') else f'{value:g} {unit}'.rstrip()


def _parts(made):
    "Return {name: guess} of all parts of a guess; a single guess has the name ''"
    if isinstance(made, dict):
        return made
    if isinstance(made, (tuple, list)) and ... in made:  # (2, 5) may be one guess: a program and a lane
        return {str(n): part for n, part in enumerate(made, 1)}
    return {'': made}


def _named(parts, unit=''):
    "Format several guesses: 'rows: 32, columns: 4'"
    return ', '.join((f'{name}: ' if name != '' else '') + _text(value, unit) for name, value in parts.items())


def _need_number(made, unit):
    "Raise `TypeError` if a guess in some unit is not a number"
    if isinstance(made, (bool, str)) or not hasattr(made, '__float__'):
        raise TypeError(f'my_guess is {made!r}, but must be a number ({unit}), such as 1.5, or ... for no guess')


def guess(
    made,  # the reader's guess: a number or a text, or several in a dict or tuple; `...` while there is none
    unit='',  # such as 'ms', 'GB/s', 'x' for a speedup, '%'
):
    """Print the reader's guess; while it is `...`, ask for one. The result is in the next cell.

        my_guess = ...
        guess(my_guess, 'ms')

    Raises TypeError if `unit` is given and a guess is not a number."""
    parts = _parts(made)
    done = {name: part for name, part in parts.items() if part is not ...}
    if unit:
        for part in done.values():
            _need_number(part, unit)
    if done:
        print(f'Noted: {_named(done, unit)}')
    if len(done) < len(parts):
        print(_request(parts, done, unit))


def _request(parts, done, unit):
    "Return the sentence that asks for the guesses that are still `...`"
    left = [str(name) for name in parts if name not in done]
    what = '...' if len(parts) == 1 else f'... for {", ".join(left)}'
    named = 'a speedup: 2 is twice as fast' if unit == 'x' else unit
    in_unit = f' ({named})' if unit else ''
    return f'Make a guess first{in_unit}: replace {what} above, run this cell again. The next cell shows the result.'


def guessed(
    made,  # as for `guess`
    unit='',  # likewise
) -> str:
    """Return the reader's guess in parentheses, to be printed next to the result; empty while there is none.

    >>> guessed(3, 'ms'), guessed(...)
    ('(you guessed 3 ms)', '')"""
    done = {name: part for name, part in _parts(made).items() if part is not ...}
    return f'(you guessed {_named(done, unit)})' if done else ''
