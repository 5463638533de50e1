"""Assemble the source of a kernel: headers, typedefs, constants, and the body."""

from functools import lru_cache
from importlib.resources import files

from .ladder.rung import constants_line

C_TYPES = {  # dtype -> type in CUDA C
    'float64': 'double',
    'float32': 'float',
    'float16': '__half',
    'bfloat16': '__nv_bfloat16',
    'int32': 'int',
    'int16': 'short',
    'uint8': 'unsigned char',
}
_HEADER_OF_TYPE = {'__half': 'cuda_fp16.h', '__nv_bfloat16': 'cuda_bf16.h'}


@lru_cache(1024)
def assemble_source(
    body,  # CUDA C of the kernel
    types,  # ((name in the body, its C type), ...)
    constants,  # ((name in the body, its integer value), ...)
    preamble='',  # CUDA C between the constants and the body
) -> str:
    "Return a source that can be compiled: headers, typedefs, constants, preamble and body"
    headers = sorted({f'#include <{_HEADER_OF_TYPE[c_type]}>\n' for _, c_type in types if c_type in _HEADER_OF_TYPE})
    typedefs = ''.join(f'typedef {c_type} {name};\n' for name, c_type in types)
    return f'{"".join(headers)}{typedefs}{constants_line(dict(constants))}\n{preamble}{body}'


def source_loader(
    package,  # the `__package__` of the caller
):
    "Return a function that reads NAME.cuh in a package: `source(name)`"

    @lru_cache
    def source(name) -> str:
        return files(package).joinpath(f'{name}.cuh').read_text(encoding='utf-8')

    return source
