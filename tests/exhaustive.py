"Select the cases of a test that run each time; the others are marked `exhaustive` and run only with `--all`."
import itertools

import pytest
from _pytest.mark import ParameterSet


def values_of(case): return case.values if isinstance(case, ParameterSet) else case if type(case) is tuple else (case,)


def mark_exhaustive(case):
    "Return the case with the mark `exhaustive`"
    param = case if isinstance(case, ParameterSet) else pytest.param(*values_of(case))
    return param._replace(marks=(*param.marks, pytest.mark.exhaustive))


def some(cases, every, first=0):
    "Return the parameters of a test, of which each `every`-th case, from `first` on, runs each time"
    return [case if n % every == first % every else mark_exhaustive(case) for n, case in enumerate(cases)]


def most_pairs(cases, seen):
    "Return the case with the most pairs of values that are not in `seen`, and these pairs"
    new_pairs = [(case, pairs_of(case) - seen) for case in cases]
    return max(new_pairs, key=lambda o: len(o[1]), default=(None, set()))


def pairs_of(case): return {*itertools.combinations(enumerate(map(repr, case)), 2)}


def pairwise(*axes):
    "Return all combinations as parameters of a test; those that run each time cover all pairs of values of two axes"
    cases, chosen, seen = [*itertools.product(*axes)], [], set()
    while (best := most_pairs(cases, seen))[1]:
        chosen.append(best[0])
        seen |= best[1]
    return [case if case in chosen else mark_exhaustive(case) for case in cases]


def included_values(request, cases):
    "Return the values of the cases that this run includes"
    includes_all = request.config.option.all_tests
    return [values_of(o) for o in cases if includes_all or not (isinstance(o, ParameterSet) and is_exhaustive(o))]


def is_exhaustive(case): return any(o.name == 'exhaustive' for o in case.marks)
