"""Rewrites CUDA C to C++, line by line.

`rewrite` (`to_cpp`) calls the others: `launches` (`<<<grid, block>>>`), `variables` (shared and device variables),
`captures` (lambdas that use these), `statements`, `inline_asm` and `ptx` (PTX as C++). Without checks, `block_loops`
then rewrites simple kernels to loops over the threads of a block. For a report of coverage, `branches` inserts calls
into conditions.
"""
