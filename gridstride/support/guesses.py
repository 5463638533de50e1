"""A reader's guess before a result: `guess` prints the guess, and the next cell shows the result."""

__all__ = ['guess', 'guessed']


def _format(value, unit=''):
    "Format one guess: 0.3 ms, 2x, 45%; strings are unchanged"
    if isinstance(value, str) or not hasattr(value, '__float__'):
        return str(value)
    return f'{value:g}{unit}' if unit in ('x', '%') else f'{value:g} {unit}'.rstrip()


def _guesses_by_name(value):
    "Return {name: guess} of one or several guesses; a single guess has the name ''"
    if isinstance(value, dict):
        return value
    if isinstance(value, (tuple, list)) and ... in value:  # (2, 5) may be one guess: a program and a lane
        return {str(n): single_guess for n, single_guess in enumerate(value, 1)}
    return {'': value}


def _format_guesses(guess_of_name, unit=''):
    "Format several guesses: 'rows: 32, columns: 4'"
    return ', '.join(
        (f'{name}: ' if name != '' else '') + _format(value, unit) for name, value in guess_of_name.items()
    )


def _require_number(value, unit):
    "Raise `TypeError` if a guess in some unit is not a number"
    if isinstance(value, (bool, str)) or not hasattr(value, '__float__'):
        raise TypeError(f'my_guess is {value!r}, but must be a number ({unit}), such as 1.5, or ... for no guess')


def guess(
    value,  # the reader's guess: a number or string, or several in a dict or tuple; `...` while there is none
    unit='',  # such as 'ms', 'GB/s', 'x' for a speedup, '%'
):
    """Print the reader's guess; while it is `...`, ask for one. The result is in the next cell.

        my_guess = ...
        guess(my_guess, 'ms')

    Raises TypeError if `unit` is given and a guess is not a number."""
    guess_of_name = _guesses_by_name(value)
    guesses = {name: single_guess for name, single_guess in guess_of_name.items() if single_guess is not ...}
    if unit:
        for single_guess in guesses.values():
            _require_number(single_guess, unit)
    if guesses:
        print(f'Noted: {_format_guesses(guesses, unit)}')
    if len(guesses) < len(guess_of_name):
        print(_request(guess_of_name, guesses, unit))


def _request(guess_of_name, guesses, unit):
    "Return the sentence that asks for the guesses that are still `...`"
    missing_names = [str(name) for name in guess_of_name if name not in guesses]
    separator = '; ' if any(',' in name for name in missing_names) else ', '
    ellipsis_text = '...' if len(guess_of_name) == 1 else f'... for {separator.join(missing_names)}'
    unit_text = 'a speedup: 2 is twice as fast' if unit == 'x' else unit
    unit_suffix = f' ({unit_text})' if unit else ''
    remedy = f'replace {ellipsis_text} above, run this cell again'
    return f'Make a guess first{unit_suffix}: {remedy}. The next cell shows the result.'


def guessed(
    value,  # the argument of `guess`
    unit='',  # the argument of `guess`
) -> str:
    """Return the reader's guess in parentheses, to be printed next to the result; empty while there is none.

    >>> guessed(3, 'ms'), guessed(...)
    ('(you guessed 3 ms)', '')"""
    guesses = {name: single_guess for name, single_guess in _guesses_by_name(value).items() if single_guess is not ...}
    return f'(you guessed {_format_guesses(guesses, unit)})' if guesses else ''
