"""Rewrites a launch, `k<<<grid, block>>>(args)`, to a call of a function.

The kernel is the expression that ends before `<<<`: `k`, `ns::k<float, 16>`, `table[i]`, `(fast ? a : b)`. A
backward scan finds its start. A `>` that closes template arguments may be adjacent to the `>>>`, so the configuration
ends with the last three of the first three or more consecutive `>` before a `(`.
"""

from functools import lru_cache

from ..frontend.code import OPENING_OF, OPENING_BRACKETS
from ..frontend.declarations import KEYWORDS
from ..frontend.edits import Edits
from ..frontend.tokens import WrongSource
from ..frontend.reader import declaration_heads, parameter, parameters_start, read_functions

_END_TOKENS = {*OPENING_OF, ';'}
_BRACKETS = {*OPENING_BRACKETS, '<'}
_LAUNCH_TOKENS = frozenset(('<<<', 'cudaLaunchKernel', 'cudaLaunchCooperativeKernel', 'func'))


def rewrite_launches(edits: Edits):
    "Rewrite each launch to a call of `gridstride::launch`, whose last argument is a lambda that calls the kernel"
    code = edits.code
    for i in code.find_any(_LAUNCH_TOKENS | edits.launchers if edits.launchers else _LAUNCH_TOKENS):
        if code[i] == '<<<' and code[i - 1] != 'operator':
            _rewrite_launch(edits, i)
        elif code[i] in ('cudaLaunchKernel', 'cudaLaunchCooperativeKernel') and code[i + 1] == '(':
            _drop_void_cast(edits, i + 2)
        elif code[i] == 'func' and code[i - 1] in ('.', '->') and code[i + 1] == '=':
            _wrap_func_field(edits, i + 2)
        elif code[i] in edits.launchers and code[i + 1] == '(':
            _rewrite_null(edits, code.arguments(i + 1))


def _drop_void_cast(edits, i):
    """Drop the cast of the argument `(void *)kernel` at token `i`.

    Without the cast, `kernel` keeps its function type, from which the parameter types are deduced."""
    code = edits.code
    if _is_void_cast(code, i):
        edits.replace_tokens(i, code.match[i], '')
    elif code[i] in ('reinterpret_cast', 'static_cast') and 'void' in (code[i + 2], code[i + 3]):
        edits.replace_tokens(i, next(j for j in range(i, len(code)) if code[j] == '>'), '')


def _is_void_cast(code, i):
    "Return whether there is a cast to `void *` at token `i`"
    return code[i] == '(' and code.text(range(i + 1, code.match[i])).replace(' ', '') in ('void*', 'constvoid*')


def _wrap_func_field(edits, i):
    "Rewrite the value in `params.func = (void *)kernel`, for a graph node, so that it keeps the kernel's type"
    code = edits.code
    end = code.find_stop(i, (',', ';'))
    name = code.text(range(code.match[i] + 1 if code[i] == '(' else i, end))
    if _is_void_cast(code, i):
        edits.replace_tokens(i, code.match[i], f'::gridstride::Kernel(GRIDSTRIDE_NAME({name}), ')
        edits.insert(code.start(end), ')')


def _rewrite_launch(edits, i):
    code = edits.code
    first, config_end = _kernel_start(code, i), _configuration_end(code, i)
    paren, kernel = config_end + 3, code.text(range(first, i))
    _check_configuration(code, i, config_end)
    # In a macro, the text after `>>>` may be a parameter that contains the parentheses, or is empty. Whether there are
    # arguments is then unknown, so a variadic lambda takes them, which needs no separating comma.
    if code[paren] != '(' and code.macro is None and not code.is_word(paren):
        raise code.error(
            WrongSource, 'this launch has no argument list: write `()` after `>>>` if the kernel takes none', i
        )
    args_from_macro = code[paren] != '(' or (
        code.match.get(paren) == paren + 2 and code[paren + 1] in (code.macro or ())
    )
    args = [] if args_from_macro else code.arguments(paren)
    _reject_host_lambdas(code, i, args)
    # short macros, because the result is tokenized and read again
    head, call = 'GRIDSTRIDE_LAUNCH(GRIDSTRIDE_CONFIG(', f'), {_kernel_call(edits, args, kernel, i)}'
    if args_from_macro:
        head, call = '[&](auto... gs_b) { ' + head, call + ', gs_b...); }'
    edits.replace_tokens(first, i, head)
    edits.replace_tokens(config_end, config_end + 2, call)
    if not args_from_macro:
        edits.replace_tokens(paren, paren, ', ' if args else '')
    _rewrite_null(edits, args, _kernel_name(code, i))


def _check_configuration(code, i, close):
    "Raise `WrongSource` unless the configuration between `<<<` and `>>>` has two to four values"
    if code.macro is not None or close == i + 1:
        return
    n = _count_values(code, i + 1, close)
    if n == 1 and not (code[i + 1].isupper() and close == i + 2):  # a macro may expand to several
        message = 'this launch specifies the number of blocks, but not of threads: `<<<blocks, threads>>>`'
        raise code.error(WrongSource, message, i)
    if n > 4:
        message = 'a launch has at most four values, for blocks, threads, bytes of shared memory and a stream'
        raise code.error(WrongSource, f'{message}; got {n}', i)


def _count_values(code, i, end):
    "Count the values in `i:end`, which commas separate"
    texts = code.texts[i:end]
    if _BRACKETS.isdisjoint(texts):
        return texts.count(',') + (texts[-1] != ',')
    n = 0
    while i < end:
        n += 1
        i = min(code.find_stop(i, (',',)), end) + 1
    return n


@lru_cache(4)
def _kernels_by_name(code):
    "Return {name: the declarations of kernels with this name}"
    kernels = {}
    for function in read_functions(code):
        if '__global__' in function.specifiers:
            kernels.setdefault(function.name, []).append(function)
    return kernels


def _is_template(code, i):
    "Return whether the kernel before token `i` is a template"
    return any(function.template for function in _kernels_by_name(code).get(_kernel_name(code, i), ()))


def _reject_host_lambdas(code, i, args):
    "Raise `WrongSource` for a host lambda in the arguments of a kernel template"
    if code.macro is not None or not args or not _is_template(code, i):
        return
    visited = set()
    for a, b in args:
        for opening in _lambdas_in_value(code, a, b, visited):
            if code[code.match[opening] + 1] in ('(', '{'):
                message = 'this is a host lambda, but the kernel runs on the GPU: write `__device__` after its `]`'
                raise code.error(WrongSource, message, opening)


def _lambdas_in_value(code, a, b, visited):
    """Yield the `[` of each lambda in the value `a:b`.

    A lambda may be the value itself, an element of its braced initializer, or the initializer of a variable that it
    names. `visited`: the variables that were visited before. An immediately invoked lambda does not count."""
    if code[a] == '.' and code[a + 2] == '=':  # `.member = value`
        a += 3
    if code[a] == '[':
        yield from [a] if code[b - 1] == '}' else []
    elif b == a + 1 and (variable := _find_declaration(code, a)) is not None and variable not in visited:
        visited.add(variable)
        yield from _lambdas_in_value(code, *_initializer(code, variable), visited)
    elif code[b - 1] == '}' and a < b:
        for first, end in code.arguments(code.match[b - 1]):
            yield from _lambdas_in_value(code, first, end, visited)


def _find_declaration(code, name_token):
    "Return the token that declares, with an initializer, the variable named by `name_token`; None if none does"
    enclosing = {-1}
    opening = name_token
    while (opening := code.parent[opening]) >= 0:
        enclosing.add(opening)
    variables = reversed(_initialized_variables(code).get(code[name_token], ()))
    return next((k for k in variables if code.parent[k] in enclosing and _initializer(code, k)[1] <= name_token), None)


def _initializer(code, variable):
    "Return (start, end) of the value that the variable declared at a token is initialized with"
    start = variable + 1 + (code[variable + 1] == '=')
    return start, code.match[start] + 1 if code[start] == '{' else code.find_stop(start, (',', ';'))


@lru_cache(4)
def _initialized_variables(code):
    "Return {name: tokens that declare it, as in `auto f = ...`, `S s = ...` and `S<T> s{...}`}"
    variables = {}
    for i in code.find('=', '{'):
        if _is_name(code, i - 1) and (code[i - 2] in ('auto', '>') or _is_name(code, i - 2)):
            variables.setdefault(code[i - 1], []).append(i - 1)
    return variables


def _kernel_start(code, i):
    "Return the index of the first token of the expression that ends before token `i`"
    while True:
        i = _postfix_start(code, i - 1)
        if code[i - 1] == 'template' and code[i - 2] in ('::', '.', '->'):
            i -= 1
        if code[i - 1] == '::' and not (_is_name(code, i - 2) or code[i - 2] == '>'):
            return i - 1
        if code[i - 1] not in ('::', '.', '->', '##'):
            return i
        i -= 1


def _is_name(code, i):
    return code.is_word(i) and code[i] not in KEYWORDS


def _postfix_start(code, end):
    "Return the index of the first token of the name, subscript, call or parenthesized expression that ends at `end`"
    if _is_name(code, end):
        return end
    opening = code.opening_angle(end) if code[end] == '>' else code.match.get(end) if code[end] in (')', ']') else None
    if opening is None:
        message = 'a launch `kernel<<<grid, block>>>(...)` needs the name of a kernel before `<<<`'
        raise code.error(WrongSource, message, end + 1)
    return _postfix_start(code, opening - 1) if code[end] != ')' or _begins_call(code, opening) else opening


def _begins_call(code, opening):
    "Return whether the `(` at `opening` begins a call, unlike in `if (x)`, `return (x)` and `(void)(x)`"
    if code[opening - 1] in (')', ']'):
        return code[code.match.get(opening - 1, 0) - 1] not in KEYWORDS and code[opening - 2] != 'void'
    if code[opening - 1] == '>':
        return code.is_word((code.opening_angle(opening - 1) or 0) - 1)
    return _is_name(code, opening - 1)


def _configuration_end(code, i):
    "Return the index of the first `>` of the `>>>` that ends the configuration opened at `i`"
    texts, starts = code.texts, code.tokens.starts
    candidates = []
    j = i + 1
    while j < len(texts) and (text := texts[j]) not in _END_TOKENS:
        if text != '>':
            j = code.match.get(j, j) + 1
            continue
        n = 1
        while code[j + n] == '>' and starts[j + n] == starts[j] + n:
            n += 1
        if n >= 3:
            candidates.append(j + n - 3)
        j += n
    if not candidates:
        raise code.error(WrongSource, 'this launch has no `>>>`', i)
    return next((j for j in candidates if code[j + 3] == '('), candidates[0])


def _kernel_name(code, i):
    "Return the last name in the expression before token `i`"
    return code[(code.opening_angle(i - 1) or i) - 1] if code[i - 1] == '>' else code[i - 1]


def _kernel_call(edits, args, kernel, i):
    """Return C++ code for the arguments of `launch` that name and call the kernel.

    `{1, 2}` has no type. It is converted to the type of the kernel's parameter. If that is unknown here, the lambda
    passes it to the kernel directly, so that each thread evaluates it."""
    code = edits.code
    braced_indices = [n for n, (a, _) in enumerate(args) if code[a] == '{']
    if braced_indices and (type_of := _parameter_type_code(edits, args, kernel, i)):
        for n in braced_indices:
            edits.insert(code.start(args[n][0]), type_of.format(n=n))
        braced_indices = []
    if not braced_indices:
        return f'GRIDSTRIDE_KERNEL_CALL({kernel})'
    parameters, arguments = _forward_braces(edits, args)
    return f'GRIDSTRIDE_NAME({kernel}), __LINE__, [=]({parameters}) GRIDSTRIDE_NO_TSAN {{ {kernel}({arguments}); }}'


def _parameter_type_code(edits, args, kernel, i):
    "Return C++ code for the type of parameter `{n}` of the kernel before token `i`; None if it is unknown here"
    code = edits.code
    declared_types = {
        tuple(p.type for p in function.params) for function in _kernels_by_name(code).get(_kernel_name(code, i), ())
    }
    if len(declared_types) == 1 and not _is_template(code, i):
        return f'::gridstride::Parameter<decltype(&{kernel}), {{n}}>'
    if not declared_types or code.macro is not None or not _may_resolve(code, args, i):
        return None
    _declare_parameters(edits, _kernel_name(code, i))
    name = (code.opening_angle(i - 1) or i) - 1 if code[i - 1] == '>' else i - 1
    prefix, suffix = code.text(range(_kernel_start(code, i), name)), code.text(range(name + 1, i))
    arguments = ', '.join(code.text(range(a, b)) for a, b in args)
    call = f'{prefix}{_PARAMETERS_OF}{code[name]}{suffix}({arguments})'.replace('{', '{{').replace('}', '}}')
    return f'::gridstride::ParameterAt<decltype({call}), {{n}}>'


# For a template or an overloaded kernel, only the compiler knows the type of a parameter. So a function with the same
# parameters is declared next to each declaration of the kernel, and its return type lists their types: the compiler
# resolves a call of this function as it resolves the launch.
_PARAMETERS_OF = 'gs_parameters_of_'


def _may_resolve(code, args, i):
    "Return whether a call of this function resolves as the launch does: no lambda, no pack, and the declared name"
    name, first = _kernel_name(code, i), _kernel_start(code, i)
    texts = {*code.texts[first:i]}
    is_plain_name = texts.isdisjoint(('(', '.', '->')) and not any(
        code[j + 1] == ';' for j in code.find(name)
    )  # `using a::k;`
    return (
        is_plain_name
        and name in _kernel_heads(code)
        and not any('...' in code.texts[a:b] or _has_lambda(code, a, b) for a, b in args)
    )


def _has_lambda(code, a, b):
    return any(not code.is_word(i - 1) and code[i - 1] not in (')', ']') for i in code.find_between('[', a, b))


def _declare_parameters(edits, name):
    "Insert a function `gs_parameters_of_NAME` before each declaration of the kernel `name`"
    code = edits.code
    if name in edits.parameter_lists:
        return
    edits.parameter_lists.add(name)
    for head in _kernel_heads(code)[name]:
        p, first = parameters_start(code, head), code.skip_template_header(head.start)
        types = ', '.join(parameter(code, a, b).type for a, b in code.arguments(p))
        declaration = (
            f'::gridstride::Parameters<{types}> {_PARAMETERS_OF}{name}({code.text(range(p + 1, code.match[p]))}); '
        )
        edits.insert(code.start(head.start), f'{code.text(range(head.start, first))} {declaration}')


@lru_cache(4)
def _kernel_heads(code):
    "Return {name: the heads of the declarations of kernels with this name}, without those after `::`"
    heads = {}
    for head in declaration_heads(code):
        paren = parameters_start(code, head)
        if paren is not None and code[paren - 2] != '::' and '__global__' in code.expanded_texts(head.start, paren):
            heads.setdefault(code[paren - 1], []).append(head)
    return heads


def _forward_braces(edits, args):
    "Return (parameters, arguments) of a lambda that forwards the arguments of a launch, but contains those in braces"
    code = edits.code
    names = ['' if code[a] == '{' else f'gs_a{n}' + '...' * (code[b - 1] == '...') for n, (a, b) in enumerate(args)]
    for a, b in args:
        if code[a] == '{':
            edits.replace_tokens(a, b - 1, 'nullptr')
    parameters = ['auto... ' + name[:-3] if name.endswith('...') else f'auto {name}'.strip() for name in names]
    return ', '.join(parameters), ', '.join(name or code.text(range(a, b)) for name, (a, b) in zip(names, args))


def _rewrite_null(edits, args, kernel=None):
    """Rewrite `NULL`, and `0` for a pointer parameter of the kernel, to `nullptr`.

    The template `gridstride::launch` would pass them as integers."""
    code = edits.code
    for n, (a, b) in enumerate(args):
        if b == a + 1 and (code[a] == 'NULL' or (code[a] == '0' and n in edits.pointers.get(kernel, ()))):
            edits.replace_tokens(a, a, 'nullptr')
