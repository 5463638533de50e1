"""Keys of recordings: a hash of everything that determines a recorded result, so that no stale recording is shown.

Comments and line breaks of CUDA C do not change a result; `without_comments` removes them.
"""

import ast
import hashlib
import re
from textwrap import dedent

from ..support.function_source import SourceMissing, source_of

__all__ = ['unwrap_kernel', 'key', 'source_text', 'without_comments']


def unwrap_kernel(fn):
    "Return the Python function of a Numba or Triton kernel; `fn` itself if it is neither"
    while (inner := getattr(fn, 'py_func', getattr(fn, 'fn', None))) is not None:
        fn = inner
    return fn


_CUDA_C = re.compile(r'\b__(?:global|device)__\b')
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.S)


def _is_python(text):
    "Return whether a string parses as Python, like a program with CUDA C in its strings, or the `repr` of an object"
    try:
        ast.parse(dedent(text))
    except (SyntaxError, ValueError):
        return False
    return True


def _is_cuda_c(text):
    """Return whether a string is CUDA C.

    A string that quotes CUDA C with `\\n` instead of line breaks is not, because its comments would never end."""
    is_quoted = '\n' not in text and r'\n' in text
    return bool(_CUDA_C.search(text)) and not is_quoted and not _is_python(text)


def without_comments(text: str) -> str:
    """Return CUDA C without comments, on one line; any other string unchanged.

    >>> without_comments('__global__ void k() { // one thread\\n    f();\\n}')
    '__global__ void k() { f(); }'"""
    return ' '.join(_COMMENT.sub(lambda m: m[1] or ' ', text).split()) if _is_cuda_c(text) else text


class _FunctionSource(str):
    "The source of a Python function, in which // does not begin a comment"


def source_text(fn) -> str:
    "Return the source of a function, class or kernel"
    fn = unwrap_kernel(fn)
    text = getattr(fn, 'src', None)  # a kernel in CUDA C stores its source
    return text if isinstance(text, str) else _FunctionSource(source_of(fn).as_written)


def _without_comments(text):
    return text if isinstance(text, _FunctionSource) else without_comments(text)


# An array contributes its type and shape to the key, not its values, which are random; a function, its source.
def _serialize(x):
    "Serialize `x` to a string that is identical in every process"
    if isinstance(x, str):
        return repr(_without_comments(x))
    if x is None or isinstance(x, (bool, int, float, bytes)):
        return repr(x)
    if hasattr(x, 'shape') and hasattr(x, 'dtype'):
        return f"{str(x.dtype).removeprefix('torch.')}{tuple(x.shape)}"
    if isinstance(x, dict):
        return f"{{{','.join(f'{_serialize(k)}:{_serialize(x[k])}' for k in sorted(x, key=str))}}}"
    if isinstance(x, (tuple, list)):
        return f"[{','.join(map(_serialize, x))}]"
    try:
        return _without_comments(source_text(x))
    except SourceMissing:
        raise TypeError(
            f'a recording cannot be keyed by {x!r}: pass strings, numbers, arrays, functions, or tuples, lists and '
            'dicts of them'
        ) from None


def key(*parts) -> str:  # 16 hexadecimal digits
    "Return a hash of everything that determines a result"
    return hashlib.sha256('\0'.join(map(_serialize, parts)).encode()).hexdigest()[:16]
