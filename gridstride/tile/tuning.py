"""Checks how `triton.autotune` changes the arguments of a launch.

An autotuner times each config in many runs on the same arrays, so each run starts from the results of the last one.
`run_tuned` makes a second run to find out whether this changes the arrays."""

import contextlib
import io

import numpy as np

from ..diagnostics.errors import KernelError, warn_of
from ..diagnostics.settings import change, settings
from .trace import pause_recording

__all__ = ['tuner_of', 'run_tuned']


def tuner_of(kernel, values, tuned_keys):
    "Return the autotuner if it would time its configs at this launch, else None"
    while kernel is not None and not getattr(kernel, 'configs', None):
        kernel = getattr(kernel, 'fn', None)
    if kernel is None or len(kernel.configs) < 2 or getattr(kernel, 'user_defined_pre_hook', False):
        return None
    key = tuple(repr(values.get(name)) for name in getattr(kernel, 'keys', None) or ())
    key += tuple(str(value.dtype) for value in values.values() if hasattr(value, 'dtype') and hasattr(value, 'shape'))
    if key in tuned_keys:
        return None
    tuned_keys.add(key)
    return kernel


def run_tuned(tuner, launch, values, make_launch):
    "Run an autotuned launch, then `make_launch()`; warn if the second run changes an array that is not restored"
    reset_names, restored_names = (
        tuple(getattr(tuner, argument, None) or ()) for argument in ('reset_to_zero', 'restore_value')
    )
    reset_arrays = [values[name] for name in reset_names]
    restored_arrays = [values[name] for name in restored_names]
    values_before = [_copy(array) for array in restored_arrays]
    _fill_with_zeros(reset_arrays)
    ctx = launch.ctx
    ctx.is_tuning = True
    zero_names = {region.name for region in ctx.regions if _has_only_zeros(region)}
    launch.run()
    handled_names = {*reset_names, *restored_names}
    candidates = [
        region for region in ctx.regions if region.shadow.is_updated_in_place and region.name not in handled_names
    ]
    if not candidates:
        return
    values_after = [region.flat.copy() for region in ctx.regions]
    _fill_with_zeros(reset_arrays)
    for array, value in zip(restored_arrays, values_before):
        array[...] = value
    changed_name = _find_changed_array(make_launch, ctx.regions, values_after, candidates)
    for region, value in zip(ctx.regions, values_after):
        if region.is_writable:
            region.flat[...] = value
    if changed_name:
        argument = 'reset_to_zero' if changed_name in zero_names else 'restore_value'
        warn_of('tuned', 'triton', dict(kernel=launch.kernel.__name__, configs=len(tuner.configs), array=changed_name,
                                        argument=argument))  # fmt: skip


def _find_changed_array(make_launch, regions, values_after, candidates):
    "Return the name of a candidate that a second run changes, or of the first one if that run raises; else None"
    try:
        with change(settings, checks=()), pause_recording(), contextlib.redirect_stdout(io.StringIO()):
            make_launch().run()
    except KernelError:
        return candidates[0].name
    pairs = zip(regions, values_after)
    return next(
        (region.name for region, value in pairs if region in candidates and region.flat.tobytes() != value.tobytes()),
        None,
    )


def _has_only_zeros(region):
    # As bytes: NumPy warns about signaling NaNs, which uninitialized memory may contain
    return not region.flat.view(np.uint8).any()


def _copy(array):
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def _fill_with_zeros(arrays):
    for array in arrays:
        array[...] = 0
