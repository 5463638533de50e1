"""Which kernels of lessons 01 to 20 a GPU of compute capability 7.5 can run, such as Colab's T4.

    python turing.py [NN ...] > turing.txt    # needs no GPU; executes the lessons on the CPU

Each lesson is executed with a first cell that lets the package select kernels as it does on such a GPU, and that notes
every kernel that is compiled or launched: those of the lesson and those of the package. A last cell compiles all of
them for sm_75: CUDA C with NVRTC, Triton's kernels with Triton, once per config of autotune, and Numba's with Numba,
with the types of the launches. A block must also fit, in threads and in shared memory. A kernel that an H100 cannot run
either is wrong on purpose, and left out.
"""
import argparse, asyncio, json, multiprocessing, shutil, sys, tempfile
from collections import Counter, namedtuple
from math import prod
from pathlib import Path

ARCH, OTHER = 'sm_75', 'sm_90a'  # a T4, an H100
FOLDER = Path(__file__).resolve().parent
LESSONS = [f'{n:02}' for n in range(1, 21)]
NOTED = {}  # (language, kernel, what else the compiled code depends on) -> `Noted`
OPTIONS = 'num_warps', 'num_stages', 'num_ctas'  # of Triton
Noted = namedtuple('Noted', 'kernel examples options threads shared')  # the last two: the most per block


def note(language, name, key, kernel, examples=(), options=None, threads=1, shared=0):
    "Note a kernel with the largest block of its launches"
    key = language, name, repr(key)
    if known := NOTED.get(key): threads, shared = max(threads, known.threads), max(shared, known.shared)
    NOTED[key] = Noted(kernel, examples, options or {}, threads, shared)


def wrap(owner, name, before):
    "Call `before` with the arguments of each call of a method"
    method = getattr(owner, name)

    def wrapped(*args, **named):
        before(*args, **named)
        return method(*args, **named)
    setattr(owner, name, wrapped)


def size(block):
    "Threads per block"
    from gridstride.utils import dim3
    return prod(dim3(block))


def note_source(module, build_result, name, declarations, checks, src=None):
    "Note the kernels of a source of CUDA C, except templates, of which a launch names the arguments"
    from gridstride.cpp.frontend.reader import kernels
    for k in kernels(src) if src else ():
        if not k.template: note('CUDA C', k.name, src, src, options=dict(name=k.name))


def note_launch(kernel, args, grid, block, stream=None, shared=0, cluster=None):
    name, src = kernel.__name__, kernel.src
    note('CUDA C', name, src, src, options=dict(name=name), threads=size(block), shared=shared or 0)


def example(value):
    "A small tensor of the same type, or the value itself"
    import torch
    return torch.empty((16,)*min(value.ndim, 1), dtype=value.dtype) if isinstance(value, torch.Tensor) else value


def kind(value):
    "What compiled code depends on in an argument"
    return str(value.dtype) if hasattr(value, 'dtype') else type(value).__name__ if isinstance(value, float) else value


def note_triton(kernel, *args, grid, warmup=False, **meta):
    "Note a kernel of Triton with its arguments, once per config of autotune"
    values = {k: example(v) for k, v in kernel._bind_arguments(args, meta).items()}
    options = {k: v for k, v in meta.items() if k in OPTIONS}
    for config in getattr(kernel.kernel, 'configs', None) or [None]:
        chosen = {**config.kwargs, 'num_warps': config.num_warps, 'num_stages': config.num_stages} if config else {}
        chosen = {**values, **options, **chosen}
        note('Triton', kernel.__name__, {k: kind(v) for k, v in chosen.items()}, kernel, options=chosen)


def note_numba(kernel, grid, block, shared, stream, *args, **named):
    arrays = [getattr(a, 'value', a) for a in args]  # of cuda.In, Out, InOut
    types = [(str(a.dtype), len(a.shape)) if hasattr(a, 'dtype') else type(a) for a in arrays]
    note('Numba', kernel.__name__, types, kernel, arrays, {}, size(block), shared or 0)


def never(): return False


def turing_device(): return Device(sms(), False)  # noqa: F821 (`current_device_properties` has the names)


def refuse(name):
    raise Unavailable(f'{name} needs compute capability 8.0 or more')  # noqa: F821 (`require_bfloat16` has the name)


def select_for_turing():
    "Let the package select kernels as on a GPU without TMA, bulk copies, clusters and tensor cores for bfloat16"
    from gridstride.kernels.ladder import require_bfloat16
    require_bfloat16.__code__ = refuse.__code__
    module = sys.modules[require_bfloat16.__module__]
    module.runs_hopper.__code__, module.current_device_properties.__code__ = never.__code__, turing_device.__code__


def observe():
    "Note each kernel of this process from now on"
    select_for_turing()
    from gridstride.cpp import kernel, load
    from gridstride.sim.kernel import Kernel
    from gridstride.tile.kernel import CheckedKernel
    wrap(load.EmulatorModule, '__init__', note_source)
    wrap(kernel.Kernel, 'launch', note_launch)
    wrap(CheckedKernel, 'run', note_triton)
    wrap(Kernel, '_launch', note_numba)


def refusal(arch, noted):
    "The reason why a kernel cannot run on an architecture; '' if it can"
    from gridstride.asm import resources
    from gridstride.asm.limits import MAX_THREADS_PER_BLOCK, sm_of
    try: needs = resources(noted.kernel, *noted.examples, arch=arch, **noted.options)
    except Exception as e:
        return next((line for line in str(e).splitlines() if 'error' in line or 'not supported' in line), str(e)[:200])
    shared, most = noted.shared + needs.shared + needs.dynamic, sm_of(arch).max_shared
    if shared > most: return f'{shared:,} bytes of shared memory per block, of {most:,}'
    if noted.threads > MAX_THREADS_PER_BLOCK: return f'{noted.threads} threads per block'
    return ''


def send_refusal(pipe, *args): pipe.send(refusal(*args))


def refusal_in_child(*args):
    "Call `refusal` in a child process, since LLVM may end the process that calls it"
    context = multiprocessing.get_context('fork')
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=send_refusal, args=(theirs, *args))
    child.start()
    theirs.close()
    try: return ours.recv()
    except EOFError: return 'the compiler crashed'
    finally: child.join()


def report(path):
    "Compile all kernels that were noted; write [language, name, reason why not] of each"
    rows = []
    for (language, name, _), noted in NOTED.items():
        why = refusal_in_child(ARCH, noted)
        if not why or not refusal_in_child(OTHER, noted): rows.append([language, name, why])
    Path(path).write_text(json.dumps(rows))


def cell(name, source):
    return dict(cell_type='code', id=name, metadata={}, source=source, outputs=[], execution_count=None)


def measure(path):
    "Execute a lesson, and return the rows of `report`"
    from gridstride.course import lessons
    notebook = lessons.read(path)
    with tempfile.TemporaryDirectory() as folder:
        out, copy = Path(folder)/'rows.json', Path(folder)/path.name
        shutil.copy(path.with_name('utils.py'), folder)
        (Path(folder)/'recorded').symlink_to(path.with_name('recorded'))
        first = cell('observe', f'import sys; sys.path.append({str(FOLDER)!r}); import turing; turing.observe()')
        notebook['cells'] = [first, *notebook['cells'], cell('report', f'turing.report({str(out)!r})')]
        copy.write_text(json.dumps(notebook))
        asyncio.run(lessons.execute(copy))
        return json.loads(out.read_text())


LANGUAGES = 'CUDA C', 'Triton', 'Numba'


def lines(name, rows):
    "The lines of the table for one lesson"
    counts = Counter(language for language, *_ in rows)
    refused = sorted({(language, kernel, why) for language, kernel, why in rows if why})
    yield f'{name:32}' + ''.join(f'{counts[k]:8}' for k in LANGUAGES) + f'{sum(bool(why) for *_, why in rows):14}'
    for language, kernel, why in refused: yield f'    {kernel}, {language}: {why}'


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument('lessons', nargs='*', metavar='NN', default=LESSONS)
    from gridstride.course import lessons
    there = {p.name[:2] for p in lessons.lessons()} | {p.name[:3] for p in lessons.lessons()}
    wanted = [n for n in parser.parse_args(argv).lessons if n in there]
    print(f'{"kernels per language":32}' + ''.join(f'{v:>8}' for v in LANGUAGES) + f'{f"not on {ARCH}":>14}')
    for path in lessons.pick(wanted, lessons.NBS):
        for line in lines(path.stem, measure(path)): print(line, flush=True)


if __name__ == '__main__': main(sys.argv[1:])
