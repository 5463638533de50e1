from . import wrong
from .flash_attention import all_to_the_left, diagonal_alone, of_the_last_row, one_too_late
for f in (all_to_the_left, one_too_late, diagonal_alone, of_the_last_row): wrong('flash_attention_hopper.tiles')(f)

@wrong('flash_attention_hopper.tiles')
def always_masked(first, BM, BN, n, window):
    return [(t, True) for t in range(max(0, first - window + 1)//BN, (min(first + BM, n) - 1)//BN + 1)]

@wrong('flash_attention_hopper.tiles')
def values_alone(first, BM, BN, n, window):
    return list(range(max(0, first - window + 1)//BN, (min(first + BM, n) - 1)//BN + 1))
