"The emulator's C++: each header stands alone and compiles without a warning, and no line is too long."
import os, re, shutil, subprocess
from functools import cache
from pathlib import Path

import pytest

from gridstride.cpp.toolchain.build import HEADERS, KERNEL_HEADERS, choose_headers, emulated_flags
from gridstride.cpp.toolchain.compilers import compiler, CPP_FOLDER
from gridstride.cpp.toolchain.cache import build, headers_hash
from gridstride.cpp.toolchain import headers as precompiled
from gridstride.cpp.toolchain.headers import get_precompiled

folders = CPP_FOLDER/'runtime', CPP_FOLDER/'include'
sources = sorted(p for f in folders for p in f.rglob('*') if p.is_file() and p.suffix != '.md')
headers = [p for p in sources if p.suffix in ('', '.h')]
# to a header that is compiled alone, or to the library's: these compile together
forwarding = [p for p in headers if CPP_FOLDER/'include' in p.parents and len(p.read_text().splitlines()) <= 9]
compilers = [o for o in ('g++', 'clang++') if shutil.which(o)] or [compiler().path]
warnings = ['-std=c++17', '-Wall', '-Wextra', '-Werror', '-fsyntax-only', f"-I{CPP_FOLDER/'include/cuda'}",
            f"-I{CPP_FOLDER/'include/torch'}"]


@cache
def includes(header):
    "The headers of ours that this one includes on all conditions"
    depth, found = 0, set()
    for line in header.read_text().splitlines():
        depth += bool(re.match(r'#\s*if', line)) - line.startswith('#endif')
        if not depth and (m := re.match(r'#include ([<"])(.+)[>"]', line)):
            places = [header.parent]*(m[1] == '"') + [CPP_FOLDER/'include/cuda', CPP_FOLDER/'include/torch']
            found |= {next(((o/m[2]).resolve() for o in places if (o/m[2]).is_file()), header)}
    return found


@cache
def within(header):
    "What it includes, and what that includes"
    found, new = {header}, {header}
    while new:
        new = set().union(*map(includes, new)) - found
        found |= new
    return found - {header}


def chains(all_headers):
    """Lists of headers, each of which includes those before it, so that compiled together each compiles as if it were
    alone: it would include itself what comes before it"""
    made = []
    for header in sorted(all_headers, key=lambda o: len(within(o))):
        last = [chain for chain in made if chain[-1] in within(header) and header not in within(chain[-1])]
        if last: max(last, key=lambda o: len(within(o[-1]))).append(header)
        else: made.append([header])
    return made


@pytest.mark.parametrize('compiler', compilers)
@pytest.mark.takes(15)
@pytest.mark.exhaustive
def test_each_header_compiles_alone(compiler):
    "Those that did are not compiled again as long as they, and the compiler, are the same"
    assert len(headers) > 90 and len(forwarding) > 40
    units = [*chains([p for p in headers if p not in forwarding]), forwarding]
    assert sum(map(len, units)) == len(headers)
    texts = {f'{n}.cpp': ''.join(f'#include "{p}"\n' for p in unit) for n, unit in enumerate(units)}
    commands = [[compiler, *warnings, name] for name in texts]
    version = subprocess.run([compiler, '--version'], check=True, capture_output=True, text=True).stdout
    build(texts, [commands[n:n+2] for n in range(0, len(commands), 2)], version, *map(headers_hash, folders))


def test_the_runtime_consists_of_all_its_sources():
    units = 'unit_access.cpp', 'unit_launch.cpp', 'unit_rare.cpp', 'unit_python.cpp'
    named = re.findall(r'#include "(\w+\.cpp)"', ''.join((CPP_FOLDER/'runtime'/o).read_text() for o in units))
    assert sorted([*units, *named]) == sorted(p.name for p in (CPP_FOLDER/'runtime').glob('*.cpp'))


def test_after_errors_an_intact_header_is_read_once_and_a_damaged_one_is_noticed(tmp_path, monkeypatch):
    (header := tmp_path/'headers.h.gch').write_bytes(b'a'*100)
    (tmp_path/'sum').write_text(precompiled._checksum(header))
    read, log, own = [], 'k.cu:1:1: error: expected a semicolon', precompiled._checksum
    monkeypatch.setattr(precompiled, '_checksum', lambda path: read.append(path) or own(path))
    assert not any(precompiled._is_caused_by_headers(header, log) for _ in range(3)) and len(read) == 1
    header.write_bytes(b'b'*100)
    os.utime(header, ns=(1, 1))
    assert precompiled._is_caused_by_headers(header, log)


@pytest.mark.skipif(compiler().kind != 'gcc', reason='clang instantiates while it precompiles')
@pytest.mark.parametrize('names,few', [(KERNEL_HEADERS, 20), (HEADERS, 130)], ids=['kernel', 'tensor'])
def test_little_of_the_precompiled_headers_is_instantiated_again(names, few, tmp_path):
    "By each source, also by an empty one: what takes as long as the rest of a small kernel"
    flags = emulated_flags(compiler(), '', checks=True)
    made = get_precompiled(compiler(), flags, names).with_suffix('')
    command = [compiler().path, '-include', made, *flags, '-fdump-tree-original', '-x', 'c++', '-c', os.devnull]
    subprocess.run([*command, '-dumpdir', f'{tmp_path}/', '-o', tmp_path/'empty.o'], check=True)
    (dump,) = tmp_path.glob('*.original')
    functions = re.findall(r'^;; Function (.*)', dump.read_text(), re.M)
    ours = [f for f in functions if 'gridstride' in f or 'torch' in f]
    assert not [f for f in functions if '_riemann_zeta' in f] and 0 < len(ours) < few, sorted(ours)


@pytest.mark.parametrize('line,names', [
    ('x[0] = std::max(x[0], 1.f);', KERNEL_HEADERS), ('int at = 0, standard = at;', KERNEL_HEADERS),
    ('std::vector<int> v;', HEADERS), ('using namespace std;', HEADERS), ('int n = std :: tuple_size_v<T>;', HEADERS),
    ('at :: Tensor y;', HEADERS), ('#include <torch/extension.h>', HEADERS), ('C10_CUDA_CHECK(e);', HEADERS)])
def test_a_source_begins_with_the_headers_that_it_needs(line, names):
    assert choose_headers(['__global__ void k(float *x) {}', line]) == names


def test_no_line_is_too_long():
    folders = CPP_FOLDER.parent, Path(__file__).parent
    others = [p for f in folders for p in f.rglob('*') if p.suffix in ('.cu', '.cuh', '.h', '.cpp')]
    assert len(others) > 300 and not [f'{p.name}:{n}' for p in {*sources, *others}
                                      for n, line in enumerate(p.read_text().splitlines(), 1) if len(line) > 120]


@pytest.mark.slow
def test_the_readme_names_what_is_there():
    page = (CPP_FOLDER/'runtime/README.md').read_text()
    words = re.findall(r'`([^`\n]+)`', page.replace('```c', '').replace('```', ''))
    files = [w for w in words if re.fullmatch(r'[./\w]+\.(?:cpp|h|py)', w)]
    places = CPP_FOLDER/'runtime', CPP_FOLDER/'include/cuda', CPP_FOLDER.parent.parent
    assert len(files) > 30 and not [w for w in files if not any((folder/w).exists() for folder in places)]
    names = 'toolchain/build.py', 'emulator.py', 'finding.py', '../diagnostics/errors.py', '../diagnostics/messages.py'
    python = [CPP_FOLDER/name for name in names]
    code = ''.join(p.read_text() for p in [*sources, *python])
    names = [w for w in words if w not in files and re.fullmatch(r'[A-Za-z_][\w:]*', w)]
    # __tsan_read##n
    missing = [w for w in names if not re.search(rf'\b{w.split("::")[-1].rstrip("0123456789")}', code)]
    assert len(names) > 40 and not missing
