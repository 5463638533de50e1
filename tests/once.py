"Compile programs of tests with the package's headers, and keep them in its cache."
import subprocess
from pathlib import Path

from gridstride.cpp.toolchain import build, cache, compilers
from gridstride.cpp.toolchain.headers import get_precompiled

here = Path(__file__).parent/'cpp'


def build_once(compiler, *commands, sources={}):
    """Run `commands` in a folder with `sources` (file name -> text), unless that was done before with the same sources,
    headers and compiler; return the folder"""
    version = subprocess.run([compiler, '--version'], check=True, capture_output=True, text=True).stdout
    test_sources = [(p.name, p.read_text()) for p in sorted(here.glob('*.cpp'))]
    headers = cache.headers_hash(compilers.CPP_FOLDER/'include')
    return cache.build(sources, commands, version, cache.cpu_key(), test_sources, headers, shared=True).folder


def compile_errors(compiler, source, *more):
    "Return a compiler's errors for C++ source for the emulator; the headers are precompiled, as for a kernel"
    c = compilers._find_compiler((compiler,))
    flags = build.emulated_flags(c, '', checks=True)
    precompiled = get_precompiled(c, flags, build.KERNEL_HEADERS)
    first = [precompiled.with_suffix('')] if precompiled else build.KERNEL_HEADERS
    command = [c.path, *(o for path in first for o in ('-include', path)), *flags, *more, '-fsyntax-only']
    return subprocess.run([*command, '-x', 'c++', '-'], input=source, capture_output=True, text=True).stderr
