"""Checks what `triton.autotune` does to the arguments of a launch.

An autotuner times each config by many runs on the same arrays, so each run starts from the results of the run before.
Here a second run shows whether this changes the arrays."""

import contextlib
import io

import numpy as np

from ..diagnostics.errors import KernelError, warn_of
from ..diagnostics.settings import change, settings
from .trace import paused

__all__ = ['tuner_of', 'run_tuned']


def tuner_of(kernel, values, tuned):
    "Return the autotuner that would time its configs for these arguments for the first time; None if there is none"
    while kernel is not None and not getattr(kernel, 'configs', None):
        kernel = getattr(kernel, 'fn', None)
    if kernel is None or len(kernel.configs) < 2 or getattr(kernel, 'user_defined_pre_hook', False):
        return None
    key = tuple(repr(values.get(name)) for name in getattr(kernel, 'keys', None) or ())
    key += tuple(str(value.dtype) for value in values.values() if hasattr(value, 'dtype') and hasattr(value, 'shape'))
    if key in tuned:
        return None
    tuned.add(key)
    return kernel


def run_tuned(tuner, launch, values, make_launch):
    "Run an autotuned launch, and warn if a second run, of `make_launch()`, changes an array that is not restored"
    names_reset, names_restored = (
        tuple(getattr(tuner, argument, None) or ()) for argument in ('reset_to_zero', 'restore_value')
    )
    reset = [values[name] for name in names_reset]
    restored = [values[name] for name in names_restored]
    before = [_copy(array) for array in restored]
    _clear(reset)
    ctx = launch.ctx
    ctx.is_tuning = True
    zero = {region.name for region in ctx.regions if not region.flat.any()}
    launch.run()
    handled = {*names_reset, *names_restored}
    suspects = [region for region in ctx.regions if region.shadow.updated_in_place and region.name not in handled]
    if not suspects:
        return
    after = [region.flat.copy() for region in ctx.regions]
    _clear(reset)
    for array, saved in zip(restored, before):
        array[...] = saved
    changed = _find_changed_array(make_launch, ctx.regions, after, suspects)
    for region, saved in zip(ctx.regions, after):
        if region.writable:
            region.flat[...] = saved
    if changed:
        argument = 'reset_to_zero' if changed in zero else 'restore_value'
        warn_of('tuned', 'triton', dict(kernel=launch.kernel.__name__, configs=len(tuner.configs), array=changed,
                                        argument=argument))  # fmt: skip


def _find_changed_array(make_launch, regions, after, suspects):
    "Return the name of a suspect that a second run changes, the first one if that run raises; None if there is none"
    try:
        with change(settings, checks=()), paused(), contextlib.redirect_stdout(io.StringIO()):
            make_launch().run()
    except KernelError:
        return suspects[0].name
    pairs = zip(regions, after)
    return next(
        (region.name for region, saved in pairs if region in suspects and region.flat.tobytes() != saved.tobytes()),
        None,
    )


def _copy(a):
    return a.copy() if isinstance(a, np.ndarray) else a.clone()


def _clear(arrays):
    for array in arrays:
        array[...] = 0
