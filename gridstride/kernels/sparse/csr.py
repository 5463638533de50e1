"""Products with a matrix with unstructured sparsity, in compressed sparse rows (CSR)."""

from functools import lru_cache
from typing import NamedTuple

import torch

from .sources import csr_source
from ..ladder.rung import KernelLaunch
from ..tool import check_tensor, launch, type_of, vector_of
from ...utils import cdiv

TYPES = 'float32', 'bfloat16', 'float16'


class Csr(NamedTuple):
    "A matrix without its zeros, row by row"

    shape: tuple  # (rows, columns)
    starts: object  # (rows + 1,) of int32: the index of the first element of each row
    columns: object  # (elements,) of int32: the column of each
    values: object  # (elements,)

    @property
    def nbytes(self):
        "Bytes of all three"
        return self.starts.nbytes + self.columns.nbytes + self.values.nbytes


def to_csr(
    w,  # (rows, columns) of float32, bfloat16 or float16
) -> Csr:
    "Convert a matrix to CSR: its elements that are not 0"
    if type_of(w) not in TYPES or w.dim() != 2:
        raise TypeError(f'to_csr: w is {type_of(w)} of {w.dim()} axes, and a matrix of {", ".join(TYPES)} is needed')
    there = w != 0
    starts = torch.nn.functional.pad(there.sum(1).cumsum(0), (1, 0)).int()
    return Csr(tuple(w.shape), starts, there.nonzero()[:, 1].int(), w.detach()[there])


def from_csr(w: Csr):  # (rows, columns)
    "The matrix with its zeros"
    row = torch.arange(w.shape[0], device=w.values.device).repeat_interleave(w.starts.diff())
    res = w.values.new_zeros(w.shape)
    res[row, w.columns.long()] = w.values
    return res


def prune_single(
    w,  # of floats
    zeros=0.9,  # how many become 0
):  # w's shape
    "w with its smallest elements set to 0"
    if not 0 <= zeros <= 1:
        raise ValueError(f'prune_single: zeros is {zeros!r}, and must be a fraction from 0 to 1')
    if w.isnan().any():
        raise ValueError('prune_single: w has a NaN, which is neither large nor small')
    first = w.detach().abs().flatten().argsort(descending=True, stable=True)[: round((1 - zeros) * w.numel())]
    keeps = torch.zeros(w.numel(), dtype=torch.bool, device=w.device)
    keeps[first] = True
    return torch.where(keeps.view_as(w), w, 0)


@lru_cache(1024)
def csr_call(
    dtype,
    rows,
    n,  # columns of x
    vector,  # elements that a thread loads at once
) -> KernelLaunch:
    "The launch of the product"
    src, arrays = csr_source(dtype, vector), ('starts', 'columns', 'values', 'x', 'out')
    if n == 1:
        return KernelLaunch(src, 'multiply_vector', arrays, (rows,), (cdiv(rows, 8),), (256,))
    return KernelLaunch(src, 'multiply_rows', arrays, (rows, n), (cdiv(rows, 8), cdiv(n, 32 * vector)), (256,))


def multiply_csr(
    w,  # a `Csr`
    x,  # (columns, n) or (columns,), of the type of w
):  # (rows, n) or (rows,)
    """Compute w @ x, summed in float32: one warp per row of w and 32 threads' columns of x.

        multiply_csr(to_csr(w), x)

    Raises TypeError and ValueError for operands that do not fit."""
    check_tensor('multiply_csr', x, [type_of(w.values)])
    if x.dim() not in (1, 2) or x.shape[0] != w.shape[1]:
        want = f'({w.shape[1]},) or ({w.shape[1]}, any)'
        raise ValueError(f'multiply_csr: x has the shape {tuple(x.shape)}, and {want} is needed')
    for name, o in zip(Csr._fields[1:], w[1:]):
        check_tensor('multiply_csr', o, [type_of(o)], name)
        if o.device != x.device:
            raise ValueError(f'multiply_csr: {name} is on {o.device} and x on {x.device}; move it with .to(...)')
    rows, n = w.shape[0], x.shape[1] if x.dim() == 2 else 1
    out = x.new_empty(rows, *x.shape[1:])
    if not out.numel():
        return out
    call = csr_call(type_of(x), rows, n, 1 if n == 1 else vector_of(x, w.shape[1], n))
    launch([call], x, starts=w.starts, columns=w.columns, values=w.values, out=out)
    return out
