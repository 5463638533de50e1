"""Check the kind, code and fields of a finding, not its wording.

    with finding('racecheck race', line=12, index=(3,)): k[1, 64](x)
    with finding('synccheck deadlock missing_bytes|racecheck'): ...

A third word is the code of a phrase among the fields; a kind alone matches all of its codes."""
import re
from contextlib import contextmanager

import pytest
from gridstride.diagnostics.errors import KernelError
from gridstride.diagnostics.formatting import Phrase


def codes(error):
    "Return the kind, the code, and the codes of the phrases of a finding"
    return [error.kind, error.code, *(v.code for v in error.fields.values() if isinstance(v, Phrase))]


def fits(error, want):
    "Return whether an error is the finding `want`; `deadlock` also matches `mutual_deadlock`, with a second thread"
    kind, *others = want.split()
    code = (error.code or '').removeprefix('mutual_')
    return error.kind == kind and (not others or code == others[0]) and set(others[1:]) <= set(codes(error)[2:])


@contextmanager
def finding(want, **facts):
    "Expect one of these findings; `facts` are its fields, or attributes (line, index, advice)"
    with pytest.raises(KernelError) as e: yield e
    error = e.value
    assert any(fits(error, option) for option in want.split('|')), (codes(error), want, str(error))
    found = {**vars(error), **error.fields}
    assert {k: found.get(k) for k in facts} == facts, str(error)


@contextmanager
def warning(code, **facts):
    "Expect a warning of a finding with this code; `facts` are fields of the first one"
    with pytest.warns(Warning) as caught: yield caught
    found = [w.message for w in caught if getattr(w.message, 'code', None) == code]
    assert found, [str(w.message) for w in caught]
    assert {k: found[0].fields.get(k) for k in facts} == facts, str(found[0])


def saying(*parts):
    "Make a pattern for `match`: these names, values and terms in this order, with any text between them"
    return '(?s:.*)'.join(re.escape(str(part)) for part in parts)


def names(text, *parts):
    "Return whether a text has these names, values and terms in this order"
    return re.search(saying(*parts), text) is not None
