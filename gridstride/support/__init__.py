"""What everything else imports; no module here imports another package of gridstride.

`atomic_write` (files that are replaced in one step; whose files they are), `lazy_exports` (packages whose names
are imported on first use; the message for a missing package), `short_tracebacks` (errors as a notebook shows them: the
learner's lines and the message), `function_source` (a function's text, file, first line and syntax tree),
`array_memory` (what memory an array covers), `tables` (a table that prints and shows itself), `plots` (one style for
every plot), `counters` (counters that have names), `memory_transactions` (what one request of a warp costs: sectors,
wavefronts), `numba_cuda` (Numba's `cuda`, with any version of NumPy).
"""
