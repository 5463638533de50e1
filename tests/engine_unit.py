"""Kernels of tests under `engine='c'`, compiled at once.

Each test is called up to its first launch, whose translation is noted; all of these make one unit. What a test launches
later, or with a fixture, is compiled alone.
"""
import contextlib, inspect, itertools, re, warnings
from collections import namedtuple

import pytest
from gridstride import sim
from gridstride.cpp.toolchain.compilers import _VECTOR_TYPES
from gridstride.cpp.toolchain.cache import lock_entry
from gridstride.translate import engine
from gridstride.utils import cache_dir

INCLUDE = re.compile(r'^#include .*\n', re.M)


class Reached(BaseException): "A test is at its first launch"


class Part(namedtuple('Part', 'unit at')):
    "One translation of a unit, as if it were compiled alone"
    def call(self, _, *more): return self.unit.call(self.at, *more)


def given(test):
    "The arguments of each call of a test; none at all if it needs more than its parameters"
    marks = [m for m in getattr(test, 'pytestmark', []) if m.name == 'parametrize']
    for values in itertools.product(*(m.args[1] for m in marks)):
        found = {}
        for m, v in zip(marks, values):
            names = [o.strip() for o in m.args[0].split(',')]
            found.update(zip(names, v if len(names) > 1 else [v]))
        if set(found) == set(inspect.signature(test).parameters): yield found


def noted(tests):
    "{(text, checks): translation} of what the tests launch first"
    found = {}
    def note(translations, checks, files):
        found[engine.combine_translations(translations, list(files)), checks] = translations[0]
        raise Reached
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), sim.options(seed=3, engine='c'):
        warnings.simplefilter('ignore')
        patch.setattr(engine, 'CompiledTranslations', note)
        for test in tests:
            for how in given(test):
                with contextlib.suppress(Reached, Exception, pytest.fail.Exception, pytest.skip.Exception): test(**how)
    return found


def in_a_space(text, n):
    "The text of one translation as the one with this number"
    return re.sub(r'\bt0\b(?=::| \{)', f't{n}', INCLUDE.sub('', text)).replace('void enter_0(', f'void enter_{n}(')


def together(found):
    "{(text, checks): Part} of checked translations, which one compilation makes"
    keys = [k for k in found if k[1] and not _VECTOR_TYPES.search(k[0])]
    heads = dict.fromkeys(o for text, _ in keys for o in INCLUDE.findall(text))
    unit = ''.join([*heads, *(in_a_space(text, n) for n, (text, _) in enumerate(keys))])
    with pytest.MonkeyPatch.context() as patch, lock_entry(cache_dir()/'engine_unit'):
        patch.setattr(engine, 'combine_translations', lambda *_: unit)
        made = engine.CompiledTranslations([found[k] for k in keys], True)
    return {k: Part(made, n) for n, k in enumerate(keys)}


@contextlib.contextmanager
def compiled(tests):
    "What `tests` launch is found compiled"
    there, alone = together(noted(tests)), engine.CompiledTranslations
    def ready(translations, checks, files):
        combined = engine.combine_translations(translations, list(files))
        return there.get((combined, checks)) or alone(translations, checks, files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, 'CompiledTranslations', ready)
        yield
