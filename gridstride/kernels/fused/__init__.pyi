# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .activations import bias_gelu as bias_gelu
from .activations import gelu as gelu
from .losses import cross_entropy as cross_entropy
from .losses import linear_cross_entropy as linear_cross_entropy
from .norms import layer_norm as layer_norm
from .norms import rms_norm as rms_norm
from .optimizers import AdamW as AdamW
from .softmaxes import log_softmax as log_softmax
from .softmaxes import softmax as softmax
from .sources import source as source
