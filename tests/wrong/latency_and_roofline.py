import math
from . import wrong


@wrong('latency_and_roofline.little')
def rounded_down(gbs, ns, sms, warps, size): return gbs*ns//(sms*warps*32*size)

@wrong('latency_and_roofline.little')
def a_load_per_warp(gbs, ns, sms, warps, size): return -(-gbs*ns//(sms*warps*size))

@wrong('latency_and_roofline.little')
def one_more_always(gbs, ns, sms, warps, size): return gbs*ns//(sms*warps*32*size) + 1

@wrong('latency_and_roofline.little')
def not_whole(gbs, ns, sms, warps, size): return gbs*ns/(sms*warps*32*size)


@wrong('latency_and_roofline.little')
def rounded_to_the_nearest(gbs, ns, sms, warps, size): return max(1, round(gbs*ns/(sms*warps*32*size)))


def tokens(k, n, size, gbs, tflops, bytes=lambda t, k, n: t*k + k*n + t*n, most=100_000):
    return next((t for t in range(1, most) if 2*t*k*n*gbs >= size*bytes(t, k, n)*tflops*1000), None)

@wrong('latency_and_roofline.tokens')
def weights_alone(k, n, size, gbs, tflops): return tokens(k, n, size, gbs, tflops, lambda t, k, n: k*n)

@wrong('latency_and_roofline.tokens')
def never_none(k, n, size, gbs, tflops): return tokens(k, n, size, gbs, tflops) or 100_000

@wrong('latency_and_roofline.tokens')
def not_many_tried(k, n, size, gbs, tflops): return tokens(k, n, size, gbs, tflops, most=10_000)

@wrong('latency_and_roofline.tokens')
def elements_are_bytes(k, n, size, gbs, tflops): return tokens(k, n, 1, gbs, tflops)

@wrong('latency_and_roofline.tokens')
def tokens_one_less(k, n, size, gbs, tflops): return (t := tokens(k, n, size, gbs, tflops)) and t - 1

@wrong('latency_and_roofline.tokens')
def tokens_by_thousands(k, n, size, gbs, tflops): return (t := tokens(k, n, size, gbs, tflops)) and -(-t//1000)*1000


@wrong('latency_and_roofline.tokens')
def none_above_the_ridge_alone(k, n, size, gbs, tflops):
    ridge = 1000*tflops/gbs
    return None if 2*k*n < (less := ridge*size*(k + n)) else math.ceil(ridge*size*k*n/(2*k*n - less))


@wrong('latency_and_roofline.predict')
def no_latency(bytes, flops, us, gbs, tflops):
    times = dict(memory=bytes/gbs/1e3, compute=flops/tflops/1e6)
    return max(times.values()),max(times, key=times.get)

@wrong('latency_and_roofline.predict')
def one_after_the_other(bytes, flops, us, gbs, tflops):
    times = dict(latency=us, memory=bytes/gbs/1e3, compute=flops/tflops/1e6)
    return sum(times.values()),max(times, key=times.get)

@wrong('latency_and_roofline.predict')
def never_latency_bound(bytes, flops, us, gbs, tflops):
    memory,compute = bytes/gbs/1e3,flops/tflops/1e6
    return us + max(memory, compute),'memory' if memory > compute else 'compute'

@wrong('latency_and_roofline.predict')
def latency_bound_below_half(bytes, flops, us, gbs, tflops):
    memory,compute = bytes/gbs/1e3,flops/tflops/1e6
    return us + max(memory, compute),('latency' if max(memory, compute) < 2*us else
                                      'memory' if memory > compute else 'compute')

@wrong('latency_and_roofline.predict')
def in_milliseconds(bytes, flops, us, gbs, tflops):
    memory,compute = bytes/gbs/1e6,flops/tflops/1e9
    return us + max(memory, compute),'memory' if memory > compute else 'compute'

@wrong('latency_and_roofline.predict')
def the_time_alone(bytes, flops, us, gbs, tflops): return us + max(bytes/gbs/1e3, flops/tflops/1e6)
