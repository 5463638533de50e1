"""Chooses the device functions that a checked build inlines into their callers.

A detector records the code address of an access. If a function is called twice, the address does not identify the call.
Inlined code exists once per call, so addr2line reports the call stack.
"""

from collections import Counter

__all__ = ['functions_to_inline']

_BARRIERS = {
    '__syncthreads', '__syncthreads_count', '__syncthreads_and', '__syncthreads_or', '__syncwarp', '__barrier_sync',
    '__barrier_sync_count', 'sync',
}  # fmt: skip
_NEVER_INLINED = {
    '__noinline__',
    'noinline',
    'GRIDSTRIDE_NOINLINE',
    'operator',
    'virtual',
    'override',
    'friend',
    'extern',
}
_MAX_TOKENS = 600  # of a function with a barrier
_MAX_TOKENS_WITHOUT_BARRIER = 120  # of a function that uses an array
_MAX_DEPTH = 4  # of nested calls


def functions_to_inline(
    code,  # `Code`
    functions,  # its functions, each a `callers._FunctionDeclaration`
    end_of_body,  # a function of `code` and the index of a function's `(`, which returns the index after its body
):  # list of indices
    "Return the first token of each device function that is called here, accesses memory and is not recursive"
    # name -> how often it is called or has template arguments
    num_uses = Counter(code[i - 1] for bracket in ('(', '<') for i in code.find(bracket))
    bodies = [
        (function, range(function.paren, end_of_body(code, function.paren)))
        for function in functions
        if function.has_body
    ]
    candidates = [(function, body) for function, body in bodies if _may_inline(code, function, num_uses)]
    calls = _calls(code, bodies) if candidates else {}
    candidates = [
        (function, body) for function, body in candidates if not _is_recursive(calls, code[function.paren - 1])
    ]
    inlined_functions = {}
    for _ in range(_MAX_DEPTH):  # a function that calls one of them accesses memory, too
        names = set(inlined_functions.values())
        inlined_functions = {
            function.first: code[function.paren - 1] for function, body in candidates if _uses_memory(code, body, names)
        }
    return [*inlined_functions]


def _may_inline(code, function, num_uses):
    if (
        '__device__' not in function.specifiers
        or '__global__' in function.specifiers
        or num_uses[name := code[function.paren - 1]] < 2
    ):
        return False  # one use is its definition
    if not _NEVER_INLINED.isdisjoint(function.specifiers) or not _NEVER_INLINED.isdisjoint(
        code.texts[function.first : function.paren]
    ):
        return False
    return (
        name != function.owner
        and code[function.paren - 2] != '~'
        and '...' not in code.text(range(function.paren, code.match[function.paren]))
    )


def _uses_memory(code, body, names):
    if len(body) > _MAX_TOKENS:
        return False
    texts = {*code.texts[body.start : body.stop]}
    limit = _MAX_TOKENS if texts & (_BARRIERS | names) else _MAX_TOKENS_WITHOUT_BARRIER if '[' in texts else 0
    return len(body) <= limit


def _calls(code, bodies):
    "Return {function name: names in its body}"
    calls = {}
    for function, body in bodies:
        calls.setdefault(code[function.paren - 1], set()).update(code.names_in(body.start, body.stop))
    return calls


def _is_recursive(calls, name):
    reachable, pending = set(), [name]
    while pending:
        for callee in calls.get(pending.pop(), set()) - reachable:
            reachable.add(callee)
            pending.append(callee)
    return name in reachable
