"""What the checks that are run by hand on a GPU share."""
import contextlib, sys, time, traceback
from concurrent.futures import ThreadPoolExecutor

import torch


def run(checks, named):
    """Run each check, or those that the command names out of `named`; the exit status shows whether any failed.
    What follows a colon, separated by commas, is passed to the check: `python check_judge_gpu.py streams:late`"""
    failed = 0
    for name, _, rest in [o.partition(':') for o in sys.argv[1:]] or [(f.__name__, '', '') for f in checks]:
        f, start = named[name], time.time()
        try: found = list(f(*filter(None, rest.split(','))))
        except Exception: found = [traceback.format_exc()]
        failed += bool(found)
        print(f'{"FAIL" if found else "ok"}    {f.__name__}, {time.time() - start:.1f} s', *found[:19], sep='\n  ')
    sys.exit(failed)


def compiled_together(calls):
    "Make all calls in threads, so that their kernels are compiled at the same time; errors show in later calls"
    def call(f):
        with contextlib.suppress(Exception): f()
    with ThreadPoolExecutor(14) as pool: list(pool.map(call, calls))


def chosen(there, names):
    "The named items of {name: anything}, in this order; all without names; `name...` means it and all after it"
    wanted = []
    for name in names or [f'{next(iter(there))}...']:
        if (first := name.removesuffix('...')) not in there:
            raise ValueError(f'no {first}; {", ".join(there)} are there')
        rest = list(there)[list(there).index(first):]
        wanted += rest if name.endswith('...') else rest[:1]
    return {name: there[name] for name in wanted}


def differs_elsewhere(f, x):
    "Does f(x) give the same on another stream, and in a CUDA graph?"
    want, stream, graph = f(x), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream): there = f(x)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph): captured = f(x)
    graph.replay()
    torch.cuda.synchronize()
    if not torch.equal(there, want): yield 'on another stream it gives something else'
    if not torch.equal(captured, want): yield 'in a graph it gives something else'
