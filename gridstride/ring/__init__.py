"""Attention over a sequence that is split among many GPUs, or among processes on a laptop: `launch` starts them,
`attention` is the ring, `simulate` predicts the time with many more of them. All of it needs torch, and is imported
on first use.

The modules, in the best order to read them: `sharding` (which rank has which positions), `parts` (attention of a part
of the keys, and the merge of two), `transport` (how keys come and gradients go), `passes` (the ring),
`ulysses_and_tree` (Ulysses, and a tree for one row), `processes` (ranks started from a notebook), `timestamps` (who did
what when, drawn), `model` (the ring without its GPUs).
"""

from ..support.lazy_exports import front_door

_NAMES = {
    'processes': ('launch', 'RankError', 'PeerError'),
    'sharding': ('ORDERS', 'Piece', 'positions', 'split', 'join', 'piece', 'scores_of'),
    'parts': ('Kernels', 'cudnn', 'kernels_for', 'merge', 'ours', 'plain', 'slowed'),
    'transport': ('Copies', 'Messages'),
    'passes': ('attention', 'gathered_attention'),
    'ulysses_and_tree': ('bytes_sent', 'tree_decode', 'ulysses_attention'),
    'timestamps': ('Stamp', 'Stamps', 'busy', 'timeline'),
    'model': ('Link', 'Simulated', 'Task', 'run_tasks', 'simulate'),
}
__all__, __getattr__, __dir__ = front_door(__name__, _NAMES)
