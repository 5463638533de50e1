"""Lambdas that use variables in shared memory: on a GPU these are static, so that no lambda captures them.

On the emulator they are references, which each lambda that names one shall capture as a reference.
"""

from .declarations import BUILTIN, KEYWORDS, declared_name, read_declaration, specifiers
from .edits import Edits
from .tokens import WrongSource

_QUALIFIERS = '*', '&', '&&', 'const', 'volatile', '__restrict__', '__restrict'


def rewrite_captures(e: Edits):
    "`[=] { s[i] = 0; }` becomes `[=, &s] { s[i] = 0; }`; `WrongSource` for a lambda that captures `s` itself"
    c = e.code
    declared = [o for i in c.find_specifiers('__shared__') if c.scope(i) == 'code' for o in _names(c, i)]
    for i in c.find('[') if declared else ():
        if (body := _body(c, i)) is None:
            continue
        own = _parameters(c, c.mate[i] + 1)
        names = [o for o in dict.fromkeys(map(c.__getitem__, declared)) if o not in own]
        shared = [o for o in names if _is_shared(c, o, declared, body)]
        _refuse_captured(c, i, shared)
        end, by_reference = c.mate[i], c[i + 1] == '&' and c[i + 2] in (',', ']')
        captured = ', '.join(f'&{o}' for o in shared if not by_reference and _is_used(e, o, body))
        e.insert(c.tokens[end].start, f', {captured}' if captured and end > i + 1 else captured)


def _refuse_captured(c, i, shared):
    for a, b in c.arguments(i):
        if c[b - 1] in shared and (b - a == 1 or b - a == 2 and c[a] == '&'):
            what = f'{c[b - 1]} is in shared memory, and so static: no lambda captures it, leave it out'
            raise c.error(WrongSource, what, b - 1)


def _is_used(e, name, body):
    "Does a lambda's `body` name the variable, itself or by a macro?"
    c = e.code
    by = {name} | {m.name for m in e.macros if m.find(name)}
    return any(body < k < c.mate[body] and c[k - 1] not in ('.', '->', '::') for k in c.find(*by))


def _names(c, i):
    "The tokens that name what the declaration with `__shared__` at `i` declares"
    return [o.name for o in read_declaration(c, i).declarators]


def _body(c, i):
    "Index of the `{` of the lambda that begins at `i`; None if none does"
    before = c[i - 1] in (')', ']', '[') or c.is_word(i - 1) and c[i - 1] not in KEYWORDS or c.is_string(i - 1)
    after = c.mate.get(i, i) + 1
    if before or c[i + 1] == '[' or c[after] == '=':
        return None
    body = c.until(after, ('{', ';', ','))
    return body if c[body] == '{' and body in c.mate else None


def _parameters(c, i):
    "The names of the parameters that begin at `i`"
    found = (declared_name(c, specifiers(c, a, b), b) for a, b in c.arguments(i)) if c[i] == '(' else ()
    return [c[o[0]] for o in found if o]


def _is_shared(c, name, declared, body):
    "Is `name`, where a lambda's `body` begins, one of the variables `declared` in shared memory?"
    seen = [k for k in c.find(name) if k < body < _end_of_scope(c, k) and (k in declared or _is_declared(c, k))]
    return bool(seen) and seen[-1] in declared


def _end_of_scope(c, k):
    "Where the scope ends of what is declared at `k`: behind a function's parameters is its body, behind `for (` a loop"
    o = c.outer[k]
    if c[o] != '(':
        return c.mate.get(o, k)
    behind = c.until(c.mate[o] + 1, ('{', ';'))
    return c.mate.get(behind, behind)


def _is_declared(c, k):
    "Is the name at `k` declared there, behind a type?"
    j = k - 1
    while c[j] in _QUALIFIERS:
        j -= 1
    return c[j] in BUILTIN or j == k - 1 and c.is_word(j) and c[j] not in KEYWORDS
