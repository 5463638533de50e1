"""`gridstride.ring` on all GPUs of a machine against one of them: the course's goals, and what many more would do.

    python ring.py                    # all of it; prints what ring.txt holds, writes ring.json
    python ring.py check times        # some of it; writes nothing
    python ring.py predict            # from ring.json, without a GPU: rings of 2, 4 and 8; writes ring_prediction.json

`check` compares the ring with float64, each order and carrier: two heads, two of a batch with the heads after the
sequence, one head. `times` lets one GPU (each for itself, at the same time) and the ring take turns: medians over the
rounds, of the slowest rank for the ring, of the mean over GPUs for one of them. Efficiency is the time of one GPU,
over the ring's, over the number of GPUs: for the fastest kernel on one GPU, and for cuDNN's. `link` measures messages
and copies, `pieces` the time of one GPU for the products of rings of 2, 4 and 8, `profile` each kernel.
Attention is causal, 16 heads of dimension 128 in bfloat16. A part that fails reports it, and the others continue.
"""
import argparse, itertools, json, math, statistics, sys, tempfile, time
from pathlib import Path

import torch
import torch.distributed as dist
from gridstride import ring
from gridstride.bench.recording import machine

HERE = Path(__file__).parent
HEADS, DIM = 16, 128
LENGTHS = 2**14, 2**16
GOALS = {('forward', 2**16): .97, ('both', 2**16): .97, ('forward', 2**14): .9, ('both', 2**14): .9}
KERNELS = dict(ours=ring.ours, cudnn=ring.cudnn)


def inputs(n, heads=HEADS, batch=1):
    torch.manual_seed(n)
    return [torch.randn(batch, heads, n, DIM, device='cuda', dtype=torch.bfloat16) for _ in range(4)]


def mine(x, order='zigzag'): return ring.split(x, order, dist.get_world_size())[dist.get_rank()]


CARRIERS = dict(messages=lambda: ring.Messages(60), copies=ring.Copies)


def between(x):
    "The same values, with the heads after the sequence"
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def ring_call(carrier, kernels, given, backward, order='zigzag', stamp=None, lay=lambda x: x):
    "What calls the ring once"
    q, k, v, dout = (lay(mine(x, order)) for x in given)
    q, k, v = (x.requires_grad_(backward) for x in (q, k, v))
    def run():
        out = ring.attention(q, k, v, order, kernels=kernels, carrier=carrier, stamp=stamp)
        return (out, *torch.autograd.grad(out, (q, k, v), dout)) if backward else (out,)
    return run


def single_call(kernels, given, backward):
    q, k, v, dout = given
    scale = DIM**-.5
    def run():
        out, lse = kernels.attend(q, k, v, True, scale)
        return (out, *kernels.gradients(dout, q, k, v, out, lse, True, scale)) if backward else (out,)
    return run


def exact(q, k, v, dout):
    "out, dq, dk and dv in float64"
    q, k, v, dout = (x.double() for x in (q, k, v, dout))
    out, lse = ring.plain.attend(q, k, v, True, DIM**-.5)
    return out, *ring.plain.gradients(dout, q, k, v, out, lse, True, DIM**-.5)


def error(got, want): return ((got.double() - want).square().mean()/want.square().mean()).sqrt().item()


CHECKED = {'two heads': (dict(heads=2), lambda x: x), 'one head': (dict(heads=1), lambda x: x),
           'two of a batch, heads between places': (dict(heads=2, batch=2), between)}


def check(carrier):
    "The ring's errors against float64, and those of one GPU"
    c = CARRIERS[carrier]()
    for (case, (sizes, lay)), name in itertools.product(CHECKED.items(), KERNELS):
        given = inputs(2048, **sizes)
        wanted, same = exact(*given), dict(part='check', case=case, kernels=name)
        alone = [error(g, w) for g, w in zip(single_call(KERNELS[name], given, True)(), wanted)]
        rows = [dict(same, carrier='one GPU', order='', errors=alone)]
        for order in ring.ORDERS:
            got = ring_call(c, KERNELS[name], given, True, order, lay=lay)()
            far = [error(g, mine(w, order)) for g, w in zip(got, wanted)]
            rows.append(dict(same, carrier=carrier, order=order, errors=far))
            for f, a in zip(far, alone):                            # twice rounded at most where one rounds once
                if not f < 2*a: raise RuntimeError(f'{case}, {name}, {order}: errors {far}; of one GPU {alone}')
        yield rows
    torch.cuda.synchronize()
    dist.barrier()


def milliseconds(run, times):
    "Of a call, on this GPU, all ranks at once"
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    dist.barrier()
    torch.cuda.synchronize()
    ends[0].record()
    for _ in range(times): run()
    ends[1].record()
    torch.cuda.synchronize()
    return ends[0].elapsed_time(ends[1])/times


def everywhere(x):
    "A number of each rank, on all of them"
    every = [torch.empty(1, device='cuda', dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(every, torch.tensor([x], device='cuda', dtype=torch.float64))
    return [o.item() for o in every]


def interleaved(ways, rounds, seconds, before=0):
    """Milliseconds of each candidate by rank, round after round, interleaved; `before` each, as many seconds of the
    same: at the power limit the clock follows the load of a while ago"""
    times, ms = {}, {name: [] for name in ways}
    for name, run in ways.items():
        milliseconds(run, 2)
        times[name] = max(2, math.ceil(seconds*1e3/max(everywhere(milliseconds(run, 1)))))
    for i in range(rounds):
        for name in list(ways)[::(-1)**i]:
            if before: milliseconds(ways[name], math.ceil(times[name]*before/seconds))
            ms[name].append(everywhere(milliseconds(ways[name], times[name])))
    return ms


def those_that_run(ways):
    "Leaves out what raises here, on all ranks alike"
    for name, run in list(ways.items()):
        try: run()
        except (RuntimeError, ValueError, TypeError) as e:
            del ways[name]
            print('left out:', name, e)
    return ways


def times(carrier, rounds):
    made, ranks = CARRIERS[carrier](), dist.get_world_size()
    for n in LENGTHS[::-1]:
        for what in ('forward', 'both'):
            given, back = inputs(n), what == 'both'
            ways = {f'one GPU, {k}': single_call(KERNELS[k], given, back) for k in KERNELS}
            ways[f'{carrier}, ours'] = ring_call(made, KERNELS['ours'], given, back)
            rows = []
            for name, every in interleaved(those_that_run(ways), rounds, .5, .4).items():
                alone = name.startswith('one')
                ms = [statistics.mean(o) if alone else max(o) for o in every]
                rows.append(dict(part='times', carrier=carrier, what=what, length=n, way=name, gpus=every[-1],
                                 ranks=1 if alone else ranks, ms=statistics.median(ms), low=min(ms), high=max(ms)))
            yield rows


def link(carrier):
    "Messages to the right and from the left at once, or copies: GB/s each way"
    c = CARRIERS[carrier]()
    for mib in (1, 16, 64, 128, 256):
        x = torch.ones(1, 1, mib*2**20//256, 64, device='cuda', dtype=torch.bfloat16)      # half of it
        def fetch():
            c.open(x, x)
            c.fetch(1).wait()
            c.close()
        took = statistics.median(max(o) for o in interleaved(dict(fetch=fetch), 5, .03)['fetch'])
        yield [dict(part='link', way=carrier, mib=mib, ms=took, gbs=2*x.nbytes/took/1e6)]


def pieces():
    "The time of one GPU per kind of piece of a zigzag ring of 2, 4 and 8"
    for n in LENGTHS:
        for ranks in (2, 4, 8):
            for (kind, name, what), ms in interleaved(ways_of_pieces(n, ranks), 3, .01).items():
                took = statistics.median(statistics.mean(o) for o in ms)
                yield [dict(part='pieces', length=n, ranks=ranks, kind=kind, kernels=name, what=what, ms=took)]


def ways_of_pieces(n, ranks):
    "(kind, kernels, what) -> what calls it"
    given, each, ways = inputs(n), n//ranks, {}
    kinds = {'own': (0, each, True), 'earlier': (0, each//2, False), 'later': (each//2, each, False)}
    f, scale, kept = ring.ours, DIM**-.5, torch.bfloat16 if ranks == 2 else torch.float32
    q, k, v, dout = (x[:, :, :each].contiguous() for x in given)
    out, lse = f.attend(q, k, v, True, scale)
    there = torch.ones(1, device='cuda', dtype=torch.int32)
    rows, sums, arrived = f.part_gradients(dout, q, out, lse, scale), out.to(kept), [k, v]
    for kind, (first, keys, causal) in kinds.items():
        k, v = (x[:, :, :keys].contiguous() for x in arrived)
        part = first, q[:, :, first:], k, v, causal, scale, kind == 'own'
        ways[kind, 'ours', 'forward'] = lambda part=part: f.attend_and_merge(sums, lse, *part)
        ways[kind, 'ours', 'backward'] = lambda part=(k, v, first, causal): rows.add(*part)
        if kind != 'own' and ranks == 2:                # one kernel for the rank's own keys and for these
            pair = q, *arrived, k, v, first, there, there, True, scale, False
            ways[f'own+{kind}', 'ours', 'forward'] = lambda pair=pair: f.attend_pair(*pair)
    ways['ends', 'ours', 'backward'] = lambda: f.part_gradients(dout, q, out, lse, scale).dq()
    to = [x.to(kept) for x in arrived]
    ways['add', 'torch', 'backward'] = lambda: torch._foreach_add_(to, arrived)
    return ways


def profile(carrier):
    "Each kernel and copy of one of many calls on each rank: from when, how long, on which stream; and Python's time"
    from torch.profiler import ProfilerActivity, profile as profiled
    made = CARRIERS[carrier]()
    for n in LENGTHS:
        run = ring_call(made, ring.ours, inputs(n), True)
        for _ in range(2): run()
        torch.cuda.synchronize()
        dist.barrier()
        with profiled(activities=[ProfilerActivity.CUDA]) as p:
            python = []
            for _ in range(12):
                python.append(time.perf_counter())
                run()
            torch.cuda.synchronize()
        events = sorted(p.profiler.kineto_results.events(), key=lambda e: e.start_ns())
        firsts = [e.start_ns() for e in events if 'prepare_backward' in e.name()]
        begins, ends = firsts[8:10]                                # one of each call
        took = statistics.median(b - a for a, b in zip(python, python[1:]))*1e6
        rows = [dict(at=0, us=took, stream=0, name='Python')]
        rows += [dict(at=(e.start_ns() - begins)/1e3, us=e.duration_ns()/1e3, stream=e.device_resource_id(),
                      name=e.name()[:70]) for e in events
                 if e.end_ns() > begins and e.start_ns() < ends and e.duration_ns() > 3_000]
        every = [None]*dist.get_world_size()
        dist.all_gather_object(every, rows)
        for rank, rows in enumerate(every):
            yield [dict(part='profile', carrier=carrier, length=n, rank=rank, **r) for r in rows]


def best(rows, r, alone, of=''):
    "The fastest way of one GPU, or of the ring, in the run of a row; `of`: how its name ends"
    same = 'what', 'length', 'carrier'
    ways = [o for o in rows if o['part'] == 'times' and (o['ranks'] == 1) == alone and all(o[k] == r[k] for k in same)]
    return min((o for o in ways if o['way'].endswith(of)), key=lambda o: o['ms'], default=None)


def efficiency(rows, r, of=''):
    "Against the fastest way of one GPU whose name ends so; NaN if there is none"
    one = best(rows, r, True, of)
    return one['ms']/r['ms']/r['ranks'] if one else math.nan


def line(r, rows):
    "A row as text"
    if 'failed' in r: return f"{r['part']:<6} {r['carrier']} FAILED: {r['failed']}"
    if r['part'] == 'check':
        far = ' '.join(f'{e:.1e}' for e in r['errors'])
        return (f"check  {r['carrier']:<9} {r['order']:<11} {r['kernels']:<6} errors of out, dq, dk, dv {far}"
                f"  {r['case']}")
    if r['part'] == 'link': return f"link   {r['way']:<9} {r['mib']:>6.0f} MiB {r['ms']:8.3f} ms {r['gbs']:6.0f} GB/s"
    if r['part'] == 'pieces':
        return (f"piece  {r['length']:>6} places, ring of {r['ranks']}, {r['kind']:<8} {r['kernels']:<6} "
                f"{r['what']:<8} {r['ms']:8.3f} ms")
    if r['part'] == 'profile':
        return (f"{r['carrier']:<9} {r['length']:>6} rank {r['rank']} {r['at']:9.0f} {r['us']:8.0f} us "
                f"{r['stream']:4} {r['name']}")
    goal = GOALS.get((r['what'], r['length'])) if r is best(rows, r, False) and r['ranks'] == 2 else None
    parts, gpus = [efficiency(rows, r, of) for of in ('', 'cudnn')], ' '.join(f'{o:.3f}' for o in r['gpus'])
    said = [f"{part:.3f} of {of}{f', goal {goal} ' + ('reached' if part >= goal else 'MISSED') if goal else ''}"
            for part, of in zip(parts, ('the fastest one', "cuDNN's"))]
    return (f"times  {r['what']:<8} {r['length']:>6} {r['way']:<16} {r['ms']:8.3f} ms "
            f"({r['low']:.3f} to {r['high']:.3f}; {gpus})  {'; '.join(said)}")


def seconds_of(rows, n, ranks, what):
    "A function of a piece of a zigzag ring: the time of one GPU for it, and for what comes before and after it"
    def took(kind):
        of = [r['ms'] for r in rows if r['part'] == 'pieces' and (r['length'], r['ranks'], r['kind'], r['what']) ==
              (n, ranks, kind, what)]
        return min(of)/1e3
    def seconds(p, each):
        kind = 'own' if p.causal else 'earlier' if p.rows.start is None else 'later'
        if what == 'backward': return took(kind) + took('ends' if kind == 'own' else 'add')
        return took(f'own+{kind}') - took('own') if ranks == 2 and kind != 'own' else took(kind)
    return seconds


def simulated(rows, n, ranks, what, link, hidden):
    "Milliseconds of a zigzag ring by the simulator"
    run = ring.simulate('zigzag', n, ranks, seconds_of(rows, n, ranks, what), link, 4*n//ranks*HEADS*DIM,
                        backward=what == 'backward', overlap=hidden)
    return run.seconds*1e3


def predict(rows):
    "Rings of 2, 4 and 8 by the simulator, from what one GPU takes for their pieces and what a link of two carries"
    way = min((r for r in rows if r['part'] == 'link' and r['mib'] == 256), key=lambda r: r['ms'])['way']
    at = {r['mib']: r['ms']/1e3 for r in rows if r['part'] == 'link' and r['way'] == way}
    speed = (256 - 64)*2**20/(at[256] - at[64])
    link = ring.Link(max(0, at[256] - 256*2**20/speed), speed)
    measured = [r for r in rows if r['part'] == 'times' and r['ranks'] == 2 and r is best(rows, r, False)]
    for n in LENGTHS:
        for ranks in (2, 4, 8):
            for what, parts in (('forward', ['forward']), ('both', ['forward', 'backward'])):
                r = min((o for o in measured if (o['what'], o['length']) == (what, n)), key=lambda o: o['ms'])
                for hidden in (True, False):
                    ms = sum(simulated(rows, n, ranks, o, link, hidden) for o in parts)
                    yield dict(length=n, ranks=ranks, what=what, hidden=hidden, ms=ms, link=list(link),
                               efficiency=best(rows, r, True)['ms']/ms/ranks, measured=r['ms'] if ranks == 2 else None)


def print_predictions(args):
    kept = json.loads((HERE/'ring.json').read_text())
    rows = list(predict([r for r in kept['rows'] if 'failed' not in r]))
    for r in rows:
        measured = f"; measured {r['measured']:.3f} ms" if r['measured'] else ''
        how = 'messages hidden' if r['hidden'] else 'nothing hidden '
        print(f"{r['what']:<8} {r['length']:>6} places, {r['ranks']} GPUs, {how}: "
              f"{r['ms']:8.3f} ms, efficiency {r['efficiency']:.3f}{measured}")
    res = dict(made=kept['made'], rows=rows)
    Path(args.to or HERE/'ring_prediction.json').write_text(json.dumps(res, indent=1) + '\n')


PARTS = dict(check=check, times=times, link=link, pieces=pieces, profile=profile)


def jobs_of(args):
    "(part, arguments), what every rank does"
    for part in (args.parts or [o for o in PARTS if o != 'profile']):
        if part == 'pieces': yield part, ()
        else:
            for carrier in args.carriers: yield part, (carrier, args.rounds) if part == 'times' else (carrier,)


def work(rank, jobs, to):
    "The rows of all jobs; rank 0 prints them as they come, where all print, and writes them to a file"
    rows = []
    def keep(more):
        rows.extend(more)
        if rank: return
        print(*(line(r, rows) for r in more), sep='\n', file=sys.__stdout__, flush=True)
        Path(to).write_text(json.dumps(rows) + '\n')
    for part, given in jobs:
        try:
            for more in PARTS[part](*given): keep(more)
        except Exception as e:
            keep([dict(part=part, carrier=str(given), failed=f'{type(e).__name__}: {e}')])
    return rows


def measure(args):
    ranks = torch.cuda.device_count()
    if ranks < 2: sys.exit('ring.py needs two GPUs or more of one machine; `python ring.py predict` needs none')
    made = machine()
    versions = ', '.join(f'{k} {v}' for k, v in made['versions'].items())
    print(f"{ranks} x {made['gpu']}, {made['date']}, {versions}", flush=True)
    so_far = Path(args.to or tempfile.mkdtemp() + '/ring.json')
    rows = ring.launch(work, ranks, list(jobs_of(args)), str(so_far.absolute()), patience=120., threads=4)[0]
    so_far.write_text(json.dumps(dict(made=made, ranks=ranks, rows=rows), indent=1) + '\n')


if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('parts', nargs='*', choices=[*PARTS, 'predict', []], default=[])
    p.add_argument('--carriers', nargs='+', choices=CARRIERS, default=list(CARRIERS))
    p.add_argument('--rounds', type=int, default=7)
    p.add_argument('--to', help='the file for the rows; by default ring.json, for a run of all parts')
    args = p.parse_args()
    if args.parts == ['predict']: sys.exit(print_predictions(args))
    if not args.parts: args.to = args.to or HERE/'ring.json'
    measure(args)
