"""What the C++ runtime reports: its codes and fields against the table of messages, its structures
against Python's mirror of them."""
import ast, ctypes, re, shutil
from pathlib import Path

import numpy as np, pytest

import gridstride
from gridstride.bench.variants import changed
from gridstride.cpp import cuda_kernel, emulator, finding
from gridstride.cpp.toolchain import runtime_library
from gridstride.cpp.toolchain.compilers import CPP_FOLDER
from gridstride.diagnostics.errors import RacecheckError
from gridstride.diagnostics.formatting import Phrase, field_names, text_of
from gridstride.diagnostics.messages import PHRASES, MESSAGES

SOURCES = [*(CPP_FOLDER/'runtime').glob('*.cpp'), *(CPP_FOLDER/'runtime').glob('*.h')]
# kinds that are called otherwise in C++, where these names are taken
OWN = {'launch_failed': 'launch', 'assertion': 'assert'}


@pytest.fixture(scope='module')
def codes():
    "{code: kind} of the compiled runtime"
    lib = emulator.load_runtime()
    lib.gridstride_codes.restype = ctypes.c_char_p
    rows = [row.split() for row in lib.gridstride_codes().decode().splitlines()]
    assert len(rows) == len({code for _, code in rows}), 'a code stands for one thing'
    return {code: OWN.get(kind, kind) for kind, code in rows if kind != 'interrupted'}


def test_each_code_of_the_runtime_has_its_words(codes):
    assert {(kind, code) for code, kind in codes.items() if kind != 'phrase'} <= set(MESSAGES)
    assert {code for code, kind in codes.items() if kind == 'phrase'} == set(PHRASES)


@pytest.mark.slow
def test_every_message_belongs_to_a_finding_that_is_made(codes):
    package = Path(gridstride.__file__).parent
    tables = [package/'diagnostics'/o for o in ('errors.py', 'formatting.py', 'messages.py')]
    modules = [p for p in package.rglob('*.py') if p not in tables]
    strings = {node.value for p in modules
               for node in ast.walk(ast.parse(p.read_text())) if isinstance(node, ast.Constant)}
    assert not [(kind, code) for kind, code in MESSAGES if codes.get(code) != kind and code not in strings]


def calls(text):
    "(the codes, the text of the fields) of each call that gives fields with a code, or with one of several"
    names = 'fail|fail_at|report_finding|report|reject_launch|claim_finding|begin_finding|begin_warning|fill'
    for m in re.finditer(rf'\b(?:{names})\(', text):
        depth, args, start = 1, [], m.end()
        for i in range(m.end(), len(text)):
            c = text[i]
            depth += (c in '([{')-(c in ')]}')
            if depth == 0 or (depth == 1 and c == ','): args.append(text[start:i].strip()); start = i+1
            if depth == 0: break
        for n, code in enumerate(args[:-1]):
            variables = re.findall(rf'\bconst Code {code} = ([^;]*);', text[:m.start()]) if code.isidentifier() else []
            code = variables[-1] if variables else code
            if 'Code::' in code:
                yield re.findall(r'Code::(\w+)', code), next((o for o in args[n+1:] if o.startswith('{')), args[n+1])


def given(fields):
    "The names of the fields in the text of a list of them"
    names = set(re.findall(r'\{"(\w+)",', fields)) | set(re.findall(r'\.(array|index)\(\)', fields))
    also = {'thread': 'thread_field(' in fields, 'access': re.match(r'\{access(_field)?\b', fields)}
    return names | {name for name, is_there in also.items() if is_there}


# Python finds in the source an array's name and the access, and adds the phrases on which thread waits for what
ADDED = {'outside_type': {'access'}, 'outside_named': {'array', 'access'}, 'deadlock': {'why'},
         'mutual_deadlock': {'why', 'other_why'}, 'warp_diverged': {'state'},
         'same_value': {'line', 'kernel'}, 'returned': {'line', 'kernel'},
         'undefined_lane': {'line', 'kernel', 'stored'}, 'undefined_result': {'line', 'kernel', 'stored'},
         'unordered_operations': {'first', 'second'}, 'host_race': {'first'},
         'out_of_memory': {'line'}, 'shifted_too_far': {'line', 'kernel'}, 'does_not_fit': {'line', 'kernel'}}


def test_each_call_gives_the_fields_that_its_words_need(codes):
    checked = set()
    for path in SOURCES:
        for names, fields in calls(path.read_text()):
            for code in names:
                if code == 'stopped': continue
                have = given(fields)
                need = field_names(codes[code], code)-ADDED.get(code, set())
                if 'space' in have: need -= {'array', 'index'}
                assert need <= have, f'{path.name}: {code} needs {need-have}'
                checked.add(code)
    phrases = {code for code, kind in codes.items() if kind == 'phrase'}
    assert set(codes)-phrases == checked, 'found nowhere, or not seen by this test'


def test_a_phrase_is_part_of_a_sentence():
    barrier = Phrase('element', dict(array='full', index=(2,)))
    why = Phrase('missing_bytes', dict(mbarrier=barrier, phase=1, bytes=64))
    what, _ = text_of('synccheck', 'deadlock', 'cuda', dict(why=why))
    assert re.search(r'full\[2\].* 1 .* 64 ', what) and '{' not in what


def test_fields_are_read_with_the_phrases_that_they_belong_to():
    def field(name, type, count=0, string=b'', numbers=()):
        f = finding.CField(name, type, count, string=string)
        f.values[:len(numbers)] = numbers
        return f
    got = finding.fields_of([field(b'lane', 0, 1, numbers=[3]), field(b'why', 3, 3, b'missing_bytes'),
                             field(b'mbarrier', 3, 1, b'of_line'), field(b'line', 0, 1, numbers=[7]),
                             field(b'bytes', 0, 1, numbers=[64]), field(b'index', 2, 2, numbers=[1, 2]),
                             field(b'type', 1, 0, b'float [4]')])
    assert got == dict(lane=3, why=Phrase('missing_bytes', dict(mbarrier=Phrase('of_line', dict(line=7)), bytes=64)),
                       index=(1, 2), type='float [4]')


def test_the_structures_are_those_of_the_compiled_runtime(): finding.check_abi(emulator.load_runtime())


def test_another_version_of_the_runtime_is_refused(monkeypatch):
    monkeypatch.setattr(finding, 'ABI_CHECKSUM', finding.ABI_CHECKSUM+1)
    with pytest.raises(finding.AbiMismatch, match=rf'version .*\b{finding.ABI_CHECKSUM-1} .* {finding.ABI_CHECKSUM} '):
        finding.check_abi(emulator.load_runtime())


def test_each_change_of_the_interface_is_another_version(tmp_path, monkeypatch):
    "A process that imported this package before an update must refuse a runtime that was built after it"
    shutil.copytree(runtime_library.CPP_FOLDER/'include', tmp_path/'include')
    monkeypatch.setattr(runtime_library, 'CPP_FOLDER', tmp_path)
    assert runtime_library.abi_checksum() == finding.ABI_CHECKSUM
    for name,old,new in (('finding.h', 'synccheck, fencecheck', 'fencecheck, synccheck'),
                         ('runtime.h', 'struct gridstride_leak {', 'struct gridstride_leak { int device;')):
        header = tmp_path/'include/cuda'/name
        text = header.read_text()
        header.write_text(changed(text, old, new))
        assert runtime_library.abi_checksum() != finding.ABI_CHECKSUM
        header.write_text(text)
    assert runtime_library.abi_checksum() == finding.ABI_CHECKSUM


def test_kinds_have_the_order_of_the_enumeration():
    enumeration = re.search(r'enum Kind \{(.*?)\};', (CPP_FOLDER/'include/cuda/finding.h').read_text(), re.S)[1]
    kinds = re.findall(r'\w+', re.sub('//.*', '', enumeration))
    assert [OWN.get(kind, kind) for kind in kinds] == [*finding.KINDS]


def test_another_size_of_a_structure_is_refused(monkeypatch):
    class Longer(ctypes.Structure): _fields_ = [('all', finding.CField), ('more', ctypes.c_int)]
    monkeypatch.setattr(finding, 'CField', Longer)
    with pytest.raises(finding.AbiMismatch, match=r'field: \d+'): finding.check_abi(emulator.load_runtime())


def test_the_readme_s_finding_is_the_one_it_shows():
    page = (CPP_FOLDER/'runtime/README.md').read_text()
    src = re.search(r'```c\n(.*?)```', page, re.S)[1]
    with pytest.raises(RacecheckError) as e: cuda_kernel(src)[1, 64](np.ones(64, np.float32), np.empty(64, np.float32))
    assert (e.value.code, e.value.line, e.value.array) == ('race', 4, 's')
    assert set(e.value.fields) == {'array', 'index', 'before', 'now'}
