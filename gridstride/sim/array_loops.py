"""Python's loops and NumPy's ufuncs over whole arrays, in each thread: `for v in x`, `zip(x, y)`, `np.sin(x, out)`."""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..diagnostics.errors import NotSimulated
from .lanes import TupleLoop
from .memory import View, load, store
from .python_functions import widen
from .records import Records

__all__ = ['ItemLoop', 'apply_to_arrays', 'enumerate_items', 'zip_items']

_ARRAYS = View, Records


class _LazyZip(NamedTuple):
    "The result of `zip` of arrays, whose elements are loaded when the loop reaches them"

    iterables: tuple


class _LazyEnumerate(NamedTuple):
    "The result of `enumerate` of an array, or of the result of `zip`"

    iterable: object
    start: int


def _is_iterable(value):
    return isinstance(value, (tuple, list, range, *_ARRAYS))


def _length(items):
    "Return the number of items; raises `NotSimulated` if it differs between threads"
    if isinstance(items, _LazyZip):
        return min(map(_length, items.iterables), default=0)
    if isinstance(items, _LazyEnumerate):
        return _length(items.iterable)
    if isinstance(items, _ARRAYS) and np.ndim(items.shape[0]):
        problem = 'a loop cannot iterate over an array whose length differs between threads; loop over range(len(...))'
        raise NotSimulated(problem)
    if not _is_iterable(items):
        raise NotSimulated(f'a loop cannot iterate over a {type(items).__name__}; loop over range(...)')
    return len(items)


def _item(items, i, load_element):
    "Return item `i`; `load_element(array, index)` loads the element of an array"
    if isinstance(items, _LazyZip):
        return tuple(_item(iterable, i, load_element) for iterable in items.iterables)
    if isinstance(items, _LazyEnumerate):
        return np.int64(items.start + i), _item(items.iterable, i, load_element)
    return load_element(items, np.int64(i)) if isinstance(items, _ARRAYS) else items[i]


class ItemLoop(TupleLoop):
    "A `for` loop over a tuple, an array, or the result of `zip` or `enumerate`"

    def __init__(self, active, diverged, items, ctx, site):
        is_tuple = isinstance(items, (tuple, list, range)) and not isinstance(items, (_LazyZip, _LazyEnumerate))
        super().__init__(active, diverged, items if is_tuple else range(_length(items)))
        self.load_item = None if is_tuple else partial(self._load, ctx, items, site)

    def _load(self, ctx, items, site, i):
        return _item(items, i, lambda array, index: load(ctx, self.mask, array, index, site))

    def __iter__(self):
        items = super().__iter__()
        return items if self.load_item is None else map(self.load_item, items)


def _check_items(items):
    "Return `items`; raises `NotSimulated` if the simulator cannot loop over them"
    _length(items)
    return items


def zip_items(*iterables):
    "Implement `zip`: return a tuple of tuples, or `_LazyZip` if an argument is an array"
    iterables = tuple(map(_check_items, iterables))
    is_lazy = any(isinstance(iterable, (_LazyZip, _LazyEnumerate, *_ARRAYS)) for iterable in iterables)
    return _LazyZip(iterables) if is_lazy else tuple(zip(*iterables))


def enumerate_items(items, start=0):
    "Implement `enumerate`: return a tuple of pairs, or `_LazyEnumerate` if `items` contains an array"
    if isinstance(_check_items(items), (_LazyZip, _LazyEnumerate, *_ARRAYS)):
        return _LazyEnumerate(items, int(start))
    return tuple((np.int64(start + i), item) for i, item in enumerate(items))


def _element_index(view, index):
    "Return the index into an array that NumPy's broadcasting uses for element `index` of the result"
    return tuple(np.int64(0 if size == 1 else i) for i, size in zip(index[-view.ndim :], view.shape))


def apply_to_arrays(ctx, active, ufunc, args, site):
    "Apply a ufunc to arrays, element by element, in each thread; the last argument is the output array"
    *inputs, target = args
    if len(inputs) != ufunc.nin or not isinstance(target, View) or any(np.ndim(size) for size in target.shape):
        raise ctx.unsupported_error(
            site, active, f'np.{ufunc.__name__} of arrays requires an output array', 'Loop over the elements.'
        )
    for index in np.ndindex(*map(int, target.shape)):
        values = [load(ctx, active, x, _element_index(x, index), site) if isinstance(x, View) else x for x in inputs]
        store(ctx, active, target, tuple(map(np.int64, index)), ufunc(*map(widen, values)), site)
