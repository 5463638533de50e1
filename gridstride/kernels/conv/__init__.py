"""Convolutions: `conv2d`, `conv1d` (depthwise and causal, with a state), `conv1d_update` (one step of it).

The modules: `problems` (sizes, argument checks, and the rules for falling back to torch), `images` (`conv2d`),
`sequences` (`conv1d`, `conv1d_update`), `tiles` and `nhwc_tiles` (launches of depthwise convolutions), `implicit_gemm`
(launches of dense ones), `sources` (assembles the CUDA C of `*.cuh`), `programs` (standalone programs for `export`).
`explain_conv2d` names the kernels that a call launches, or the reason why torch computes the result.
"""

from ...support.lazy_exports import lazy_exports_of

_NAMES = {'images': ('conv2d', 'explain_conv2d'), 'sequences': ('conv1d', 'conv1d_update'), 'sources': ('source',)}
PUBLIC_NAMES = 'conv2d', 'explain_conv2d', 'conv1d', 'conv1d_update'
__all__, __getattr__, __dir__ = lazy_exports_of(__name__, _NAMES)
