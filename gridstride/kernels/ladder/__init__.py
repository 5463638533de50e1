"""The lessons' ladders: matrix products that get faster step by step, checked, timed and explained.

The modules, in the order in which they are read best: `rung` (one product, called like a function; `operands`: what it
cannot take; `launches`: its prepared launch), `ladder` (each checked, and timed next to the library; `counters`: what
explains the time), `climb` (with a guess first), `lecture` and `fp32`
(lessons 06 and 13), `tensor_cores` (21), `hopper` and `finals` (22), `listing` (a step as a lesson shows it), `trials`
(with what kernels for Hopper are tried), `tma` (models of who holds what), `pictures`, `instruction_throughput` (of a
tensor core's instruction alone).
"""
