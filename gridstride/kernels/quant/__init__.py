"""Quantized matrices: formats, packing, GEMMs, and linear layers. The modules need torch, so they are imported on
first use.

The modules: `formats` and `block_formats` (quantization in plain torch), `fragments` (the element order that tensor
cores read), `packed` (packing, and GEMMs with few rows), `mixed` (GEMMs with many rows), `eight_bits` (GEMMs
of 8-bit types), `linear` (`QuantLinear`), `model_conversion` (`quantize` and `dequantize`), `calls` (the launches),
`sources` (assembles the CUDA C of `*.cuh`), `programs` (standalone programs for `export`).
"""

from ...support.lazy_exports import lazy_exports_of

_NAMES = {
    'model_conversion': ('quantize', 'dequantize'),
    'linear': ('QuantLinear',),
    'packed': ('PackedMatrix', 'matvec', 'pack', 'unpack'),
    'eight_bits': ('multiply_fp8', 'multiply_int8'),
    'sources': ('source',),
}
PUBLIC_NAMES = 'quantize', 'dequantize'
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
