"""A substitute for `triton.profiler` in a program that runs under `gridstride.as_gpu`: it records nothing.

The functions have the names and the arguments of Triton's profiler, Proton. Its modules that need no GPU, such as
`triton.profiler.specs`, stay Triton's where Triton is installed."""

import functools
import itertools
import sys
import types
from contextlib import ContextDecorator
from importlib.util import find_spec

__all__ = ['modules']

_sessions = itertools.count()
_printed = []  # holds True once the line was printed


def _print_once():
    if not _printed:
        _printed.append(True)
        print('gridstride: triton.profiler records nothing: no kernel runs on a GPU here')


def start(name=None, *, context='shadow', data='tree', backend=None, mode=None, hook=None):
    "Start a session, which records nothing; returns its number"
    _print_once()
    return next(_sessions)


def _do_nothing(*args, **kwargs):
    "Do nothing: no session records anything"


def profile(func=None, **options):
    "Start a session around each call, as a decorator"
    if func is None:
        return functools.partial(profile, **options)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        start(**options)
        return func(*args, **kwargs)

    return wrapper


class scope(ContextDecorator):
    "A scope, as a context manager or a decorator; nothing is recorded"

    def __init__(self, name='', metrics=None):
        self.name, self.metrics = name, metrics

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Hook:
    "The base class of a program's own hooks, none of which is called"


def parse(metrics, filename, *args, **options):
    "Return an empty profile, and the metrics to show"
    _print_once()
    return None, metrics


def read(filename):
    "Return an empty profile"
    return parse(None, filename) + (None, None)


def _module(name, **names):
    found = types.ModuleType(f'triton.profiler.{name}'.rstrip('.'))
    vars(found).update(names)
    return found


def _submodules():
    "Return {name: module} of the modules below `triton.profiler`"
    hooks = dict.fromkeys(('LaunchHook', 'InstrumentationHook', 'HookManager'), Hook)
    data = dict(
        get=lambda session=0, phase=0: [],
        get_msgpack=lambda session=0, phase=0: b'',
        advance_phase=lambda session=0: 0,
        is_phase_complete=lambda session=0, phase=0: True,
        clear=_do_nothing,
    )
    return dict(
        viewer=_module('viewer', parse=parse, read=read, print_tree=_do_nothing, show_metrics=_do_nothing),
        language=_module('language', scope=scope, **dict.fromkeys(_IN_KERNELS, _do_nothing)),
        hooks=_module('hooks', Hook=Hook, **hooks),
        context=_module('context', depth=lambda session=0: 0),
        data=_module('data', **data),
    )


_IN_KERNELS = 'record enter_scope exit_scope enable_semantic disable_semantic'.split()
_RECORDING = 'activate deactivate finalize enter_scope exit_scope enter_state exit_state'.split()


def _folders():
    "Return the folders of Triton's own profiler modules, if Triton is installed"
    triton = sys.modules.get('triton')
    if triton is None or getattr(triton, 'is_shim', False):
        return []
    spec = find_spec('triton.profiler')
    return list(spec.submodule_search_locations or []) if spec else []


def modules():
    "Return {name: module} of the profiler and the modules below it"
    below = _submodules()
    names = dict.fromkeys(_RECORDING, _do_nothing) | dict(
        start=start, profile=profile, scope=scope, cpu_timed_scope=scope, state=scope, metadata_state=scope
    )
    found = _module('', **names, **below, DEFAULT_PROFILE_NAME='proton')
    found.__path__ = _folders()
    found.is_shim = True
    return {'triton.profiler': found} | {f'triton.profiler.{k}': v for k, v in below.items()}
