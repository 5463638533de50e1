"""Compile the kernels of many sources in one translation unit: more than half of the time to compile a small kernel is
for headers, processes and linking, which one unit needs only once."""
import contextlib, re
from types import SimpleNamespace

import pytest
from gridstride.cpp import cuda_kernel, program
from gridstride.cpp.frontend.reader import kernels as read_kernels
from gridstride.kernels.ladder import rung
from gridstride.kernels import common
from gridstride.kernels.flash import launches
from gridstride.kernels.ptx import PTX, wgmma
from gridstride.kernels.quant import mixed
from gridstride.kernels.sparse import launches as sparse_launches

INCLUDE = re.compile(r'^#include .*\n', re.M)
SWITCH = '#include <cstdlib>\n#define __CUDA_ARCH_FEAT_SM90_ALL 1\nstatic const bool WRONG = getenv("WRONG");\n'


def record_calls(tests):
    """Return the calls that `tests`, functions without arguments, would launch. Each test runs up to its first
    comparison, which fails because nothing is launched; its later launches are compiled separately"""
    calls = []
    with pytest.MonkeyPatch.context() as patch:
        def record(call, *where): return calls.append(call) or (lambda arrays, stream=None: None)
        for o in (common, launches, sparse_launches): patch.setattr(o, '_launcher', record)
        patch.setattr(mixed, '_mapped_launcher', record)
        for test in tests:
            with contextlib.suppress(AssertionError): test()
    return calls


# Sources that do not depend on definitions above them
SHARED = [o.replace('bf16', half) for half in ('bf16', 'f16') for o in (PTX, *map(wgmma, range(8, 257, 8)))]
FUNCTION = re.compile(r'__device__ \w+ (\w+)\(')


def use_shared(source, shared_sources):
    """Return the source without the `shared_sources`, {number: text}, whose namespaces it uses instead. A
    function with the name of a shared one would hide that one, so it gets a using declaration"""
    used = [i for i, text in shared_sources.items() if text in source]
    for i in used: source = source.replace(shared_sources[i], '')
    own_functions = {*FUNCTION.findall(source)}
    declarations = [f'using shared_{i}::{name};' for i in used
                    for name in sorted(own_functions & {*FUNCTION.findall(shared_sources[i])})]
    return ' '.join([*(f'using namespace shared_{i};' for i in used), *declarations, '\n']) + source


def compile_calls(calls):
    """Return {(source, name): kernel} of the calls; each source is in its own namespace. Inside that is an unnamed one,
    so that the compiler drops functions that no kernel of the source calls, a fifth of the code"""
    sources = list(dict.fromkeys(c.src for c in calls))
    names = {(c.src, c.name): f'unit_{sources.index(c.src)}::{c.name}' for c in calls}
    includes = dict.fromkeys(o for src in sources for o in INCLUDE.findall(src))
    shared_sources = {i: text for i, text in enumerate(SHARED) if sum(text in src for src in sources) > 1}
    namespaces = [f'namespace shared_{i} {{\ntypedef unsigned long long u64;\n{text}\n}}\n'
                  for i, text in shared_sources.items()]
    bodies = [use_shared(INCLUDE.sub('', source), shared_sources) for source in sources]
    namespaces += [f'namespace unit_{i} {{ namespace {{\n{body}\n}} }}\n' for i, body in enumerate(bodies)]
    kernels = cuda_kernel(''.join([*includes, *namespaces]), list(names.values()))
    return {key: kernels[name] for key, name in names.items()}


def compile_gemms(gemms):
    "Return what `compile_calls` does for `GemmKernel`s, whose sources have one kernel each; these request no name"
    calls = [SimpleNamespace(src=o.src, name=read_kernels(o.src)[0].name) for o in gemms]
    return {(src, None): kernel for (src, _), kernel in compile_calls(calls).items()} if calls else {}


@contextlib.contextmanager
def one_unit(request, tests, gemms=()):
    """Compile the launches of `tests` in one unit for the `with` block, and the kernels `gemms` in another, if a
    slow test of the module is selected"""
    has_slow = any(item.get_closest_marker('slow') for item in request.session.items if item.module is request.module)
    kernels = {**(compile_calls(record_calls(tests)) if tests else {}), **compile_gemms(gemms)} if has_slow else {}
    compile_separately = rung.compile_kernel
    with pytest.MonkeyPatch.context() as patch:
        def find_or_compile(src, name, where): return kernels.get((src, name)) or compile_separately(src, name, where)
        for o in (rung, mixed): patch.setattr(o, 'compile_kernel', find_or_compile)
        yield


def right_and_wrong(text, right, wrong, name, monkeypatch):
    """Return the exit statuses of the program `text`, unchanged and with `wrong` in place of `right`. Both are compiled
    in one unit, because most of the time is for that"""
    assert right in text
    both = SWITCH + text.replace(right, wrong)
    status = [program.run(both, name)]
    monkeypatch.setenv('WRONG', '1')
    return [*status, program.run(both, name)]
