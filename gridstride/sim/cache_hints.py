"""Loads and stores with cache hints, `cuda.ldcg(x, i)`: a hint affects only timing, which is not modelled."""

from .intrinsics import intrinsic
from .memory import load, store

__all__ = ['ldca', 'ldcg', 'ldcs', 'ldcv', 'ldlu', 'stcg', 'stcs', 'stwb', 'stwt']


def _load_intrinsic(name):
    def lane_function(ctx, active, site, array, i):
        return load(ctx, active, array, i, site)

    lane_function.__name__, lane_function.__doc__ = name, f'Load `array[i]`, as `__{name}` of CUDA C does'
    return intrinsic(lane_function)


def _store_intrinsic(name):
    def lane_function(ctx, active, site, array, i, value):
        store(ctx, active, array, i, value, site)

    lane_function.__name__, lane_function.__doc__ = name, f'Store to `array[i]`, as `__{name}` of CUDA C does'
    return intrinsic(lane_function)


ldca, ldcg, ldcs, ldcv, ldlu = map(_load_intrinsic, ('ldca', 'ldcg', 'ldcs', 'ldcv', 'ldlu'))
stcg, stcs, stwb, stwt = map(_store_intrinsic, ('stcg', 'stcs', 'stwb', 'stwt'))
