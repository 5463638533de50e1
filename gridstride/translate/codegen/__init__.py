"""Code generation: emits CUDA C for the typed tree.

`ExpressionEmitter` emits expressions, and `BodyEmitter` the statements of one function. Both are composed of mixin
classes, one per module.

| module | contents |
|---|---|
| `code` | the C code of an expression, with its precedence and type |
| `helpers` | helper functions of the generated C |
| `literals`, `conversions`, `arithmetic`, `conditions`, `elements`, `calls` | mixins of `ExpressionEmitter` |
| `expressions` | `ExpressionEmitter` |
| `names` | C names that are not taken |
| `parameters` | removes unread variables; names parameters and sizes |
| `variables` | which Python variables become one C variable, and where each is declared |
| `lines` | lines of C, with the comments of the Python source |
| `simple_statements`, `control_flow` | one method per kind of statement |
| `body` | `BodyEmitter` |
"""
