"""A substitute for `triton.profiler` in a program that runs under `gridstride.as_gpu`: it records nothing.

The functions have the names and the arguments of Triton's profiler, Proton. Where Triton is installed, its own
modules are used if they need no GPU, for example `triton.profiler.specs`."""

import functools
import itertools
import sys
import types
from contextlib import ContextDecorator
from importlib.util import find_spec

__all__ = ['modules']

_sessions = itertools.count()


@functools.cache
def _print_once():
    print('gridstride: triton.profiler records nothing: no kernel runs on a GPU here')


def start(name=None, *, context='shadow', data='tree', backend=None, mode=None, hook=None):
    "Start a session, which records nothing; returns its number"
    _print_once()
    return next(_sessions)


def _do_nothing(*args, **kwargs):
    "Do nothing: no session records anything"


def profile(func=None, **options):
    "Decorate a function: profile each of its calls in a session"
    if func is None:
        return functools.partial(profile, **options)

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        start(**options)
        return func(*args, **kwargs)

    return wrapper


class scope(ContextDecorator):
    "A scope that records nothing, as a context manager or a decorator"

    def __init__(self, name='', metrics=None):
        self.name, self.metrics = name, metrics

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Hook:
    "The base class of hooks that a program defines; none of them is called"


def parse(metrics, filename, *args, **options):
    "Return an empty profile, and the metrics to show"
    _print_once()
    return None, metrics


def read(filename):
    "Return an empty profile"
    return parse(None, filename) + (None, None)


def _make_module(name, **names):
    module = types.ModuleType(f'triton.profiler.{name}'.rstrip('.'))
    vars(module).update(names)
    return module


def _submodules():
    "Return {name: module} of the submodules of `triton.profiler`"
    hooks = dict.fromkeys(('LaunchHook', 'InstrumentationHook', 'HookManager'), Hook)
    data = dict(
        get=lambda session=0, phase=0: [],
        get_msgpack=lambda session=0, phase=0: b'',
        advance_phase=lambda session=0: 0,
        is_phase_complete=lambda session=0, phase=0: True,
        clear=_do_nothing,
    )
    return dict(
        viewer=_make_module('viewer', parse=parse, read=read, print_tree=_do_nothing, show_metrics=_do_nothing),
        language=_make_module('language', scope=scope, **dict.fromkeys(_KERNEL_FUNCTIONS, _do_nothing)),
        hooks=_make_module('hooks', Hook=Hook, **hooks),
        context=_make_module('context', depth=lambda session=0: 0),
        data=_make_module('data', **data),
    )


_KERNEL_FUNCTIONS = 'record enter_scope exit_scope enable_semantic disable_semantic'.split()
_SESSION_FUNCTIONS = 'activate deactivate finalize enter_scope exit_scope enter_state exit_state'.split()


def _installed_folders():
    "Return the folders of Triton's own profiler modules, if Triton is installed"
    triton = sys.modules.get('triton')
    if triton is None or getattr(triton, 'is_shim', False):
        return []
    spec = find_spec('triton.profiler')
    return list(spec.submodule_search_locations or []) if spec else []


def modules():
    "Return {name: module} of the profiler and its submodules"
    submodules = _submodules()
    names = dict.fromkeys(_SESSION_FUNCTIONS, _do_nothing) | dict(
        start=start, profile=profile, scope=scope, cpu_timed_scope=scope, state=scope, metadata_state=scope
    )
    module = _make_module('', **names, **submodules, DEFAULT_PROFILE_NAME='proton')
    module.__path__ = _installed_folders()
    module.is_shim = True
    return {'triton.profiler': module} | {f'triton.profiler.{k}': v for k, v in submodules.items()}
