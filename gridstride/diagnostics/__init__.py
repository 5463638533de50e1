"""Findings of kernels and their messages, and the settings with which kernels run and are checked.

`errors` (exceptions and warnings: kind, code and fields of each finding), `messages` (the templates of their messages),
`formatting` (fills in the templates), `hints` (how to fix a finding, quoting the learner's own lines; `index_hints` and
`race_hints` have the rules, `source_lines` parses the lines), `accessed_arrays` (finds the arrays that an access to an
address in no array may belong to), `launch_config` (`kernel[grid, block, stream, shared]`: brackets, sizes, count and
kind of arguments), `settings` (checks, order, seed, engine, language), `catalogues` (translations of the messages).
"""
