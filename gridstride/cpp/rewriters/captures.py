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
    declared = {token for i in c.find_specifiers('__shared__') if c.scope(i) == 'code' for token in _names(c, i)}
    if not declared or not c.find('['):
        return
    known = dict.fromkeys(c[token] for token in sorted(declared))
    known.update({name: _declarations(c, name, declared) for name in known})
    by_macros = _in_macros(e, known)
    for i in c.find('['):
        if (body := _body(c, i)) is None:
            continue
        own = _parameters(c, c.match[i] + 1)
        used = _used(c, body, by_macros)
        mentioned = dict.fromkeys([*used, *map(c.__getitem__, range(i, c.match[i]))])
        shared = [
            name for name in known if name in mentioned and name not in own and _is_shared(known[name], declared, body)
        ]
        _refuse_captured(c, i, shared)
        end, by_reference = c.match[i], c[i + 1] == '&' and c[i + 2] in (',', ']')
        captured = ', '.join(f'&{name}' for name in shared if not by_reference and name in used)
        e.insert(c.start(end), f', {captured}' if captured and end > i + 1 else captured)


def _in_macros(e, names):
    "Return {name of a macro: those of `names` that its body uses}"
    return {m.name: [c for c in {*map(m.__getitem__, range(len(m)))} if c in names] for m in e.macros}


def _used(c, body, by_macros):
    "Return the names that a lambda's `body` uses, directly or by a macro"
    used = {c[k] for k in range(body + 1, c.match[body]) if c[k - 1] not in ('.', '->', '::')}
    return used.union(*(by_macros[name] for name in used if name in by_macros))


def _refuse_captured(c, i, shared):
    for a, b in c.arguments(i):
        if c[b - 1] in shared and (b - a == 1 or b - a == 2 and c[a] == '&'):
            what = f'{c[b - 1]} is in shared memory, so it is static: a lambda cannot capture it; remove it there'
            raise c.error(WrongSource, what, b - 1)


def _names(c, i):
    "Return the tokens of the names that the declaration with `__shared__` at `i` declares"
    return [declarator.name for declarator in read_declaration(c, i).declarators]


def _body(c, i):
    "Return the index of the `{` of the lambda that begins at `i`; None if no lambda begins there"
    before = c[i - 1] in (')', ']', '[') or c.is_word(i - 1) and c[i - 1] not in KEYWORDS or c.is_string(i - 1)
    after = c.match.get(i, i) + 1
    if before or c[i + 1] == '[' or c[after] == '=':
        return None
    body = c.find_stop(after, ('{', ';', ','))
    return body if c[body] == '{' and body in c.match else None


def _parameters(c, i):
    "Return the names of the parameters that begin at `i`"
    found = (declared_name(c, skip_specifiers(c, a, b), b) for a, b in c.arguments(i)) if c[i] == '(' else ()
    return [c[tokens[0]] for tokens in found if tokens]


def _declarations(c, name, declared):
    "Return (token, end of its scope) of each declaration of a name"
    return [(k, _end_of_scope(c, k)) for k in c.find(name) if k in declared or _is_declared(c, k)]


def _is_shared(known, declared, body):
    "Return whether a name refers to one of the shared variables `declared` at the start of a lambda's `body`"
    before = range(bisect(known, (body,)) - 1, -1, -1)
    last = next((known[n][0] for n in before if known[n][1] > body), None)
    return last in declared


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
