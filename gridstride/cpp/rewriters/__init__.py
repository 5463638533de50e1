"""Rewrites CUDA C to C++, line by line.

`rewrite` (`to_cpp`: all of it) calls the others: `launches` (`<<<grid, block>>>`), `variables` (in shared memory and on
the device), `captures` (lambdas that use these), `statements`, `inline_asm` and `ptx` (PTX as C++).
"""
