"""Compilers, what they are given, and the cache of what they made.

`build` (the compilers, the emulator's runtime, a learner's source), `headers` (the precompiled ones), `cache` and
`integrity` (an entry is whole, and this user's own), `includes` (headers of a learner's own), `host_only_files` (files
of a program that nvcc hands to the host's compiler as they are), `nvrtc` (what its compiler has to be given).
"""
