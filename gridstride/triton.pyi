# What editors and type checkers see: the names that there are without Triton, too.
from .tile import language as language
from .tile.triton_shim import Config as Config
from .tile.triton_shim import autotune as autotune
from .tile.triton_shim import cdiv as cdiv
from .tile.triton_shim import heuristics as heuristics
from .tile.triton_shim import jit as jit
from .tile.triton_shim import next_power_of_2 as next_power_of_2
