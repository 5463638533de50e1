"""Rewrites lambdas that use variables in shared memory.

On a GPU these variables are static, so a lambda uses them without a capture. On the emulator they are local
references, so a capture by reference is added to each lambda that uses one.
"""

from bisect import bisect

from ..frontend.declarations import BUILTIN, KEYWORDS, declared_name, read_declaration, skip_specifiers
from ..frontend.edits import Edits
from ..frontend.tokens import WrongSource

_QUALIFIERS = '*', '&', '&&', 'const', 'volatile', '__restrict__', '__restrict'


def rewrite_captures(edits: Edits):
    "Rewrite `[=] { s[i] = 0; }` to `[=, &s] { s[i] = 0; }`; raises `WrongSource` if the source captures `s` itself"
    code = edits.code
    shared_tokens = {
        token
        for i in code.find_specifiers('__shared__')
        if code.scope(i) == 'code'
        for token in _declared_tokens(code, i)
    }
    if not shared_tokens or not code.find('['):
        return
    declarations_of = dict.fromkeys(code[token] for token in sorted(shared_tokens))
    declarations_of.update({name: _declarations(code, name, shared_tokens) for name in declarations_of})
    names_of_macro = _names_used_by_macros(edits, declarations_of)
    for i in code.find('['):
        if (body := _lambda_body(code, i)) is None:
            continue
        parameters = _parameter_names(code, code.match[i] + 1)
        used_names = _names_used_by_lambda(code, body, names_of_macro)
        mentioned_names = dict.fromkeys([*used_names, *map(code.__getitem__, range(i, code.match[i]))])
        captured_names = [
            name
            for name in declarations_of
            if name in mentioned_names
            and name not in parameters
            and _is_shared(declarations_of[name], shared_tokens, body)
        ]
        _reject_explicit_captures(code, i, captured_names)
        end, captures_all_by_reference = code.match[i], code[i + 1] == '&' and code[i + 2] in (',', ']')
        captures = ', '.join(
            f'&{name}' for name in captured_names if not captures_all_by_reference and name in used_names
        )
        edits.insert(code.start(end), f', {captures}' if captures and end > i + 1 else captures)


def _names_used_by_macros(edits, names):
    "Return {name of a macro: the names of `names` that its body uses}"
    return {m.name: [c for c in {*map(m.__getitem__, range(len(m)))} if c in names] for m in edits.macros}


def _names_used_by_lambda(code, body, names_of_macro):
    "Return the names that a lambda's `body` uses, directly or through a macro"
    names = {code[k] for k in range(body + 1, code.match[body]) if code[k - 1] not in ('.', '->', '::')}
    return names.union(*(names_of_macro[name] for name in names if name in names_of_macro))


def _reject_explicit_captures(code, i, shared_names):
    for a, b in code.arguments(i):
        if code[b - 1] in shared_names and (b - a == 1 or b - a == 2 and code[a] == '&'):
            message = f'{code[b - 1]} is in shared memory, so it is static: a lambda uses it without capturing it'
            raise code.error(WrongSource, message, b - 1)


def _declared_tokens(code, i):
    "Return the tokens with the names of the variables that the declaration at `i` declares"
    return [declarator.name for declarator in read_declaration(code, i).declarators]


def _lambda_body(code, i):
    "Return the index of the `{` of the lambda that begins at `i`; None if no lambda begins there"
    is_word = code.is_word(i - 1) and code[i - 1] not in KEYWORDS
    is_subscript = code[i - 1] in (')', ']', '[') or is_word or code.is_string(i - 1)
    end = code.match.get(i, i) + 1
    if is_subscript or code[i + 1] == '[' or code[end] == '=':
        return None
    body = code.find_stop(end, ('{', ';', ','))
    return body if code[body] == '{' and body in code.match else None


def _parameter_names(code, i):
    "Return the names of the parameters that begin at `i`"
    declared_names = (
        (declared_name(code, skip_specifiers(code, a, b), b) for a, b in code.arguments(i)) if code[i] == '(' else ()
    )
    return [code[tokens[0]] for tokens in declared_names if tokens]


def _declarations(code, name, shared_tokens):
    "Return (token, end of its scope) of each declaration of a name"
    return [(k, _end_of_scope(code, k)) for k in code.find(name) if k in shared_tokens or _is_declared(code, k)]


def _is_shared(declarations, shared_tokens, body):
    "Return whether a name with these declarations refers to one of `shared_tokens` at the start of a lambda's `body`"
    earlier = range(bisect(declarations, (body,)) - 1, -1, -1)
    innermost = next((declarations[n][0] for n in earlier if declarations[n][1] > body), None)
    return innermost in shared_tokens


def _end_of_scope(code, k):
    "Return the end of the scope of the declaration at `k`: for a parameter the function's body, for `for (` the loop"
    opening = code.parent[k]
    if code[opening] != '(':
        return code.match.get(opening, k)
    end = code.find_stop(code.match[opening] + 1, ('{', ';'))
    return code.match.get(end, end)


def _is_declared(code, k):
    "Return whether the name at `k` is declared there, after a type"
    j = k - 1
    while code[j] in _QUALIFIERS:
        j -= 1
    return code[j] in BUILTIN or j == k - 1 and code.is_word(j) and code[j] not in KEYWORDS
