"""Raise the error for operands that a kernel does not support.

The hot path only checks whether all requirements are met. If they are not, this module finds the first violated one.
"""

from ...utils import backend


def _check_matrix(label, tensor, dtype, shape=None):
    "Raise `TypeError` or `ValueError` unless `tensor` is a matrix of this dtype and shape; messages call it `label`"
    if not hasattr(tensor, 'data_ptr'):
        raise TypeError(f'{label} must be a torch tensor, such as torch.tensor(...); got a {type(tensor).__name__}')
    if tensor.ndim != 2:
        raise ValueError(f'{label} must be a matrix, with two axes; got the shape {tuple(tensor.shape)}')
    if shape and tuple(tensor.shape) != shape:
        raise ValueError(f'{label} must be {shape[0]}x{shape[1]}, like m @ n; got {tensor.shape[0]}x{tensor.shape[1]}')
    if tensor.dtype != dtype:
        wanted, received = (str(kind).removeprefix('torch.') for kind in (dtype, tensor.dtype))
        raise TypeError(f'{label} must be {wanted}; got {received}. Convert it with .to({dtype})')


def _check_memory(label, tensor):
    "Raise `ValueError` unless `tensor` is row-major and contiguous, at an address that is a multiple of 16 bytes"
    if not tensor.is_contiguous():
        raise ValueError(
            f'{label} must be row-major and contiguous; got strides {tensor.stride()}. Copy it with .contiguous()'
        )
    if tensor.device.type != 'meta' and tensor.data_ptr() % 16:
        raise ValueError(
            f'{label} must begin at a multiple of 16 bytes, because the kernel loads 16 bytes at a time; got offset '
            f'{tensor.data_ptr() % 16}, as a slice may have. Copy it with .clone()'
        )


def sizes(m, n, layout='nn') -> tuple:  # (h, k), (k, w)
    "Return the sizes of both operands; 'tn': `m` is passed as k x h, 'nt': `n` as w x k"
    return m.shape if layout[0] == 'n' else m.shape[::-1], n.shape if layout[1] == 'n' else n.shape[::-1]


def _result_shape(name, m, n, layout):
    "Return (rows, columns) of the product; raise `ValueError` for shapes that do not match"
    (h, k), (k2, w) = sizes(m, n, layout)
    if k == k2:
        return h, w
    if layout != 'nn':
        transposed_name = 'm' if layout == 'tn' else 'n'
        raise ValueError(
            f'{name} takes {transposed_name} transposed, and the columns of m must match the rows of n; '
            f'got {h}x{k} for m and {k2}x{w} for n'
        )
    hint = '. Pass n.T.contiguous()' if k == w else '. Pass m.T.contiguous()' if h == k2 else ''
    raise ValueError(f'{name}: the columns of m must match the rows of n; got {h}x{k} and {k2}x{w}{hint}')


def _check_devices(name, m, n, out):
    "Raise `ValueError` unless all are on the device that runs kernels, and `out` shares no memory with an input"
    device = 'cuda' if backend() == 'gpu' else 'cpu'
    if m.device.type != device:
        raise ValueError(f'{name}: m must be on {device}; got {m.device}. Move m and n with .to({device!r})')
    for operand, tensor in (('n', n), ('out', out)):
        if tensor is not None and tensor.device != m.device:
            received = f"{tensor.device}. Move it with .to('{m.device}')"
            raise ValueError(f'{name}: {operand} must be on the device of m, {m.device}; got {received}')
    if out is not None and out.numel() and out.data_ptr() in (m.data_ptr(), n.data_ptr()):
        raise ValueError(
            f'{name}: out must not share memory with an input, because the kernel reads it while it writes out; '
            'pass another tensor'
        )


def raise_invalid_operands(
    name,  # of the kernel
    m,
    n,
    out,  # None: the kernel allocates it
    dtype,  # the dtype that all of them must have
    layout='nn',  # 'tn': the transpose of `m` is passed; 'nt': that of `n`
):
    "Raise `TypeError` or `ValueError` for the first requirement that `m`, `n` or `out` does not meet"
    for operand, tensor in (('m', m), ('n', n)):
        _check_matrix(f'{name}: {operand}', tensor, dtype)
    shape = _result_shape(name, m, n, layout)
    if out is not None:
        _check_matrix(f'{name}: out', out, dtype, shape)
    for operand, tensor in (('m', m), ('n', n), ('out', out)):
        if tensor is not None:
            _check_memory(f'{name}: {operand}', tensor)
    _check_devices(name, m, n, out)
