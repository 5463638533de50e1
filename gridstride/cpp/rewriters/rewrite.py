"""Rewrites CUDA C to C++ that a compiler for the CPU accepts, line by line.

Most of CUDA C is C++: a header defines `__global__`, `threadIdx` and `__syncthreads` as macros, objects and functions.
`to_cpp` rewrites everything else: launches `k<<<grid, block>>>(x)`, variables in shared memory, lambdas that use them,
device variables, inline PTX, and `__noinline__`, which is also a name in the standard library. Every token stays on its
line, so that the compiler reports the lines of the learner's source. There is one exception: if a launch has several
lines, the name of the kernel moves to the line of the `>>>`.
"""

import re
from functools import lru_cache

from ...support.lazy_exports import paused_garbage_collection
from .captures import rewrite_captures
from ..frontend.edits import Edits, NotEmulated, apply, apply_to_tokenized
from ..frontend.preprocessor import DEFINE
from .inline_asm import rewrite_asm
from .launches import rewrite_launches
from ..frontend.reader import kernels_in, read
from .statements import rewrite_statements
from ..frontend.tokens import WrongSource, directives, error_at
from .variables import rewrite_shared, rewrite_symbols


def _rewrite_inlining(edits):
    """Rewrite `__noinline__`, and drop `always_inline`.

    The former cannot be a macro, as libstdc++ has an attribute of that name; nvcc ignores the latter without `inline`,
    but g++ rejects it."""
    code = edits.code
    for i in code.find('__noinline__', 'always_inline', '__always_inline__'):
        if code[i] == '__noinline__':
            if code[i - 1] != '(':
                edits.replace_tokens(i, i, 'GRIDSTRIDE_NOINLINE')
        elif code[i - 1] in ('(', ',') and code[i + 1] in (')', ','):
            edits.replace_tokens(i, i, 'unused')


def _rewrite_builtins(edits):
    "Rewrite builtin copies to calls of functions: g++ hides a builtin of constant length from the detectors"
    for i in edits.code.find('__builtin_memcpy', '__builtin_memmove', '__builtin_memset'):
        edits.replace_tokens(i, i, edits.code[i].replace('__builtin', 'gridstride'))


def _rewrite_launch_bounds(edits):
    "Insert code that checks launch bounds into the body of a kernel, where its template arguments are known"
    code = edits.code
    for i in code.find('__cluster_dims__', '__launch_bounds__'):
        if code[i + 1] != '(':
            continue
        has_cluster_dims = code[i] == '__cluster_dims__'
        if has_cluster_dims and any('static thread_local' in text for *_, text in edits.edits):
            message = 'the emulator does not support file-scope __shared__ variables in a source with cluster kernels'
            raise code.error(NotEmulated, f'{message}: declare them in the function that uses them', i)
        body = next((j for j in range(code.match[i + 1], len(code)) if code[j] in ('{', ';')), None)
        if body and code[body] == '{':
            stop = code.match[i + 1]
            if not has_cluster_dims:  # the third argument, the maximum number of blocks per cluster, has no effect
                comma = code.find_stop(i + 2, (',',))
                stop = comma if comma == stop else code.find_stop(comma + 1, (',',))
            argument = code.text(range(i + 2, stop))
            call = (
                f'require_cluster_shape(dim3({argument}))' if has_cluster_dims else f'check_launch_bounds({argument})'
            )
            edits.insert(code.end(body), f' ::gridstride::{call};')


def _reject_surrogates(src):
    "Raise `WrongSource` for half of a surrogate pair, which cannot be encoded in a file"
    try:
        src.encode()
    except UnicodeEncodeError as e:
        message = f'{src[e.start]!a} is half of a character (a surrogate), which a source file cannot contain'
        raise error_at(WrongSource, f'{message}: pass a string that was decoded as UTF-8', src, e.start) from None


_LINE_NUMBER = re.compile(r'#\s*(?:line\b|\d)')


def strip_line_directives(src: str) -> str:
    "Drop `#line` and the byte order mark from `src`, so that line 1 is its first line"
    src = src.removeprefix('\ufeff')
    _reject_surrogates(src)
    line_numbers = [t for t in directives(src) if _LINE_NUMBER.match(t.text)]
    return apply(src, [(t.start, t.end, '\n' * t.text.count('\n')) for t in line_numbers])


_REWRITES = (rewrite_asm, _rewrite_inlining, rewrite_launches, rewrite_shared, rewrite_symbols, _rewrite_launch_bounds)
_REWRITES += (rewrite_captures, rewrite_statements, _rewrite_builtins)
# A macro is rewritten only if its body has one of `_REWRITTEN_TOKENS`, and does not consist of `_SPECIFIERS` alone.
_SPECIFIERS = frozenset('__device__ __global__ __host__ __forceinline__ __inline__ inline static'.split())
_REWRITTEN_TOKENS = frozenset(
    'asm __asm__ __asm __noinline__ always_inline __always_inline__ '
    '__builtin_memcpy __builtin_memmove __builtin_memset '
    '__cluster_dims__ __launch_bounds__ <<< cudaLaunchKernel cudaLaunchCooperativeKernel func __shared__ __managed__ '
    '__constant__ __device__ __global__ atomicExch atomicExch_block atomicExch_system malloc free new delete'.split()
)


def _pragma_edits(src):
    "Yield edits that replace a pragma in the body of a macro, which only nvcc accepts, by `_Pragma`"
    for line in directives(src):
        if (m := DEFINE.match(line.text)) and m[2] is None and (pragma := _PRAGMA.match(line.text, m.end())):
            yield line.start + pragma.start(1), line.start + pragma.end(1), f'_Pragma("{pragma[2]}")'


_PRAGMA = re.compile(r'[ \t]*(#[ \t]*pragma[ \t]+([\w \t()]*[\w)]))')


def _parameter_names_code(kernels):
    "Return C++ code that registers the names of the kernels' parameters"
    names = ((kernel.name, ','.join(p.name for p in kernel.params)) for kernel in kernels)
    rows = ', '.join(f'{{"{name}", "{parameters}"}}' for name, parameters in names)
    return f'static const ::gridstride::ParameterNames gs_names[] = {{{rows}}};'


@lru_cache(16)  # because cells are run repeatedly, and kernels are compiled with checks and without
@paused_garbage_collection()
def to_cpp(
    src: str,  # CUDA C
    register_names=True,  # of the kernels' parameters; False for a header, which may be included twice
    shared=(),  # the result of `shared_variables` for all files of the program
) -> str:  # C++17 that needs `emulator.h`; the same lines, and one more if there are kernels
    """Rewrite `src` for the emulator.

    All branches of an `#if` that may be compiled are rewritten. Raises `NotEmulated` for unsupported PTX,
    `WrongSource` for unmatched brackets and for an invalid launch."""
    source = read(src)
    kernels = kernels_in(source.main)
    pointers = {k.name: [n for n, p in enumerate(k.params) if p.type.endswith('*')] for k in kernels}
    rewritten = _REWRITTEN_TOKENS | source.launchers | source.main.aliases.keys()
    macros = [c for c in source.macros if not (rewritten.isdisjoint(c.texts) or _SPECIFIERS.issuperset(c.texts))]
    edits_of_code = [Edits(c, source, pointers, shared, not register_names) for c in (source.main, *macros)]
    for e in edits_of_code:
        for rewrite in _REWRITES:
            rewrite(e)
    edits = [edit for e in edits_of_code for edit in e.edits]
    edits += _pragma_edits(src) if 'pragma' in src else []
    if register_names and kernels:
        registration = _parameter_names_code(kernels)
        if any(e.has_plain_variables for e in edits_of_code):
            registration += ' static const ::gridstride::PlainVariables gs_plain;'
        line_end = '' if src.endswith('\n') else '\n'
        edits.append((len(src), len(src), f'{line_end}{registration}\n'))
    return apply_to_tokenized(src, edits)
