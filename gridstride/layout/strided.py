"""CuTe's layouts: a shape and a stride per mode, and the algebra on them.

A layout is a function from coordinates to an offset: `Layout((4, 8), (1, 4))` puts (i, j) at `i + 4*j`. Shapes nest:
`Layout(((2, 2), 8), ((1, 16), 2))` has two modes, of which the first one has two modes itself. A coordinate may also be
a single integer: the index in the sequence of all coordinates, in which the leftmost mode varies fastest. All sizes and
offsets are in elements. `Layout` parses the notation `shape:stride`: `Layout('((2,2),8):((1,16),2)')`.

The algebra is that of CuTe in NVIDIA's CUTLASS: `compose`, `coalesce`, `complement`, `divide` and `product` return
layouts. If the result is not a layout, they raise an error with the sizes that do not divide each other.
"""

import ast
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

__all__ = ['Layout', 'Swizzle', 'Swizzled']


def _is_tree(tree, minimum):
    "Return whether `tree` is an integer of at least `minimum`, or a tuple of such trees"
    if isinstance(tree, tuple):
        return bool(tree) and all(_is_tree(child, minimum) for child in tree)
    return isinstance(tree, int) and not isinstance(tree, bool) and tree >= minimum


def _to_tree(value):
    "Convert lists to tuples, and NumPy's integers to Python's"
    if isinstance(value, (tuple, list)):
        return tuple(map(_to_tree, value))
    return int(value) if isinstance(value, np.integer) else value


def _leaves(tree):
    "Return the integers of a tree, from left to right"
    return [leaf for child in tree for leaf in _leaves(child)] if isinstance(tree, tuple) else [tree]


def _replace_leaves(tree, leaves):
    "Return `tree` with its leaves replaced by those of the iterator `leaves`"
    return tuple(_replace_leaves(child, leaves) for child in tree) if isinstance(tree, tuple) else next(leaves)


def _is_congruent(a, b):
    "Return whether two trees have the same structure"
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_is_congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def _format(tree):
    "Format a tree in CuTe's notation"
    return f'({",".join(map(_format, tree))})' if isinstance(tree, tuple) else str(tree)


def _parse(text):
    "Parse 'shape:stride' to (shape, stride); the stride is None if there is only a shape"
    shape, colon, stride = text.partition(':')
    try:
        return ast.literal_eval(shape.strip()), ast.literal_eval(stride.strip()) if colon else None
    except (ValueError, SyntaxError):
        raise ValueError(f"{text!r} is not a layout: write shape:stride, as in '(4,8):(8,1)'") from None


@dataclass(frozen=True, init=False, repr=False)
class Layout:
    "A layout in CuTe's notation, `shape:stride`: a function from coordinates to offsets, both counted in elements"

    shape: tuple
    stride: tuple

    def __init__(
        self,
        shape,  # sizes: an integer, a tuple that may nest, or the whole layout as a string
        stride=None,  # a tree with the structure of `shape`; by default, the leftmost mode is contiguous
    ):
        if isinstance(shape, str):
            if stride is not None:
                raise TypeError('pass a layout as a string, or shape and stride, not both')
            shape, stride = _parse(shape)
        shape, stride = _to_tree(shape), _to_tree(stride)
        if not _is_tree(shape, 1):
            raise ValueError(f'a shape must be a positive integer or a tuple of shapes; got {shape!r}')
        if stride is None:
            stride = _replace_leaves(shape, accumulate([1, *_leaves(shape)], mul))
        if not _is_tree(stride, 0):
            raise ValueError(f'a stride must be a non-negative integer or a tuple of strides; got {stride!r}')
        if not _is_congruent(shape, stride):
            raise ValueError(
                f'{_format(shape)}:{_format(stride)}: each size needs a stride, so both must be nested in the same way'
            )
        object.__setattr__(self, 'shape', shape)
        object.__setattr__(self, 'stride', stride)

    @classmethod
    def row_major(cls, *shape):
        """Make a layout with a contiguous rightmost mode, as in C and NumPy.

        >>> Layout.row_major(4, 8)
        Layout('(4,8):(8,1)')"""
        sizes = _leaves(_to_tree(shape))
        strides = list(accumulate([1, *reversed(sizes)], mul))[: len(sizes)][::-1]
        return cls(shape, _replace_leaves(_to_tree(shape), iter(strides)))

    @classmethod
    def of(cls, *modes):
        "Make a layout that has these layouts as modes"
        return cls(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))

    # Properties

    def __str__(self):
        return f'{_format(self.shape)}:{_format(self.stride)}'

    def __repr__(self):
        return f"Layout('{self}')"

    def __len__(self):
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    def __getitem__(self, i):
        "Return mode `i` as a layout"
        if not isinstance(self.shape, tuple):
            return (self,)[i]
        return Layout(self.shape[i], self.stride[i])

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    @property
    def flat(self) -> list:
        "(size, stride) of each leaf, the leftmost first"
        return list(zip(_leaves(self.shape), _leaves(self.stride)))

    @property
    def size(self) -> int:
        "The number of coordinates"
        return prod(_leaves(self.shape))

    @property
    def cosize(self) -> int:
        "The number of elements that the layout spans: one more than the largest offset"
        return 1 + sum((size - 1) * stride for size, stride in self.flat)

    # Evaluation

    def __call__(self, *coordinate) -> int:
        """Return the offset of a coordinate: one integer, or one integer or tuple per mode, or arrays.

        >>> Layout.row_major(4, 8)(1, 2)
        10"""
        if len(coordinate) == 1:
            (coordinate,) = coordinate
        return _offset(coordinate, self.shape, self.stride)

    def offsets(self) -> np.ndarray:
        "Return all offsets, one axis per mode: `layout.offsets()[i, j] == layout(i, j)`"
        sizes = [mode.size for mode in self]
        return self(*np.ogrid[tuple(map(slice, sizes))]) + np.zeros(sizes, np.int64)

    @property
    def is_injective(self) -> bool:
        "Whether different coordinates have different offsets"
        return len(np.unique(self.offsets())) == self.size

    # Algebra

    def coalesce(self):
        """Return a layout with as few modes as possible that is the same function of an integer index.

        >>> Layout((2, 4), (1, 2)).coalesce()
        Layout('8:1')"""
        modes = []
        for size, stride in self.flat:
            if size == 1:
                continue
            if modes and modes[-1][0] * modes[-1][1] == stride:
                modes[-1] = modes[-1][0] * size, modes[-1][1]
            else:
                modes.append((size, stride))
        return _from_flat(modes)

    def compose(self, other):
        "Return `self(other(i))` as a layout with the shape of `other`, a layout, a size, or one of these per mode"
        if isinstance(other, int):
            other = Layout(other)
        if isinstance(other, (tuple, list)):
            return self._apply_per_mode('compose', other)
        if not isinstance(other.shape, tuple):
            return _from_flat(_take_every(self, other.shape, other.stride))
        layout = Layout.of(*map(self.compose, other))
        indices = np.arange(other.size)
        if not np.array_equal(layout(indices), self(other(indices))):
            raise ValueError(
                f'{self} after {other} is not a layout: two modes of the second layout share a mode of the first'
            )
        return layout

    def complement(self, size):
        "Return a layout that, together with `self`, reaches each offset below `size` once"
        modes = []
        extent = 1  # of the modes so far
        for stride, mode_size in sorted((stride, size) for size, stride in self.flat if size > 1 and stride > 0):
            if stride % extent:
                raise ValueError(
                    f'{self} has no complement: stride {stride} is not a multiple of {extent}, the extent of the '
                    'modes with smaller strides'
                )
            modes.append((stride // extent, extent))
            extent = mode_size * stride
        modes.append((-(-size // extent), extent))
        return _from_flat(modes).coalesce()

    def divide(self, tile):
        "Return two modes, the position in a tile and the tile; `tile` is a layout or a size, or one of these per mode"
        if isinstance(tile, int):
            tile = Layout(tile)
        if isinstance(tile, (tuple, list)):
            return self._apply_per_mode('divide', tile)
        return self.compose(Layout.of(tile, tile.complement(self.size)))

    def tiles(self, tile):
        "Divide each mode, and return two modes: the position in a tile, and the tile"
        positions, tiles = zip(*self.divide(tuple(tile)))
        return Layout.of(Layout.of(*positions), Layout.of(*tiles))

    def product(self, tile):
        "Return two modes: `self`, and the copies of it that the layout `tile` arranges"
        if isinstance(tile, int):
            tile = Layout(tile)
        return Layout.of(self, self.complement(self.size * tile.cosize).compose(tile))

    def _apply_per_mode(self, method, arguments):
        "Apply the method with this name to each mode, with one argument per mode"
        if len(arguments) != len(self):
            raise ValueError(f'expected {len(self)} arguments, one per mode of {self}, got {len(arguments)}')
        return Layout.of(*(getattr(mode, method)(argument) for mode, argument in zip(self, arguments)))


def _offset(coordinate, shape, stride):
    "Return the offset of a coordinate"
    if not isinstance(shape, tuple):
        if isinstance(coordinate, (tuple, list)):
            raise ValueError(f'the coordinate of a mode of size {shape} must be an integer, not {coordinate!r}')
        return coordinate * stride
    if isinstance(coordinate, (tuple, list)):
        if len(coordinate) != len(shape):
            raise ValueError(f'expected {len(shape)} coordinates for {_format(shape)}, got {len(coordinate)}')
        return sum(map(_offset, coordinate, shape, stride))
    offset = 0
    for i, (mode_shape, mode_stride) in enumerate(zip(shape, stride)):
        mode_size = prod(_leaves(mode_shape))
        index = coordinate if i == len(shape) - 1 else coordinate % mode_size
        offset = offset + _offset(index, mode_shape, mode_stride)
        coordinate = coordinate // mode_size
    return offset


def _from_flat(modes):
    "Make a layout from [(size, stride)]; with a single mode, shape and stride are integers"
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(*map(tuple, zip(*modes))) if modes else Layout(1, 0)


def _take_every(layout, count, step):
    "Return [(size, stride)] of `count` elements of `layout`: 0, step, 2*step, ..."
    if step == 0 or count == 1:
        return [(count, 0)]
    selected_modes = []
    failure = f'{count} elements of {layout} with a step of {step} do not form a layout'
    *modes, (_, last_stride) = layout.coalesce().flat
    for size, stride in modes:
        if step % size == 0:
            step //= size
            continue
        if size % step:
            raise ValueError(f'{failure}: neither {step} nor {size} divides the other')
        num_selected = min(size // step, count)
        if count % num_selected:
            raise ValueError(f'{failure}: {count} is not a multiple of {num_selected}')
        selected_modes.append((num_selected, step * stride))
        count //= num_selected
        step = 1
        if count == 1:
            return selected_modes
    return [*selected_modes, (count, step * last_stride)]


@dataclass(frozen=True)
class Swizzle:
    "A swizzle: it xors `bits` bits of an offset, from bit `base + shift` on, into the bits from bit `base` on"

    bits: int  # the number of bits
    base: int  # the lowest bits that do not change: 2**base elements stay contiguous
    shift: int  # the distance between the two groups of bits, at least `bits`

    def __post_init__(self):
        if min(self.bits, self.base) < 0 or self.shift < self.bits:
            raise ValueError(f'{self}: bits and base must be at least 0, and shift at least bits')

    def __str__(self):
        return f'Swizzle<{self.bits},{self.base},{self.shift}>'

    def __call__(self, offset):
        """Return the swizzled offset; a swizzle is its own inverse.

        >>> Swizzle(3, 0, 3)(9)
        8"""
        mask = ((1 << self.bits) - 1) << (self.base + self.shift)
        return offset ^ ((offset & mask) >> self.shift)

    def compose(self, layout):
        "Return the layout with its offsets swizzled"
        return Swizzled(self, layout)


@dataclass(frozen=True)
class Swizzled:
    "A layout with a swizzle, or another function of offsets, applied to its offsets"

    swizzle: Swizzle
    layout: Layout

    def __str__(self):
        return f'{self.swizzle} o {self.layout}'

    @property
    def shape(self):
        "The sizes of the layout"
        return self.layout.shape

    @property
    def size(self) -> int:
        "The number of coordinates"
        return self.layout.size

    def __call__(self, *coordinate):
        "Return the swizzled offset of a coordinate"
        return self.swizzle(self.layout(*coordinate))

    def offsets(self) -> np.ndarray:
        "Return all offsets, one axis per mode"
        return self.swizzle(self.layout.offsets())
