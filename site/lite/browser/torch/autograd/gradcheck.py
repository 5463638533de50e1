"torch.autograd.gradcheck: exercises import it"

from .._tensor import MISSING


class GradcheckError(RuntimeError):
    "A gradient is wrong"


def gradcheck(*args, **options):
    raise AttributeError(MISSING.format('autograd, which gradcheck needs'))
