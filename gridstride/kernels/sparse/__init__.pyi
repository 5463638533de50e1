# Made by tests/front_stubs.py from the exports of this package, which are imported on first use.
from .blocks import BlockSparseMatrix as BlockSparseMatrix
from .blocks import from_blocks as from_blocks
from .blocks import multiply_blocks as multiply_blocks
from .blocks import prune_blocks as prune_blocks
from .blocks import to_blocks as to_blocks
from .csr import CsrMatrix as CsrMatrix
from .csr import from_csr as from_csr
from .csr import multiply_csr as multiply_csr
from .csr import prune_single as prune_single
from .csr import to_csr as to_csr
from .linear import TwoFourLinear as TwoFourLinear
from .model_conversion import densify as densify
from .model_conversion import prune_24 as prune_24
from .two_four import TwoFourMatrix as TwoFourMatrix
from .two_four import multiply_24 as multiply_24
from .two_four import pack_24 as pack_24
from .two_four import unpack_24 as unpack_24
