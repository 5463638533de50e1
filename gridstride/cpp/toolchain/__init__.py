"""Runs compilers, and caches their outputs.

`compilers` (finds them, and chooses flags), `runtime_library` (builds the emulator's runtime), `build` (compiles user
source), `headers` (precompiles the emulator's headers), `cache`, `integrity` (checks the entries of the cache),
`includes` (reads the user's own headers), `host_only_files` (files of a program that nvcc passes to the host compiler
unchanged), `nvrtc` (substitutes for headers that NVRTC does not have).
"""
