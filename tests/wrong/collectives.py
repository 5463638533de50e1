import math

import numpy as np

from . import wrong
from gridstride.bench.variants import changed
from right.collectives import PULL


def bits(x): return int(np.float32(x).view(np.uint32))

def value(word): return np.uint32(word & 0xffffffff).view(np.float32)

@wrong('collectives.words')
def any_round():
    return lambda x, round: round << 32 | bits(x), lambda word, round: value(word) if word >> 32 else None

@wrong('collectives.words')
def value_as_an_integer(): return lambda x, round: round << 32 | int(x), lambda word, round: word & 0xffffffff

@wrong('collectives.words')
def round_in_the_lower_half():
    return lambda x, round: bits(x) << 32 | round, lambda word, round: value(word >> 32)

@wrong('collectives.words')
def later_rounds_too():
    return lambda x, round: round << 32 | bits(x), lambda word, round: None if word >> 32 > round else value(word)

@wrong('collectives.words')
def words_of_later_rounds():
    return lambda x, round: round << 32 | bits(x), lambda word, round: None if word >> 32 < round else value(word)


@wrong('collectives.crossover')
def one_latency_per_byte(ranks, latency, speed): return latency*speed

@wrong('collectives.crossover')
def a_whole_array_in_two_shots(ranks, latency, speed):
    saved = ranks - 1 - 2
    return latency*speed/saved if saved > 0 else math.inf

@wrong('collectives.crossover')
def no_infinity(ranks, latency, speed): return latency*speed/max((ranks - 1)*(1 - 2/ranks), 1e-9)


@wrong('collectives.pull')
def one_slot(): return changed(PULL, 'round % 2*n', '0')

@wrong('collectives.pull')
def no_exchange(): return changed(PULL, '    exchange(flags, rank, ranks, round);\n', '    __syncthreads();\n')

@wrong('collectives.pull')
def its_own_array_first():
    return changed(PULL, 'int r = 0; r < ranks; r++) sum += buffers[r]',
                   'int p = 0; p < ranks; p++) sum += buffers[(rank + p) % ranks]')


@wrong('collectives.partners')
def upwards(rank, ranks): return [(rank + step) % ranks for step in range(1, ranks)]

@wrong('collectives.partners')
def by_number(rank, ranks): return [r for r in range(ranks) if r != rank]

@wrong('collectives.partners')
def itself_first(rank, ranks): return [(rank - step) % ranks for step in range(ranks)]


@wrong('collectives.finish')
def the_longer_one(product, transfer, latency, chunks): return max(2*product, chunks*latency + transfer)

@wrong('collectives.finish')
def one_after_the_other(product, transfer, latency, chunks): return 2*product + chunks*latency + transfer

@wrong('collectives.finish')
def chunks_at_once(product, transfer, latency, chunks):
    t = product
    for _ in range(chunks): t = max(t, latency + transfer/chunks) + product/chunks
    return t

@wrong('collectives.finish')
def one_latency(product, transfer, latency, chunks):
    t = product
    for i in range(chunks): t = max(t, latency + (i + 1)*transfer/chunks) + product/chunks
    return t
