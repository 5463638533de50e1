"""Rewrites CUDA C to C++, line by line.

`rewrite` (`to_cpp`) calls the others: `launches` (`<<<grid, block>>>`), `variables` (shared and device variables),
`captures` (lambdas that use these), `statements`, and `inline_asm`, which translates PTX by `ptx`, its table
`ptx_instructions` and the functions of `ptx_calls`. Without checks, `block_loops` then rewrites simple kernels to loops
over the threads of a block; with checks, `loop_reads` lets one call check all reads of a loop, and
`struct_copies` lets Clang check the alignment of structs that are copied. For a report of coverage, `branches` inserts
calls into conditions.
"""
