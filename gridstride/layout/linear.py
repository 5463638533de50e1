"""Triton's linear layouts: functions of the bits of an index that are linear over GF(2), where xor is the addition.

Every size is a power of two. A layout maps each single bit of its inputs to a position; the positions of several set
bits are combined by xor. `{'lane': [(0, 1), (0, 2), (1, 0)]}` maps lane 1 to column 1, lane 2 to column 2 and lane 4 to
row 1, so it maps lane 6 = 4 + 2 to row 1, column 2. Register tiles, swizzled shared memory and the fragments of tensor
cores are linear layouts, so one algebra (product, composition, inverse) applies to all of them.
"""

from math import prod

import numpy as np

__all__ = ['Linear']


def _bits(size, what):
    "Return log2 of a size. Raises ValueError unless it is a power of two"
    if size < 1 or size & (size - 1):
        raise ValueError(f'{what} is {size}; linear layouts need powers of two')
    return size.bit_length() - 1


class Linear:
    "A linear layout: a function of named indices to named coordinates, linear in their bits"

    def __init__(
        self,
        bases,  # input name -> the positions of its bits 1, 2, 4, ..., a tuple of integers each
        out,  # output name -> its size, a power of two
    ):
        self.out = {k: int(n) for k, n in out.items()}
        for name, n in self.out.items():
            _bits(n, f'the size of {name!r}')
        self.bases = {
            k: [tuple(map(int, image)) if isinstance(image, (tuple, list)) else (int(image),) for image in v]
            for k, v in bases.items()
        }
        for name, positions in self.bases.items():
            for bit, position in enumerate(positions):
                if len(position) != len(self.out) or any(not 0 <= i < n for i, n in zip(position, self.out.values())):
                    raise ValueError(
                        f'bit {1 << bit} of {name!r} goes to {position}, which is not a position in {self.out}'
                    )

    @classmethod
    def identity(cls, size, name, out):
        "Make the layout that maps index `name` below `size` to coordinate `out`, unchanged"
        return cls({name: [(1 << i,) for i in range(_bits(size, f'the size of {name!r}'))]}, {out: size})

    @classmethod
    def broadcast(cls, size, name, out):
        "Make the layout that maps every index `name` below `size` to 0 of coordinate `out`, which has size 1"
        return cls({name: [(0,)] * _bits(size, f'the size of {name!r}')}, {out: 1})

    @classmethod
    def of(cls, f, sizes, out):
        """Make the layout that computes `f(*indices)`; `sizes` and `out` have the sizes of inputs and outputs by name.

        >>> Linear.of(lambda i: i ^ i >> 1, {'i': 4}, {'o': 4})(i=2)
        {'o': 3}

        Raises ValueError if `f` is not linear."""

        def position(*i):
            res = f(*i)
            return tuple(map(int, res)) if isinstance(res, (tuple, list)) else (int(res),)

        names = list(sizes)
        bases = {
            name: [
                position(*(1 << b if other == name else 0 for other in names))
                for b in range(_bits(sizes[name], f'the size of {name!r}'))
            ]
            for name in names
        }
        res = cls(bases, out)
        for i in np.ndindex(*sizes.values()):
            if position(*i) != (got := tuple(int(v) for v in res(**dict(zip(names, i))).values())):
                raise ValueError(
                    f'this is not linear: {dict(zip(names, i))} goes to {position(*i)}, its bits alone to {got}'
                )
        return res

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
        positions = [p for v in self.bases.values() for p in v]
        widths = [_bits(n, 'a size') for n in self.out.values()]
        rows = [[index[i] >> b & 1 for index in positions] for i, w in enumerate(widths) for b in range(w)]
        return np.array(rows, np.uint8).reshape(sum(widths), len(positions))

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
            raise ValueError(
                f"this layout takes {', '.join(self.bases)}, but {', '.join(index) or 'nothing'} was given"
            )
        res = dict.fromkeys(self.out, 0)
        for name, positions in self.bases.items():
            for bit, position in enumerate(positions):
                on = np.asarray(index[name]) >> bit & 1
                for k, i in zip(res, position):
                    res[k] = res[k] ^ on * i
        return {k: int(v) if np.ndim(v) == 0 else v for k, v in res.items()}

    # Algebra

    def __mul__(self, other):
        "Return the product: the bits of `other` are above those of `self`, per name of an input or output"
        out = {k: self.out.get(k, 1) * other.out.get(k, 1) for k in [*self.out, *other.out]}
        bases = {}
        for layout, scale in (self, dict.fromkeys(out, 1)), (other, {k: self.out.get(k, 1) for k in out}):
            for name, positions in layout.bases.items():
                named = [dict(zip(layout.out, p)) for p in positions]
                bases.setdefault(name, []).extend(tuple(p.get(k, 0) * scale[k] for k in out) for p in named)
        return Linear(bases, out)

    def compose(self, other):
        "Return the composition `other(self(...))`: the outputs of `self` are the inputs of `other`, by name"
        if set(self.out) != set(other.bases) or any(self.out[k] > other.sizes[k] for k in self.out):
            raise ValueError(f'the outputs {self.out} do not match the inputs {other.sizes}')
        return Linear(
            {k: [tuple(other(**dict(zip(self.out, p))).values()) for p in v] for k, v in self.bases.items()}, other.out
        )

    def invert(self):
        "Return the inverse, from outputs to inputs. Raises ValueError unless the layout is a bijection"
        if not (self.is_injective and self.is_surjective):
            indices, positions = prod(self.sizes.values()), prod(self.out.values())
            raise ValueError(f'no inverse: {indices} indices reach {1 << self.rank} of {positions} positions')
        m = self.matrix
        inverse = _row_reduce(np.hstack([m, np.eye(len(m), dtype=np.uint8)]))[0][:, len(m) :]
        bases = {}
        column = 0
        for name, n in self.out.items():
            bases[name] = []
            for _ in range(_bits(n, 'a size')):
                bases[name].append(_bits_to_integers(inverse[:, column], self.sizes))
                column += 1
        return Linear(bases, self.sizes)


def _row_reduce(m):
    "Return (the matrix in reduced row echelon form over GF(2), its rank)"
    m = m.copy()
    row = 0
    for column in range(m.shape[1]):
        found = np.flatnonzero(m[row:, column])
        if not len(found):
            continue
        m[[row, row + found[0]]] = m[[row + found[0], row]]
        others = np.flatnonzero(m[:, column])
        m[others[others != row]] ^= m[row]
        row += 1
        if row == len(m):
            break
    return m, row


def _bits_to_integers(bits, sizes):
    "Convert a column of the matrix to one integer per name"
    res = []
    at = 0
    for n in sizes.values():
        width = _bits(n, 'a size')
        res.append(sum(int(b) << i for i, b in enumerate(bits[at : at + width])))
        at += width
    return tuple(res)
