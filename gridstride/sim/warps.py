"""Lanes of a warp exchange values directly: shuffles, votes and matches.

The values are laid out as (warps, lanes of a warp), and a shuffle is a choice of columns.
"""

import numpy as np

from .intrinsics import intrinsic
from .lanes import truth

__all__ = [
    'activemask',
    'all_sync',
    'any_sync',
    'ballot_sync',
    'eq_sync',
    'lanemask_lt',
    'match_all_sync',
    'match_any_sync',
]
__all__ += ['shfl_down_sync', 'shfl_sync', 'shfl_up_sync', 'shfl_xor_sync']


def _warps(run, v):
    "`v` as (warps, lanes of a warp)"
    return np.broadcast_to(v, run.g.size)[run.g.rows()]


def _lanes(run, v):
    "(warps, lanes of a warp) back to lanes"
    return v[run.g.warp, run.g.lane]


def _here(run, m):
    "The lanes of `m` as (warps, lanes of a warp)"
    return _warps(run, m) & (run.g.rows() >= 0)


def _spread(run, v):
    "One value for each warp to its lanes"
    return v[run.g.warp]


def _shuffle(choose):
    "The shuffle in which each lane reads from the lane that `choose(lane, other, width)` names"

    def shuffle(run, m, site, mask, value, other, width=None):
        run.detectors.synccheck.meet(run, m, mask, site, 'a shuffle')
        g, width = run.g, run.warp if width is None else width
        source = choose(g.lane, np.asarray(other).astype(np.int64), np.int64(width))
        base = g.lane // width * width
        source = np.where((source >= base) & (source < base + width), source, g.lane)
        row = g.rows()[g.warp, source]
        run.detectors.synccheck.sources(run, m, row, source, site)
        return np.broadcast_to(value, g.size)[row]

    shuffle.__name__, shuffle.__doc__ = choose.__name__, choose.__doc__
    return intrinsic(shuffle)


@_shuffle
def shfl_sync(lane, other, width):
    "The value of lane `other` of each part of `width` lanes"
    return lane // width * width + other % width


@_shuffle
def shfl_up_sync(lane, other, width):
    "The value of the lane `other` places before; the own one where the part of `width` lanes has none there"
    return lane - other


@_shuffle
def shfl_down_sync(lane, other, width):
    "The value of the lane `other` places behind; the own one where the part of `width` lanes has none there"
    return lane + other


@_shuffle
def shfl_xor_sync(lane, other, width):
    "The value of the lane whose number differs in the bits of `other`"
    return lane ^ other


def _vote(count):
    "The vote whose result for each warp is `count(yes, here)`, both as (warps, lanes of a warp)"

    def vote(run, m, site, mask, predicate):
        run.detectors.synccheck.meet(run, m, mask, site, 'a vote')
        return _spread(run, count(_warps(run, truth(np.asarray(predicate))), _here(run, m)))

    vote.__name__, vote.__doc__ = count.__name__, count.__doc__
    return intrinsic(vote)


def _bits(b):
    "One mask for each row of lanes: 64 of them fill an unsigned number"
    n = b.shape[-1]
    bits = (b.astype(np.uint64) << np.arange(n, dtype=np.uint64)).sum(-1, dtype=np.uint64)
    return bits if n == 64 else bits.astype(np.int64)


@_vote
def all_sync(yes, here):
    "Do all lanes of the warp that are here say yes?"
    return (yes | ~here).all(1)


@_vote
def any_sync(yes, here):
    "Does some lane of the warp say yes?"
    return (yes & here).any(1)


@_vote
def eq_sync(yes, here):
    "Do all lanes of the warp say the same?"
    return (yes | ~here).all(1) | ~(yes & here).any(1)


@_vote
def ballot_sync(yes, here):
    "The mask of the lanes of the warp that say yes"
    return _bits(yes & here)


@intrinsic
def match_any_sync(run, m, site, mask, value):
    "The mask of the lanes that have the same value as this one"
    run.detectors.synccheck.meet(run, m, mask, site, 'a match')
    v, here = _warps(run, value), _here(run, m)
    return _lanes(run, _bits((v[:, :, None] == v[:, None, :]) & here[:, None, :]))


@intrinsic
def match_all_sync(run, m, site, mask, value):
    "(mask of the lanes or 0, do all have the same value?)"
    run.detectors.synccheck.meet(run, m, mask, site, 'a match')
    v, here = _warps(run, value), _here(run, m)
    first = v[np.arange(len(v)), np.argmax(here, 1)]
    same = ((v == first[:, None]) | ~here).all(1)
    return _spread(run, _bits(here & same[:, None])), _spread(run, same)


@intrinsic
def activemask(run, m, site):
    "The mask of the lanes of the warp that are here"
    return _spread(run, _bits(_here(run, m)))


@intrinsic
def lanemask_lt(run, m, site):
    "The mask of the lanes before this one"
    return _bits(np.arange(run.warp) < run.g.lane[:, None])
