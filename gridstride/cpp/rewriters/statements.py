"""Rewrites statements whose meaning differs between CUDA C and C++, and rejects invalid uses of kernels.

The statements are `return` in a kernel, `atomicExch` with an unused result, `malloc`, `free`, `new` and `delete`. A
kernel that is called like a function, or that returns a value, is rejected."""

from bisect import bisect_left

from ..frontend.code import Code
from ..frontend.declarations import KEYWORDS, class_name, statement_start
from ..frontend.edits import Edits
from ..frontend.tokens import WrongSource
from ..lint.kernel_signature_check import reject_invalid_kernels
from ..frontend.reader import kernels_in, namespace_of, read_functions
from ..lint.host_device_check import HOST_AND_DEVICE_FUNCTIONS, reject_wrong_execution_space

_EXCHANGES = {'atomicExch', 'atomicExch_block', 'atomicExch_system'}
_STATEMENT_SEPARATORS = {';', '{', '}', 'else', 'do'}
_HEAP_FUNCTIONS = {'malloc': 'heap_alloc', 'free': 'heap_free'}
_CONTROL_KEYWORDS = {'if', 'for', 'while', 'switch'}
# functions of the C library; a kernel may have the same name, and a call without `<<<>>>` then calls the function
_C_FUNCTIONS = {
    *_HEAP_FUNCTIONS,
    *'abort close exit index memcpy memset open pow printf puts read select signal time write'.split(),
}
_RESULT_TYPE_TOKENS = {
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


def rewrite_statements(edits: Edits):
    "Rewrite the statements; raises `WrongSource` for a kernel that is called like a function or returns a value"
    code = edits.code
    functions = list(read_functions(code)) if code.macro is None else []
    if code.macro is None:
        _reject_results(code, functions)
        reject_invalid_kernels(code, functions)
        reject_wrong_execution_space(code, functions)
        other_functions = {function.name for function in functions if '__global__' not in function.specifiers}
        _reject_calls(
            code, {k.name for k in kernels_in(code)} - other_functions - HOST_AND_DEVICE_FUNCTIONS - _C_FUNCTIONS
        )
        if '__syncthreads' in code.src:
            _rewrite_returns(edits)
    if not any(function.name in _EXCHANGES for function in functions):
        _rewrite_exchanges(edits)
    _rewrite_heap(edits, [function for function in functions if function.name in _HEAP_FUNCTIONS])
    _rewrite_new(edits)


def _rewrite_exchanges(edits):
    "Rewrite `atomicExch(p, v);`, whose result is unused, to a store"
    code = edits.code
    for i in code.find(*_EXCHANGES):
        if code[i + 1] == '(' and code[code.match.get(i + 1, i) + 1] == ';' and _begins_statement(code, i):
            edits.replace_tokens(i, i, f'::gridstride::unread::{code[i]}')


def _rewrite_heap(edits, functions):
    """Rewrite `malloc` and `free` to functions that allocate on the device in a kernel, and on the host otherwise.

    A `malloc` that the source itself declares, as a member, variable or function, is not rewritten."""
    code = edits.code
    calls = [i for i in code.find(*_HEAP_FUNCTIONS) if code[i + 1] == '(']
    declarations = [i for i in calls if _is_declared(code, i)]
    if calls:
        other_uses = [i for i in code.find(*_HEAP_FUNCTIONS) if code[i + 1] != '(']
        hiding_names = _HidingNames(code, declarations + other_uses, functions)
    for i in calls:
        first = i - 2 if (code[i - 2], code[i - 1]) == ('std', '::') else i - 1 if code[i - 1] == '::' else i
        is_qualified = code[i - 1] == '::' and (first < i - 1 and code[first - 1] != '::' or not code.is_word(i - 2))
        is_unqualified = code[i - 1] not in ('.', '->', '::', '*', '&', '~', 'operator')
        if i not in declarations and (is_qualified or is_unqualified and not hiding_names.may_hide(i)):
            edits.replace_tokens(first, i, f'::gridstride::{_HEAP_FUNCTIONS[code[i]]}')


def _is_declared(code, i):
    "Return whether the name at `i` is declared there: a type precedes it"
    j = i - 1
    while code[j] in ('*', '&', '&&', 'const'):
        j -= 1
    return code.is_word(j) and code[j] not in KEYWORDS or code[j] == '>' and code.opening_angle(j) is not None


class _HidingNames:
    "The names in a source that hide a function of the C library: members, variables, and functions of a namespace"

    def __init__(self, code, declarations, functions):
        self.code = code
        self.classes = {}
        self.local_names = []
        self.function_names = {
            (function.scope, function.name) for function in functions if '__global__' not in function.specifiers
        }
        for i in declarations:
            opening = code.parent[i]
            while opening >= 0 and code[opening] == '(':
                opening = code.parent[opening]  # a parameter, or a pointer to a function
            if code.scope_kind(opening) == 'type':
                self.classes.setdefault(code[i], set()).add(class_name(code, opening))
            elif (
                code.scope_kind(opening) == 'code'
                and (code[i + 1] != '(' or code.parent[i] == opening)
                or code[code.parent[i]] == '('
            ):
                self.local_names.append((code[i], *_enclosing_function(code, i)))

    def may_hide(self, i):
        "Return whether one of these names may hide the function that token `i` names"
        code, name = self.code, self.code[i]
        if any(hiding_name == name and a <= i < b for hiding_name, a, b in self.local_names):
            return True
        namespace = namespace_of(code, i)
        if any(
            hiding_name == name and (not scope or f'{namespace}::'.startswith(f'{scope}::'))
            for scope, hiding_name in self.function_names
        ):
            return True
        return name in self.classes and bool(self.classes[name] & set(_enclosing_classes(code, i)))


def _enclosing_function(code, i):
    "Return (begin, end) of the function whose body or parameters contain token `i`"
    opening = i
    while code.parent[opening] >= 0 and code.scope_kind(code.parent[opening]) == 'code':
        opening = code.parent[opening]
    if code[opening] != '(':
        return opening, code.match.get(opening, opening)
    body = code.find_stop(code.match.get(opening, opening) + 1, ('{', ';'))
    return opening, code.match.get(body, body)


def _enclosing_classes(code, i):
    "Return the classes with members that token `i` may name: the enclosing ones, that of its function, and their bases"
    pending, opening = [], i
    while (opening := code.parent[opening]) >= 0:
        if code.scope_kind(opening) == 'type' and (name := class_name(code, opening)):
            pending.append(name)
        elif code[opening] == '{' and code.scope(opening) == 'namespace' and code.scope_kind(opening) == 'code':
            start = statement_start(code, opening)
            paren = code.find_parameter_list(code.skip_template_header(start), opening)
            pending += [code[j] for j in range(start, paren or start) if code[j + 1] in ('::', '<')]
    classes = set()
    while pending:
        if (name := pending.pop()) not in classes:
            classes.add(name)
            pending += _bases(code, name)
    return classes


def _bases(code, name):
    "Yield the names after the `:` of the definitions of a class, which include its bases"
    for i in code.find(name):
        end = code.find_stop(i, (':', ';', '{', ',')) if code[i - 1] in ('struct', 'class') else i
        if code[end] == ':':
            yield from (code[j] for j in range(end, code.find_stop(end, ('{', ';'))) if code.is_word(j))


def _rewrite_new(edits):
    "Rewrite `new` and `delete` in device functions to use the device heap, or the host heap if host code calls them"
    code = edits.code
    tokens = code.find('new', 'delete')
    if not tokens or 'operator new' in code.src:
        return
    bodies = _device_functions(code)
    for i in (i for a, b in bodies for i in tokens[bisect_left(tokens, a) : bisect_left(tokens, b)]):
        if code[i] == 'new' and code[i + 1] != '(' and code[i - 1] != '::':
            edits.replace_tokens(i, i, 'new (::gridstride::heap)')
        elif code[i] == 'delete' and code[i - 1] not in ('=', '::'):
            is_array = code[i + 1] == '[' and code[i + 2] == ']'
            initializer = '{__LINE__, true}' if is_array else '{__LINE__, false}'
            edits.replace_tokens(i, i + 2 * is_array, f'::gridstride::DeviceDelete{initializer}->*')


def _device_functions(code):
    "Return a list with (begin, end) of the body of each device function and kernel"
    bodies, end = [], -1
    for i in code.find('__global__', '__device__'):
        if i > end:
            body = code.find_stop(i, ('{', ';'))
            end = code.match.get(body, body)
            bodies.append((body, end))
    return bodies


def _begins_statement(code, i):
    "Return whether a statement begins at token `i`, or with a cast before it"
    if code[i - 1] == '::':
        i -= 1
    if code[i - 1] != ')':
        return code[i - 1] in _STATEMENT_SEPARATORS or code[i - 1] == ':' and not _is_conditional_operator(code, i - 1)
    opening = code.match.get(i - 1, i - 1)
    return code[opening - 1] in _CONTROL_KEYWORDS | {'constexpr'} or _begins_statement(code, opening)


def _is_conditional_operator(code, i):
    "Return whether the `:` at `i` belongs to a `?`, not to a label"
    while i > 0 and code[i - 1] not in (';', '{', '}'):
        i -= 1
        if code[i] == '?':
            return True
    return False


def _rewrite_returns(edits):
    "Rewrite `return` in a kernel to record its line, so that synccheck can report a thread that exits before a barrier"
    code = edits.code
    for i in code.find_specifiers('__global__'):
        if code.scope(i) != 'namespace':
            continue
        body = code.find_stop(i, ('{', ';'))
        for j in code.find_between('return', body, code.match.get(body, body)):
            if code[j + 1] == ';' and not _is_in_lambda(code, j, body):
                line = '__LINE__ + 1' if _is_after_barrier(code, j) else '__LINE__'
                edits.replace_tokens(j, j, f'return ::gridstride::record_return({line})')


def _is_after_barrier(code, i):
    "Return whether there is a barrier before token `i` on the same line"
    line, i = code.line(i), i - 1
    while i > 0 and code.line(i) == line:
        if code[i].startswith('__syncthreads') or code[i] in ('sync', 'barrier_sync'):
            return True
        i -= 1
    return False


def _is_in_lambda(code, i, body):
    "Return whether token `i` is in a lambda, or in a member of a local class, in the function with this body"
    opening = code.parent[i]
    while opening != body:
        if code[opening] == '{' and _opens_function_body(code, opening):
            return True
        opening = code.parent[opening]
    return False


def _opens_function_body(code, opening):
    previous = code[opening - 1]
    if previous == ')':
        return code[code.match[opening - 1] - 1] not in _CONTROL_KEYWORDS | {'constexpr'}
    return previous in (']', 'mutable', 'const', 'noexcept')


def _reject_results(code: Code, functions):
    for function in functions:
        if (
            '__global__' in function.specifiers
            and function.result_type
            and set(function.result_type.split()) <= _RESULT_TYPE_TOKENS
        ):
            name = function.name
            message = f'a kernel cannot return a value: declare `__global__ void {name}(...)`, and write to an array'
            i = next(i for i in code.find(function.name) if code.line(i) == function.line)
            raise code.error(WrongSource, message, i)


def _reject_calls(code: Code, kernels):
    for i in code.find(*kernels):
        if code.scope(i) != 'code' or code[i - 1] in ('.', '->'):
            continue
        end = code.closing_angle(i + 1) if code[i + 1] == '<' else i
        is_declaration = code.is_word(i - 1) and code[i - 1] not in KEYWORDS or code[i - 1] in ('*', '&', '>')
        if end is not None and code[end + 1] == '(' and not is_declaration:
            message = f'{code[i]} is a kernel: launch it with a grid and a block, as in {code[i]}<<<grid, block>>>(...)'
            raise code.error(WrongSource, message, i)
