"Findings as exceptions: one table of wordings, two dialects."
import re

import pytest

from gridstride.cpp.finding import name_type
from gridstride.diagnostics import errors
from gridstride import sim
from gridstride.diagnostics.errors import (CLASSES, Access, Call, MemcheckError, Location, RacecheckError,
                                           exception_of)
from gridstride.diagnostics.formatting import Phrase, element, field_names, text_of
from gridstride.diagnostics.messages import DIALECTS, MESSAGES
from found import names

LOCATION = Location('reverse', 'a.py', 12, 'out[i] = s[n-1-t]', (0, 0, 0), (4, 0, 0))
RACE = dict(array='s', index=(3,), before='written', now='read')


def test_the_lines_of_a_message():
    e = exception_of('racecheck', 'race', 'python', RACE, LOCATION, Access(11, (0, 0, 0), (3, 0, 0), 's[t] = x[i]'))
    assert str(e).splitlines() == [
        'racecheck: data race (read after write) on s[3]: no barrier between the two accesses',
        '  line 12: out[i] = s[n-1-t]',
        '  in reverse, block (0), thread (4)',
        '  against line 11, block (0), thread (3): s[t] = x[i]',
        "  Put a cuda.syncthreads() between these two lines: there a block's threads wait for each other."]


def test_array_types_have_one_name():
    "Compilers name them differently"
    for text in ("'int [12]'", "'int[12]'", "'decltype(gs_init_days)' (aka 'int[12]')"):
        assert name_type(text) == "'int [12]'"
    assert name_type("'Row' (aka 'float[4][8]')") == "'float [4][8]'" and name_type('float*') == 'float*'


def test_a_message_has_at_most_six_lines():
    calls = Call('put', '', 20), Call('reverse', '', 9)
    e = exception_of('racecheck', 'race', 'python', RACE, LOCATION._replace(call_site=(7, 'put(s)', '')),
                     Access(11, (0, 0, 0), (3, 0, 0), 's[t] = x[i]', '', calls))
    assert str(e).count('\n') == 5 and names(str(e), 'against line 11', 'line 9', 'block (0), thread (3): s[t]')


@pytest.mark.parametrize('before,now,hazard', [
    ('written', 'read', 'read after write'), ('read', 'written', 'write after read'),
    ('written', 'changed atomically', 'atomic after write'), ('writes', 'reads', 'read after write'),
    ('write', 'writes', 'write after write')])
def test_a_race_is_named_by_its_two_accesses(before, now, hazard):
    assert f'({hazard})' in text_of('racecheck', 'race', 'cuda', dict(RACE, before=before, now=now))[0]


@pytest.mark.parametrize('access,index,shape,shown', [
    ('read', (3,), (3,), 'read of x[3]: x has 3 elements'), ('write', (1,), (1,), 'write to x[1]: x has 1 element'),
    ('atomic', (3, 4), (3, 5), 'atomic on x[3][4]: x has shape (3, 5)'), ('access', (-1,), (9,), 'access to x[-1]: ')])
def test_what_is_out_of_bounds_is_shown_with_the_access_and_the_size(access, index, shape, shown):
    fields = dict(access=access, array='x', index=index, shape=shape)
    assert text_of('memcheck', 'outside', 'cuda', fields)[0].startswith(f'out-of-bounds {shown}')


def test_a_finding_has_the_facts_as_attributes():
    e = exception_of('racecheck', 'race', 'cuda', RACE, LOCATION, Access(11, (0, 0, 0), (3, 0, 0)))
    assert isinstance(e, RacecheckError)
    assert (e.kind, e.code, e.array, e.index, e.line) == ('racecheck', 'race', 's', (3,), 12)
    assert e.other.line == 11 and e.thread == (4, 0, 0) and '__syncthreads()' in str(e)


def test_what_does_not_apply_is_none_and_is_not_said():
    e = MemcheckError('x[7]', kernel='k', block=(1, 2, 0), thread=(0, 0, 0))
    assert isinstance(e, IndexError) and e.other is None and e.line is None and e.code is None
    assert str(e) == 'memcheck: x[7]\n  in k, block (1,2), thread (0)'


def test_an_element_is_written_as_the_dialect_writes_it():
    assert element('s', (3, 4), 'python') == 's[3, 4]' and element('s', (3, 4), 'cuda') == 's[3][4]'
    assert element('s', (), 'cuda') == element('s', None, 'python') == 's'


def test_lines_are_reported_with_their_files_if_there_are_two():
    location = LOCATION._replace(file='/home/me/tile.h', call_site=(3, 'put(s);', 'p.cu'))
    e = exception_of('racecheck', 'race', 'cuda', RACE, location, Access(11, (0, 0, 0), (3, 0, 0), file='p.cu'))
    at = [l for l in str(e).splitlines() if ' line ' in l]
    assert ([re.search(r'line \d+( of [\w.]+)?', l)[0] for l in at[:3]]
            == [f'line {location.line} of tile.h', 'line 3 of p.cu', 'line 11 of p.cu'])
    e = exception_of('racecheck', 'race', 'cuda', RACE,
                     LOCATION._replace(file='p.cu', call_site=(3, 'put(s);', 'p.cu')),
                     Access(11, (0, 0, 0), (3, 0, 0)))
    assert ' of p.cu' not in str(e)
    cells = (LOCATION._replace(file='/tmp/ipykernel_7/12.py'),
             Access(11, (0, 0, 0), (3, 0, 0), file='/tmp/ipykernel_7/34.py'))
    assert '.py' not in str(exception_of('racecheck', 'race', 'python', RACE, *cells))
    assert 'line 11 of a.py' in str(
        exception_of('racecheck', 'race', 'python', RACE, Location('k', line=4), cells[1]._replace(file='a.py')))


def test_the_function_that_a_kernel_called_is_reported_with_the_call():
    e = exception_of('assert', 'fails', 'cuda', dict(expression='n > 0'), LOCATION._replace(call_site=(3, 'step(n);')))
    assert '  called on line 3: step(n);' in str(e).splitlines() and e.call_line == 3


@pytest.mark.parametrize('kind,code', MESSAGES)
def test_every_row_has_words_in_both_dialects_and_a_class(kind, code):
    fields = {k: Phrase('at_cluster') if k == 'why' else
              (1, 2, 3) if k in ('index', 'thread', 'in_block', 'shape', 'block', 'grid') else 7
              if k in ('mask', 'full_mask', 'address', 'word') else
              [('x', -5, 100)] if k == 'candidates' else 'text' for k in field_names(kind, code)}
    for dialect in DIALECTS:
        what, hint = text_of(kind, code, dialect, fields)
        assert what and '{' not in what + hint and code.isidentifier()
        assert isinstance(exception_of(kind, code, dialect, fields), CLASSES[kind])


def test_a_missing_field_or_an_unknown_code_is_an_error_that_names_it():
    with pytest.raises(KeyError, match='hazard'):
        exception_of('racecheck', 'race', 'python', dict(array='s', index=(3,)))
    with pytest.raises(KeyError, match='no such'): exception_of('racecheck', 'no such', 'python')


def test_the_simulator_has_the_exceptions_at_hand():
    for c in CLASSES.values(): assert getattr(sim, c.__name__) is c
    assert sim.SameValueRace is errors.SameValueRace


def test_what_is_reported_whatever_is_checked_cannot_be_switched_off():
    "Each of these codes exists, and its text does not promise what is not so"
    for kind, codes in errors.ALWAYS_REPORTED.items():
        for code in codes.split(): assert (kind, code) in MESSAGES and errors.how_to_disable(kind, code, 'cuda') == ''
    assert (names(errors.how_to_disable('memcheck', 'outside', 'cuda'), "checks='no memcheck'"))
    assert errors.how_to_disable('launch', 'empty', 'python') == ''


@pytest.mark.parametrize('code', ['endless_wait', 'blocks_wait'])
def test_one_thread_waits_and_two_wait(code):
    assert '1 thread waits' in text_of('synccheck', code, 'python', dict(threads=1))[0]
    assert '2 threads wait' in text_of('synccheck', code, 'python', dict(threads=2))[0]


def test_a_race_without_lines_is_reported_in_the_order_in_which_it_was_found():
    "As on a machine without addr2line, where the emulator knows no line"
    from gridstride.cpp.finding import KINDS, CFinding, RuntimeFinding
    reported = CFinding(kind=KINDS.index('racecheck'), code=b'race', kernel=b'k', has_thread=1, has_other=1)
    found = RuntimeFinding(reported)
    found.fields.update(array='s', before='read', now='written', barrier=0)
    found.order_race(lambda line: '')
    assert found.line is None and (found.fields['before'], found.fields['now']) == ('read', 'written')
