"""The front end: parses CUDA C; imports only the standard library.

The modules, in reading order: `tokens`, `preprocessor`, `code` (tokens with their brackets), `declarations`, `reader`
(functions, kernels and their parameters), `edits` (edits that keep every token on its line).

In functions here, in `lint` and in `rewriters`, `code` is a `Code`, `edits` its `Edits`, and `i` and `j` are indices of
tokens; an end is exclusive. `paren` is the index of a `(`, `opening` that of any opening bracket.
"""
