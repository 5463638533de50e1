"""A replacement for ml_dtypes where it is not available: types with a size, for the tables of Triton's types.

NumPy cannot convert values to these types, or compute with them; a kernel that does raises TypeError."""

import numpy as np


def _without_arithmetic(name, bytes):
    "Make a type that NumPy can only copy"
    return np.dtype([(name, f'u{bytes}')])


bfloat16 = _without_arithmetic('bfloat16', 2)
float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz = (
    _without_arithmetic(f'float8_{name}', 1) for name in ('e4m3fn', 'e5m2', 'e4m3fnuz', 'e5m2fnuz')
)
