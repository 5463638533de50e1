"""The front end: parses CUDA C; imports only the standard library.

The modules, in reading order: `tokens`, `preprocessor`, `code` (tokens with their brackets), `declarations`, `reader`
(functions, kernels and their parameters), `edits` (edits that keep every token on its line).

Functions here, in `lint` and in `rewriters` call a `Code` `c`, its `Edits` `e`, and the indices of its tokens `i`, `j`,
`a` and `b`; an end is exclusive. An index `p` is that of a `(`.
"""
