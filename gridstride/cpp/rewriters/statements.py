"""Rewrites statements whose meaning differs between CUDA C and C++, and refuses wrong uses of kernels.

The statements are `return` in a kernel, `atomicExch` with an unused result, `malloc`, `free`, `new` and `delete`. A
kernel that is called like a function, or that returns a value, is refused."""

from bisect import bisect_left

from ..frontend.code import Code
from ..frontend.declarations import KEYWORDS, class_name, statement_start
from ..frontend.edits import Edits
from ..frontend.tokens import WrongSource
from ..lint.kernel_signature_check import refuse_wrong_heads
from ..frontend.reader import kernels_in, namespace_of, read_functions
from ..lint.host_device_check import HOST_AND_DEVICE_FUNCTIONS, refuse_wrong_side_calls

_EXCHANGES = {'atomicExch', 'atomicExch_block', 'atomicExch_system'}
_STATEMENT_SEPARATORS = {';', '{', '}', 'else', 'do'}
_HEAP_FUNCTIONS = {'malloc': 'heap_alloc', 'free': 'heap_free'}
_HEAD_KEYWORDS = {'if', 'for', 'while', 'switch'}
# functions of the C library; a kernel may have the same name, and a call without `<<<>>>` then calls the function
_C_FUNCTIONS = {
    *_HEAP_FUNCTIONS,
    *'abort close exit index memcpy memset open pow printf puts read select signal time write'.split(),
}
_RESULT_TYPE_WORDS = {
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
    "Rewrite the statements; raises `WrongSource` for a kernel that is called like a function or returns a value"
    c = e.code
    functions = list(read_functions(c)) if c.macro is None else []
    if c.macro is None:
        _refuse_results(c, functions)
        refuse_wrong_heads(c, functions)
        refuse_wrong_side_calls(c, functions)
        other_functions = {function.name for function in functions if '__global__' not in function.words}
        _refuse_calls(c, {k.name for k in kernels_in(c)} - other_functions - HOST_AND_DEVICE_FUNCTIONS - _C_FUNCTIONS)
        if '__syncthreads' in c.src:
            _rewrite_returns(e)
    if not any(function.name in _EXCHANGES for function in functions):
        _rewrite_exchanges(e)
    _rewrite_heap(e, [function for function in functions if function.name in _HEAP_FUNCTIONS])
    _rewrite_new(e)


def _rewrite_exchanges(e):
    "Rewrite `atomicExch(p, v);`, whose result is unused, to a store"
    c = e.code
    for i in c.find(*_EXCHANGES):
        if c[i + 1] == '(' and c[c.match.get(i + 1, i) + 1] == ';' and _begins_statement(c, i):
            e.replace_tokens(i, i, f'::gridstride::unread::{c[i]}')


def _rewrite_heap(e, functions):
    """Rewrite `malloc` and `free` to functions that allocate on the device in a kernel, and on the host otherwise.

    A `malloc` that the source declares itself, as a member, variable or function, is not rewritten."""
    c = e.code
    calls = [i for i in c.find(*_HEAP_FUNCTIONS) if c[i + 1] == '(']
    declarations = [i for i in calls if _is_declared(c, i)]
    if calls:
        other_uses = [i for i in c.find(*_HEAP_FUNCTIONS) if c[i + 1] != '(']
        hiding_names = _HidingNames(c, declarations + other_uses, functions)
    for i in calls:
        first = i - 2 if (c[i - 2], c[i - 1]) == ('std', '::') else i - 1 if c[i - 1] == '::' else i
        is_qualified = c[i - 1] == '::' and (first < i - 1 and c[first - 1] != '::' or not c.is_word(i - 2))
        is_unqualified = c[i - 1] not in ('.', '->', '::', '*', '&', '~', 'operator')
        if i not in declarations and (is_qualified or is_unqualified and not hiding_names.may_hide(i)):
            e.replace_tokens(first, i, f'::gridstride::{_HEAP_FUNCTIONS[c[i]]}')


def _is_declared(c, i):
    "Return whether the name at `i` is declared there: a type precedes it"
    j = i - 1
    while c[j] in ('*', '&', '&&', 'const'):
        j -= 1
    return c.is_word(j) and c[j] not in KEYWORDS or c[j] == '>' and c.opening_angle(j) is not None


class _HidingNames:
    "The names in a source that hide a function of C's library: members, variables, and functions of a namespace"

    def __init__(self, c, declarations, functions):
        self.c = c
        self.classes = {}
        self.local_names = []
        self.function_names = {
            (function.scope, function.name) for function in functions if '__global__' not in function.words
        }
        for i in declarations:
            opening = c.outer[i]
            while opening >= 0 and c[opening] == '(':
                opening = c.outer[opening]  # a parameter, or a pointer to a function
            if c.scope_kind(opening) == 'type':
                self.classes.setdefault(c[i], set()).add(class_name(c, opening))
            elif c.scope_kind(opening) == 'code' and (c[i + 1] != '(' or c.outer[i] == opening) or c[c.outer[i]] == '(':
                self.local_names.append((c[i], *_enclosing_function(c, i)))

    def may_hide(self, i):
        "Return whether one of these names may hide the function that token `i` names"
        c, name = self.c, self.c[i]
        if any(hiding_name == name and a <= i < b for hiding_name, a, b in self.local_names):
            return True
        namespace = namespace_of(c, i)
        if any(
            hiding_name == name and (not scope or f'{namespace}::'.startswith(f'{scope}::'))
            for scope, hiding_name in self.function_names
        ):
            return True
        return name in self.classes and bool(self.classes[name] & set(_enclosing_classes(c, i)))


def _enclosing_function(c, i):
    "Return (begin, end) of the function whose body or parameters contain token `i`"
    opening = i
    while c.outer[opening] >= 0 and c.scope_kind(c.outer[opening]) == 'code':
        opening = c.outer[opening]
    if c[opening] != '(':
        return opening, c.match.get(opening, opening)
    body = c.find_stop(c.match.get(opening, opening) + 1, ('{', ';'))
    return opening, c.match.get(body, body)


def _enclosing_classes(c, i):
    "Return the classes with members that token `i` may name: the enclosing ones, that of its function, and their bases"
    pending, opening = [], i
    while (opening := c.outer[opening]) >= 0:
        if c.scope_kind(opening) == 'type' and (name := class_name(c, opening)):
            pending.append(name)
        elif c[opening] == '{' and c.scope(opening) == 'namespace' and c.scope_kind(opening) == 'code':
            start = statement_start(c, opening)
            p = c.find_parameter_list(c.skip_template_header(start), opening)
            pending += [c[j] for j in range(start, p or start) if c[j + 1] in ('::', '<')]
    classes = set()
    while pending:
        if (name := pending.pop()) not in classes:
            classes.add(name)
            pending += _bases(c, name)
    return classes


def _bases(c, name):
    "Yield the names after the `:` of the definitions of a class, which include its bases"
    for i in c.find(name):
        end = c.find_stop(i, (':', ';', '{', ',')) if c[i - 1] in ('struct', 'class') else i
        if c[end] == ':':
            yield from (c[j] for j in range(end, c.find_stop(end, ('{', ';'))) if c.is_word(j))


def _rewrite_new(e):
    "Rewrite `new` and `delete` in device functions: they use the heap of the device or of the host that runs them"
    c = e.code
    tokens = c.find('new', 'delete')
    if not tokens or 'operator new' in c.src:
        return
    bodies = _device_functions(c)
    for i in (i for a, b in bodies for i in tokens[bisect_left(tokens, a) : bisect_left(tokens, b)]):
        if c[i] == 'new' and c[i + 1] != '(' and c[i - 1] != '::':
            e.replace_tokens(i, i, 'new (::gridstride::heap)')
        elif c[i] == 'delete' and c[i - 1] not in ('=', '::'):
            is_array = c[i + 1] == '[' and c[i + 2] == ']'
            initializer = '{__LINE__, true}' if is_array else '{__LINE__, false}'
            e.replace_tokens(i, i + 2 * is_array, f'::gridstride::Discard{initializer}->*')


def _device_functions(c):
    "Return a list with (begin, end) of the body of each device function and kernel"
    bodies, end = [], -1
    for i in c.find('__global__', '__device__'):
        if i > end:
            body = c.find_stop(i, ('{', ';'))
            end = c.match.get(body, body)
            bodies.append((body, end))
    return bodies


def _begins_statement(c, i):
    "Return whether a statement begins at token `i`, or with a cast before it"
    if c[i - 1] == '::':
        i -= 1
    if c[i - 1] != ')':
        return c[i - 1] in _STATEMENT_SEPARATORS or c[i - 1] == ':' and not _is_conditional_operator(c, i - 1)
    opening = c.match.get(i - 1, i - 1)
    return c[opening - 1] in _HEAD_KEYWORDS or c[opening - 1] == 'constexpr' or _begins_statement(c, opening)


def _is_conditional_operator(c, i):
    "Return whether the `:` at `i` belongs to a `?`, not to a label"
    while i > 0 and c[i - 1] not in (';', '{', '}'):
        i -= 1
        if c[i] == '?':
            return True
    return False


def _rewrite_returns(e):
    "Rewrite `return` in a kernel to record its line, so that synccheck can report a thread that exits before a barrier"
    c = e.code
    for i in c.find_specifiers('__global__'):
        if c.scope(i) != 'namespace':
            continue
        body = c.find_stop(i, ('{', ';'))
        for j in c.find_between('return', body, c.match.get(body, body)):
            if c[j + 1] == ';' and not _is_in_lambda(c, j, body):
                line = '__LINE__ + 1' if _is_after_barrier(c, j) else '__LINE__'
                e.replace_tokens(j, j, f'return ::gridstride::record_return({line})')


def _is_after_barrier(c, i):
    "Return whether there is a barrier before token `i` on the same line"
    line, i = c.line(i), i - 1
    while i > 0 and c.line(i) == line:
        if c[i].startswith('__syncthreads') or c[i] in ('sync', 'barrier_sync'):
            return True
        i -= 1
    return False


def _is_in_lambda(c, i, body):
    "Return whether token `i` is in a lambda, or in a member of a local class, in the function with this body"
    opening = c.outer[i]
    while opening != body:
        previous = c[opening - 1]
        if c[opening] == '{' and (previous == ']' or previous in ('mutable', 'const', 'noexcept') or previous == ')'
                            and c[c.match[opening - 1] - 1] not in _HEAD_KEYWORDS | {'constexpr'}):  # fmt: skip
            return True
        opening = c.outer[opening]
    return False


def _refuse_results(c: Code, functions):
    for function in functions:
        if (
            '__global__' in function.words
            and function.result_type
            and set(function.result_type.split()) <= _RESULT_TYPE_WORDS
        ):
            name = function.name
            message = f'{name} is a kernel, which returns nothing: `__global__ void {name}(...)`, and write to an array'
            i = next(i for i in c.find(function.name) if c.line(i) == function.line)
            raise c.error(WrongSource, message, i)


def _refuse_calls(c: Code, kernels):
    for i in c.find(*kernels):
        if c.scope(i) != 'code' or c[i - 1] in ('.', '->'):
            continue
        end = c.closing_angle(i + 1) if c[i + 1] == '<' else i
        is_declaration = c.is_word(i - 1) and c[i - 1] not in KEYWORDS or c[i - 1] in ('*', '&', '>')
        if end is not None and c[end + 1] == '(' and not is_declaration:
            message = f'{c[i]} is a kernel: launch it with a grid and a block, as in {c[i]}<<<grid, block>>>(...)'
            raise c.error(WrongSource, message, i)
