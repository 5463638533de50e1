"""Rewrites a launch, `k<<<grid, block>>>(args)`, to a call of a function.

The kernel is the expression that ends before `<<<`: `k`, `ns::k<float, 16>`, `table[i]`, `(fast ? a : b)`. A
backward scan finds its start. A `>` that closes template arguments may touch the `>>>`: of the first run of three or
more `>` before a `(`, the last three end the configuration.
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


def rewrite_launches(e: Edits):
    "Rewrite each launch to a call of `gridstride::launch`, whose last argument is a lambda that calls the kernel"
    c = e.code
    for i in c.find_any(_LAUNCH_TOKENS | e.launchers if e.launchers else _LAUNCH_TOKENS):
        if c[i] == '<<<' and c[i - 1] != 'operator':
            _rewrite_launch(e, i)
        elif c[i] in ('cudaLaunchKernel', 'cudaLaunchCooperativeKernel') and c[i + 1] == '(':
            _drop_void_cast(e, i + 2)
        elif c[i] == 'func' and c[i - 1] in ('.', '->') and c[i + 1] == '=':
            _wrap_func_field(e, i + 2)
        elif c[i] in e.launchers and c[i + 1] == '(':
            _rewrite_null(e, c.arguments(i + 1))


def _drop_void_cast(e, i):
    """Drop the cast of the argument `(void *)kernel` at token `i`.

    Without the cast, `kernel` keeps its function type, from which the parameter types are deduced."""
    c = e.code
    if _is_void_cast(c, i):
        e.replace_tokens(i, c.match[i], '')
    elif c[i] in ('reinterpret_cast', 'static_cast') and 'void' in (c[i + 2], c[i + 3]):
        e.replace_tokens(i, next(j for j in range(i, len(c)) if c[j] == '>'), '')


def _is_void_cast(c, i):
    "Return whether there is a cast to `void *` at token `i`"
    return c[i] == '(' and c.text(range(i + 1, c.match[i])).replace(' ', '') in ('void*', 'constvoid*')


def _wrap_func_field(e, i):
    "Rewrite the value in `params.func = (void *)kernel`, for a graph node, so that it keeps the kernel's type"
    c = e.code
    end = c.find_stop(i, (',', ';'))
    name = c.text(range(c.match[i] + 1 if c[i] == '(' else i, end))
    if _is_void_cast(c, i):
        e.replace_tokens(i, c.match[i], f'::gridstride::Kernel(GRIDSTRIDE_NAME({name}), ')
        e.insert(c.start(end), ')')


def _rewrite_launch(e, i):
    c = e.code
    first, config_end = _kernel_start(c, i), _configuration_end(c, i)
    paren, kernel = config_end + 3, c.text(range(first, i))
    _check_configuration(c, i, config_end)
    # In a macro, the text after `>>>` may be a parameter that contains the parentheses, or is empty. Whether there are
    # arguments is then unknown, so a variadic lambda takes them, which needs no separating comma.
    if c[paren] != '(' and c.macro is None and not c.is_word(paren):
        raise c.error(
            WrongSource, 'this launch has no argument list: write `()` after `>>>` if the kernel takes none', i
        )
    args_from_macro = c[paren] != '(' or (c.match.get(paren) == paren + 2 and c[paren + 1] in (c.macro or ()))
    args = [] if args_from_macro else c.arguments(paren)
    _refuse_host_lambdas(c, i, args)
    # short macros, because the result is tokenized and read again
    head, call = 'GRIDSTRIDE_LAUNCH(GRIDSTRIDE_CONFIG(', f'), {_kernel_call(e, args, kernel, i)}'
    if args_from_macro:
        head, call = '[&](auto... gs_b) { ' + head, call + ', gs_b...); }'
    e.replace_tokens(first, i, head)
    e.replace_tokens(config_end, config_end + 2, call)
    if not args_from_macro:
        e.replace_tokens(paren, paren, ', ' if args else '')
    _rewrite_null(e, args, _kernel_name(c, i))


def _check_configuration(c, i, close):
    "Raise `WrongSource` unless the configuration between `<<<` and `>>>` has two to four values"
    if c.macro is not None or close == i + 1:
        return
    n = _count_values(c, i + 1, close)
    if n == 1 and not (c[i + 1].isupper() and close == i + 2):  # a macro may expand to several
        message = 'this launch gives the number of blocks, but not of threads: `<<<blocks, threads>>>`'
        raise c.error(WrongSource, message, i)
    if n > 4:
        message = 'a launch takes blocks, threads, bytes of shared memory and a stream'
        raise c.error(WrongSource, f'{message}, not {n} values', i)


def _count_values(c, i, end):
    "Count the values in `i:end`, which commas separate"
    texts = c.texts[i:end]
    if _BRACKETS.isdisjoint(texts):
        return texts.count(',') + (texts[-1] != ',')
    n = 0
    while i < end:
        n += 1
        i = min(c.find_stop(i, (',',)), end) + 1
    return n


@lru_cache(4)
def _kernels_by_name(c):
    "Return {name: the declarations of kernels with this name}"
    kernels = {}
    for function in read_functions(c):
        if '__global__' in function.words:
            kernels.setdefault(function.name, []).append(function)
    return kernels


def _is_template(c, i):
    "Return whether the kernel before token `i` is a template"
    return any(function.template for function in _kernels_by_name(c).get(_kernel_name(c, i), ()))


def _refuse_host_lambdas(c, i, args):
    "Raise `WrongSource` for a host lambda in the arguments of a kernel template"
    if c.macro is not None or not args or not _is_template(c, i):
        return
    visited = set()
    for a, b in args:
        for opening in _lambdas_in_value(c, a, b, visited):
            if c[c.match[opening] + 1] in ('(', '{'):
                message = 'this is a host lambda, but the kernel runs on the GPU: write `__device__` after its `]`'
                raise c.error(WrongSource, message, opening)


def _lambdas_in_value(c, a, b, visited):
    """Yield the `[` of each lambda in the value `a:b`.

    A lambda may be the value itself, an element of its braced initializer, or the initializer of a variable that it
    names. `visited`: the variables that were visited before. An immediately invoked lambda does not count."""
    if c[a] == '.' and c[a + 2] == '=':  # `.member = value`
        a += 3
    if c[a] == '[':
        yield from [a] if c[b - 1] == '}' else []
    elif b == a + 1 and (variable := _find_declaration(c, a)) is not None and variable not in visited:
        visited.add(variable)
        yield from _lambdas_in_value(c, *_initializer(c, variable), visited)
    elif c[b - 1] == '}' and a < b:
        for first, end in c.arguments(c.match[b - 1]):
            yield from _lambdas_in_value(c, first, end, visited)


def _find_declaration(c, name_token):
    "Return the token that declares, with an initializer, the variable named by `name_token`; None if none does"
    enclosing = {-1}
    opening = name_token
    while (opening := c.outer[opening]) >= 0:
        enclosing.add(opening)
    variables = reversed(_initialized_variables(c).get(c[name_token], ()))
    return next((k for k in variables if c.outer[k] in enclosing and _initializer(c, k)[1] <= name_token), None)


def _initializer(c, variable):
    "Return (start, end) of the value that the variable declared at a token is initialized with"
    start = variable + 1 + (c[variable + 1] == '=')
    return start, c.match[start] + 1 if c[start] == '{' else c.find_stop(start, (',', ';'))


@lru_cache(4)
def _initialized_variables(c):
    "Return {name: tokens that declare it, as in `auto f = ...`, `S s = ...` and `S<T> s{...}`}"
    variables = {}
    for i in c.find('=', '{'):
        if _is_name(c, i - 1) and (c[i - 2] in ('auto', '>') or _is_name(c, i - 2)):
            variables.setdefault(c[i - 1], []).append(i - 1)
    return variables


def _kernel_start(c, i):
    "Return the index of the first token of the expression that ends before token `i`"
    while True:
        i = _postfix_start(c, i - 1)
        if c[i - 1] == 'template' and c[i - 2] in ('::', '.', '->'):
            i -= 1
        if c[i - 1] == '::' and not (_is_name(c, i - 2) or c[i - 2] == '>'):
            return i - 1
        if c[i - 1] not in ('::', '.', '->', '##'):
            return i
        i -= 1


def _is_name(c, i):
    return c.is_word(i) and c[i] not in KEYWORDS


def _postfix_start(c, end):
    "Return the index of the first token of the name, subscript, call or parenthesized expression that ends at `end`"
    if _is_name(c, end):
        return end
    opening = c.opening_angle(end) if c[end] == '>' else c.match.get(end) if c[end] in (')', ']') else None
    if opening is None:
        message = 'a launch `kernel<<<grid, block>>>(...)` needs the name of a kernel before `<<<`'
        raise c.error(WrongSource, message, end + 1)
    return _postfix_start(c, opening - 1) if c[end] != ')' or _begins_call(c, opening) else opening


def _begins_call(c, opening):
    "Return whether the `(` at `opening` begins a call, unlike in `if (x)`, `return (x)` and `(void)(x)`"
    if c[opening - 1] in (')', ']'):
        return c[c.match.get(opening - 1, 0) - 1] not in KEYWORDS and c[opening - 2] != 'void'
    if c[opening - 1] == '>':
        return c.is_word((c.opening_angle(opening - 1) or 0) - 1)
    return _is_name(c, opening - 1)


def _configuration_end(c, i):
    "Return the index of the first `>` of the `>>>` that ends the configuration opened at `i`"
    texts, starts = c.texts, c.tokens.starts
    candidates = []
    j = i + 1
    while j < len(texts) and (text := texts[j]) not in _END_TOKENS:
        if text != '>':
            j = c.match.get(j, j) + 1
            continue
        n = 1
        while c[j + n] == '>' and starts[j + n] == starts[j] + n:
            n += 1
        if n >= 3:
            candidates.append(j + n - 3)
        j += n
    if not candidates:
        raise c.error(WrongSource, 'this launch has no `>>>`', i)
    return next((j for j in candidates if c[j + 3] == '('), candidates[0])


def _kernel_name(c, i):
    "Return the last name in the expression before token `i`"
    return c[(c.opening_angle(i - 1) or i) - 1] if c[i - 1] == '>' else c[i - 1]


def _kernel_call(e, args, kernel, i):
    """Return C++ code for the arguments of `launch` that name and call the kernel.

    `{1, 2}` has no type of its own. It gets the type of the kernel's parameter. If that is unknown here, the lambda
    passes it to the kernel directly, so that each thread evaluates it."""
    c = e.code
    braced_indices = [n for n, (a, _) in enumerate(args) if c[a] == '{']
    if braced_indices and (type_of := _parameter_type_code(e, args, kernel, i)):
        for n in braced_indices:
            e.insert(c.start(args[n][0]), type_of.format(n=n))
        braced_indices = []
    if not braced_indices:
        return f'GRIDSTRIDE_KERNEL_CALL({kernel})'
    parameters, arguments = _forward_braces(e, args)
    return f'GRIDSTRIDE_NAME({kernel}), __LINE__, [=]({parameters}) GRIDSTRIDE_UNSEEN {{ {kernel}({arguments}); }}'


def _parameter_type_code(e, args, kernel, i):
    "Return C++ code for the type of parameter `{n}` of the kernel before token `i`; None if it is unknown here"
    c = e.code
    declared_types = {
        tuple(p.type for p in function.params) for function in _kernels_by_name(c).get(_kernel_name(c, i), ())
    }
    if len(declared_types) == 1 and not _is_template(c, i):
        return f'::gridstride::Parameter<decltype(&{kernel}), {{n}}>'
    if not declared_types or c.macro is not None or not _may_resolve(c, args, i):
        return None
    _declare_parameters(e, _kernel_name(c, i))
    name = (c.opening_angle(i - 1) or i) - 1 if c[i - 1] == '>' else i - 1
    prefix, suffix = c.text(range(_kernel_start(c, i), name)), c.text(range(name + 1, i))
    arguments = ', '.join(c.text(range(a, b)) for a, b in args)
    call = f'{prefix}{_PARAMETERS_OF}{c[name]}{suffix}({arguments})'.replace('{', '{{').replace('}', '}}')
    return f'::gridstride::ParameterAt<decltype({call}), {{n}}>'


# For a template or an overloaded kernel, only the compiler knows the type of a parameter. So each declaration of the
# kernel gets a function with the same parameters, whose result is a list of their types: the same call resolves it.
_PARAMETERS_OF = 'gs_parameters_of_'


def _may_resolve(c, args, i):
    "Return whether a call of this function resolves as the launch does: no lambda, no pack, and a name as declared"
    name, first = _kernel_name(c, i), _kernel_start(c, i)
    texts = {*c.texts[first:i]}
    is_plain_name = texts.isdisjoint(('(', '.', '->')) and not any(
        c[j + 1] == ';' for j in c.find(name)
    )  # `using a::k;`
    return (
        is_plain_name
        and name in _kernel_heads(c)
        and not any('...' in c.texts[a:b] or _has_lambda(c, a, b) for a, b in args)
    )


def _has_lambda(c, a, b):
    return any(not c.is_word(i - 1) and c[i - 1] not in (')', ']') for i in c.find_between('[', a, b))


def _declare_parameters(e, name):
    "Insert a function `gs_parameters_of_NAME` before each declaration of the kernel `name`"
    c = e.code
    if name in e.parameter_lists:
        return
    e.parameter_lists.add(name)
    for head in _kernel_heads(c)[name]:
        p, first = parameters_start(c, head), c.skip_template_header(head.start)
        types = ', '.join(parameter(c, a, b).type for a, b in c.arguments(p))
        declaration = f'::gridstride::Parameters<{types}> {_PARAMETERS_OF}{name}({c.text(range(p + 1, c.match[p]))}); '
        e.insert(c.start(head.start), f'{c.text(range(head.start, first))} {declaration}')


@lru_cache(4)
def _kernel_heads(c):
    "Return {name: the heads of the declarations of kernels with this name}, without those after `::`"
    heads = {}
    for head in declaration_heads(c):
        paren = parameters_start(c, head)
        if paren is not None and c[paren - 2] != '::' and '__global__' in c.expanded_words(head.start, paren):
            heads.setdefault(c[paren - 1], []).append(head)
    return heads


def _forward_braces(e, args):
    "Return (parameters, arguments) of a lambda that forwards the arguments of a launch, but contains those in braces"
    c = e.code
    names = ['' if c[a] == '{' else f'gs_a{n}' + '...' * (c[b - 1] == '...') for n, (a, b) in enumerate(args)]
    for a, b in args:
        if c[a] == '{':
            e.replace_tokens(a, b - 1, 'nullptr')
    parameters = ['auto... ' + name[:-3] if name.endswith('...') else f'auto {name}'.strip() for name in names]
    return ', '.join(parameters), ', '.join(name or c.text(range(a, b)) for name, (a, b) in zip(names, args))


def _rewrite_null(e, args, kernel=None):
    """Rewrite `NULL`, and `0` for a pointer parameter of the kernel, to `nullptr`.

    The template `gridstride::launch` would pass them as integers."""
    c = e.code
    for n, (a, b) in enumerate(args):
        if b == a + 1 and (c[a] == 'NULL' or (c[a] == '0' and n in e.pointers.get(kernel, ()))):
            e.replace_tokens(a, a, 'nullptr')
