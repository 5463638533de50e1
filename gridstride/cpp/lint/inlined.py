"""Functions of the device that a checked build makes part of their callers.

A detector remembers of an access where in the code it was made. In a function that is called twice that does not tell
which call it was; what is inlined stands in the code once per call, and addr2line names all calls that led there.
"""

from collections import Counter

__all__ = ['inlined']

_BARRIERS = {
    '__syncthreads', '__syncthreads_count', '__syncthreads_and', '__syncthreads_or', '__syncwarp', '__barrier_sync',
    '__barrier_sync_count', 'sync',
}  # fmt: skip
_REFUSED = {'__noinline__', 'noinline', 'GRIDSTRIDE_NOINLINE', 'operator', 'virtual', 'override', 'friend', 'extern'}
_MOST, _MOST_WITHOUT = 600, 120  # tokens of a function with a barrier, and of one that uses an array
_DEEP = 4  # calls of functions by functions


def inlined(
    c,  # `Code`
    found,  # its functions, `callers._Declared`
    end,  # function: index behind the body of the function with its parameters at a token
):  # list of indices: the first tokens of functions
    "Functions of the device that are called here and use memory, if they do not call themselves"
    used = Counter(c[i - 1] for o in ('(', '<') for i in c.find(o))  # name -> how often it stands before one of these
    bodies = [(f, range(f.p, end(c, f.p))) for f in found if f.defined]
    calls, fit = _calls(c, bodies), {}
    fits = [(f, body) for f, body in bodies if _may_be(c, f, used) and not _calls_itself(calls, c[f.p - 1])]
    for _ in range(_DEEP):  # who calls one of them is one, too
        fit = {f.first: c[f.p - 1] for f, body in fits if _uses_memory(c, body, set(fit.values()))}
    return [*fit]


def _may_be(c, f, used):
    name, stated = c[f.p - 1], {*c.texts[f.first : f.p]}
    if '__device__' not in f.words or '__global__' in f.words or (f.words | stated) & _REFUSED:
        return False
    if name == f.owner or c[f.p - 2] == '~' or '...' in c.text(range(f.p, c.mate[f.p])):
        return False
    return used[name] > 1  # of which one is here


def _uses_memory(c, body, names):
    if len(body) > _MOST:
        return False
    words = {*c.texts[body.start : body.stop]}
    return len(body) <= (_MOST if words & (_BARRIERS | names) else _MOST_WITHOUT if '[' in words else 0)


def _calls(c, bodies):
    "Function's name -> the names in its body"
    calls = {}
    for f, body in bodies:
        calls.setdefault(c[f.p - 1], set()).update(c.names_in(body.start, body.stop))
    return calls


def _calls_itself(calls, name):
    seen, rest = set(), [name]
    while rest:
        for o in calls.get(rest.pop(), set()) - seen:
            seen.add(o)
            rest.append(o)
    return name in seen
