"Clocks: the wall's, a GPU's on paper, and what its sensors say."
import time
from types import SimpleNamespace

import numpy as np
import pytest
from gridstride.bench.clocks import Clock, Events, Sensors, State, back_to_back, clock_warnings, clock_for
from found import names


def nvml(mhz=1980, reasons=0, known=0):
    "A stand-in for the library: writes where the pointer leads and returns a status"
    def gives(v): return lambda *args: setattr(args[-1]._obj, 'value', v) or 0
    return lambda: SimpleNamespace(
        nvmlDeviceGetHandleByUUID=lambda *_: known, nvmlDeviceGetPowerUsage=gives(350500),
        nvmlDeviceGetTemperature=gives(41), nvmlDeviceGetClockInfo=gives(mhz), nvmlDeviceGetMaxClockInfo=gives(1980),
        nvmlDeviceGetCurrentClocksThrottleReasons=gives(reasons))


def test_the_wall_clock_times_each_call():
    slept = Clock().times(lambda: time.sleep(.002), 3)
    assert len(slept) == 3 and min(slept) >= .002


def test_calls_back_to_back_are_timed_together(): assert back_to_back(lambda: time.sleep(.001)) >= .001


def test_arrays_of_the_cpu_are_timed_by_the_wall(): assert not clock_for([np.zeros(3), 2]).gpu


def test_sensors_give_a_state_in_mhz_watt_and_degrees():
    assert Sensors('a-b', nvml(1755, 5)).read() == State(1755, 1980, 350.5, 41, ('the power limit',))


def test_sensors_without_a_value_give_the_reason():
    def gone(): raise OSError('libnvidia-ml.so.1 is not here')
    assert Sensors('a-b', gone).read() is None and names(Sensors('a-b', gone).unavailable_reason, 'libnvidia-ml.so.1')
    unknown = Sensors('a-b', nvml(known=6))
    assert unknown.read() is None and 'status 6' in unknown.unavailable_reason


def state(mhz, *reasons): return State(mhz, 1980, 400, 41, reasons)


@pytest.mark.parametrize('states,warnings', [
    ([], 0), ([state(1980)]*3+[None], 0), ([state(1980), state(1700, 'the power limit')], 2)])
def test_a_clock_that_moved_is_warned_of(states, warnings): assert len(clock_warnings(states)) == warnings


@pytest.fixture
def queue(): return []


@pytest.fixture
def events(queue):
    "A GPU's clock whose `torch.cuda` writes down what is queued"
    def note(what): return lambda *args: queue.append(what)

    class Event:
        def __init__(self, **kw): pass
        def record(self): queue.append('event')
        def query(self): return False
        def elapsed_time(self, other): return 2.5
    e = object.__new__(Events)
    e.torch = SimpleNamespace(Event=Event, _sleep=note('pause'), synchronize=note('wait'))
    e.buffer, e.sensors = SimpleNamespace(zero_=note('flush')), Sensors('a-b', nvml())
    e.states, e.queue_seconds = [], 1e-4
    return e


def test_a_batch_is_queued_after_a_pause_and_waited_for_once(events, queue):
    times = events.times(lambda: queue.append('kernel'), 2)
    assert queue == ['pause', *['flush', 'event', 'kernel', 'event']*2, 'wait']
    assert times == [.0025]*2 and len(events.states) == 1, 'seconds, and the sensors were asked once'


def test_without_a_flush_the_l2_keeps_what_it_has(events, queue):
    events.buffer = None
    events.times(lambda: queue.append('kernel'), 1)
    assert queue == ['pause', 'event', 'kernel', 'event', 'wait']
