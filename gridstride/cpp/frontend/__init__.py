"""The front end: reads CUDA C, with the standard library alone.

The modules, in the order in which they are read best: `tokens`, `preprocessor`, `code` (tokens with their brackets),
`declarations`, `reader` (functions, kernels and their parameters), `edits` (edits of a source that keep every token on
its line).
"""
