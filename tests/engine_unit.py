"""Compile the kernels that tests launch under `engine='c'` in one translation unit.

Each test is called up to its first launch, whose translation is recorded; one unit contains all of them. Later launches
of a test, and those of tests with fixtures, are compiled separately.
"""
import contextlib, inspect, itertools, re, warnings
from collections import namedtuple

import pytest
from gridstride import sim
from gridstride.cpp.toolchain.compilers import uses_vector_types
from gridstride.cpp.toolchain.cache import lock_entry
from gridstride.translate import engine
from gridstride.utils import cache_dir

INCLUDE = re.compile(r'^#include .*\n', re.M)


class FirstLaunch(BaseException): "Ends a test at its first launch"


class Part(namedtuple('Part', 'unit index')):
    "One translation of a unit, with the interface of a separately compiled one"
    def call(self, _, *args): return self.unit.call(self.index, *args)


def parameter_sets(test):
    "Yield the keyword arguments of each case of a test; none if the test needs fixtures, too"
    marks = [m for m in getattr(test, 'pytestmark', []) if m.name == 'parametrize']
    for case in itertools.product(*(mark.args[1] for mark in marks)):
        arguments = {}
        for mark, values in zip(marks, case):
            names = [name.strip() for name in mark.args[0].split(',')]
            arguments.update(zip(names, values if len(names) > 1 else [values]))
        if set(arguments) == set(inspect.signature(test).parameters): yield arguments


def record_first_launches(tests):
    "Return {(text, checks): translation} of the first launch of each test"
    recorded = {}
    def record(translations, checks, files):
        recorded[engine.combine_translations(translations, list(files)), checks] = translations[0]
        raise FirstLaunch
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), sim.options(seed=3, engine='c'):
        warnings.simplefilter('ignore')
        patch.setattr(engine, 'CompiledTranslations', record)
        for test in tests:
            for arguments in parameter_sets(test):
                with contextlib.suppress(FirstLaunch, Exception, pytest.fail.Exception, pytest.skip.Exception):
                    test(**arguments)
    return recorded


def renumber(text, n):
    "Return the text of a translation with namespace and entry point number `n`, without includes"
    return re.sub(r'\bt0\b(?=::| \{)', f't{n}', INCLUDE.sub('', text)).replace('void enter_0(', f'void enter_{n}(')


def compile_unit(recorded):
    "Return {(text, checks): Part} of the translations with checks, compiled in one unit"
    keys = [key for key in recorded if key[1] and not uses_vector_types(key[0])]
    includes = dict.fromkeys(include for text, _ in keys for include in INCLUDE.findall(text))
    unit = ''.join([*includes, *(renumber(text, n) for n, (text, _) in enumerate(keys))])
    with pytest.MonkeyPatch.context() as patch, lock_entry(cache_dir()/'engine_unit'):
        patch.setattr(engine, 'combine_translations', lambda *_: unit)
        compiled_unit = engine.CompiledTranslations([recorded[key] for key in keys], True)
    return {key: Part(compiled_unit, n) for n, key in enumerate(keys)}


@contextlib.contextmanager
def compiled(tests):
    "Compile the first launches of `tests` in one unit, which the launches in the `with` block use"
    parts = compile_unit(record_first_launches(tests))
    compile_separately = engine.CompiledTranslations
    def find_or_compile(translations, checks, files):
        combined = engine.combine_translations(translations, list(files))
        return parts.get((combined, checks)) or compile_separately(translations, checks, files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, 'CompiledTranslations', find_or_compile)
        yield
