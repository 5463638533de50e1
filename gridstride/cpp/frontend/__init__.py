"""The front end: reads CUDA C; imports nothing but the standard library.

The modules, in a good order for reading: `tokens`, `preprocessor`, `code` (tokens with their brackets),
`declarations`, `reader` (functions, kernels and their parameters), `edits` (edits that keep every token on its line).

Functions here, in `lint` and in `rewriters` call a `Code` `c`, its `Edits` `e`, and the indices of its tokens `i`, `j`,
`a` and `b`; an end is exclusive. An index `p` is that of a `(`.
"""
