# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .compaction import compact as compact
from .distinct import unique as unique
from .sorts import argsort as argsort
from .sorts import explain_sort as explain_sort
from .sorts import sort as sort
from .sources import source as source
from .top_k import explain_topk as explain_topk
from .top_k import topk as topk
