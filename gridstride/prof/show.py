"""Format profiles: tables, rates with fitting units, and short names of kernels."""

import re

from ..support.tables import CellText, Share, Table

__all__ = ['CellText', 'Share', 'Table', 'brief', 'short', 'si']


_SCALES = (1e15, 1e12, 1e9, 1e6, 1e3, 1, 1e-3, 1e-6, 1e-9, 1e-12)
_PREFIXES = list(zip(_SCALES, ('P', 'T', 'G', 'M', 'k', '', 'm', 'µ', 'n', 'p')))


def si(
    x,  # a number
    unit,  # 's', 'B/s', 'FLOP/s', ...
    digits=3,  # significant digits
) -> str:
    """Format `x` with the SI prefix that leaves one to three digits before the decimal point.

    >>> si(3.12e-5, 's')
    '31.2 µs'"""
    x = float(f'{x:.{digits}g}')
    if not x:
        return f'0 {unit}'
    scale, prefix = next(((s, p) for s, p in _PREFIXES if round(abs(x) / s, 9) >= 1), _PREFIXES[-1])
    v = float(f'{x / scale:.{digits}g}')
    integer_digits = len(str(int(abs(v))))
    return f'{v:.{max(0, digits - integer_digits)}f} {prefix}{unit}'


# The full name of a C++ kernel contains the types of its arguments; `short` keeps only the name of the function. If the
# function is a wrapper such as `Kernel2<cutlass_80_...>`, it keeps the first template argument. Proton reports mangled
# names, in which each part follows its length.
_WRAPPERS = {'Kernel', 'Kernel2', 'device_kernel'}


def _parts(mangled):
    "Return the parts of a mangled name such as `_ZN2at6native4copyE`"
    parts = []
    remaining = re.sub(r'^_ZN?K?', '', mangled)
    while m := re.match(r'(\d+)', remaining):
        end = m.end() + int(m[0])
        parts.append(remaining[m.end() : end])
        remaining = remaining[end:]
    return [p for p in parts if p and not p.startswith('_GLOBAL__N_')]


def short(name: str) -> str:  # name: from a profiler
    """Return a kernel's name without types, arguments and namespaces.

    >>> short('void at::native::copy<float>(int, float*)')
    'copy'"""
    if name.startswith('_Z'):
        return (_parts(name) or [name])[-1]
    text = re.sub(r'\(anonymous namespace\)::|<unnamed>::|^void |^__main__::', '', name)
    if text.startswith(('Memcpy', 'Memset')):
        return text
    head, _, inner = text.partition('<')
    head = re.split(r'[\[(]', head)[0]
    last = head.split('::')[-1].strip()
    if last in _WRAPPERS and inner:
        return re.split(r'[<>,(]', inner)[0].split('::')[-1]
    return last or name


# Short names of matrix products are still long: tables omit their middle.
def brief(name, max_length=56):
    "Return `name`, without its middle if it is too long"
    end = max_length // 3
    return name if len(name) <= max_length else f'{name[: max_length - end - 1]}…{name[-end:]}'
