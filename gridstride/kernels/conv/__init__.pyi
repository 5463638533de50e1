# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .images import conv2d as conv2d
from .images import explain_conv2d as explain_conv2d
from .sequences import conv1d as conv1d
from .sequences import conv1d_update as conv1d_update
from .sources import source as source
