"Which cases of a test run each time, and which only under `--all`: those are marked `exhaustive`."
import itertools

import pytest
from _pytest.mark import ParameterSet


def values_of(case): return case.values if isinstance(case, ParameterSet) else case if type(case) is tuple else (case,)


def left_to_all(case):
    "The case, marked"
    given = case if isinstance(case, ParameterSet) else pytest.param(*values_of(case))
    return given._replace(marks=(*given.marks, pytest.mark.exhaustive))


def some(cases, every, first=0):
    "Parameters of a test: of `cases` each `every`-th runs each time, from number `first` on"
    return [case if n % every == first % every else left_to_all(case) for n, case in enumerate(cases)]


def most_pairs(cases, seen):
    "The case with the most pairs of values that are not among those `seen`, and these pairs"
    found = [(case, pairs_of(case) - seen) for case in cases]
    return max(found, key=lambda o: len(o[1]), default=(None, set()))


def pairs_of(case): return {*itertools.combinations(enumerate(map(repr, case)), 2)}


def pairwise(*axes):
    "Parameters of a test: of all combinations those run each time that together have each pair of values of two axes"
    cases, chosen, seen = [*itertools.product(*axes)], [], set()
    while (best := most_pairs(cases, seen))[1]:
        chosen.append(best[0])
        seen |= best[1]
    return [case if case in chosen else left_to_all(case) for case in cases]


def at_hand(request, cases):
    "The values of those cases that this run has not left to `--all`"
    every = request.config.option.all_tests
    return [values_of(o) for o in cases if every or not (isinstance(o, ParameterSet) and is_left(o))]


def is_left(case): return any(o.name == 'exhaustive' for o in case.marks)
