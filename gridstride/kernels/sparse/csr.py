"""Multiply by a matrix with unstructured sparsity, stored as compressed sparse rows (CSR)."""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import csr_source
from ..ladder.rung import KernelLaunch
from ..common import check_tensor, launch, dtype_name, tensor_vector_width
from ...utils import cdiv

DTYPES = 'float32', 'bfloat16', 'float16'


class CsrMatrix(NamedTuple):
    "A sparse matrix in CSR: its nonzero elements, row by row"

    shape: tuple  # (rows, columns)
    row_offsets: object  # (rows + 1,) of int32: the index of the first element of each row
    columns: object  # (elements,) of int32: the column of each element
    values: object  # (elements,)

    @property
    def nbytes(self):
        "Bytes of row offsets, columns and values"
        return self.row_offsets.nbytes + self.columns.nbytes + self.values.nbytes


def to_csr(
    w,  # (rows, columns) of float32, bfloat16 or float16
) -> CsrMatrix:
    """Convert a dense matrix to CSR.

    >>> to_csr(torch.tensor([[0., 5.], [6., 0.]])).columns.tolist()
    [1, 0]

    Raises TypeError for an unsupported matrix."""
    if dtype_name(w) not in DTYPES or w.dim() != 2:
        raise TypeError(
            f'to_csr: w is a {w.dim()}-dimensional {dtype_name(w)} tensor; '
            f'expected a matrix of {", ".join(DTYPES[:-1])} or {DTYPES[-1]}'
        )
    is_nonzero = w != 0
    row_offsets = torch.nn.functional.pad(is_nonzero.sum(1).cumsum(0), (1, 0)).int()
    return CsrMatrix(tuple(w.shape), row_offsets, is_nonzero.nonzero()[:, 1].int(), w.detach()[is_nonzero])


def from_csr(w: CsrMatrix):  # (rows, columns)
    "Convert to a dense matrix"
    row_of_element = torch.arange(w.shape[0], device=w.values.device).repeat_interleave(w.row_offsets.diff())
    dense = w.values.new_zeros(w.shape)
    dense[row_of_element, w.columns.long()] = w.values
    return dense


def prune_single(
    w,  # a tensor of floats
    zeros=0.9,  # fraction of the elements that become 0
):  # w's shape
    """Set the elements with the smallest magnitudes to 0.

    >>> prune_single(torch.tensor([3., -1., 2., 0.5]), 0.5).tolist()
    [3.0, 0.0, 2.0, 0.0]

    Raises ValueError for a fraction out of [0, 1] or NaN."""
    if not 0 <= zeros <= 1:
        raise ValueError(f'prune_single: zeros is {zeros!r}; expected a fraction from 0 to 1')
    if w.isnan().any():
        raise ValueError('prune_single: w has a NaN, which has no magnitude: replace it first')
    largest_indices = w.detach().abs().flatten().argsort(descending=True, stable=True)[: round((1 - zeros) * w.numel())]
    keep_mask = torch.zeros(w.numel(), dtype=torch.bool, device=w.device)
    keep_mask[largest_indices] = True
    return torch.where(keep_mask.view_as(w), w, 0)


@lru_cache(1024)
def csr_launch(
    dtype,
    rows,  # of w
    n,  # columns of x
    vec_size,  # elements per load
) -> KernelLaunch:
    "Return the launch of w @ x: of `multiply_vector` for one column, of `multiply_rows` for more"
    src, arrays = csr_source(dtype, vec_size), ('row_offsets', 'columns', 'values', 'x', 'out')
    if n == 1:
        return KernelLaunch(src, 'multiply_vector', arrays, (rows,), (cdiv(rows, 8),), (256,))
    return KernelLaunch(src, 'multiply_rows', arrays, (rows, n), (cdiv(rows, 8), cdiv(n, 32 * vec_size)), (256,))


def multiply_csr(
    w,  # a `CsrMatrix`
    x,  # (columns, n) or (columns,), with the dtype of w
):  # (rows, n) or (rows,)
    """Compute w @ x with float32 accumulators. Each warp multiplies a row of w by a group of columns of x, which its
    lanes load in one instruction.

        multiply_csr(to_csr(w), x)

    Raises TypeError or ValueError for unsupported operands."""
    check_tensor('multiply_csr', x, [dtype_name(w.values)])
    if x.dim() not in (1, 2) or x.shape[0] != w.shape[1]:
        expected = f'({w.shape[1]},) or ({w.shape[1]}, any)'
        raise ValueError(f'multiply_csr: x has shape {tuple(x.shape)}; expected {expected}')
    for name, array in zip(CsrMatrix._fields[1:], w[1:]):
        check_tensor('multiply_csr', array, [dtype_name(array)], name)
        if array.device != x.device:
            raise ValueError(f'multiply_csr: {name} is on {array.device} and x on {x.device}: move it with .to(...)')
    rows, n = w.shape[0], x.shape[1] if x.dim() == 2 else 1
    out = x.new_empty(rows, *x.shape[1:])
    if not out.numel():
        return out
    kernel_launch = csr_launch(dtype_name(x), rows, n, 1 if n == 1 else tensor_vector_width(x, w.shape[1], n))
    launch([kernel_launch], x, row_offsets=w.row_offsets, columns=w.columns, values=w.values, out=out)
    return out
