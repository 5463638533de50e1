"""Format profiles: tables, rates with fitting units, and short names of kernels."""

import re

from ..support.tables import CellText, Percentage, Table

__all__ = ['CellText', 'Percentage', 'Table', 'format_si', 'short_name', 'truncate_middle']


_SCALES = (1e15, 1e12, 1e9, 1e6, 1e3, 1, 1e-3, 1e-6, 1e-9, 1e-12)
_PREFIXES = list(zip(_SCALES, ('P', 'T', 'G', 'M', 'k', '', 'm', 'µ', 'n', 'p')))


def format_si(
    value,  # a number
    unit,  # 's', 'B/s', 'FLOP/s', ...
    digits=3,  # significant digits
) -> str:
    """Format `value` with the SI prefix that leaves one to three digits before the decimal point.

    >>> format_si(3.12e-5, 's')
    '31.2 µs'"""
    value = float(f'{value:.{digits}g}')
    if not value:
        return f'0 {unit}'
    scale, prefix = next(
        ((scale, prefix) for scale, prefix in _PREFIXES if round(abs(value) / scale, 9) >= 1), _PREFIXES[-1]
    )
    scaled = float(f'{value / scale:.{digits}g}')
    integer_digits = len(str(int(abs(scaled))))
    return f'{scaled:.{max(0, digits - integer_digits)}f} {prefix}{unit}'


# The full name of a C++ kernel contains the types of its arguments; `short_name` keeps only the name of the function.
# If the function is a wrapper such as `Kernel2<cutlass_80_...>`, it keeps the first template argument. Proton reports
# mangled names, in which each identifier follows its length.
_WRAPPERS = {'Kernel', 'Kernel2', 'device_kernel'}


def _identifiers_of(mangled_name):
    "Return the identifiers in a mangled name such as `_ZN2at6native4copyE`"
    identifiers = []
    suffix = re.sub(r'^_ZN?K?', '', mangled_name)
    while match := re.match(r'(\d+)', suffix):
        end = match.end() + int(match[0])
        identifiers.append(suffix[match.end() : end])
        suffix = suffix[end:]
    return [identifier for identifier in identifiers if identifier and not identifier.startswith('_GLOBAL__N_')]


def short_name(name: str) -> str:  # name: from a profiler
    """Return a kernel's name without types, arguments and namespaces.

    >>> short_name('void at::native::copy<float>(int, float*)')
    'copy'"""
    if name.startswith('_Z'):
        return (_identifiers_of(name) or [name])[-1]
    text = re.sub(r'\(anonymous namespace\)::|<unnamed>::|^void |^__main__::', '', name)
    if text.startswith(('Memcpy', 'Memset')):
        return text
    qualified_name, _, template_arguments = text.partition('<')
    qualified_name = re.split(r'[\[(]', qualified_name)[0]
    identifier = qualified_name.split('::')[-1].strip()
    if identifier in _WRAPPERS and template_arguments:
        return re.split(r'[<>,(]', template_arguments)[0].split('::')[-1]
    return identifier or name


# Short names of matrix products are still long: tables omit their middle.
def truncate_middle(name, max_length=56):
    "Return `name`, without its middle if it is too long"
    end = max_length // 3
    return name if len(name) <= max_length else f'{name[: max_length - end - 1]}…{name[-end:]}'
