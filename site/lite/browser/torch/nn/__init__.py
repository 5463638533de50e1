"torch.nn: its functions only"

from . import functional  # noqa: F401
