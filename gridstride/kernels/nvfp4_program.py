"""The standalone program of the NVFP4 product of the Blackwell ladder, for `export`."""

from .ladder import blackwell
from .ladder.rung import KernelLaunch
from .standalone import BLACKWELL, Launch, Program

_ARRAYS = 'a', 'b', 'a_scales', 'b_scales', 'out'
_DESCRIPTION = """Lesson tensor_memory, `nvfp4`:
out (128 x 64) = a (128 x 256) @ b (64 x 256).T; a and b have elements of 4 bits (e2m1) and a scale (e4m3) per 16."""


def programs() -> list:
    "Return the `Program` of the NVFP4 product"
    launch = KernelLaunch(blackwell.nvfp4_src, 'nvfp4_k', _ARRAYS, (), (1,), (128,))
    parameters = ', '.join(f'const uint4 *{name}' for name in _ARRAYS[:-1])
    functions = {f'void multiply(int case_index, {parameters}, float *out)': [[Launch(launch, (*_ARRAYS, 'FACTOR'))]]}
    constants = 'constexpr int H = 128, W = 64, K = 256;\nconstexpr float FACTOR = 0.375f;'
    main_file = 'nvfp4_main.cuh'
    return [Program('tensor_memory_nvfp4', _DESCRIPTION, main_file, '', (), functions, constants, BLACKWELL)]
