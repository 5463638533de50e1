"""`support.function_source` and `support.array_memory`: what is defined or stored anywhere is read the same way."""
import gc
import inspect
import linecache
from functools import lru_cache
from itertools import product

import numpy as np
import pytest
import torch
from gridstride.support.array_memory import address, byte_bounds, owner, strided_view, span_length, span, flat_storage
from gridstride.support.lazy_exports import paused_garbage_collection
from gridstride.support.function_source import lambda_text, SourceMissing, source_of, tree_of

HERE = __file__


def decorated(f): return f


@decorated
def plain(x):
    return x


class Holder:
    @decorated
    def method(self):
        return self


small = decorated(
    lambda x: x + 1)


def made(text, name):
    "What a notebook does with a cell: the text is compiled under a name that `linecache` knows"
    file, space = f'<cell of {name}>', {}
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, 'exec'), space)
    return space[name]


def test_a_function_in_a_file():
    found = source_of(plain)
    assert found.text == found.as_written == '@decorated\ndef plain(x):\n    return x\n'
    assert found.file == HERE and found.first_line == plain.__code__.co_firstlineno
    assert source_of(plain.__code__)[:2] == found[:2] and tree_of(plain).body[0].name == 'plain'


def test_an_indented_function_keeps_its_columns_where_wanted():
    found = source_of(Holder.method)
    assert found.as_written == '    @decorated\n    def method(self):\n        return self\n'
    assert found.text == '@decorated\ndef method(self):\n    return self\n'
    assert source_of(Holder).text.startswith('class')
    assert tree_of(Holder.method).body[0].lineno == 2       # below its decorator


def test_a_cached_function_has_the_source_of_what_it_calls(): assert source_of(lru_cache(plain)) == source_of(plain)


def test_the_source_of_a_lambda_is_found_by_its_bytecode():
    first, second, named = lambda x: x + 1, lambda x: x * 2, lambda y: y + 1
    assert [lambda_text(f) for f in (first, second, named)] == ['lambda x: x + 1', 'lambda x: x * 2', 'lambda y: y + 1']
    alike = lambda x: print(1), lambda x: print(2)
    with pytest.raises(ValueError, match='2 similar'): lambda_text(alike[0])


def test_cells_lambdas_and_what_has_no_source():
    assert source_of(made('x = 1\n\ndef f():\n    return x\n', 'f'))[:2] == (['def f():\n', '    return x\n'], 3)
    assert tree_of(small) is None                           # a part of a statement
    space = {}
    exec('def typed(): pass', space)
    for f in (space['typed'], len, 3):
        with pytest.raises(SourceMissing, match='a file'): source_of(f)
        assert tree_of(f) is None


def test_the_modules_are_not_searched_for_a_cell(monkeypatch):
    "`inspect` would, for as long as it takes to rewrite a small kernel; a cell that was edited is read again"
    monkeypatch.setattr(inspect, 'getmodule', lambda *_: pytest.fail('all modules are searched'))
    for body in ('return 1', 'return 1  # again'):
        f = made(f'@staticmethod\ndef f():\n    {body}\n\ng = lambda: f\n', 'f').__func__
        for o in (f, f.__code__): assert source_of(o).lines == ['@staticmethod\n', 'def f():\n', f'    {body}\n']
    assert source_of(plain).text.startswith('@decorated') and source_of(small).text == '    lambda x: x + 1)\n'.lstrip()


@pytest.mark.parametrize('f', [plain, plain.__code__, Holder.method, Holder().method, small, made, lru_cache(plain)])
def test_it_is_the_source_that_inspect_reads(f):
    lines, first = inspect.getsourcelines(f)
    assert source_of(f)[:2] == (lines, first) and source_of(f).file == inspect.getsourcefile(inspect.unwrap(f))


ARRAYS = [np.arange(24.)[o] for o in (slice(None), slice(3, 17, 2), slice(None, None, -3), slice(5, 5))]
ARRAYS += [np.arange(24).reshape(4, 6)[rows, columns] for rows, columns in product(
    [slice(None), slice(1, 4, 2), slice(None, None, -1)], [slice(None), slice(5, 0, -2)])]
ARRAYS += [np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)[1:], np.array(3.), np.zeros((3, 0))]


@pytest.mark.parametrize('i', range(len(ARRAYS)))
def test_what_an_array_covers(i):
    a = ARRAYS[i]
    flat, (low, high) = span(a), byte_bounds(a)
    assert flat.shape == (span_length(a.shape, [s//a.itemsize for s in a.strides]),) and high - low == flat.nbytes
    if not a.size: return
    assert address(flat) == low <= address(a) < high <= byte_bounds(owner(a))[1]
    again = strided_view(flat, (address(a) - low)//a.itemsize, a.shape, [s//a.itemsize for s in a.strides])
    assert np.array_equal(again, a) and np.shares_memory(again, a)


def test_a_span_may_be_written_where_its_array_may():
    a = np.arange(6)
    span(a[::2])[1] = 9
    a.flags.writeable = False
    assert a[1] == 9 and not span(a[::2]).flags.writeable


def test_all_of_a_tensor():
    t = torch.arange(12.).reshape(3, 4)
    whole = flat_storage(t[1:, ::2])
    assert whole.shape == (12,) and whole.data_ptr() == t.data_ptr()


@pytest.mark.parametrize('enabled', [True, False])
def test_garbage_collection_is_paused_and_then_as_before(enabled):
    was_enabled = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(ImportError), paused_garbage_collection():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() == enabled
    finally: (gc.enable if was_enabled else gc.disable)()
