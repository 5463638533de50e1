"""Order and selection: `sort`, `argsort`, `topk`, `compact`, `unique`, with torch's order of keys.

The modules: `keys` (the types of keys, and their rows), `sorts` (`sort`, `argsort`), `top_k` (`topk`), `compaction`
(`compact`), `distinct` (`unique`), `sources` (assembles the CUDA C of `*.cuh`), `programs` (standalone programs for
`export`). `explain_sort` and `explain_topk` name the kernels that a call launches, or the reason why torch computes
the result.
"""

from ...support.lazy_exports import lazy_exports_of

_NAMES = {
    'sorts': ('sort', 'argsort', 'explain_sort'),
    'top_k': ('topk', 'explain_topk'),
    'compaction': ('compact',),
    'distinct': ('unique',),
    'sources': ('source',),
}
PUBLIC_NAMES = 'sort', 'argsort', 'explain_sort', 'topk', 'explain_topk', 'compact', 'unique'
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
