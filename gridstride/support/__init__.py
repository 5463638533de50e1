"""Modules that all other packages may import; they import no other package of gridstride.

`atomic_write` (replaces files in one step; checks their owner), `lazy_exports` (imports the names of a package on first
use; the message for a missing package), `short_tracebacks` (shows only the learner's lines and the message of an
error), `function_source` (source, file, first line and syntax tree of a function), `array_memory` (the memory that an
array covers), `fused_arithmetic` (x*y + z, rounded once), `parameter_docs` (the comments after a function's parameters,
for `help`), `tables` (a table for terminals and notebooks), `plots` (one style for all plots), `counters` (named
counters), `memory_transactions` (sectors and wavefronts of a warp's request), `numba_cuda` (Numba's `cuda`, with any
version of NumPy), `guesses` (a reader's guesses before a result).
"""
