"torch.autograd: what defines functions with a backward pass; none can be applied, because there are no gradients"

from .._tensor import MISSING


def __getattr__(name):
    raise AttributeError(MISSING.format(f'torch.autograd.{name}'))


class Function:
    "The base of functions with a backward pass"

    @classmethod
    def apply(cls, *args):
        raise AttributeError(MISSING.format(f'autograd, which {cls.__name__}.apply needs'))
