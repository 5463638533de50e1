"""Code generation: writes the typed tree as CUDA C.

`Expressions` writes expressions and `Body` the statements of one function; each is a class of several parts, one module
per part.

| module | what it has |
|---|---|
| `text` | the text of an expression, and its precedence |
| `helpers` | small functions that the generated C may need |
| `literals`, `conversions`, `arithmetic`, `conditions`, `elements`, `calls` | the parts of `Expressions` |
| `expressions` | `Expressions` |
| `names` | the names that are in use |
| `parameters` | removes unread variables; the names of parameters and sizes |
| `variables` | which variables share a name, and where each is declared |
| `lines` | lines, with the comments of the Python source |
| `simple_statements`, `control_flow` | one method per kind of statement |
| `body` | `Body` |
"""
