# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .batches import bmm as bmm
from .batches import grouped_mm as grouped_mm
from .epilogues import Epilogue as Epilogue
from .epilogues import explain_with as explain_with
from .mlps import mlp as mlp
from .sources import Activation as Activation
