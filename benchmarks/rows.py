"""What benchmarks of tools share: sides as CUDA graphs, a row for each other side, its line, and the run that prints
and keeps them."""
import argparse, json, tempfile
from pathlib import Path

import torch
from gridstride.bench.recording import machine

HEAD = "µs and GB/s, ours and the other's; how many times faster ours is, and its interval"


def forward_of(f, inputs, dy): return lambda: f(*inputs)


def backward_of(f, inputs, dy):
    y = f(*inputs)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def graphed(make):
    """What `make()` returns as a CUDA graph: a function that launches it, and gives what it wrote. All is made on one
    stream, as a backward runs on that of its forward"""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        f = make()
        for _ in range(3): f()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream): out = f()
    def run(*_):
        graph.replay()
        return out
    run.kept = f                                            # with what the graph reads
    return run


def row(tool, x, c, other, goal, size, other_size=None):
    "What a `compare` of ours (the baseline) with others says of one of them; sizes are the bytes that are moved"
    ours, theirs, (r, low, high) = c.timings['ours'], c.timings[other], c.ratios[other]
    mhz = sorted(s.mhz for s in ours.states if s and s.mhz)
    return dict(tool=tool, dtype=str(x.dtype)[6:], shape=list(x.shape), other=other, seconds=ours.median,
                other_seconds=theirs.median, gbs=size/ours.median/1e9,
                other_gbs=(other_size or size)/theirs.median/1e9, ratio=1/r, low=1/high, high=1/low, goal=goal,
                mhz=mhz[len(mhz)//2] if mhz else None, warnings=list(ours.warnings))


def failed(tool, x, e):
    "The row of a job that raised"
    said = f'{type(e).__name__}: {e}'.splitlines()[0]
    return dict(tool=tool, dtype=str(x.dtype)[6:], shape=list(x.shape), failed=said)


def line(r, tool, dtype, shape, other, us, gbs):
    "A row as text; the integers are the widths of its columns"
    head = f"{r['tool']:<{tool}} {r['dtype']:<{dtype}} {'x'.join(map(str, r['shape'])):<{shape}}"
    if 'failed' in r: return f"{head} FAILED {r['failed']}"
    goal = f"  goal {r['goal']}: {'reached' if r['ratio'] >= r['goal'] else 'MISSED'}" if r['goal'] else ''
    return (f"{head} {r['seconds']*1e6:>{us}.1f} µs {r['gbs']:>{gbs}.0f} GB/s  "
            f"{r['other']:<{other}} {r['other_seconds']*1e6:>{us}.1f} µs {r['other_gbs']:>{gbs}.0f} GB/s  "
            f"{r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f}){goal}")


def run(doc, parts, measure, show, kept, seconds, head=HEAD):
    """Measure all parts, or those that the command names, and print; all of them together are kept in the file `kept`.

    `parts`: name -> a function that yields jobs; `measure(job, seconds)` gives their rows, `show` a row's line."""
    p = argparse.ArgumentParser(description=doc.splitlines()[0])
    p.add_argument('parts', nargs='*', choices=[*parts, []], default=[])
    p.add_argument('--seconds', type=float, default=seconds)
    args = p.parse_args()
    path = Path(tempfile.mkdtemp())/'rows.json' if args.parts else kept
    res = dict(made=machine(), rows=[])
    versions = ', '.join(f'{k} {v}' for k, v in res['made']['versions'].items())
    print(f"{res['made']['gpu']}, {res['made']['date']}, {versions}\n{head}", flush=True)
    for part in args.parts or parts:
        print(f'\n{part}', flush=True)
        for job in parts[part]():
            rows = list(measure(job, args.seconds))
            res['rows'] += rows
            print(*map(show, rows), sep='\n', flush=True)
            path.write_text(json.dumps(res, indent=1, ensure_ascii=False)+'\n')
            del job
            torch.cuda.empty_cache()
