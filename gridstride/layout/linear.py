"""Triton's linear layouts: functions of the bits of an index that are linear over GF(2), where addition is xor.

Every size is a power of two. A layout maps each single bit of its inputs to a position; the positions of several set
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


class Linear:
    "A linear layout: a function of named indices to named coordinates, linear in their bits"

    def __init__(
        self,
        bases,  # input name -> the positions of its bits 1, 2, 4, ..., each a tuple of integers
        out,  # output name -> its size, a power of two
    ):
        self.out = {k: int(n) for k, n in out.items()}
        for name, n in self.out.items():
            _num_bits(n, f'the size of {name!r}')
        self.bases = {
            k: [tuple(map(int, image)) if isinstance(image, (tuple, list)) else (int(image),) for image in v]
            for k, v in bases.items()
        }
        for name, positions in self.bases.items():
            for bit, position in enumerate(positions):
                if len(position) != len(self.out) or any(not 0 <= i < n for i, n in zip(position, self.out.values())):
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
    def of(cls, f, sizes, out):
        """Make the layout that computes `f(*indices)`; `sizes` and `out` map names of inputs and outputs to sizes.

        >>> Linear.of(lambda i: i ^ i >> 1, {'i': 4}, {'o': 4})(i=2)
        {'o': 3}

        Raises `ValueError` if `f` is not linear."""

        def position(*indices):
            result = f(*indices)
            return tuple(map(int, result)) if isinstance(result, (tuple, list)) else (int(result),)

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
            index = dict(zip(names, indices))
            if position(*indices) != (from_bits := tuple(int(v) for v in layout(**index).values())):
                raise ValueError(
                    f'f is not linear: it maps {index} to {position(*indices)}, but the xor of its bits is {from_bits}'
                )
        return layout

    # Properties

    @property
    def sizes(self) -> dict:
        "The size of each input by name"
        return {k: 1 << len(v) for k, v in self.bases.items()}

    def __eq__(self, other):
        return isinstance(other, Linear) and (self.bases, self.out) == (other.bases, other.out)

    __hash__ = None

    def __repr__(self):
        lines = [
            f'{name} = {1 << i} -> {position}'
            for name, positions in self.bases.items()
            for i, position in enumerate(positions)
        ]
        return '\n'.join([*lines, f"where out dims are: {', '.join(f'{k} ({n})' for k, n in self.out.items())}"])

    @property
    def matrix(self) -> np.ndarray:
        "The matrix over GF(2): one column per input bit, one row per output bit, the lowest bit first"
        positions = [position for basis in self.bases.values() for position in basis]
        bits_per_output = [_num_bits(n, 'a size') for n in self.out.values()]
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
                for k, value in zip(coordinates, position):
                    coordinates[k] = coordinates[k] ^ is_set * value
        return {k: int(v) if np.ndim(v) == 0 else v for k, v in coordinates.items()}

    # Algebra

    def __mul__(self, other):
        "Return the product: per input and output, the bits of `other` are above those of `self`"
        out = {k: self.out.get(k, 1) * other.out.get(k, 1) for k in [*self.out, *other.out]}
        bases = {}
        for layout, scale in (self, dict.fromkeys(out, 1)), (other, {k: self.out.get(k, 1) for k in out}):
            for name, positions in layout.bases.items():
                coordinates = [dict(zip(layout.out, position)) for position in positions]
                bases.setdefault(name, []).extend(tuple(c.get(k, 0) * scale[k] for k in out) for c in coordinates)
        return Linear(bases, out)

    def compose(self, other):
        "Return the composition `other(self(...))`; the outputs of `self` must be the inputs of `other`"
        if set(self.out) != set(other.bases) or any(self.out[k] > other.sizes[k] for k in self.out):
            raise ValueError(f'the outputs {self.out} do not match the inputs {other.sizes}')
        return Linear(
            {k: [tuple(other(**dict(zip(self.out, p))).values()) for p in v] for k, v in self.bases.items()}, other.out
        )

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
        for name, n in self.out.items():
            bases[name] = []
            for _ in range(_num_bits(n, 'a size')):
                bases[name].append(_bits_to_integers(inverse[:, column], self.sizes))
                column += 1
        return Linear(bases, self.sizes)


def _row_reduce(m):
    "Return (the matrix in reduced row echelon form over GF(2), its rank)"
    m = m.copy()
    row = 0
    for column in range(m.shape[1]):
        pivots = row + np.flatnonzero(m[row:, column])
        if not len(pivots):
            continue
        m[[row, pivots[0]]] = m[[pivots[0], row]]
        rows_with_bit = np.flatnonzero(m[:, column])
        m[rows_with_bit[rows_with_bit != row]] ^= m[row]
        row += 1
        if row == len(m):
            break
    return m, row


def _bits_to_integers(bits, sizes):
    "Convert a column of the matrix to one integer per name"
    integers = []
    first_bit = 0
    for size in sizes.values():
        num_bits = _num_bits(size, 'a size')
        integers.append(sum(int(bit) << i for i, bit in enumerate(bits[first_bit : first_bit + num_bits])))
        first_bit += num_bits
    return tuple(integers)
