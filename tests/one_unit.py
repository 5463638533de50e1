"""Kernels of many sources, compiled at once: more than half of what it takes to compile a small one goes into headers,
processes and linking, which one unit pays once."""
import contextlib, re

import pytest
from gridstride.cpp import cuda_kernel, program
from gridstride.kernels.ladder import rung
from gridstride.kernels import common
from gridstride.kernels.flash import launches
from gridstride.kernels.ptx import PTX, wgmma
from gridstride.kernels.sparse import launches as sparse_launches

INCLUDE = re.compile(r'^#include .*\n', re.M)
SWITCH = '#include <cstdlib>\n#define __CUDA_ARCH_FEAT_SM90_ALL 1\nstatic const bool WRONG = getenv("WRONG");\n'


def noted(tests):
    """The calls that `tests`, functions without arguments, would launch. Each runs up to its first comparison, which
    fails because nothing is launched; what it launches after that is compiled alone"""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        for o in (common, launches, sparse_launches):
            patch.setattr(o, '_launcher', lambda call, *where: calls.append(call) or (lambda arrays, stream=None: None))
        for test in tests:
            with contextlib.suppress(AssertionError): test()
    return calls


# What needs nothing that is defined above it
SHARED = [o.replace('bf16', half) for half in ('bf16', 'f16') for o in (PTX, *map(wgmma, range(8, 257, 8)))]
FUNCTION = re.compile(r'__device__ \w+ (\w+)\(')


def without(source, there):
    """The source without the texts that are `there`, number -> text, in their namespaces: it uses those, and functions
    of a name that it has, too, by that name, or it would hide them"""
    mine = [i for i, text in there.items() if text in source]
    for i in mine: source = source.replace(there[i], '')
    own = {*FUNCTION.findall(source)}
    using = [f'using shared_{i}::{o};' for i in mine for o in sorted(own & {*FUNCTION.findall(there[i])})]
    return ' '.join([*(f'using namespace shared_{i};' for i in mine), *using, '\n']) + source


def compiled(calls):
    "{(source, name): kernel} for what is called; each source has a namespace of its own"
    sources = list(dict.fromkeys(c.src for c in calls))
    names = {(c.src, c.name): f'unit_{sources.index(c.src)}::{c.name}' for c in calls}
    includes = dict.fromkeys(o for src in sources for o in INCLUDE.findall(src))
    there = {i: text for i, text in enumerate(SHARED) if sum(text in src for src in sources) > 1}
    spaces = [f'namespace shared_{i} {{\ntypedef unsigned long long u64;\n{text}\n}}\n' for i, text in there.items()]
    spaces += [f'namespace unit_{i} {{\n{without(INCLUDE.sub("", o), there)}\n}}\n' for i, o in enumerate(sources)]
    made = cuda_kernel(''.join([*includes, *spaces]), list(names.values()))
    return {key: made[o] for key, o in names.items()}


@contextlib.contextmanager
def one_unit(request, tests):
    "What `tests` launch, which are marked slow, is compiled, and there for the tools, if any of the module's run"
    slow = any(o.get_closest_marker('slow') for o in request.session.items if o.module is request.module)
    there, alone = compiled(noted(tests)) if slow else {}, rung.compile_kernel
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rung, 'compile_kernel',
                      lambda src, name, where: there.get((src, name)) or alone(src, name, where))
        yield


def right_and_wrong(text, right, wrong, name, monkeypatch):
    """What the program `text` returns, as it is and with `wrong` in place of `right`; both are compiled at once, as
    most of the time goes into that"""
    assert right in text
    both = SWITCH + text.replace(right, wrong)
    status = [program.run(both, name)]
    monkeypatch.setenv('WRONG', '1')
    return [*status, program.run(both, name)]
