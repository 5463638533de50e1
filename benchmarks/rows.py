"""Shared by the benchmarks of tools: capture each candidate in a CUDA graph, make a row per comparison, format the
rows, print them, and write them to a file."""
import argparse, json, tempfile
from pathlib import Path

import torch
from gridstride.bench.recording import machine

HEAD = "µs and GB/s, ours and the other's; how many times faster ours is, and its interval"


def make_forward(f, inputs, dy): return lambda: f(*inputs)


def make_backward(f, inputs, dy):
    y = f(*inputs)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def capture_graph(make_function):
    """Capture the function that `make_function()` returns in a CUDA graph; return a function that replays the graph and
    returns its output. Both run on one stream, since a backward pass runs on the stream of its forward pass."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function = make_function()
        for _ in range(3): function()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream): out = function()
    def run(*_):
        graph.replay()
        return out
    run.captured_function = function                        # keeps the tensors alive that the graph reads
    return run


def comparison_row(tool, operand, comparison, other, goal, size, other_size=None):
    """Make the row of one other side of a `compare` whose baseline is `ours`; `size` and `other_size` are the bytes
    that the two sides move"""
    ours, theirs, (ratio, low, high) = comparison.timings['ours'], comparison.timings[other], comparison.ratios[other]
    mhz = sorted(s.mhz for s in ours.states if s and s.mhz)
    return dict(tool=tool, dtype=str(operand.dtype)[6:], shape=list(operand.shape), other=other, seconds=ours.median,
                other_seconds=theirs.median, gbs=size/ours.median/1e9,
                other_gbs=(other_size or size)/theirs.median/1e9, ratio=1/ratio, low=1/high, high=1/low, goal=goal,
                mhz=mhz[len(mhz)//2] if mhz else None, warnings=list(ours.warnings))


def failed_row(tool, operand, error):
    "Make the row of a job that raised an error"
    message = f'{type(error).__name__}: {error}'.splitlines()[0]
    return dict(tool=tool, dtype=str(operand.dtype)[6:], shape=list(operand.shape), failed=message)


def format_row(row, tool, dtype, shape, other, us, gbs):
    "Format a row as text; the other arguments are the widths of its columns"
    head = f"{row['tool']:<{tool}} {row['dtype']:<{dtype}} {'x'.join(map(str, row['shape'])):<{shape}}"
    if 'failed' in row: return f"{head} FAILED {row['failed']}"
    return (f"{head} {row['seconds']*1e6:>{us}.1f} µs {row['gbs']:>{gbs}.0f} GB/s  "
            f"{row['other']:<{other}} {row['other_seconds']*1e6:>{us}.1f} µs {row['other_gbs']:>{gbs}.0f} GB/s  "
            f"{format_ratio(row)}")


def format_ratio(row):
    "Format a row's ratio with its interval, and whether it reaches the row's goal"
    goal = f"  goal {row['goal']}: {'reached' if row['ratio'] >= row['goal'] else 'MISSED'}" if row['goal'] else ''
    return f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}){goal}"


def run(doc, parts, measure_job, format_row, default_path, seconds, head=HEAD):
    """Measure all parts, or those named on the command line, and print the rows. A run of all parts is written to
    `default_path`.

    `parts` maps a name to a function that yields jobs; `measure_job(job, seconds)` returns the rows of a job."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument('parts', nargs='*', choices=[*parts, []], default=[])
    parser.add_argument('--seconds', type=float, default=seconds)
    options = parser.parse_args()
    path = Path(tempfile.mkdtemp())/'rows.json' if options.parts else default_path
    results = dict(made=machine(), rows=[])
    versions = ', '.join(f'{k} {v}' for k, v in results['made']['versions'].items())
    print(f"{results['made']['gpu']}, {results['made']['date']}, {versions}\n{head}", flush=True)
    for part in options.parts or parts:
        print(f'\n{part}', flush=True)
        for job in parts[part]():
            rows = list(measure_job(job, options.seconds))
            results['rows'] += rows
            print(*map(format_row, rows), sep='\n', flush=True)
            path.write_text(json.dumps(results, indent=1, ensure_ascii=False)+'\n')
            del job
            torch.cuda.empty_cache()
