# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .decoding import latent_attention as latent_attention
from .decoding import latent_attention_backend as latent_attention_backend
from .sources import source as source
