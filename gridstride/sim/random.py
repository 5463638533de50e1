"""`numba.cuda.random`: Numba's own streams of pseudorandom numbers, xoroshiro128+, bit for bit.

Each thread has its own state, which is 2**64 steps after that of the previous thread in the same stream:

    states = create_xoroshiro128p_states(threads, seed=1)
    ... in the kernel: x = xoroshiro128p_uniform_float32(states, cuda.grid(1))

xoroshiro128+ and SplitMix64 are by David Blackman and Sebastiano Vigna, http://xoroshiro.di.unimi.it. A step of the
generator is linear over bits, so 2**64 steps are a product with a matrix of 128 x 128 bits, for many states at once.
"""

import math

import numpy as np

from .host import device_array
from .intrinsics import intrinsic
from .memory import load, store

__all__ = [
    'create_xoroshiro128p_states',
    'init_xoroshiro128p_state',
    'init_xoroshiro128p_states',
    'init_xoroshiro128p_states_cpu',
    'uint64_to_unit_float32',
    'uint64_to_unit_float64',
    'xoroshiro128p_dtype',
    'xoroshiro128p_jump',
    'xoroshiro128p_next',
    'xoroshiro128p_normal_float32',
    'xoroshiro128p_normal_float64',
    'xoroshiro128p_type',
    'xoroshiro128p_uniform_float32',
    'xoroshiro128p_uniform_float64',
]

xoroshiro128p_dtype = np.dtype([('s0', np.uint64), ('s1', np.uint64)], align=True)
xoroshiro128p_type = xoroshiro128p_dtype
_JUMP = 0xBEAC0467EBA5FACB, 0xD86B048B86AA9922


def _u64(v):
    return np.asarray(v).astype(np.uint64)


def _rotate_left(x, k):
    return x << np.uint64(k) | x >> np.uint64(64 - k)


def _step(s0, s1):
    "Return the next state, for arrays of uint64"
    s1 = s1 ^ s0
    return _rotate_left(s0, 55) ^ s1 ^ s1 << np.uint64(14), _rotate_left(s1, 36)


def _first_state(seed):
    "Return SplitMix64's value for a seed: both halves of the first state have this value"
    with np.errstate(over='ignore'):
        z = _u64(seed) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def _jump(s0, s1):
    "Advance states by 2**64 steps"
    result0, result1 = np.zeros_like(s0), np.zeros_like(s1)
    for word in _JUMP:
        for bit in range(64):
            if word >> bit & 1:
                result0, result1 = result0 ^ s0, result1 ^ s1
            s0, s1 = _step(s0, s1)
    return result0, result1


class _JumpMatrix:
    "Several jumps as a 128 x 128 matrix of bits: `s0` and `s1` hold the images of the 128 unit vectors"

    def __init__(self, s0, s1):
        self.s0, self.s1 = s0, s1

    def __call__(self, s0, s1):
        "Advance states by this many jumps"
        result0, result1 = np.zeros_like(s0), np.zeros_like(s1)
        for i in range(128):
            bit = (s0 if i < 64 else s1) >> np.uint64(i % 64) & np.uint64(1)
            result0, result1 = result0 ^ bit * self.s0[i], result1 ^ bit * self.s1[i]
        return result0, result1

    def square(self):
        "Return the matrix of twice as many jumps"
        return _JumpMatrix(*self(self.s0, self.s1))


def _matrix_of_one_jump():
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    zeros = np.zeros(64, np.uint64)
    return _JumpMatrix(*_jump(np.r_[bits, zeros], np.r_[zeros, bits]))


def init_xoroshiro128p_states_cpu(states, seed, subsequence_start=0):
    "Initialize an array of states on the host"
    s0 = s1 = np.atleast_1d(_first_state(int(seed) % 2**64))
    jumps = _matrix_of_one_jump()
    remaining_jumps = int(subsequence_start)
    while remaining_jumps:
        if remaining_jumps & 1:
            s0, s1 = jumps(s0, s1)
        jumps = jumps.square()
        remaining_jumps = remaining_jumps >> 1
    jumps = _matrix_of_one_jump()
    while len(s0) < len(states):  # double the states: a new state is `jumps` after an old one
        next_states = jumps(s0, s1)
        s0 = np.r_[s0, next_states[0]]
        s1 = np.r_[s1, next_states[1]]
        jumps = jumps.square()
    states['s0'], states['s1'] = s0[: len(states)], s1[: len(states)]


def init_xoroshiro128p_states(states, seed, subsequence_start=0, stream=0):
    "Initialize an array of states on the device"
    host_states = np.empty(states.shape, xoroshiro128p_dtype)
    init_xoroshiro128p_states_cpu(host_states, seed, subsequence_start)
    states.copy_to_device(host_states, stream=stream)


def create_xoroshiro128p_states(n, seed, subsequence_start=0, stream=0):
    "Create states for `n` threads, on the device"
    states = device_array(n, dtype=xoroshiro128p_dtype, stream=stream)
    init_xoroshiro128p_states(states, seed, subsequence_start, stream)
    return states


# In kernels, states are read and written like any other memory, so that racecheck finds threads that share one.


def _load_state(ctx, active, site, states, index):
    record = load(ctx, active, states, np.asarray(index).astype(np.int64)[()], site)
    return record, *(_u64(load(ctx, active, record, k, site)) for k in ('s0', 's1'))


def _store_state(ctx, active, site, record, s0, s1):
    store(ctx, active, record, 's0', s0, site)
    store(ctx, active, record, 's1', s1, site)


@intrinsic
def init_xoroshiro128p_state(ctx, active, site, states, index, seed):
    "Initialize a state from a seed"
    record = load(ctx, active, states, np.asarray(index).astype(np.int64)[()], site)
    _store_state(ctx, active, site, record, *2 * (_first_state(seed),))


@intrinsic
def xoroshiro128p_next(ctx, active, site, states, index):
    "Return the next uint64 of the stream"
    record, s0, s1 = _load_state(ctx, active, site, states, index)
    _store_state(ctx, active, site, record, *_step(s0, s1))
    return s0 + s1


@intrinsic
def xoroshiro128p_jump(ctx, active, site, states, index):
    "Advance the stream by 2**64 steps"
    record, s0, s1 = _load_state(ctx, active, site, states, index)
    _store_state(ctx, active, site, record, *_jump(s0, s1))


def _to_unit_interval(x):
    return (_u64(x) >> np.uint64(11)) * 2.0**-53


@intrinsic
def uint64_to_unit_float64(ctx, active, site, x):
    "Convert a uint64 to a float64 in [0, 1)"
    return _to_unit_interval(x)


@intrinsic
def uint64_to_unit_float32(ctx, active, site, x):
    "Convert a uint64 to a float32 in [0, 1)"
    return np.float32(_to_unit_interval(x))


def _uniform(next_arguments, dtype=np.float32):
    "Return the next number in [0, 1); `next_arguments` are passed to `xoroshiro128p_next`"
    return dtype(_to_unit_interval(xoroshiro128p_next.lane_function(*next_arguments)))


@intrinsic
def xoroshiro128p_uniform_float32(ctx, active, site, states, index):
    "Return the next float32, uniform in [0, 1)"
    return _uniform((ctx, active, site, states, index))


@intrinsic
def xoroshiro128p_uniform_float64(ctx, active, site, states, index):
    "Return the next float64, uniform in [0, 1)"
    return _uniform((ctx, active, site, states, index), np.float64)


def _round_once(fn, v):
    "Compute `fn` in float64 and round once: NumPy's float32 version differs from a math library's in the last bit"
    return np.float32(fn(np.float64(v)))


def _log_and_uniform(next_arguments):
    "Return (the logarithm of a uniform float32, the next uniform float32), for the Box-Muller transform"
    log = _round_once(np.log, _uniform(next_arguments))
    return log, _uniform(next_arguments)


@intrinsic
def xoroshiro128p_normal_float32(ctx, active, site, states, index):
    "Return the next normally distributed float32, by the Box-Muller transform"
    log, u = _log_and_uniform((ctx, active, site, states, index))
    return np.sqrt(np.float32(-2) * log) * _round_once(np.cos, np.float32(2 * math.pi) * u)


@intrinsic
def xoroshiro128p_normal_float64(ctx, active, site, states, index):
    "Return the next normally distributed float64, computed from two float32, as in Numba"
    log, u = _log_and_uniform((ctx, active, site, states, index))
    return np.sqrt(np.float64(-2) * log) * np.cos(np.float64(2 * math.pi) * np.float64(u))
