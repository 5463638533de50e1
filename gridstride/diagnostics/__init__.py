"""Findings of kernels and their messages, and the settings with which kernels run and are checked.

`errors` (exceptions and warnings: kind, code and fields of each finding), `messages` (the one table of their texts),
`hints` (how to fix a finding, quoting the learner's own lines; `index_hints` and `race_hints` have the rules,
`source_lines` reads the lines), `accessed_arrays` (the arrays that an access may be to whose address is in none),
`launch_config` (`kernel[grid, block, stream, shared]`: brackets, sizes, count and kind of arguments), `settings`
(checks, order, seed, engine).
"""
