"""Device functions that a checked build inlines into their callers.

A detector records the code address of an access. In a function with two calls that does not determine
the call; functions_to_inline code exists once per call, and addr2line reports all calls that led there.
"""

from collections import Counter

__all__ = ['functions_to_inline']

_BARRIERS = {
    '__syncthreads', '__syncthreads_count', '__syncthreads_and', '__syncthreads_or', '__syncwarp', '__barrier_sync',
    '__barrier_sync_count', 'sync',
}  # fmt: skip
_REFUSED = {'__noinline__', 'noinline', 'GRIDSTRIDE_NOINLINE', 'operator', 'virtual', 'override', 'friend', 'extern'}
_MOST, _MOST_WITHOUT = 600, 120  # tokens of a function with a barrier, and of one that uses an array
_DEEP = 4  # nested calls


def functions_to_inline(
    c,  # `Code`
    found,  # its functions, `callers._Declared`
    end,  # function: index after the body of the function with its parameters at a token
):  # list of indices: the first tokens of functions
    "Return device functions that are called here, access memory and are not recursive"
    # name -> how often it precedes one of these
    used = Counter(c[i - 1] for bracket in ('(', '<') for i in c.find(bracket))
    bodies = [(f, range(f.p, end(c, f.p))) for f in found if f.defined]
    calls, fit = _calls(c, bodies), {}
    fits = [(f, body) for f, body in bodies if _may_be(c, f, used) and not _calls_itself(calls, c[f.p - 1])]
    for _ in range(_DEEP):  # a caller of one of them is one, too
        fit = {f.first: c[f.p - 1] for f, body in fits if _uses_memory(c, body, set(fit.values()))}
    return [*fit]


def _may_be(c, f, used):
    name, stated = c[f.p - 1], {*c.texts[f.first : f.p]}
    if '__device__' not in f.words or '__global__' in f.words or (f.words | stated) & _REFUSED:
        return False
    if name == f.owner or c[f.p - 2] == '~' or '...' in c.text(range(f.p, c.mate[f.p])):
        return False
    return used[name] > 1  # one of them is its definition


def _uses_memory(c, body, names):
    if len(body) > _MOST:
        return False
    words = {*c.texts[body.start : body.stop]}
    return len(body) <= (_MOST if words & (_BARRIERS | names) else _MOST_WITHOUT if '[' in words else 0)


def _calls(c, bodies):
    "Return {function name: names in its body}"
    calls = {}
    for f, body in bodies:
        calls.setdefault(c[f.p - 1], set()).update(c.names_in(body.start, body.stop))
    return calls


def _calls_itself(calls, name):
    seen, todo = set(), [name]
    while todo:
        for callee in calls.get(todo.pop(), set()) - seen:
            seen.add(callee)
            todo.append(callee)
    return name in seen
