"""Errors for operands that a kernel cannot multiply.

The hot path only checks whether all requirements are met. Which one is not is found here, afterwards, off the hot path.
"""

from ...utils import backend


def _at(x):
    return str(x.device)


def _one(what, x, dtype, shape=None):
    "Raise if `x` is not a matrix that a kernel could read or write; `what` is its name"
    if not hasattr(x, 'data_ptr'):
        raise TypeError(f'{what} is a {type(x).__name__}, and a torch tensor is needed; torch.tensor(...) makes one')
    if x.ndim != 2:
        raise ValueError(f'{what} has the shape {tuple(x.shape)}, and a matrix has rows and columns')
    if shape and tuple(x.shape) != shape:
        raise ValueError(f'{what} is {x.shape[0]}x{x.shape[1]}, and the product is {shape[0]}x{shape[1]}')
    if x.dtype != dtype:
        raise TypeError(f"{what} is {str(x.dtype)[6:]}, and {str(dtype)[6:]} is needed; convert it with .to({dtype})")


def _check_memory(what, x):
    "Raise unless `x` is row-major and contiguous, at an address that is a multiple of 16 bytes"
    if not x.is_contiguous():
        raise ValueError(
            f'{what} is not contiguous (its strides are {x.stride()}), and the kernel needs row-major memory; '
            'use .contiguous()'
        )
    if x.device.type != 'meta' and x.data_ptr() % 16:
        raise ValueError(
            f'{what} begins at an address that is not a multiple of 16, as a slice may, and the kernel loads 16 bytes '
            'at a time; use .clone()'
        )


def sizes(m, n, layout='nn') -> tuple:  # (h, k), (k, w), as the shapes have them
    "The sizes of both operands; 'tn': `m` is given as k x h, 'nt': `n` as w x k"
    return m.shape if layout[0] == 'n' else m.shape[::-1], n.shape if layout[1] == 'n' else n.shape[::-1]


def _shape_of_product(name, m, n, layout):
    "(rows, columns) of the product; raise for shapes that have none"
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
    "Raise unless all are on one device where kernels run, and `out` shares no memory with an input"
    where = 'cuda' if backend() == 'gpu' else 'cpu'
    if m.device.type != where:
        raise ValueError(f'{name}: m is on {_at(m)}, and kernels run on {where} here; move m and n with .to({where!r})')
    for o, x in (('n', n), ('out', out)):
        if x is not None and _at(x) != _at(m):
            raise ValueError(f'{name}: {o} is on {_at(x)} and m on {_at(m)}; move it with .to({_at(m)!r})')
    if out is not None and out.numel() and out.data_ptr() in (m.data_ptr(), n.data_ptr()):
        raise ValueError(
            f'{name}: out shares memory with an input, which would be overwritten while it is read; '
            'give it memory of its own'
        )


def raise_invalid_operands(
    name,  # of the kernel
    m,
    n,
    out,  # None: it makes a tensor itself
    dtype,  # that all of them need
    layout='nn',  # 'tn': `m` is given as its transpose, 'nt': `n` is
):
    "Raise `TypeError` or `ValueError` for the requirement of a kernel that `m`, `n` or `out` does not meet"
    for o, x in (('m', m), ('n', n)):
        _one(f'{name}: {o}', x, dtype)
    product = _shape_of_product(name, m, n, layout)
    if out is not None:
        _one(f'{name}: out', out, dtype, product)
    for o, x in (('m', m), ('n', n), ('out', out)):
        if x is not None:
            _check_memory(f'{name}: {o}', x)
    _check_devices(name, m, n, out)
