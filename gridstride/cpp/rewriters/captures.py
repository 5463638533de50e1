"""Rewrites lambdas that use variables in shared memory.

On a GPU these variables are static, so that a lambda uses them without capturing. On the emulator they are local
references, so each lambda that uses one gets a capture by reference.
"""

from bisect import bisect

from ..frontend.declarations import BUILTIN, KEYWORDS, declared_name, read_declaration, skip_specifiers
from ..frontend.edits import Edits
from ..frontend.tokens import WrongSource

_QUALIFIERS = '*', '&', '&&', 'const', 'volatile', '__restrict__', '__restrict'


def rewrite_captures(e: Edits):
    "Rewrite `[=] { s[i] = 0; }` to `[=, &s] { s[i] = 0; }`; raises `WrongSource` if the source captures `s` itself"
    c = e.code
    shared_tokens = {
        token for i in c.find_specifiers('__shared__') if c.scope(i) == 'code' for token in _declared_tokens(c, i)
    }
    if not shared_tokens or not c.find('['):
        return
    declarations_of = dict.fromkeys(c[token] for token in sorted(shared_tokens))
    declarations_of.update({name: _declarations(c, name, shared_tokens) for name in declarations_of})
    names_of_macro = _names_used_by_macros(e, declarations_of)
    for i in c.find('['):
        if (body := _lambda_body(c, i)) is None:
            continue
        parameters = _parameter_names(c, c.match[i] + 1)
        used_names = _names_used_by_lambda(c, body, names_of_macro)
        mentioned_names = dict.fromkeys([*used_names, *map(c.__getitem__, range(i, c.match[i]))])
        captured_names = [
            name
            for name in declarations_of
            if name in mentioned_names
            and name not in parameters
            and _is_shared(declarations_of[name], shared_tokens, body)
        ]
        _refuse_explicit_captures(c, i, captured_names)
        end, captures_all_by_reference = c.match[i], c[i + 1] == '&' and c[i + 2] in (',', ']')
        captures = ', '.join(
            f'&{name}' for name in captured_names if not captures_all_by_reference and name in used_names
        )
        e.insert(c.start(end), f', {captures}' if captures and end > i + 1 else captures)


def _names_used_by_macros(e, names):
    "Return {name of a macro: the names of `names` that its body uses}"
    return {m.name: [c for c in {*map(m.__getitem__, range(len(m)))} if c in names] for m in e.macros}


def _names_used_by_lambda(c, body, names_of_macro):
    "Return the names that a lambda's `body` uses, directly or through a macro"
    names = {c[k] for k in range(body + 1, c.match[body]) if c[k - 1] not in ('.', '->', '::')}
    return names.union(*(names_of_macro[name] for name in names if name in names_of_macro))


def _refuse_explicit_captures(c, i, shared_names):
    for a, b in c.arguments(i):
        if c[b - 1] in shared_names and (b - a == 1 or b - a == 2 and c[a] == '&'):
            message = f'{c[b - 1]} is in shared memory, so it is static: a lambda cannot capture it; do not list it'
            raise c.error(WrongSource, message, b - 1)


def _declared_tokens(c, i):
    "Return the tokens with the names of the variables that the declaration at `i` declares"
    return [declarator.name for declarator in read_declaration(c, i).declarators]


def _lambda_body(c, i):
    "Return the index of the `{` of the lambda that begins at `i`; None if no lambda begins there"
    is_word = c.is_word(i - 1) and c[i - 1] not in KEYWORDS
    is_subscript = c[i - 1] in (')', ']', '[') or is_word or c.is_string(i - 1)
    end = c.match.get(i, i) + 1
    if is_subscript or c[i + 1] == '[' or c[end] == '=':
        return None
    body = c.find_stop(end, ('{', ';', ','))
    return body if c[body] == '{' and body in c.match else None


def _parameter_names(c, i):
    "Return the names of the parameters that begin at `i`"
    declared_names = (declared_name(c, skip_specifiers(c, a, b), b) for a, b in c.arguments(i)) if c[i] == '(' else ()
    return [c[tokens[0]] for tokens in declared_names if tokens]


def _declarations(c, name, shared_tokens):
    "Return (token, end of its scope) of each declaration of a name"
    return [(k, _end_of_scope(c, k)) for k in c.find(name) if k in shared_tokens or _is_declared(c, k)]


def _is_shared(declarations, shared_tokens, body):
    "Return whether a name with these declarations refers to one of `shared_tokens` at the start of a lambda's `body`"
    earlier = range(bisect(declarations, (body,)) - 1, -1, -1)
    innermost = next((declarations[n][0] for n in earlier if declarations[n][1] > body), None)
    return innermost in shared_tokens


def _end_of_scope(c, k):
    "Return the end of the scope of the declaration at `k`: for a parameter the function's body, for `for (` the loop"
    opening = c.outer[k]
    if c[opening] != '(':
        return c.match.get(opening, k)
    end = c.find_stop(c.match[opening] + 1, ('{', ';'))
    return c.match.get(end, end)


def _is_declared(c, k):
    "Return whether the name at `k` is declared there, after a type"
    j = k - 1
    while c[j] in _QUALIFIERS:
        j -= 1
    return c[j] in BUILTIN or j == k - 1 and c.is_word(j) and c[j] not in KEYWORDS
