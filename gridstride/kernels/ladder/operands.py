"""Raise the error for operands that a kernel does not support.

The hot path only checks whether all requirements are met. If they are not, this module finds out which one is violated.
"""

from ...utils import backend


def _device_name(x):
    return str(x.device)


def _check_matrix(label, x, dtype, shape=None):
    "Raise `TypeError` or `ValueError` unless `x` is a matrix of this type and shape; `label` is its name in messages"
    if not hasattr(x, 'data_ptr'):
        raise TypeError(f'{label} is a {type(x).__name__}; expected a torch tensor: torch.tensor(...) makes one')
    if x.ndim != 2:
        raise ValueError(f'{label} has the shape {tuple(x.shape)}, and a matrix has rows and columns')
    if shape and tuple(x.shape) != shape:
        raise ValueError(f'{label} is {x.shape[0]}x{x.shape[1]}, and the product is {shape[0]}x{shape[1]}')
    if x.dtype != dtype:
        raise TypeError(f"{label} is {str(x.dtype)[6:]}; expected {str(dtype)[6:]}: convert it with .to({dtype})")


def _check_memory(label, x):
    "Raise `ValueError` unless `x` is row-major and contiguous, at an address that is a multiple of 16 bytes"
    if not x.is_contiguous():
        raise ValueError(
            f'{label} is not contiguous (its strides are {x.stride()}), and the kernel needs row-major memory; '
            'use .contiguous()'
        )
    if x.device.type != 'meta' and x.data_ptr() % 16:
        raise ValueError(
            f'{label} begins at an address that is not a multiple of 16, as a slice may, and the kernel loads 16 bytes '
            'at a time; use .clone()'
        )


def sizes(m, n, layout='nn') -> tuple:  # (h, k), (k, w)
    "Return the sizes of both operands; 'tn': `m` is passed as k x h, 'nt': `n` as w x k"
    return m.shape if layout[0] == 'n' else m.shape[::-1], n.shape if layout[1] == 'n' else n.shape[::-1]


def _shape_of_product(name, m, n, layout):
    "Return (rows, columns) of the product; raise `ValueError` for shapes that do not match"
    (h, k), (k2, w) = sizes(m, n, layout)
    if k == k2:
        return h, w
    if layout != 'nn':
        transposed = 'm' if layout == 'tn' else 'n'
        raise ValueError(
            f'{name} takes {transposed} transposed, so m stands for {h}x{k} and n for {k2}x{w}, '
            'and these cannot be multiplied'
        )
    fit = '; n.T.contiguous() would fit' if k == w else '; m.T.contiguous() would fit' if h == k2 else ''
    raise ValueError(f'{name}: m is {h}x{k} and n is {k2}x{w}, and m must have as many columns as n has rows{fit}')


def _check_devices(name, m, n, out):
    "Raise `ValueError` unless all are on the device where kernels run, and `out` shares no memory with an input"
    where = 'cuda' if backend() == 'gpu' else 'cpu'
    if m.device.type != where:
        raise ValueError(
            f'{name}: m is on {_device_name(m)}, and kernels run on {where} here; move m and n with .to({where!r})'
        )
    for operand, x in (('n', n), ('out', out)):
        if x is not None and _device_name(x) != _device_name(m):
            raise ValueError(
                f'{name}: {operand} is on {_device_name(x)} and m on {_device_name(m)}; '
                f'move it with .to({_device_name(m)!r})'
            )
    if out is not None and out.numel() and out.data_ptr() in (m.data_ptr(), n.data_ptr()):
        raise ValueError(
            f'{name}: out shares memory with an input, which would be overwritten while it is read; '
            'pass a separate tensor'
        )


def raise_invalid_operands(
    name,  # of the kernel
    m,
    n,
    out,  # None: the kernel allocates it
    dtype,  # the dtype that all of them must have
    layout='nn',  # 'tn': `m` is passed as its transpose, 'nt': `n` is
):
    "Raise `TypeError` or `ValueError` for the first requirement that `m`, `n` or `out` does not meet"
    for operand, x in (('m', m), ('n', n)):
        _check_matrix(f'{name}: {operand}', x, dtype)
    product = _shape_of_product(name, m, n, layout)
    if out is not None:
        _check_matrix(f'{name}: out', out, dtype, product)
    for operand, x in (('m', m), ('n', n), ('out', out)):
        if x is not None:
            _check_memory(f'{name}: {operand}', x)
    _check_devices(name, m, n, out)
