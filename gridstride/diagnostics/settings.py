"""Settings of the simulator and the emulator: which checks are enabled, the order of threads, the engine, the language
of findings."""

import os
import sys
import threading
from contextlib import contextmanager

from .catalogues import check_language
from ..support.parameter_docs import documented

__all__ = [
    'CHECKS',
    'ORDERS',
    'ENGINES',
    'WARP_SIZES',
    'Settings',
    'settings',
    'values_of',
    'change',
    'is_check_enabled',
    'parse_checks',
    'checks_to_compile',
    'check_order',
    'check_warp',
    'check_non_negative',
    'options',
    'shuffle',
]

CHECKS = ('memcheck', 'racecheck', 'initcheck', 'synccheck', 'fencecheck')
ORDERS = ('forward', 'reverse', 'shuffle')

# Engines that run kernels of Numba's dialect: None is the simulator itself, a module is imported on first use.
# `engine='c'` translates a kernel to CUDA C and runs it on the emulator.
ENGINES = dict(lanes=None, c='gridstride.translate.engine')

WARP_SIZES = (32, 64)  # threads per warp on NVIDIA's GPUs, and per wavefront on AMD's gfx9


class Settings:
    "Settings as attributes: the main thread sets a value for all threads, another thread only for itself"

    def __init__(self, **values):
        vars(self).update(_values=values, _of_thread=threading.local())

    def _values_of_current_thread(self):
        return self._values if threading.current_thread() is threading.main_thread() else vars(self._of_thread)

    def __getattr__(self, name):
        thread_values = vars(self._of_thread)
        if name in thread_values:
            return thread_values[name]
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self._values_of_current_thread()[name] = value


def _language_of_environment():
    "Return the value of GRIDSTRIDE_LANG; for a language without a catalogue, print a warning and return ''"
    name = os.environ.get('GRIDSTRIDE_LANG', '')
    try:
        check_language(name)
    except ValueError as e:
        print(f'GRIDSTRIDE_LANG: {e}; findings are in English', file=sys.stderr)
        return ''
    return name


# `max_lanes`: the maximum number of threads that run in lockstep; `counts_from_end`: whether a signed index below 0
# counts from the end, as in Numba, with a warning if it depends on the thread, instead of being an error;
# `allowed_findings`: findings after which a kernel continues without a report, (code, kernel, line);
# `lang`: the language of findings, '' for English
settings = Settings(
    checks=CHECKS,
    order='forward',
    seed=0,
    swaps=1 << 30,  # the maximum number of swaps per shuffle
    label_prints=False,
    engine='lanes',
    max_lanes=16384,
    seconds=60.0,
    warp=32,
    counts_from_end=False,
    allowed_findings=frozenset(),
    lang=_language_of_environment(),
)


def values_of(settings) -> dict:
    "Return the values that apply in this thread, by name; faster than reading them one by one"
    return {**vars(settings)['_values'], **vars(vars(settings)['_of_thread'])}


@contextmanager
def change(settings, **new_values):
    "Apply the new values that are not None, in the `with` block"
    new_values = {name: value for name, value in new_values.items() if value is not None}
    old_values = {name: getattr(settings, name) for name in new_values}
    for name, value in new_values.items():
        setattr(settings, name, value)
    try:
        yield
    finally:
        for name, value in old_values.items():
            setattr(settings, name, value)


def shuffle(
    items: list,
    random_below,  # a function n -> random integer from 0 to n - 1
    swaps: int,  # the maximum number of swaps; with fewer than len(items) - 1, most items keep their positions
) -> list:  # `items`
    """Shuffle a list in place, by the first swaps of the Fisher-Yates algorithm.

    >>> shuffle([0, 1, 2, 3], lambda n: 0, swaps=1)
    [3, 1, 2, 0]"""
    for i in range(len(items) - 1, max(len(items) - 1 - swaps, 0), -1):
        j = random_below(i + 1)
        items[i], items[j] = items[j], items[i]
    return items


def parse_checks(
    checks,  # True, False, None, 'all', 'none', 'racecheck', 'no racecheck', 'racecheck, memcheck', or a list of names
):  # tuple of names, in the order of `CHECKS`; None for None: the caller's default
    """Parse the option `checks`; raises `ValueError`, which lists the valid values.

    >>> parse_checks('no racecheck')
    ('memcheck', 'initcheck', 'synccheck', 'fencecheck')"""
    if checks is None:
        return None
    if checks is True or isinstance(checks, str) and checks.strip() == 'all':
        return CHECKS
    if checks is False or isinstance(checks, str) and checks.strip() == 'none':
        return ()
    if isinstance(checks, str) and checks.strip().startswith('no '):
        disabled_checks = parse_checks(checks.strip()[3:])
        return tuple(check for check in CHECKS if check not in disabled_checks)
    names = checks.split(',') if isinstance(checks, str) else checks if isinstance(checks, (list, tuple)) else [checks]
    names = [name.strip() if isinstance(name, str) else name for name in names]
    if any(name not in CHECKS for name in names):
        raise ValueError(
            f"checks must be True or 'all', False or 'none', some of {', '.join(CHECKS)} as a list or separated by "
            f"commas, or 'no racecheck' for all but one; got {checks!r}"
        )
    return tuple(check for check in CHECKS if check in names)


def checks_to_compile(
    checks,  # as `parse_checks` takes them
):  # tuple of names
    "Return the detectors that code is compiled for; None means all of them, or none if the options disable all"
    return (CHECKS if settings.checks else ()) if checks is None else parse_checks(checks)


def is_check_enabled(check):
    "Return whether this check, one of `CHECKS`, is enabled in this thread"
    return check in settings.checks


def check_order(order):
    "Raise `ValueError` unless `order` is one of `ORDERS`, or None"
    if order not in (None, *ORDERS):
        raise ValueError(f"order must be 'forward', 'reverse' or 'shuffle'; got {order!r}")


def check_warp(warp):
    "Raise `ValueError` unless `warp` is one of `WARP_SIZES`, or None"
    if warp is not None and (isinstance(warp, bool) or warp not in WARP_SIZES):
        raise ValueError(f"warp must be 32, as on NVIDIA's GPUs, or 64, as on AMD's gfx90a and gfx942; got {warp!r}")


def check_non_negative(**values):
    "Raise `ValueError` unless each of `values` is None or a non-negative integer"
    for name, value in values.items():
        if value is not None and (not isinstance(value, int) or value < 0):
            raise ValueError(f'{name} must be a non-negative integer; got {value!r}')


@documented
@contextmanager
def options(
    checks=None,  # True or 'all', False or 'none', or some of `CHECKS`: 'racecheck, memcheck', or a list
    order=None,  # of blocks, and of threads between two barriers: 'forward', 'reverse', 'shuffle'
    seed=None,  # of the shuffle
    label_prints=None,  # whether to prefix each line that a kernel prints with its block and thread
    seconds=None,  # time limit of a simulated kernel
    engine=None,  # for kernels of Numba's dialect: 'lanes', the simulator, or 'c', CUDA C on the emulator
    warp=None,  # threads per warp in the simulator: 32, or 64 as in AMD's wavefronts
    lang=None,  # language of findings: 'en', 'pt_BR' or 'zh_CN'; by default that of GRIDSTRIDE_LANG, or English
):
    "Set how kernels run without a GPU, in the `with` block; raises `ValueError` for an invalid value"
    checks = parse_checks(checks)
    check_order(order)
    check_warp(warp)
    check_language(lang)
    check_non_negative(seed=seed)
    if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
        raise ValueError(f'seconds must be a positive number; got {seconds!r}')
    if engine not in (None, *ENGINES):
        raise ValueError(f"engine must be {' or '.join(map(repr, ENGINES))}; got {engine!r}")
    new_values = dict(checks=checks, order=order, seed=seed, label_prints=label_prints, seconds=seconds, engine=engine)
    with change(settings, **new_values, warp=warp, lang=lang):
        yield
