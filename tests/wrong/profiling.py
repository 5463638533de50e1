import time

from gridstride.utils import cdiv

from . import wrong


@wrong('profiling.ceiling')
def one_after_the_other(h, k, w, size, bandwidth, peak):
    move, compute = size*(h*k + k*w + h*w)/bandwidth, 2*h*k*w/peak
    return 1e3*(move + compute), 'memory' if move > compute else 'arithmetic'

@wrong('profiling.ceiling')
def half_the_operations(h, k, w, size, bandwidth, peak):
    move, compute = size*(h*k + k*w + h*w)/bandwidth, h*k*w/peak
    return 1e3*max(move, compute), 'memory' if move > compute else 'arithmetic'

@wrong('profiling.ceiling')
def result_not_written(h, k, w, size, bandwidth, peak):
    move, compute = size*(h*k + k*w)/bandwidth, 2*h*k*w/peak
    return 1e3*max(move, compute), 'memory' if move > compute else 'arithmetic'

@wrong('profiling.ceiling')
def elements_not_bytes(h, k, w, size, bandwidth, peak):
    move, compute = (h*k + k*w + h*w)/bandwidth, 2*h*k*w/peak
    return 1e3*max(move, compute), 'memory' if move > compute else 'arithmetic'

@wrong('profiling.ceiling')
def the_smaller(h, k, w, size, bandwidth, peak):
    move, compute = size*(h*k + k*w + h*w)/bandwidth, 2*h*k*w/peak
    return 1e3*min(move, compute), 'memory' if move < compute else 'arithmetic'

@wrong('profiling.ceiling')
def seconds(h, k, w, size, bandwidth, peak):
    move, compute = size*(h*k + k*w + h*w)/bandwidth, 2*h*k*w/peak
    return max(move, compute), 'memory' if move > compute else 'arithmetic'

@wrong('profiling.ceiling')
def no_word(h, k, w, size, bandwidth, peak): return 1e3*max(size*(h*k + k*w + h*w)/bandwidth, 2*h*k*w/peak)


def pairs_of(gpu, kernel, warm=5, runs=50, flush=True, wait=True):
    "Times of `runs` runs, one part of it left out where asked"
    for _ in range(warm): kernel()
    pairs = [(gpu.Event(), gpu.Event()) for _ in range(runs)]
    for start, end in pairs:
        if flush: gpu.flush()
        start.record()
        kernel()
        end.record()
    if wait: gpu.synchronize()
    return sorted(start.elapsed_time(end) for start, end in pairs)

@wrong('profiling.fair')
def clock_around_the_launch(gpu, kernel):
    start = time.perf_counter()
    kernel()
    return 1e3*(time.perf_counter() - start)

@wrong('profiling.fair')
def a_clock_of_python_that_waits(gpu, kernel):
    times = []
    for _ in range(25):
        gpu.flush()
        gpu.synchronize()
        start = time.perf_counter()
        kernel()
        gpu.synchronize()
        times.append(1e3*(time.perf_counter() - start))
    return sorted(times)[12]

@wrong('profiling.fair')
def no_wait(gpu, kernel): return pairs_of(gpu, kernel, wait=False)[25]

@wrong('profiling.fair')
def no_warm_up(gpu, kernel): return pairs_of(gpu, kernel, warm=0, runs=1)[0]

@wrong('profiling.fair')
def warm_cache(gpu, kernel): return pairs_of(gpu, kernel, flush=False)[25]

@wrong('profiling.fair')
def mean(gpu, kernel): return sum(pairs_of(gpu, kernel))/50

@wrong('profiling.fair')
def least(gpu, kernel): return pairs_of(gpu, kernel)[0]

@wrong('profiling.fair')
def all_between_two_marks(gpu, kernel):
    for _ in range(5): kernel()
    start, end = gpu.Event(), gpu.Event()
    start.record()
    for _ in range(50):
        gpu.flush()
        kernel()
    end.record()
    gpu.synchronize()
    return start.elapsed_time(end)/50

@wrong('profiling.fair')
def waits_before_each(gpu, kernel):
    "The queue runs dry, and the gap between mark and kernel is timed with it"
    for _ in range(5): kernel()
    pairs = [(gpu.Event(), gpu.Event()) for _ in range(50)]
    for start, end in pairs:
        gpu.flush()
        gpu.synchronize()
        start.record()
        kernel()
        end.record()
        gpu.synchronize()
    return sorted(start.elapsed_time(end) for start, end in pairs)[25]

@wrong('profiling.fair')
def the_flush_counts(gpu, kernel):
    for _ in range(5): kernel()
    pairs = [(gpu.Event(), gpu.Event()) for _ in range(50)]
    for start, end in pairs:
        start.record()
        gpu.flush()
        kernel()
        end.record()
    gpu.synchronize()
    return sorted(start.elapsed_time(end) for start, end in pairs)[25]

@wrong('profiling.fair')
def warm_up_counted_among_the_runs(gpu, kernel): return pairs_of(gpu, kernel, runs=19)[9]

@wrong('profiling.fair')
def three_runs(gpu, kernel): return pairs_of(gpu, kernel, runs=3)[1]


def per_sm(threads, registers, shared):
    return min(2048//threads, 32, 65536//(registers*threads), 228*1024//(shared + 1024))

def whole(wave, most): return most//wave*wave if most >= wave else most

@wrong('profiling.waves')
def one_per_piece(n, threads, registers, shared, sms): return cdiv(n, threads)

@wrong('profiling.waves')
def one_wave(n, threads, registers, shared, sms): return per_sm(threads, registers, shared)*sms

@wrong('profiling.waves')
def a_block_per_sm(n, threads, registers, shared, sms): return whole(sms, cdiv(n, threads))

@wrong('profiling.waves')
def threads_only(n, threads, registers, shared, sms): return whole(2048//threads*sms, cdiv(n, threads))

@wrong('profiling.waves')
def shared_forgotten(n, threads, registers, shared, sms):
    return whole(per_sm(threads, registers, 0)*sms, cdiv(n, threads))

@wrong('profiling.waves')
def registers_forgotten(n, threads, registers, shared, sms):
    return whole(per_sm(threads, 1, shared)*sms, cdiv(n, threads))

@wrong('profiling.waves')
def cudas_own_kilobyte_forgotten(n, threads, registers, shared, sms):
    return whole(min(2048//threads, 32, 65536//(registers*threads), 228*1024//max(shared, 1))*sms, cdiv(n, threads))

@wrong('profiling.waves')
def shared_memory_of_one_block(n, threads, registers, shared, sms):
    return whole(min(2048//threads, 32, 65536//(registers*threads), 227*1024//(shared + 1024))*sms, cdiv(n, threads))

@wrong('profiling.waves')
def no_more_than_32_forgotten(n, threads, registers, shared, sms):
    return whole(min(2048//threads, 65536//(registers*threads), 228*1024//(shared + 1024))*sms, cdiv(n, threads))

@wrong('profiling.waves')
def rounded_up(n, threads, registers, shared, sms):
    wave = per_sm(threads, registers, shared)*sms
    return cdiv(cdiv(n, threads), wave)*wave

@wrong('profiling.waves')
def no_blocks_for_little_work(n, threads, registers, shared, sms):
    wave = per_sm(threads, registers, shared)*sms
    return cdiv(n, threads)//wave*wave


def gap(events, cats=('kernel', 'gpu_memcpy', 'gpu_memset'), order=True, reach=max, name=None):
    "The solution, with one thing changed"
    def of(*cats): return [e for e in events if e.get('cat') in cats and 'dur' in e]
    busy = of(*cats)
    if order: busy.sort(key=lambda e: e['ts'])
    until, start, length = busy[0]['ts'], 0, 0
    for e in busy:
        if e['ts'] - until > length: start, length = until, e['ts'] - until
        until = reach(until, e['ts'] + e['dur'])
    def overlap(o): return min(o['ts'] + o['dur'], start + length) - max(o['ts'], start)
    during = [o for o in of('cpu_op') if overlap(o) > 0]
    return start, length, (name or (lambda ops, overlap: max(ops, key=lambda o: (overlap(o), -o['dur']))['name'] if ops
                                    else ''))(during, overlap)

@wrong('profiling.gap')
def kernels_only(events): return gap(events, cats=('kernel',))

@wrong('profiling.gap')
def in_the_order_of_the_file(events): return gap(events, order=False)

@wrong('profiling.gap')
def streams_do_not_overlap(events): return gap(events, reach=lambda until, end: end)

@wrong('profiling.gap')
def the_first_operator(events): return gap(events, name=lambda ops, overlap: ops[0]['name'] if ops else '')

@wrong('profiling.gap')
def the_longest_operator(events):
    return gap(events, name=lambda ops, overlap: max(ops, key=lambda o: o['dur'])['name'] if ops else '')

@wrong('profiling.gap')
def the_outermost_of_several(events):
    return gap(events, name=lambda ops, overlap: max(ops, key=lambda o: (overlap(o), o['dur']))['name'] if ops else '')

@wrong('profiling.gap')
def something_is_always_running(events): return gap(events, name=lambda ops, overlap: max(ops, key=overlap)['name'])

@wrong('profiling.gap')
def none_for_no_operator(events): return (*gap(events)[:2], gap(events)[2] or None)

@wrong('profiling.gap')
def length_and_name_only(events): return gap(events)[1:]


def limit(r, first=80, least=1, lost=.2, end=lambda waves: cdiv(waves, 1), wait=max):
    "The solution, with one thing changed"
    compute, memory, waves = r['Compute (SM) Throughput'], r['Memory Throughput'], r['Waves Per SM']
    if max(compute, memory) >= first: return 'arithmetic' if compute > memory else 'memory'
    if waves < least: return 'grid'
    if 1 - waves/end(waves) > lost: return 'tail'
    return wait(r['waits'], key=r['waits'].get)

@wrong('profiling.limiter')
def waits_only(r): return max(r['waits'], key=r['waits'].get)

@wrong('profiling.limiter')
def shares_not_percent(r): return limit(r, first=.8)

@wrong('profiling.limiter')
def waves_before_speed_of_light(r): return 'grid' if r['Waves Per SM'] < 1 else limit(r)

@wrong('profiling.limiter')
def one_wave_is_too_few(r):
    return ('grid' if r['Waves Per SM'] <= 1 and max(r['Compute (SM) Throughput'], r['Memory Throughput']) < 80
            else limit(r))

@wrong('profiling.limiter')
def every_tail_counts(r): return limit(r, lost=0)

@wrong('profiling.limiter')
def the_next_wave_always(r): return limit(r, end=lambda waves: waves//1 + 1)

@wrong('profiling.limiter')
def no_tail(r): return limit(r, lost=1)

@wrong('profiling.limiter')
def the_shortest_wait(r): return limit(r, wait=min)

@wrong('profiling.limiter')
def seventy_is_enough(r): return limit(r, first=70)

@wrong('profiling.limiter')
def eighty_is_too_little(r): return limit(r, first=80.01)

@wrong('profiling.limiter')
def arithmetic_before_memory(r): return 'arithmetic' if r['Compute (SM) Throughput'] >= 80 else limit(r)

@wrong('profiling.limiter')
def memory_before_arithmetic(r): return 'memory' if r['Memory Throughput'] >= 80 else limit(r)

@wrong('profiling.limiter')
def lost_against_the_waves_there_are(r): return limit(r, lost=1 - 1/1.2)
