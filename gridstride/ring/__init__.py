"""Attention over a sequence that is split among GPUs, or among processes on a laptop: `launch` starts the processes,
`attention` is ring attention, `simulate` predicts its time for more GPUs. All modules require torch, and are imported
on first use.

`all_reduce`, `all_gather_matmul` and `matmul_reduce_scatter` are collectives over memory that all GPUs can access.

The modules, in reading order: `sharding` (which rank has which positions), `parts` (attention to a part of the keys,
and the merge of two partial results), `transport` (of keys, values and gradients), `passes` (forward and backward pass
of the ring), `ulysses_and_tree` (Ulysses, and a tree for decoding), `processes` (ranks started from a notebook),
`timestamps` (a timeline of all ranks), `model` (a simulation of the ring), `overlap` (the kernel of matrix
products that overlap their communication), `collectives` (all-reduce, and these products), `several_gpus` (several GPUs
of one process, real or emulated).
"""

from ..support.lazy_exports import lazy_exports_of

_NAMES = {
    'processes': ('launch', 'RankError', 'PeerError'),
    'sharding': ('ORDERS', 'ScoreBlock', 'positions', 'split', 'join', 'score_block', 'scores_of'),
    'parts': ('Kernels', 'cudnn', 'hopper', 'kernels_for', 'merge', 'plain', 'slowed'),
    'transport': ('CopyEngine', 'SendRecv'),
    'passes': ('attention', 'gathered_attention'),
    'several_gpus': ('devices',),
    'collectives': ('Communicator', 'all_gather_matmul', 'all_reduce', 'communicator', 'matmul_reduce_scatter'),
    'ulysses_and_tree': ('bytes_sent', 'tree_decode', 'ulysses_attention'),
    'timestamps': ('Activity', 'Timestamps', 'busy', 'timeline'),
    'model': (
        'Link',
        'SimulatedRun',
        'Task',
        'all_reduce_bytes',
        'all_reduce_seconds',
        'fit_link',
        'run_tasks',
        'simulate',
    ),
}
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
