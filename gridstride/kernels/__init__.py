"""Matrix products by hand, rung by rung, and `matmul`, which picks the right one."""

from .ladder import Ladder, right
from .choice import explain, matmul, plan, tune, using
from .rung import Rung

__all__ = ['Ladder', 'right', 'explain', 'matmul', 'plan', 'tune', 'using', 'Rung']
