"""Test cases for the lesson's exercises. Reading this file spoils them."""

from ..grading import problem
from .flash_attention import visible_tiles

__all__ = []


@problem(
    'flash_attention_hopper.tiles',
    cases=[
        dict(first=first, BM=BM, BN=BN, n=n, window=window)
        for first, BM, BN, n, window in (
            (0, 2, 2, 4, 4),
            (2, 2, 2, 4, 4),
            (2, 2, 2, 4, 1),
            (0, 8, 4, 5, 3),
            (8, 4, 4, 11, 5),
            (8, 4, 4, 11, 6),
            (16, 8, 4, 64, 7),
            (16, 8, 4, 64, 8),
            (48, 16, 8, 64, 1000),
            (12, 4, 16, 30, 5),
            (20, 10, 3, 27, 9),
        )
    ],
    hints=[
        'The first row of the block sees furthest to the left: to key `first - window + 1`, or 0.',
        'The last row that exists, `min(first + BM, n) - 1`, sees furthest to the right: to itself.',
        'A tile needs no mask if the *first* row sees its last key, and the *last* row sees its first key.',
    ],
)
def _(fn, rng, **case):
    result = fn(**case)
    expected = visible_tiles(**case)
    if not isinstance(result, list):
        raise AssertionError(f'return a list of pairs (tile, masked); got {type(result).__name__}')
    invalid_item = next((pair for pair in result if not isinstance(pair, (tuple, list)) or len(pair) != 2), None)
    if invalid_item is not None:
        raise AssertionError(f'return a list of pairs (tile, masked); got the item {invalid_item!r}')
    actual = [(int(pair[0]), bool(pair[1])) for pair in result]
    if [t for t, _ in actual] != [t for t, _ in expected]:
        raise AssertionError(f'the tiles {[t for t, _ in expected]} have a visible score; got {[t for t, _ in actual]}')
    for (t, is_masked), (_, must_mask) in zip(actual, expected):
        if is_masked != must_mask:
            remedy = 'remove its mask: every row sees' if is_masked else 'mask it: not every row sees'
            raise AssertionError(f'tile {t}: {remedy} all of its keys')
