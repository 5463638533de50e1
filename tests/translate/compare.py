"Cases as CUDA C on the emulator, many in one compilation, against the simulator."
import os, re, tempfile, warnings
from itertools import islice
from pathlib import Path

os.environ.setdefault('HYPOTHESIS_STORAGE_DIRECTORY', os.path.join(tempfile.gettempdir(), 'hypothesis'))
os.environ.setdefault('GRIDSTRIDE_VERIFY', '1')     # every tree that is translated here is well formed
import hypothesis
from hypothesis import HealthCheck, Phase, given, settings

from cases import arguments, difference, kept, kernel, simulated
from generator import kernels
from gridstride import sim
from gridstride.cpp.emulator import last_exception
from gridstride.translate import Untranslatable, engine, to_cuda
from gridstride.utils import dim3

HERE = Path(__file__).parent
TOGETHER = 100   # kernels in one compilation: starting the compiler costs as much as a dozen of them
EXAMPLES = 700   # of which a bit less than half are different kernels

_translated = {}
def translated(case, **how):
    "The case's kernel as CUDA C; made once, as several tests translate it in one way"
    key = case.name,case.source,str(case.args),*sorted(how.items())
    if key not in _translated: _translated[key] = to_cuda(kernel(case, sim.cuda), *arguments(case)[0], **how)
    return _translated[key]

def emulated(compiled, n, case):
    "What the memory holds after translation `n` ran; an exception if the emulator found something"
    args,made = arguments(case)
    t = compiled.translations[n]
    values = t.pack(args)
    arrays = {i:v for i,(p,v) in enumerate(zip(t.params, values)) if p.kind=='array'}
    if not compiled.call(n, values, arrays, {}, dim3(tuple(case.grid)), dim3(tuple(case.block)), case.shared):
        raise last_exception({})
    return made

def outcome(compiled, n, case, want):
    try: return difference(emulated(compiled, n, case), want, case)
    except Exception as e: return f'{type(e).__name__}: {e}'

_results = {}
def rightly(case):
    "The simulator's result; a generated kernel in which threads meet, even with the same value, has none"
    key = case.source,str(case.args)
    if key not in _results: _results[key] = _simulated(case)
    return _results[key]

def _simulated(case):
    with warnings.catch_warnings():
        warnings.simplefilter('error' if case.name.startswith('generated') else 'ignore', sim.SameValueRace)
        return simulated(case)

def differences(cases, checks=False, flags=('-Og',), **how):
    """What differs between simulator and emulator, or None, per case; a case that becomes the same CUDA C in two
    ways, as one without floats does with doubles, is compiled and run once"""
    made = [translated(c, **how) for c in cases]
    keys = [(re.sub('^// .*', '', t), repr(c._replace(name='')), checks, flags) for t,c in zip(made, cases)]
    new = {k:(t,c) for k,t,c in zip(keys, made, cases) if k not in _outcomes}
    for at in range(0, len(new), TOGETHER):
        part = dict(islice(new.items(), at, at+TOGETHER))
        compiled = engine.CompiledTranslations([t for t,_ in part.values()], checks, flags=flags)
        _outcomes.update((k, outcome(compiled, n, c, rightly(c))) for n,(k,(_,c)) in enumerate(part.items()))
    return [_outcomes[k] for k in keys]

_outcomes = {}      # (CUDA C without the line that says how it was made, case, ...) -> what differs

def others(cases, tested):
    "Those of `cases` that are not among the `tested`, whatever they are called"
    known = {repr(c._replace(name='')) for c in tested}
    return [c for c in cases if repr(c._replace(name='')) not in known]

def described(cases, results):
    "The cases that differ, for people"
    return '\n\n'.join(f'{c.name}: {d}\n{c.source}' for c,d in zip(cases, results) if d)


# generated cases: the same ones in every run

visitor = []     # what is done with each case
def _visit(case): visitor[-1](case)
_SAME = dict(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))

def visit(f, most, phases):
    """Call `f` with the cases that the generator makes; an assertion that fails makes it look for
    smaller ones, if `phases` request it"""
    visitor.append(f)
    try: settings(max_examples=most, phases=phases, **_SAME)(given(kernels())(_visit))()
    finally: visitor.pop()

def generated(most):
    "The different ones among the first `most` cases; making them takes long, so they are kept"
    texts = [(HERE/f'{o}.py').read_bytes() for o in ('cases','compare','generator')]
    return kept('generated', [texts, most, hypothesis.__version__], lambda: _generated(most))

def _generated(most):
    found = {}
    visit(lambda c: found.setdefault(c.source, c), most, [Phase.generate])
    named = [c._replace(name=f'generated_{n}') for n,c in enumerate(found.values())]
    return [c for c in named if not _refused(c)]

def _refused(case):
    "Is it one of the few that the translation asks to be written in two statements?"
    try: return not translated(case)
    except Untranslatable as e: return 'needs a statement of its own' in str(e)

def smallest(most, known, compilations=100, **how):
    """Raise for the smallest kernel whose results differ that can be found in so many compilations;
    `known`: text of a kernel -> what differs"""
    left = [compilations]
    def judge(case):
        if case.source not in known:
            left[0] -= 1
            try: known[case.source] = differences([case._replace(name='generated')], **how)[0] if left[0] >= 0 else None
            except Exception: known[case.source] = None
        assert known[case.source] is None, f'{known[case.source]}\n{case.source}'
    visit(judge, most, [Phase.generate, Phase.shrink])
