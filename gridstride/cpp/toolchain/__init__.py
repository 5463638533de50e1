"""Compilers, their inputs, and the cache of their outputs.

`compilers` (which there are, and their flags), `runtime_library` (the emulator's runtime), `build` (a learner's
source), `headers` (the precompiled ones), `cache` and `integrity` (an entry is complete, and this user's own),
`includes` (headers of a learner's own), `host_only_files` (files of a program that nvcc passes to the host's compiler
unchanged), `nvrtc` (what its compiler needs to be given).
"""
