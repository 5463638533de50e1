# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .attentions import attention as attention
from .attentions import attention_backend as attention_backend
from .sources import source as source
