# What editors and type checkers see: the simulator's names, which are those of `numba.cuda`.
from .sim.cuda import *  # noqa: F403
from .sim.cuda import __getattr__ as __getattr__
