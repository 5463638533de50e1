"""CUDA's built-in vector types, as Numba has them: `cuda.float32x4`, also called `cuda.float4`.

A kernel makes a vector from numbers or shorter vectors, and reads its x, y, z and w. Numba compiles nothing else: no
index of a vector, no arithmetic, and no arrays of vectors."""

import numpy as np

from ..diagnostics.errors import NotCompiled, NotSimulated
from .arithmetic import cast, kind_of
from .lanes import merge

__all__ = ['VectorType', 'vector_types']

_COMPONENTS = 'xyzw'
_BASES = 'int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64'.split()
_C_NAMES = dict(
    char='int8', short='int16', int='int32', long='int64', longlong='int64', uchar='uint8', ushort='uint16',
    uint='uint32', ulong='uint64', ulonglong='uint64', float='float32', double='float64',
)  # fmt: skip


class Vector:
    "A value of a vector type: per component, an array with one element per lane"

    def __init__(self, vector_type, components):
        self.type, self.components = vector_type, tuple(components)

    def __getattr__(self, k):
        if k in self.type.attr_names:
            return self.components[self.type.attr_names.index(k)]
        raise AttributeError(f'{self.type} has no {k}; it has {", ".join(self.type.attr_names)}')

    def merge(self, mask, old_vector):
        "Return this vector in the lanes of `mask` and `old_vector` in the others"
        if getattr(old_vector, 'type', None) is not self.type:
            old_type = getattr(old_vector, 'type', 'of another type')
            raise NotSimulated(
                f'a variable cannot be {self.type} in some threads and {old_type} in others', _ONE_TYPE_HINT
            )
        pairs = zip(self.components, old_vector.components)
        return Vector(self.type, (merge(mask, new, old) for new, old in pairs))

    def load(self, ctx, active, index, site):
        "Raise `NotCompiled`, because Numba does not support indices of vectors"
        raise ctx.unsupported_error(
            site, active, f'{self.type} cannot be indexed', f'Read {_attribute_names(self.type)}.', NotCompiled
        )

    def store(self, ctx, active, index, value, site):
        "Raise `NotCompiled`, because Numba does not support indices of vectors"
        self.load(ctx, active, index, site)

    def _raise_not_compiled(self, *operands):
        hint = f'Compute with {_attribute_names(self.type)}, and make a new vector: cuda.{self.type}(...).'
        raise NotCompiled(f'Numba defines no operators for {self.type}', hint)

    __array_ufunc__ = None  # NumPy leaves operators to this class
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _raise_not_compiled
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __pos__ = _raise_not_compiled
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __len__ = __iter__ = _raise_not_compiled
    __hash__ = None

    def __repr__(self):
        return str(self.type)


_ONE_TYPE_HINT = 'Make vectors of the same type in both branches.'


def _attribute_names(vector_type):
    return ', '.join(f'.{k}' for k in vector_type.attr_names)


class VectorType:
    "The type of vectors with `num_elements` components of type `base_type`"

    def __init__(self, base, num_elements):
        self.name = self.__name__ = f'{base}x{num_elements}'
        self.base_type, self.num_elements = np.dtype(base).type, num_elements
        self.attr_names = tuple(_COMPONENTS[:num_elements])

    user_facing_object = property(lambda self: self)

    def __repr__(self):
        return self.name

    def __call__(self, *args):
        raise RuntimeError(f'cuda.{self} can be used only in a kernel')

    def lane_function(self, ctx, active, site, *args):
        "Make a vector from components, and from shorter vectors of the same type"
        components = [component for a in args for component in self._components_of(ctx, active, site, a)]
        if len(components) != self.num_elements:
            problem = f'cuda.{self} takes {self.num_elements} numbers; got {len(components)}'
            raise ctx.unsupported_error(site, active, problem, '', NotCompiled)
        return Vector(self, components)

    def _components_of(self, ctx, active, site, a):
        "Return the components that the argument `a` contributes"
        if isinstance(a, Vector) and a.type.base_type is self.base_type:
            return a.components
        if isinstance(a, (np.ndarray, np.generic, int, float)) and kind_of(a) in 'biuf':
            return [cast(self.base_type, a)]
        hint = 'Pass scalars, or vectors of the same element type.'
        argument = a.type if isinstance(a, Vector) else 'a value that is not a real number'
        raise ctx.unsupported_error(site, active, f'cuda.{self} does not take {argument}', hint, NotCompiled)


vector_types = {f'{base}x{n}': VectorType(base, n) for base in _BASES for n in (1, 2, 3, 4)}
NAMES = vector_types | {f'{k}{n}': vector_types[f'{base}x{n}'] for k, base in _C_NAMES.items() for n in (1, 2, 3, 4)}
