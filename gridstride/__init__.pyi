# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from . import asm as asm
from . import bench as bench
from . import cpp as cpp
from . import cuda as cuda
from . import draw as draw
from . import kernels as kernels
from . import prof as prof
from . import sim as sim
from . import tile as tile
from . import translate as translate
from . import triton as triton
from .cpp import cuda_kernel as cuda_kernel
from .cpp import load_cuda as load_cuda
from .translate import to_cuda as to_cuda
from .utils import cdiv as cdiv
from .utils import check as check
from .utils import dim3 as dim3
from .utils import get_signature as get_signature
from .utils import show_img as show_img

__version__: str
