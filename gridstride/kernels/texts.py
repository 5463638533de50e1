"""What precedes the source of a kernel when it is compiled: its headers, its types and its constants."""

from functools import lru_cache
from importlib.resources import files

from .ladder.rung import constants_line

# torch's types -> C's
IN_C = {
    'float64': 'double',
    'float32': 'float',
    'float16': '__half',
    'bfloat16': '__nv_bfloat16',
    'int32': 'int',
    'int16': 'short',
    'uint8': 'unsigned char',
}
_HEADERS = {'__half': 'cuda_fp16.h', '__nv_bfloat16': 'cuda_bf16.h'}


@lru_cache(1024)
def with_types(
    text,
    types,  # ((name in the text, C), ...)
    constants,  # ((name in the text, int), ...)
    between='',  # C that needs the types, and that the text needs
) -> str:
    "CUDA C of a source after its types and constants, ready to be compiled"
    headers = sorted({f'#include <{_HEADERS[c]}>\n' for _, c in types if c in _HEADERS})
    typedefs = ''.join(f'typedef {c} {o};\n' for o, c in types)
    return f'{"".join(headers)}{typedefs}{constants_line(dict(constants))}\n{between}{text}'


def source_loader(
    package,  # the `__package__` of the caller
):
    "A function that returns the text of NAME.cuh in a package"

    @lru_cache
    def source(name) -> str:
        return files(package).joinpath(f'{name}.cuh').read_text(encoding='utf-8')

    return source
