"torch.nn: its functions only"

from . import functional  # noqa: F401
from .._tensor import MISSING


def __getattr__(name):
    raise AttributeError(MISSING.format(f'torch.nn.{name}'))
