"""Statements that mean something else in CUDA C than in C++: a kernel's `return`, an exchange whose result nobody
takes, `malloc`, `free`, `new` and `delete`, a kernel that is called like a function, and one that returns something."""

from .code import Code
from .declarations import KEYWORDS
from .edits import Edits
from .tokens import WrongSource
from .kernel_heads import refuse_wrong_heads
from .reader import kernels_in, read_functions
from .sides import refuse_wrong_sides

_EXCHANGES = {'atomicExch', 'atomicExch_block', 'atomicExch_system'}
_BEFORE_STATEMENTS = {';', '{', '}', 'else', 'do'}
_HEAP = {'malloc': 'heap_alloc', 'free': 'heap_free'}
_HEADS = {'if', 'for', 'while', 'switch'}
_RESULTS = {
    'const',
    'signed',
    'unsigned',
    'bool',
    'char',
    'short',
    'int',
    'long',
    'float',
    'double',
    'auto',
    'decltype',
    '(auto)',
    '*',
    '&',
}


def rewrite_statements(e: Edits):
    "All of them; `WrongSource` for a kernel that is called like a function or returns something"
    c = e.code
    own = list(read_functions(c)) if c.macro is None else []
    if c.macro is None:
        _refuse_results(c, own)
        refuse_wrong_heads(c, own)
        refuse_wrong_sides(c, own)
        _refuse_calls(c, {k.name for k in kernels_in(c)} - {f.name for f in own if '__global__' not in f.words})
        if '__syncthreads' in c.src:
            _rewrite_returns(e)
    if not any(f.name in _EXCHANGES for f in own):
        _rewrite_exchanges(e)
    if not any(f.name in _HEAP for f in own):
        _rewrite_heap(e)
    if 'operator new' not in c.src:
        _rewrite_new(e)


def _rewrite_exchanges(e):
    "`atomicExch(p, v);`, whose result nobody takes, only writes"
    c = e.code
    for i in c.find(*_EXCHANGES):
        if c[i + 1] == '(' and c[c.mate.get(i + 1, i) + 1] == ';' and _begins(c, i):
            e.replace_tokens(i, i, f'::gridstride::unread::{c[i]}')


def _rewrite_heap(e):
    "`malloc` and `free` of a kernel are the device's, those of the host are its own: which, the running code tells"
    c = e.code
    for i in c.find(*_HEAP):
        if c[i + 1] == '(' and c[i - 1] not in ('.', '->', '::', '*', '&'):
            e.replace_tokens(i, i, f'::gridstride::{_HEAP[c[i]]}')


def _rewrite_new(e):
    "`new` and `delete` of device functions: of the device or of the host, as the running code tells"
    c = e.code
    found = c.find('new', 'delete')
    bodies = _device_functions(c) if found else []
    for i in (i for i in found if any(a <= i < b for a, b in bodies)):
        if c[i] == 'new' and c[i + 1] != '(' and c[i - 1] != '::':
            e.replace_tokens(i, i, 'new (::gridstride::heap)')
        elif c[i] == 'delete' and c[i - 1] not in ('=', '::'):
            array = c[i + 1] == '[' and c[i + 2] == ']'
            how = '{__LINE__, true}' if array else '{__LINE__, false}'
            e.replace_tokens(i, i + 2 * array, f'::gridstride::Discard{how}->*')


def _device_functions(c):
    "(begin, end) of the body of each function that a GPU runs"
    res, last = [], -1
    for i in c.find('__global__', '__device__'):
        if i > last:
            body = c.until(i, ('{', ';'))
            last = c.mate.get(body, body)
            res.append((body, last))
    return res


def _begins(c, i):
    "Does a statement begin at token `i`, or at a cast before it?"
    if c[i - 1] == '::':
        i -= 1
    if c[i - 1] != ')':
        return c[i - 1] in _BEFORE_STATEMENTS or c[i - 1] == ':' and not _chooses(c, i - 1)
    o = c.mate.get(i - 1, i - 1)
    return c[o - 1] in _HEADS or c[o - 1] == 'constexpr' or _begins(c, o)


def _chooses(c, i):
    "Belongs the `:` at `i` to a `?`, and not to a label?"
    while i > 0 and c[i - 1] not in (';', '{', '}'):
        i -= 1
        if c[i] == '?':
            return True
    return False


def _rewrite_returns(e):
    "A thread that returns before a barrier says where, so that it is no thread that has passed the barrier by"
    c = e.code
    returns = [j for j in c.find('return') if c[j + 1] == ';']
    for i in c.find_specifiers('__global__'):
        if c.scope(i) != 'namespace':
            continue
        body = c.until(i, ('{', ';'))
        for j in returns:
            if body <= j < c.mate.get(body, body) and not _in_lambda(c, j, body):
                line = '__LINE__ + 1' if _behind_barrier(c, j) else '__LINE__'
                e.replace_tokens(j, j, f'return ::gridstride::returns({line})')


def _behind_barrier(c, i):
    "Stands a barrier before token `i` on its line?"
    line, i = c.line(i), i - 1
    while i > 0 and c.line(i) == line:
        if c[i].startswith('__syncthreads') or c[i] in ('sync', 'barrier_sync'):
            return True
        i -= 1
    return False


def _in_lambda(c, i, body):
    "Is token `i` in a lambda, or in a function of a local type, of the function with this body?"
    o = c.outer[i]
    while o != body:
        before = c[o - 1]
        if c[o] == '{' and (before == ']' or before in ('mutable', 'const', 'noexcept') or before == ')'
                            and c[c.mate[o - 1] - 1] not in _HEADS | {'constexpr'}):  # fmt: skip
            return True
        o = c.outer[o]
    return False


def _refuse_results(c: Code, functions):
    for f in functions:
        if '__global__' in f.words and f.returns and set(f.returns.split()) <= _RESULTS:
            what = (
                f'{f.name} is a kernel, which returns nothing: `__global__ void {f.name}(...)`, and write to an array'
            )
            i = next(i for i in c.find(f.name) if c.line(i) == f.line)
            raise c.error(WrongSource, what, i)


def _refuse_calls(c: Code, kernels):
    for i in c.find(*kernels):
        if c.scope(i) != 'code' or c[i - 1] in ('.', '->'):
            continue
        end = c.angle(i + 1) if c[i + 1] == '<' else i
        declares = c.is_word(i - 1) and c[i - 1] not in KEYWORDS or c[i - 1] in ('*', '&', '>')
        if end is not None and c[end + 1] == '(' and not declares:
            what = f'{c[i]} is a kernel: say how many blocks of how many threads, as in {c[i]}<<<grid, block>>>(...)'
            raise c.error(WrongSource, what, i)
