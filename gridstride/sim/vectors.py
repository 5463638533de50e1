"""CUDA's built-in vector types, as Numba has them: `cuda.float32x4`, also called `cuda.float4`.

A kernel makes a vector from numbers or shorter vectors, and reads its x, y, z and w. Numba compiles nothing else: no
index into a vector, no arithmetic, and no arrays of vectors."""

import numpy as np

from ..diagnostics.errors import NotCompiled, NotSimulated
from .arithmetic import cast, kind_of
from .lanes import merge

__all__ = ['VectorType', 'vector_types']

_ATTRIBUTES = 'xyzw'
_BASES = 'int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64'.split()
_C_NAMES = dict(
    char='int8', short='int16', int='int32', long='int64', longlong='int64', uchar='uint8', ushort='uint16',
    uint='uint32', ulong='uint64', ulonglong='uint64', float='float32', double='float64',
)  # fmt: skip


class Vector:
    "A value of a vector type, with one array of all lanes per component"

    def __init__(self, kind, parts):
        self.kind, self.parts = kind, tuple(parts)

    def __getattr__(self, k):
        if k in self.kind.attr_names:
            return self.parts[self.kind.attr_names.index(k)]
        raise AttributeError(f'{self.kind} has no {k}; it has {", ".join(self.kind.attr_names)}')

    def merge(self, mask, old):
        "Return this vector for the lanes of `mask` and `old` for the others"
        if getattr(old, 'kind', None) is not self.kind:
            kind = getattr(old, 'kind', 'of another type')
            raise NotSimulated(f'a variable that is {self.kind} in some threads and {kind} in others', _ONE_TYPE)
        return Vector(self.kind, (merge(mask, new, old_part) for new, old_part in zip(self.parts, old.parts)))

    def load(self, ctx, active, index, site):
        "Refuse to load an element by index, which Numba does not compile"
        raise ctx.unsupported(site, active, f'an index of {self.kind}', f'Read {_attributes(self.kind)}.', NotCompiled)

    def store(self, ctx, active, index, value, site):
        "Refuse to store an element by index"
        self.load(ctx, active, index, site)

    def _refuse_operation(self, *other):
        hint = f'Compute with {_attributes(self.kind)}, and make a new one: cuda.{self.kind}(...).'
        raise NotCompiled(f'an operation on {self.kind}, which Numba does not define', hint)

    __array_ufunc__ = None  # NumPy leaves operators to this class
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse_operation
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = _refuse_operation
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __iter__ = _refuse_operation
    __hash__ = None

    def __repr__(self):
        return str(self.kind)


_ONE_TYPE = 'Make vectors of one type in both branches.'


def _attributes(kind):
    return ', '.join(f'.{k}' for k in kind.attr_names)


class VectorType:
    "The type of vectors of `num_elements` components"

    def __init__(self, base, count):
        self.name, self.__name__ = f'{base}x{count}', f'{base}x{count}'
        self.base_type, self.num_elements, self.attr_names = np.dtype(base).type, count, tuple(_ATTRIBUTES[:count])

    user_facing_object = property(lambda self: self)

    def __repr__(self):
        return self.name

    def __call__(self, *args):
        raise RuntimeError(f'cuda.{self} can be used only in a kernel')

    def lane_function(self, ctx, active, site, *args):
        "Make a vector from components, and from shorter vectors of the same type"
        parts = [part for a in args for part in self._parts(ctx, active, site, a)]
        if len(parts) != self.num_elements:
            what = f'cuda.{self} of {len(parts)} numbers'
            raise ctx.unsupported(site, active, what, f'Pass {self.num_elements}.', NotCompiled)
        return Vector(self, parts)

    def _parts(self, ctx, active, site, a):
        if isinstance(a, Vector) and a.kind.base_type is self.base_type:
            return a.parts
        if isinstance(a, (np.ndarray, np.generic, int, float)) and kind_of(a) in 'biuf':
            return [cast(self.base_type, a)]
        hint = 'It takes numbers, and vectors of the same element type: pass components.'
        what = a.kind if isinstance(a, Vector) else 'a value that is not a real number'
        raise ctx.unsupported(site, active, f'cuda.{self} of {what}', hint, NotCompiled)


vector_types = {f'{base}x{n}': VectorType(base, n) for base in _BASES for n in (1, 2, 3, 4)}
NAMES = vector_types | {f'{k}{n}': vector_types[f'{base}x{n}'] for k, base in _C_NAMES.items() for n in (1, 2, 3, 4)}
