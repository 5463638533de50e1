"""Lanes of a warp exchange values directly: shuffles, votes and matches.

The values are arranged as (warps, lanes of a warp), and a shuffle is a choice of columns.
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
    "Reshape `v` to (warps, lanes of a warp)"
    return np.broadcast_to(v, run.g.size)[run.g.rows()]


def _lanes(run, v):
    "Reshape (warps, lanes of a warp) back to lanes"
    return v[run.g.warp, run.g.lane]


def _active_lanes(run, m):
    "Reshape the mask `m` to (warps, lanes of a warp)"
    return _warps(run, m) & (run.g.rows() >= 0)


def _broadcast_to_lanes(run, v):
    "Broadcast one value per warp to its lanes"
    return v[run.g.warp]


def _shuffle(choose):
    "Make the shuffle in which each lane reads from the lane that `choose(lane, other, width)` returns"

    def shuffle(run, m, site, mask, value, other, width=None):
        run.detectors.synccheck.meet(run, m, mask, site, 'a shuffle')
        g = run.g
        width = run.warp if width is None else width
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
    "Read the value of lane `other` of each segment of `width` lanes"
    return lane // width * width + other % width


@_shuffle
def shfl_up_sync(lane, other, width):
    "Read the value `other` lanes below; its own value if the segment of `width` lanes has no such lane"
    return lane - other


@_shuffle
def shfl_down_sync(lane, other, width):
    "Read the value `other` lanes above; its own value if the segment of `width` lanes has no such lane"
    return lane + other


@_shuffle
def shfl_xor_sync(lane, other, width):
    "Read the value of the lane whose index differs in the bits of `other`"
    return lane ^ other


def _vote(count):
    "Make the vote whose result per warp is `count(yes, here)`, both as (warps, lanes of a warp)"

    def vote(run, m, site, mask, predicate):
        run.detectors.synccheck.meet(run, m, mask, site, 'a vote')
        return _broadcast_to_lanes(run, count(_warps(run, truth(np.asarray(predicate))), _active_lanes(run, m)))

    vote.__name__, vote.__doc__ = count.__name__, count.__doc__
    return intrinsic(vote)


def _bits(b):
    "Return one mask per row of lanes: with 64 of them an unsigned integer"
    n = b.shape[-1]
    bits = (b.astype(np.uint64) << np.arange(n, dtype=np.uint64)).sum(-1, dtype=np.uint64)
    return bits if n == 64 else bits.astype(np.int64)


@_vote
def all_sync(yes, here):
    "Return whether the predicate is true in all active lanes of the warp"
    return (yes | ~here).all(1)


@_vote
def any_sync(yes, here):
    "Return whether the predicate is true in any lane of the warp"
    return (yes & here).any(1)


@_vote
def eq_sync(yes, here):
    "Return whether the predicate is equal in all lanes of the warp"
    return (yes | ~here).all(1) | ~(yes & here).any(1)


@_vote
def ballot_sync(yes, here):
    "Return the mask of the lanes of the warp whose predicate is true"
    return _bits(yes & here)


@intrinsic
def match_any_sync(run, m, site, mask, value):
    "Return the mask of the lanes that have the same value as this one"
    run.detectors.synccheck.meet(run, m, mask, site, 'a match')
    v, here = _warps(run, value), _active_lanes(run, m)
    return _lanes(run, _bits((v[:, :, None] == v[:, None, :]) & here[:, None, :]))


@intrinsic
def match_all_sync(run, m, site, mask, value):
    "Return (mask of the lanes or 0, do all have the same value?)"
    run.detectors.synccheck.meet(run, m, mask, site, 'a match')
    v, here = _warps(run, value), _active_lanes(run, m)
    first = v[np.arange(len(v)), np.argmax(here, 1)]
    same = ((v == first[:, None]) | ~here).all(1)
    return _broadcast_to_lanes(run, _bits(here & same[:, None])), _broadcast_to_lanes(run, same)


@intrinsic
def activemask(run, m, site):
    "Return the mask of the active lanes of the warp"
    return _broadcast_to_lanes(run, _bits(_active_lanes(run, m)))


@intrinsic
def lanemask_lt(run, m, site):
    "Return the mask of the lanes before this one"
    return _bits(np.arange(run.warp) < run.g.lane[:, None])
