"""What a test expects of a finding: its kind, its code and its facts, not its wording.

    with finding('racecheck race', line=12, index=(3,)): k[1, 64](x)
    with finding('synccheck stuck lacks_bytes|racecheck'): ...

A third word is the code of a phrase among the fields; a kind alone stands for any of its codes."""
import re
from contextlib import contextmanager

import pytest
from gridstride.diagnostics.errors import KernelError, Phrase


def codes(error):
    "The kind, the code, and the codes of the phrases of a finding"
    return [error.kind, error.code, *(v.code for v in error.fields.values() if isinstance(v, Phrase))]


def fits(error, want):
    "`stuck` stands for `stuck_together`, too, which names a second thread"
    kind, *others = want.split()
    code = (error.code or '').removesuffix('_together')
    return error.kind == kind and (not others or code == others[0]) and set(others[1:]) <= set(codes(error)[2:])


@contextmanager
def finding(want, **facts):
    "One of these findings is raised; `facts` are its fields, or attributes (line, index, advice)"
    with pytest.raises(KernelError) as e: yield e
    error = e.value
    assert any(fits(error, o) for o in want.split('|')), (codes(error), want, str(error))
    found = {**vars(error), **error.fields}
    assert {k: found.get(k) for k in facts} == facts, str(error)


@contextmanager
def warning(code, **facts):
    "Findings with this code are warned of; `facts` are fields of the first"
    with pytest.warns(Warning) as caught: yield caught
    found = [o.message for o in caught if getattr(o.message, 'code', None) == code]
    assert found, [str(o.message) for o in caught]
    assert {k: found[0].fields.get(k) for k in facts} == facts, str(found[0])


def saying(*parts):
    "A pattern for `match`: these names, values and terms in this order, whatever is between them"
    return '(?s:.*)'.join(re.escape(str(o)) for o in parts)


def names(text, *parts):
    "Does a text have these names, values and terms in this order?"
    return re.search(saying(*parts), text) is not None
