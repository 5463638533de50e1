import math
from bisect import bisect_left
from fractions import Fraction
from itertools import count
import numpy as np
from . import right


@right('latency_and_roofline.little')
def with_numpy(gbs, ns, sms, warps, size): return np.ceil(gbs*1e9*ns/1e9/(sms*warps*32*size))

@right('latency_and_roofline.little')
def counted_up(gbs, ns, sms, warps, size): return next(o for o in count(1) if o*size*32*warps*sms >= gbs*ns)

@right('latency_and_roofline.little')
def by_each_sm(gbs, ns, sms, warps, size): return math.ceil(gbs*ns/sms/warps/32/size)

@right('latency_and_roofline.tokens')
def solved(k, n, size, gbs, tflops):
    ridge = Fraction(1000*tflops, gbs)
    gain = 2*k*n - ridge*size*(k + n)
    return math.ceil(ridge*size*k*n/gain) if gain > 0 else None

@right('latency_and_roofline.tokens')
def solved_in_floats(k, n, size, gbs, tflops):
    ridge = tflops*1e12/(gbs*1e9)
    if k*n*2/size/(k+n) <= ridge: return
    return np.ceil(ridge*size*k*n/(2*k*n - ridge*size*(k+n)))

@right('latency_and_roofline.tokens')
def by_times(k, n, size, gbs, tflops):
    def bound(t): return 2*t*k*n/(tflops*1e12) >= size*(t*k + k*n + t*n)/(gbs*1e9)
    t = 1 + bisect_left(range(1, 10**9), True, key=bound)
    return t if t < 10**9 else None

@right('latency_and_roofline.tokens')
def by_intensity(k, n, size, gbs, tflops):
    t = np.arange(1, 1_000_000)
    found = np.flatnonzero(2*t*k*n/(size*(t*k + k*n + t*n)) >= 1000*tflops/gbs)
    return t[found[0]] if len(found) else None

@right('latency_and_roofline.predict')
def in_seconds(bytes, flops, us, gbs, tflops):
    times = [(us/1e6, 'latency'), (bytes/(gbs*1e9), 'memory'), (flops/(tflops*1e12), 'compute')]
    return 1e6*(times[0][0] + max(times[1:])[0]),max(times)[1]

@right('latency_and_roofline.predict')
def with_a_numpy_array(bytes, flops, us, gbs, tflops):
    times = np.array([us, bytes/gbs/1e3, flops/tflops/1e6])
    return [times[0] + times[1:].max(), ['latency','memory','compute'][times.argmax()]]
