"""Triton's linear layouts: functions of the bits of an index that are linear over GF(2), where addition is xor.

Every size is a power of two. A layout maps each bit of its inputs to a position; the positions of several set
bits are combined by xor. `{'lane': [(0, 1), (0, 2), (1, 0)]}` maps lane 1 to column 1, lane 2 to column 2 and lane 4 to
row 1, so it maps lane 6 = 4 + 2 to row 1, column 2. Register tiles, swizzled shared memory and the fragments of tensor
cores are linear layouts, so one algebra (product, composition, inverse) applies to all of them.
"""

from math import prod

import numpy as np

__all__ = ['Linear']


def _num_bits(size, description):
    "Return log2 of a size; raises `ValueError` unless it is a power of two"
    if size < 1 or size & (size - 1):
        raise ValueError(f'{description} must be a power of two, not {size}')
    return size.bit_length() - 1


def _to_position(value):
    "Convert an integer or a sequence of integers to a position, a tuple of Python's integers"
    return tuple(map(int, value)) if isinstance(value, (tuple, list)) else (int(value),)


class Linear:
    "A linear layout: a function of named indices to named coordinates, linear in their bits"

    def __init__(
        self,
        bases,  # input name -> the positions of its bits 1, 2, 4, ..., each a tuple of integers
        out,  # output name -> its size, a power of two
    ):
        self.out = {name: int(size) for name, size in out.items()}
        for name, size in self.out.items():
            _num_bits(size, f'the size of {name!r}')
        self.bases = {name: [_to_position(value) for value in positions] for name, positions in bases.items()}
        for name, positions in self.bases.items():
            for bit, position in enumerate(positions):
                if len(position) != len(self.out) or any(
                    not 0 <= coordinate < size for coordinate, size in zip(position, self.out.values())
                ):
                    raise ValueError(
                        f'bit {1 << bit} of {name!r} maps to {position}, which is not a position in {self.out}'
                    )

    @classmethod
    def identity(cls, size, name, out):
        "Make the layout that maps index `name` below `size` to coordinate `out`, unchanged"
        return cls({name: [(1 << i,) for i in range(_num_bits(size, f'the size of {name!r}'))]}, {out: size})

    @classmethod
    def broadcast(cls, size, name, out):
        "Make the layout that maps every index `name` below `size` to the only position of `out`, which has size 1"
        return cls({name: [(0,)] * _num_bits(size, f'the size of {name!r}')}, {out: 1})

    @classmethod
    def of(cls, function, sizes, out):
        """Make the layout that computes `function(*indices)`; `sizes` and `out`: names of inputs or outputs -> sizes.

        >>> Linear.of(lambda i: i ^ i >> 1, {'i': 4}, {'o': 4})(i=2)
        {'o': 3}

        Raises `ValueError` if `function` is not linear."""

        def position(*indices):
            return _to_position(function(*indices))

        names = list(sizes)
        bases = {
            name: [
                position(*(1 << bit if other == name else 0 for other in names))
                for bit in range(_num_bits(sizes[name], f'the size of {name!r}'))
            ]
            for name in names
        }
        layout = cls(bases, out)
        for indices in np.ndindex(*sizes.values()):
            index, actual = dict(zip(names, indices)), position(*indices)
            if actual != (from_bits := _to_position(tuple(layout(**index).values()))):
                raise ValueError(
                    f'the function is not linear: it maps {index} to {actual}, but linearity requires {from_bits}'
                )
        return layout

    # Properties

    @property
    def sizes(self) -> dict:
        "The size of each input by name"
        return {name: 1 << len(positions) for name, positions in self.bases.items()}

    def __eq__(self, other):
        return isinstance(other, Linear) and (self.bases, self.out) == (other.bases, other.out)

    __hash__ = None

    def __repr__(self):
        lines = [
            f'{name} = {1 << i} -> {position}'
            for name, positions in self.bases.items()
            for i, position in enumerate(positions)
        ]
        outputs = ', '.join(f'{name} ({size})' for name, size in self.out.items())
        return '\n'.join([*lines, f'where out dims are: {outputs}'])

    @property
    def matrix(self) -> np.ndarray:
        "The matrix over GF(2): one column per input bit, one row per output bit, the lowest bit first"
        positions = [position for basis in self.bases.values() for position in basis]
        bits_per_output = [_num_bits(size, 'a size') for size in self.out.values()]
        rows = [
            [position[i] >> bit & 1 for position in positions]
            for i, num_bits in enumerate(bits_per_output)
            for bit in range(num_bits)
        ]
        return np.array(rows, np.uint8).reshape(sum(bits_per_output), len(positions))

    @property
    def rank(self) -> int:
        "The rank of the matrix: the layout reaches 2**rank positions"
        return _row_reduce(self.matrix)[1]

    @property
    def is_injective(self) -> bool:
        "Whether different indices have different positions"
        return self.rank == self.matrix.shape[1]

    @property
    def is_surjective(self) -> bool:
        "Whether the layout reaches every position"
        return self.rank == self.matrix.shape[0]

    # Evaluation

    def __call__(self, **index) -> dict:
        "Return the coordinates by name; each index is an integer or an array of integers"
        if set(index) != set(self.bases):
            raise ValueError(f"expected the indices {', '.join(self.bases)}, got {', '.join(index) or 'none'}")
        coordinates = dict.fromkeys(self.out, 0)
        for name, positions in self.bases.items():
            for bit, position in enumerate(positions):
                is_set = np.asarray(index[name]) >> bit & 1
                for output, value in zip(coordinates, position):
                    coordinates[output] = coordinates[output] ^ is_set * value
        return {name: int(value) if np.ndim(value) == 0 else value for name, value in coordinates.items()}

    # Algebra

    def __mul__(self, other):
        "Return the product: per input and output, the bits of `other` are above those of `self`"
        out = {name: self.out.get(name, 1) * other.out.get(name, 1) for name in [*self.out, *other.out]}
        own_scales, other_scales = dict.fromkeys(out, 1), {name: self.out.get(name, 1) for name in out}
        bases = {}
        for layout, scales in (self, own_scales), (other, other_scales):
            for name, positions in layout.bases.items():
                coordinates = [dict(zip(layout.out, position)) for position in positions]
                bases.setdefault(name, []).extend(
                    tuple(coordinate.get(output, 0) * scales[output] for output in out) for coordinate in coordinates
                )
        return Linear(bases, out)

    def compose(self, other):
        "Return the composition `other(self(...))`; the outputs of `self` must be the inputs of `other`"
        if set(self.out) != set(other.bases) or any(self.out[name] > other.sizes[name] for name in self.out):
            raise ValueError(f'the outputs {self.out} do not match the inputs {other.sizes}')

        def map_position(position):
            return tuple(other(**dict(zip(self.out, position))).values())

        return Linear({name: list(map(map_position, positions)) for name, positions in self.bases.items()}, other.out)

    def invert(self):
        "Return the inverse, from outputs to inputs; raises `ValueError` unless the layout is a bijection"
        if not (self.is_injective and self.is_surjective):
            indices, positions = prod(self.sizes.values()), prod(self.out.values())
            raise ValueError(
                f'the layout has no inverse: {indices} indices reach {1 << self.rank} of {positions} positions'
            )
        matrix = self.matrix
        identity = np.eye(len(matrix), dtype=np.uint8)
        inverse = _row_reduce(np.hstack([matrix, identity]))[0][:, len(matrix) :]
        bases = {}
        column = 0
        for name, size in self.out.items():
            bases[name] = []
            for _ in range(_num_bits(size, 'a size')):
                bases[name].append(_bits_to_integers(inverse[:, column], self.sizes))
                column += 1
        return Linear(bases, self.sizes)


def _row_reduce(matrix):
    "Return (the matrix in reduced row echelon form over GF(2), its rank)"
    matrix = matrix.copy()
    row = 0
    for column in range(matrix.shape[1]):
        pivots = row + np.flatnonzero(matrix[row:, column])
        if not len(pivots):
            continue
        matrix[[row, pivots[0]]] = matrix[[pivots[0], row]]
        rows_with_bit = np.flatnonzero(matrix[:, column])
        matrix[rows_with_bit[rows_with_bit != row]] ^= matrix[row]
        row += 1
        if row == len(matrix):
            break
    return matrix, row


def _bits_to_integers(bits, sizes):
    "Convert a column of the matrix to one integer per name"
    integers = []
    first_bit = 0
    for size in sizes.values():
        num_bits = _num_bits(size, 'a size')
        integers.append(sum(int(bit) << i for i, bit in enumerate(bits[first_bit : first_bit + num_bits])))
        first_bit += num_bits
    return tuple(integers)
