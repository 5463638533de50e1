"""What `triton.autotune` does to the arguments of a launch: it times each config by many runs on the same arrays, so
each run starts from what the one before has left. Here a second run shows whether that changes the result."""

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
    key = tuple(repr(values.get(k)) for k in getattr(kernel, 'keys', None) or ())
    key += tuple(str(v.dtype) for v in values.values() if hasattr(v, 'dtype') and hasattr(v, 'shape'))
    if key in tuned:
        return None
    tuned.add(key)
    return kernel


def run_tuned(tuner, launch, values, again):
    "Run a launch with an autotuner's arguments; `again()` makes the same launch once more"
    reset, restored = (
        [values[k] for k in getattr(tuner, argument, None) or ()] for argument in ('reset_to_zero', 'restore_value')
    )
    before = [_copy(array) for array in restored]
    _clear(reset)
    run = launch.run_
    run.tuned = True
    zero = {region.name for region in run.regions if not region.flat.any()}
    launch.run()
    restored = {*(getattr(tuner, 'reset_to_zero', None) or ()), *(getattr(tuner, 'restore_value', None) or ())}
    suspects = [region for region in run.regions if region.shadow.reused and region.name not in restored]
    if not suspects:
        return
    after = [region.flat.copy() for region in run.regions]
    _clear(reset)
    for array, was in zip(restored, before):
        array[...] = was
    changed = _find_changed(again, run.regions, after, suspects)
    for region, was in zip(run.regions, after):
        if region.writable:
            region.flat[...] = was
    if changed:
        argument = 'reset_to_zero' if changed in zero else 'restore_value'
        warn_of('tuned', 'triton', dict(kernel=launch.kernel.__name__, configs=len(tuner.configs), array=changed,
                                        argument=argument))  # fmt: skip


def _find_changed(again, regions, after, suspects):
    "Return the name of an array that a second run changes, or the first suspect if that run does not end; else None"
    try:
        with change(settings, checks=()), paused(), contextlib.redirect_stdout(io.StringIO()):
            again().run()
    except KernelError:
        return suspects[0].name
    pairs = zip(regions, after)
    return next(
        (region.name for region, was in pairs if region in suspects and region.flat.tobytes() != was.tobytes()), None
    )


def _copy(a):
    return a.copy() if isinstance(a, np.ndarray) else a.clone()


def _clear(arrays):
    for array in arrays:
        array[...] = 0
