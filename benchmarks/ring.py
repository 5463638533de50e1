"""`gridstride.ring` on all GPUs of a machine against one GPU: the course's goals, and a prediction for larger rings.

    python ring.py > ring.txt         # all parts; writes ring.json
    python ring.py check times        # some parts; writes nothing
    python ring.py predict            # from ring.json, without a GPU: rings of 2, 4 and 8; writes ring_prediction.json

`check` compares the ring with float64, per order and carrier: with two heads, with a batch of two whose heads come
after the sequence, and with one head. `times` interleaves the ring with single GPUs, which all run at the same time:
medians over the rounds of the slowest rank for the ring, and of the mean over the GPUs for a single one. Efficiency is
the time of a single GPU, divided by that of the ring and by the number of GPUs, for the fastest kernel on a single GPU
and for cuDNN's. `link` measures messages and copies, `pieces` the time of a single GPU for the pieces of rings of 2, 4
and 8, `profile` each kernel.
Attention is causal, with 16 heads of dimension 128 in bfloat16. A part that fails prints its error, and the others
continue.
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
KERNELS = dict(ours=ring.hopper, cudnn=ring.cudnn)


def inputs(n, heads=HEADS, batch=1):
    torch.manual_seed(n)
    return [torch.randn(batch, heads, n, DIM, device='cuda', dtype=torch.bfloat16) for _ in range(4)]


def local_part(x, order='zigzag'): return ring.split(x, order, dist.get_world_size())[dist.get_rank()]


CARRIERS = dict(messages=lambda: ring.SendRecv(60), copies=ring.CopyEngine)


def heads_last(x):
    "Return the same values in a memory layout with the heads after the sequence"
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def ring_call(transport, kernels, inputs, backward, order='zigzag', stamp=None, set_layout=lambda x: x):
    "Return a function that calls the ring once"
    q, k, v, dout = (set_layout(local_part(x, order)) for x in inputs)
    q, k, v = (x.requires_grad_(backward) for x in (q, k, v))
    def run():
        out = ring.attention(q, k, v, order, kernels=kernels, transport=transport, stamp=stamp)
        return (out, *torch.autograd.grad(out, (q, k, v), dout)) if backward else (out,)
    return run


def single_call(kernels, inputs, backward):
    q, k, v, dout = inputs
    scale = DIM**-.5
    def run():
        out, lse = kernels.attend(q, k, v, True, scale)
        return (out, *kernels.gradients(dout, q, k, v, out, lse, True, scale)) if backward else (out,)
    return run


def reference(q, k, v, dout):
    "Return out, dq, dk and dv, computed in float64"
    q, k, v, dout = (x.double() for x in (q, k, v, dout))
    out, lse = ring.plain.attend(q, k, v, True, DIM**-.5)
    return out, *ring.plain.gradients(dout, q, k, v, out, lse, True, DIM**-.5)


def relative_rms_error(got, want): return ((got.double() - want).square().mean()/want.square().mean()).sqrt().item()


# name -> (arguments of `inputs`, function that sets the memory layout)
CHECK_CASES = {'two heads': (dict(heads=2), lambda x: x), 'one head': (dict(heads=1), lambda x: x),
               'two of a batch, heads between places': (dict(heads=2, batch=2), heads_last)}


def check(carrier):
    "Yield the errors of the ring and of one GPU against float64"
    transport = CARRIERS[carrier]()
    for (case, (sizes, set_layout)), name in itertools.product(CHECK_CASES.items(), KERNELS):
        inputs_of_case = inputs(2048, **sizes)
        want, common = reference(*inputs_of_case), dict(part='check', case=case, kernels=name)
        results = single_call(KERNELS[name], inputs_of_case, True)()
        single_errors = [relative_rms_error(g, w) for g, w in zip(results, want)]
        rows = [dict(common, carrier='one GPU', order='', errors=single_errors)]
        for order in ring.ORDERS:
            results = ring_call(transport, KERNELS[name], inputs_of_case, True, order, set_layout=set_layout)()
            errors = [relative_rms_error(g, local_part(w, order)) for g, w in zip(results, want)]
            rows.append(dict(common, carrier=carrier, order=order, errors=errors))
            # the ring rounds at most twice where one GPU rounds once
            if not all(error < 2*single for error, single in zip(errors, single_errors)):
                raise RuntimeError(f'{case}, {name}, {order}: expected errors below twice those of one GPU, '
                                   f'{single_errors}, got {errors}')
        yield rows
    torch.cuda.synchronize()
    dist.barrier()


def milliseconds(run, num_calls):
    "Measure the milliseconds per call on this GPU, while all ranks call it"
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    dist.barrier()
    torch.cuda.synchronize()
    start.record()
    for _ in range(num_calls): run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)/num_calls


def gather_from_all(x):
    "Return the values of x on all ranks, to each rank"
    values = [torch.empty(1, device='cuda', dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(values, torch.tensor([x], device='cuda', dtype=torch.float64))
    return [value.item() for value in values]


def time_interleaved(candidates, rounds, seconds, warm_up_seconds=0):
    """Time candidates interleaved; return {name: [[milliseconds of each rank] of each round]}. Each measurement follows
    `warm_up_seconds` of the same work, since at the power limit the clock follows the load with a delay."""
    num_calls, milliseconds_of = {}, {name: [] for name in candidates}
    for name, run in candidates.items():
        milliseconds(run, 2)
        num_calls[name] = max(2, math.ceil(seconds*1e3/max(gather_from_all(milliseconds(run, 1)))))
    for i in range(rounds):
        for name in list(candidates)[::(-1)**i]:
            if warm_up_seconds: milliseconds(candidates[name], math.ceil(num_calls[name]*warm_up_seconds/seconds))
            milliseconds_of[name].append(gather_from_all(milliseconds(candidates[name], num_calls[name])))
    return milliseconds_of


def remove_failing(candidates):
    "Remove the candidates that raise an error, which they do on all ranks, and return the others"
    for name, run in list(candidates.items()):
        try: run()
        except (RuntimeError, ValueError, TypeError) as e:
            del candidates[name]
            print('left out:', name, e)
    return candidates


def times(carrier, rounds):
    transport, ranks = CARRIERS[carrier](), dist.get_world_size()
    for n in LENGTHS[::-1]:
        for what in ('forward', 'both'):
            tensors, with_backward = inputs(n), what == 'both'
            candidates = {f'one GPU, {k}': single_call(KERNELS[k], tensors, with_backward) for k in KERNELS}
            candidates[f'{carrier}, ours'] = ring_call(transport, KERNELS['ours'], tensors, with_backward)
            rows = []
            for name, ms_of_rounds in time_interleaved(remove_failing(candidates), rounds, .5, .4).items():
                is_single = name.startswith('one')
                ms = [statistics.mean(ms_of_ranks) if is_single else max(ms_of_ranks) for ms_of_ranks in ms_of_rounds]
                rows.append(dict(part='times', carrier=carrier, what=what, length=n, way=name, gpus=ms_of_rounds[-1],
                                 ranks=1 if is_single else ranks, ms=statistics.median(ms), low=min(ms), high=max(ms)))
            yield rows


def link(carrier):
    "Measure simultaneous messages to the right and from the left, or copies: GB/s in each direction"
    transport = CARRIERS[carrier]()
    for mib in (1, 16, 64, 128, 256):
        x = torch.ones(1, 1, mib*2**20//256, 64, device='cuda', dtype=torch.bfloat16)      # sent twice
        def fetch():
            transport.open(x, x)
            transport.fetch(1).wait()
            transport.close()
        median_ms = statistics.median(map(max, time_interleaved(dict(fetch=fetch), 5, .03)['fetch']))
        yield [dict(part='link', way=carrier, mib=mib, ms=median_ms, gbs=2*x.nbytes/median_ms/1e6)]


def pieces():
    "Measure the time of one GPU per kind of piece of a zigzag ring of 2, 4 and 8"
    for n in LENGTHS:
        for ranks in (2, 4, 8):
            for (kind, name, what), ms_of_rounds in time_interleaved(make_pieces(n, ranks), 3, .01).items():
                median_ms = statistics.median(map(statistics.mean, ms_of_rounds))
                yield [dict(part='pieces', length=n, ranks=ranks, kind=kind, kernels=name, what=what, ms=median_ms)]


def make_pieces(n, ranks):
    "Return {(kind, kernels, pass): function that computes a piece}"
    tensors, keys_per_rank, pieces = inputs(n), n//ranks, {}
    # kind -> (first row of q, number of keys, whether attention is causal)
    kinds = {'own': (0, keys_per_rank, True), 'earlier': (0, keys_per_rank//2, False),
             'later': (keys_per_rank//2, keys_per_rank, False)}
    kernels, scale, dtype = ring.hopper, DIM**-.5, torch.bfloat16 if ranks == 2 else torch.float32
    q, k, v, dout = (x[:, :, :keys_per_rank].contiguous() for x in tensors)
    out, lse = kernels.attend(q, k, v, True, scale)
    arrived_flag = torch.ones(1, device='cuda', dtype=torch.int32)
    rows, sums, received = kernels.gradient_accumulator(dout, q, out, lse, scale), out.to(dtype), [k, v]
    for kind, (first_row, keys, causal) in kinds.items():
        k, v = (x[:, :, :keys].contiguous() for x in received)
        piece = first_row, q[:, :, first_row:], k, v, causal, scale, kind == 'own'
        pieces[kind, 'ours', 'forward'] = lambda piece=piece: kernels.attend_and_merge(sums, lse, *piece)
        pieces[kind, 'ours', 'backward'] = lambda piece=(k, v, first_row, causal): rows.add(*piece)
        if kind != 'own' and ranks == 2:                # one kernel for the rank's own keys and the fetched ones
            both_pieces = q, *received, k, v, first_row, arrived_flag, arrived_flag, True, scale, False
            pieces[f'own+{kind}', 'ours', 'forward'] = lambda both_pieces=both_pieces: kernels.attend_pair(*both_pieces)
    pieces['ends', 'ours', 'backward'] = lambda: kernels.gradient_accumulator(dout, q, out, lse, scale).dq()
    accumulators = [x.to(dtype) for x in received]
    pieces['add', 'torch', 'backward'] = lambda: torch._foreach_add_(accumulators, received)
    return pieces


def profile(carrier):
    "Record one call on each rank: start, duration and stream of its kernels and copies, and the duration of Python"
    from torch.profiler import ProfilerActivity, profile as profiled
    transport = CARRIERS[carrier]()
    for n in LENGTHS:
        run = ring_call(transport, ring.hopper, inputs(n), True)
        for _ in range(2): run()
        torch.cuda.synchronize()
        dist.barrier()
        with profiled(activities=[ProfilerActivity.CUDA]) as profiler:
            call_times = []
            for _ in range(12):
                call_times.append(time.perf_counter())
                run()
            torch.cuda.synchronize()
        events = sorted(profiler.profiler.kineto_results.events(), key=lambda e: e.start_ns())
        starts = [e.start_ns() for e in events if 'prepare_backward' in e.name()]      # there is one per call
        start, end = starts[8:10]
        python_us = statistics.median(b - a for a, b in zip(call_times, call_times[1:]))*1e6
        rows = [dict(at=0, us=python_us, stream=0, name='Python')]
        rows += [dict(at=(e.start_ns() - start)/1e3, us=e.duration_ns()/1e3, stream=e.device_resource_id(),
                      name=e.name()[:70]) for e in events
                 if e.end_ns() > start and e.start_ns() < end and e.duration_ns() > 3_000]
        rows_by_rank = [None]*dist.get_world_size()
        dist.all_gather_object(rows_by_rank, rows)
        for rank, rows in enumerate(rows_by_rank):
            yield [dict(part='profile', carrier=carrier, length=n, rank=rank, **r) for r in rows]


def fastest_row(rows, row, is_single, suffix=''):
    "Return the fastest row of single GPUs, or of the ring, comparable with a row, whose name ends in `suffix`, or None"
    fields = 'what', 'length', 'carrier'
    candidates = [o for o in rows if o['part'] == 'times' and (o['ranks'] == 1) == is_single
                  and all(o[field] == row[field] for field in fields) and o['way'].endswith(suffix)]
    return min(candidates, key=lambda o: o['ms'], default=None)


def efficiency(rows, row, suffix=''):
    "Return the efficiency over the fastest single GPU whose name ends in `suffix`; NaN if there is none"
    single = fastest_row(rows, row, True, suffix)
    return single['ms']/row['ms']/row['ranks'] if single else math.nan


def format_row(row, rows):
    "Format a row as text"
    if 'failed' in row: return f"{row['part']:<6} {row['carrier']} FAILED: {row['failed']}"
    if row['part'] == 'check':
        errors = ' '.join(f'{error:.1e}' for error in row['errors'])
        return (f"check  {row['carrier']:<9} {row['order']:<11} {row['kernels']:<6} errors of out, dq, dk, dv {errors}"
                f"  {row['case']}")
    if row['part'] == 'link':
        return f"link   {row['way']:<9} {row['mib']:>6.0f} MiB {row['ms']:8.3f} ms {row['gbs']:6.0f} GB/s"
    if row['part'] == 'pieces':
        return (f"piece  {row['length']:>6} places, ring of {row['ranks']}, {row['kind']:<8} {row['kernels']:<6} "
                f"{row['what']:<8} {row['ms']:8.3f} ms")
    if row['part'] == 'profile':
        return (f"{row['carrier']:<9} {row['length']:>6} rank {row['rank']} {row['at']:9.0f} {row['us']:8.0f} us "
                f"{row['stream']:4} {row['name']}")
    has_goal = row['ranks'] == 2 and row is fastest_row(rows, row, False)
    goal = GOALS.get((row['what'], row['length'])) if has_goal else None
    gpus, texts = ' '.join(f'{ms:.3f}' for ms in row['gpus']), []
    for suffix, name in (('', 'the fastest one'), ('cudnn', "cuDNN's")):
        part = efficiency(rows, row, suffix)
        verdict = f', goal {goal} ' + ('reached' if part >= goal else 'MISSED') if goal else ''
        texts.append(f'{part:.3f} of {name}{verdict}')
    return (f"times  {row['what']:<8} {row['length']:>6} {row['way']:<16} {row['ms']:8.3f} ms "
            f"({row['low']:.3f} to {row['high']:.3f}; {gpus})  {'; '.join(texts)}")


def piece_seconds(rows, n, ranks, what):
    "Return a function that looks up the time of one GPU for a piece of a zigzag ring, with the kernels around it"
    def median_seconds(kind):
        key = n, ranks, kind, what
        return min(row['ms'] for row in rows if row['part'] == 'pieces'
                   and (row['length'], row['ranks'], row['kind'], row['what']) == key)/1e3
    def seconds(piece, each):
        kind = 'own' if piece.causal else 'earlier' if piece.rows.start is None else 'later'
        if what == 'backward': return median_seconds(kind) + median_seconds('ends' if kind == 'own' else 'add')
        if ranks == 2 and kind != 'own': return median_seconds(f'own+{kind}') - median_seconds('own')
        return median_seconds(kind)
    return seconds


def simulated_ms(rows, n, ranks, what, link, overlaps):
    "Simulate a zigzag ring and return its milliseconds"
    run = ring.simulate('zigzag', n, ranks, piece_seconds(rows, n, ranks, what), link, 4*n//ranks*HEADS*DIM,
                        backward=what == 'backward', overlap=overlaps)
    return run.seconds*1e3


def predict(rows):
    "Simulate rings of 2, 4 and 8 GPUs from the measured times of one GPU for their pieces and of a link between two"
    link_rows = [row for row in rows if row['part'] == 'link']
    carrier = min((row for row in link_rows if row['mib'] == 256), key=lambda row: row['ms'])['way']
    seconds_of_mib = {row['mib']: row['ms']/1e3 for row in link_rows if row['way'] == carrier}
    speed = (256 - 64)*2**20/(seconds_of_mib[256] - seconds_of_mib[64])
    link = ring.Link(max(0, seconds_of_mib[256] - 256*2**20/speed), speed)
    measured = [row for row in rows if row['part'] == 'times' and row['ranks'] == 2
                and row is fastest_row(rows, row, False)]
    for n in LENGTHS:
        for ranks in (2, 4, 8):
            for what, parts in (('forward', ['forward']), ('both', ['forward', 'backward'])):
                row = min((o for o in measured if (o['what'], o['length']) == (what, n)), key=lambda o: o['ms'])
                for overlaps in (True, False):
                    ms = sum(simulated_ms(rows, n, ranks, part, link, overlaps) for part in parts)
                    yield dict(length=n, ranks=ranks, what=what, hidden=overlaps, ms=ms, link=list(link),
                               efficiency=fastest_row(rows, row, True)['ms']/ms/ranks,
                               measured=row['ms'] if ranks == 2 else None)


def print_predictions(args):
    recorded = json.loads((HERE/'ring.json').read_text())
    rows = list(predict([row for row in recorded['rows'] if 'failed' not in row]))
    for row in rows:
        measured = f"; measured {row['measured']:.3f} ms" if row['measured'] else ''
        overlap_text = 'messages hidden' if row['hidden'] else 'nothing hidden '
        print(f"{row['what']:<8} {row['length']:>6} places, {row['ranks']} GPUs, {overlap_text}: "
              f"{row['ms']:8.3f} ms, efficiency {row['efficiency']:.3f}{measured}")
    results = dict(made=recorded['made'], rows=rows)
    Path(args.to or HERE/'ring_prediction.json').write_text(json.dumps(results, indent=1) + '\n')


PARTS = dict(check=check, times=times, link=link, pieces=pieces, profile=profile)


def jobs(args):
    "Yield (part, arguments) of the jobs, which every rank runs"
    for part in args.parts or [part for part in PARTS if part != 'profile']:
        if part == 'pieces': yield part, ()
        else:
            for carrier in args.carriers: yield part, (carrier, args.rounds) if part == 'times' else (carrier,)


def run_jobs(rank, jobs, path):
    "Run all jobs and return their rows; rank 0 prints each row and writes the rows to a file"
    rows = []
    def add_rows(new_rows):
        rows.extend(new_rows)
        if rank: return
        print(*(format_row(r, rows) for r in new_rows), sep='\n', file=sys.__stdout__, flush=True)
        Path(path).write_text(json.dumps(rows) + '\n')
    for part, arguments in jobs:
        try:
            for new_rows in PARTS[part](*arguments): add_rows(new_rows)
        except Exception as error:
            add_rows([dict(part=part, carrier=str(arguments), failed=f'{type(error).__name__}: {error}')])
    return rows


def measure(args):
    ranks = torch.cuda.device_count()
    if ranks < 2: sys.exit('ring.py requires at least two GPUs; without them, run `python ring.py predict`')
    run_info = machine()
    versions = ', '.join(f'{k} {v}' for k, v in run_info['versions'].items())
    print(f"{ranks} x {run_info['gpu']}, {run_info['date']}, {versions}", flush=True)
    path = Path(args.to or tempfile.mkdtemp() + '/ring.json')
    rows = ring.launch(run_jobs, ranks, list(jobs(args)), str(path.absolute()), timeout=120., threads=4)[0]
    path.write_text(json.dumps(dict(made=run_info, ranks=ranks, rows=rows), indent=1) + '\n')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('parts', nargs='*', choices=[*PARTS, 'predict', []], default=[])
    parser.add_argument('--carriers', nargs='+', choices=CARRIERS, default=list(CARRIERS))
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--to', help='file for the rows; by default ring.json for a run of all parts')
    args = parser.parse_args()
    if args.parts == ['predict']: sys.exit(print_predictions(args))
    if not args.parts: args.to = args.to or HERE/'ring.json'
    measure(args)
