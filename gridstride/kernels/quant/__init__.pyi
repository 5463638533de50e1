# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .eight_bits import multiply_fp8 as multiply_fp8
from .eight_bits import multiply_int8 as multiply_int8
from .linear import QuantLinear as QuantLinear
from .model_conversion import dequantize as dequantize
from .model_conversion import quantize as quantize
from .packed import PackedMatrix as PackedMatrix
from .packed import matvec as matvec
from .packed import pack as pack
from .packed import unpack as unpack
from .sources import source as source
