import itertools

import numpy as np
from gridstride.sim import cuda
from gridstride.bench.variants import changed

from . import wrong


@wrong('sparsity.bytes')
def a_start_per_row(h, w, n): return 2*h*w, 6*n + 4*h, h*w + h*w//8

@wrong('sparsity.bytes')
def a_byte_per_four(h, w, n): return 2*h*w, 6*n + 4*(h + 1), h*w + h*w//4

@wrong('sparsity.bytes')
def zeros_are_not_stored(h, w, n): return 2*h*w, 6*n + 4*(h + 1), 2*n + h*w//8


def read(values, words, lane=lambda r, g: r%8*4 + g//4, shift=lambda r, g: 16*(r//8) + 4*(g%4), swap=False):
    out = np.zeros((16,64), values.dtype)
    for r,g in np.ndindex(16, 16):
        nibble = int(words[lane(r, g)]) >> shift(r, g) & 15
        places = [nibble >> 2, nibble & 3] if swap else [nibble & 3, nibble >> 2]
        out[r,[4*g + o for o in places]] = values[r,2*g:2*g+2]
    return out

@wrong('sparsity.read')
def the_first_position_in_the_upper_bits(values, words): return read(values, words, swap=True)

@wrong('sparsity.read')
def halves_exchanged(values, words): return read(values, words, shift=lambda r, g: 16*(1 - r//8) + 4*(g%4))

@wrong('sparsity.read')
def the_first_group_in_the_highest_bits(values, words):
    return read(values, words, shift=lambda r, g: 16*(r//8) + 4*(3 - g%4))

@wrong('sparsity.read')
def lanes_column_by_column(values, words): return read(values, words, lane=lambda r, g: g//4*8 + r%8)


@cuda.jit
def turned_k(starts, cols, vals, x, out):
    r = cuda.grid(1)
    if r < len(starts) - 1:
        for i in range(starts[r], starts[r+1]): cuda.atomic.add(out, cols[i], vals[i]*x[r])

ADD = 'cuda.atomic.add(out, cols[i], vals[i]*x[r])'

@wrong('sparsity.transposed')
def no_atomic(): return changed(turned_k, ADD, 'out[cols[i]] += vals[i]*x[r]')

@wrong('sparsity.transposed')
def not_transposed(): return changed(turned_k, ADD, 'out[r] += vals[i]*x[cols[i]]')

@wrong('sparsity.transposed')
def no_guard(): return changed(turned_k, 'if r < len(starts) - 1:', 'if True:')

@wrong('sparsity.transposed')
def the_last_is_left_out(): return changed(turned_k, 'starts[r+1])', 'starts[r+1] - 1)')


@wrong('sparsity.transposed')
def one_warp_for_all():
    @cuda.jit
    def kernel(starts, cols, vals, x, out):
        if cuda.blockIdx.x == 0:
            for r in range(cuda.threadIdx.x, len(starts) - 1, 32):
                for i in range(starts[r], starts[r+1]): cuda.atomic.add(out, cols[i], vals[i]*x[r])
    return kernel

@wrong('sparsity.transposed')
def a_column_each():
    @cuda.jit
    def kernel(starts, cols, vals, x, out):
        for c in range(cuda.grid(1), len(out), cuda.gridsize(1)):
            for r in range(len(starts) - 1):
                for i in range(starts[r], starts[r+1]):
                    if cols[i] == c: out[c] += vals[i]*x[r]
    return kernel

@wrong('sparsity.transposed')
def one_thread_for_all():
    @cuda.jit
    def kernel(starts, cols, vals, x, out):
        if cuda.grid(1) == 0:
            for r in range(len(starts) - 1):
                for i in range(starts[r], starts[r+1]): out[cols[i]] += vals[i]*x[r]
    return kernel


def size(w): return np.abs(w).sum(0)

@wrong('sparsity.groups')
def as_they_come(w): return list(range(8))

@wrong('sparsity.groups')
def large_ones_together(w): return np.argsort(-size(w)).tolist()

@wrong('sparsity.groups')
def dealt_like_cards(w):
    order = np.argsort(-size(w)).tolist()
    return order[::2] + order[1::2]

@wrong('sparsity.groups')
def the_best_group_alone(w):
    def total(cols): return np.sort(np.abs(w[:,list(cols)]), 1)[:,2:].sum()
    best = max(itertools.combinations(range(8), 4), key=total)
    return [*best, *(c for c in range(8) if c not in best)]

def total(w, cols): return np.sort(np.abs(w[:,cols]), 1)[:,2:].sum()
def both_fours(order): return order[:4],order[4:]
def orders(): return ([0, *o, *(c for c in range(1, 8) if c not in o)] for o in itertools.combinations(range(1, 8), 3))

@wrong('sparsity.groups')
def one_way_is_missing(w): return max([*orders()][:-1], key=lambda o: sum(total(w, f) for f in both_fours(o)))

@wrong('sparsity.groups')
def the_largest_squares(w): return max(orders(), key=lambda o: sum(total(w*w, f) for f in both_fours(o)))

@wrong('sparsity.groups')
def exchanged_while_it_helps(w):
    order,again = list(range(8)),True
    while again:
        again = False
        for i,j in itertools.product(range(4), range(4, 8)):
            new = order.copy()
            new[i],new[j] = order[j],order[i]
            if sum(total(w, f) for f in both_fours(new)) > sum(total(w, f) for f in both_fours(order)) + 1e-9:
                order,again = new,True
    return order


def two_of_four(w): return (np.abs(w).reshape(-1, 4).argsort(1).argsort(1) >= 2).reshape(w.shape)

@wrong('sparsity.both')
def rows_alone(w): return two_of_four(w)

@wrong('sparsity.both')
def what_both_keep(w): return two_of_four(w) & two_of_four(w.T.copy()).T

@wrong('sparsity.both')
def the_largest_that_fits(w):
    out = np.zeros(w.shape, bool)
    for r,c in itertools.product(range(0, len(w), 4), range(0, w.shape[1], 4)):
        square = out[r:r+4,c:c+4]
        for i in np.argsort(-np.abs(w[r:r+4,c:c+4]).ravel()):
            if square[i//4].sum() < 2 and square[:,i%4].sum() < 2: square[i//4,i%4] = True
    return out

@wrong('sparsity.both')
def always_the_same_square(w):
    return np.tile(np.array([[1,1,0,0],[0,0,1,1],[1,1,0,0],[0,0,1,1]], bool), (len(w)//4, w.shape[1]//4))

@wrong('sparsity.both')
def one_square_is_missing(w):
    rows = [[i in o for i in range(4)] for o in itertools.combinations(range(4), 2)]
    squares = np.array([s for s in itertools.product(rows, repeat=4) if (np.sum(s, 0) == 2).all()][:-1])
    out = np.zeros(w.shape, bool)
    for r,c in itertools.product(range(0, len(w), 4), range(0, w.shape[1], 4)):
        out[r:r+4,c:c+4] = squares[(squares*np.abs(w[r:r+4,c:c+4])).sum((1,2)).argmax()]
    return out
