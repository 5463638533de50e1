"Each check of doctor, on machines that are described."
import pytest
from gridstride.course import doctor
from gridstride.course.doctor import Row, examine, machine, fix, report
from found import names


@pytest.fixture
def programs(tmp_path_factory):
    "A folder with these programs, each of which prints its text: a PATH to test with"
    def made(**files):
        folder = tmp_path_factory.mktemp('bin')
        for name, text in files.items():
            p = folder/name.replace('_', '-')
            p.write_text(f"#!/bin/sh\necho '{text}'\n")
            p.chmod(0o755)
        return str(folder)
    return made


@pytest.fixture
def debian(programs): return machine(system='linux', path=programs(apt=''), user=1000, python=(3, 11, 2))


@pytest.fixture
def site(tmp_path_factory):
    "A folder in which torch seems to be installed"
    def made(version='2.13.0', cuda=None, **sizes):
        d = tmp_path_factory.mktemp('site')
        info = d/f'torch-{version}.dist-info'
        info.mkdir()
        (info/'METADATA').write_text(f'Metadata-Version: 2.1\nName: torch\nVersion: {version}\n')
        (d/'torch').mkdir()
        (d/'torch/version.py').write_text(f'cuda = {cuda!r}\n')
        for name, size in sizes.items():
            info = d/f'{name}-{version}.dist-info'
            info.mkdir(exist_ok=True)
            (info/'METADATA').write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n")
            (info/'RECORD').write_text(f'"{name}/a,b.so",sha256=c,{size}\n{name}/d.py,sha256=e,1000\n{name}/RECORD,,\n')
        return [str(d)]
    return made


def nothing(): return 0, None


def hopper(newest='13.0'): return lambda: (1, newest)


def test_versions_of_cuda_are_read_off_a_number(): assert doctor._version_text(12080) == '12.8'


def test_a_program_that_is_not_there_says_nothing(): assert doctor._output_of('no-such-program') == ''


def test_the_fix_depends_on_the_package_manager(debian, programs):
    assert fix('venv', debian) == 'sudo apt install python3.11-venv'
    assert fix('nvcc', machine(system='linux', path=programs(dnf=''), user=0)) == 'dnf install cuda-toolkit'
    assert fix('python', machine(system='darwin', path=programs(brew=''), user=0)) == 'brew install python'
    assert fix('compiler', machine(system='darwin')) == 'xcode-select --install'
    assert fix('header', machine(system='linux', path='')).startswith('install python')


def test_an_old_python_and_one_without_ensurepip(debian, programs):
    old = machine(python=(3, 8, 1), system='linux', path=programs(pacman=''), user=1)
    assert doctor._python(old) == Row('missing', '3.8.1, which is too old', 'sudo pacman -S python')
    bare = machine(**{**vars(debian), 'has_module': lambda o: o != 'ensurepip'})
    assert doctor._venv(bare) == Row('missing', 'no module ensurepip', 'sudo apt install python3.11-venv')


def test_compilers(debian, programs):
    assert doctor._compiler(machine(**{**vars(debian), 'env': {}})).state == 'missing'
    named = machine(system='linux', path=programs(clang__='x'), env={'CXX': 'clang--'})
    assert doctor._compiler(named) == Row('ok', 'x')
    none = doctor._compiler(machine(system='linux', path='', env={}))
    assert none.state == 'missing' and none.fix.startswith('install g++')


def test_disk_and_environment_of_a_new_folder(programs):
    new = machine(root=programs(), free=lambda: 2e9)
    assert doctor._disk(new) == Row('missing', '2.0 GB free', 'free at least 5 GB')
    assert doctor._environment(new) == Row('missing', 'not set up yet', 'python3 course.py setup')


def test_torch_and_the_driver_must_fit(site):
    def look(driver=nothing, **torch): return doctor._torch(machine(site=site(**torch), driver=driver, pci='/nowhere'))
    assert look() == Row('ok', '2.13.0, built for the CPU only')
    assert look(hopper('13.2'), cuda='13.0') == Row('ok', '2.13.0, built for CUDA 13.0')
    assert look(hopper()).state == 'mismatch' and 'at most' in look(hopper('12.8'), cuda='13.0').found


def test_a_build_of_torch_and_its_size(site):
    assert doctor.torch_build([]) == ''
    assert names(doctor.torch_build(site('2.13.0+cpu', torch=734_000_000)), '2.13.0+cpu', 'CPU', '0.7 GB')
    large = site(cuda='13.0', torch=1_130_000_000, nvidia_cublas=2_000_000_000, nvidia_nccl=960_000_000, numpy=10**9)
    assert doctor.torch_build(large) == "2.13.0, built for CUDA 13.0, 1.1 GB, and 3.0 GB of NVIDIA's libraries"
    assert names(doctor.torch_build(site(nvidia_nvrtc=10**9, torch=5*10**6)), '2.13.0,', 'CPU', '5.0 MB')


def test_a_gpu_that_came_after_the_set_up(site, gpu_on_bus):
    "With a driver, and before it has one"
    for driver, pci in ((hopper(), '/nowhere'), (nothing, gpu_on_bus)):
        here = machine(site=site('2.13.0+cpu'), driver=driver, pci=pci)
        want = '.venv/bin/python -m pip install -c constraints.txt --force-reinstall torch'
        row = doctor._torch(here)
        assert doctor.has_gpu(here) and (row.state, row.fix) == ('mismatch', want)
        assert row.found.startswith('2.13.0+cpu, ')
    assert not doctor.has_gpu(machine(driver=nothing, pci='/nowhere'))


def test_a_package_is_installed_by_a_set_up_or_by_pip_where_that_was_finished(tmp_path, monkeypatch):
    missing = machine(root=tmp_path, site=[], driver=nothing)
    monkeypatch.setattr(doctor, 'environment_version', lambda home: None)
    assert doctor._torch(missing) == Row('missing', 'not installed', 'python3 course.py setup')
    monkeypatch.setattr(doctor, 'environment_version', lambda home: '3.11')
    assert '-m pip install -c constraints.txt torch' in doctor._torch(missing).fix


@pytest.fixture
def smi(programs):
    return programs(nvidia_smi='NVIDIA H100, 580.65', nvcc='Cuda compilation tools, release 12.9, V12.9.86', apt='')


@pytest.fixture
def gpu_on_bus(tmp_path):
    "A PCI bus with a GPU"
    (tmp_path/'0000:01:00.0').mkdir()
    (tmp_path/'0000:01:00.0/vendor').write_text('0x10de\n')
    (tmp_path/'0000:01:00.0/class').write_text('0x030200\n')
    return tmp_path


def test_a_gpu_is_named_or_missed(smi, gpu_on_bus):
    assert doctor._gpu(machine(path=smi, driver=hopper())) == Row('ok', '1 with CUDA up to 13.0: NVIDIA H100, 580.65')
    assert doctor._gpu(machine(path='', driver=nothing, pci='/nowhere')).state == 'optional'
    broken = machine(path=smi, driver=nothing, pci=gpu_on_bus, system='linux', user=0)
    assert doctor._gpu(broken).state == 'missing' and doctor._gpu(broken).fix == 'apt install nvidia-driver'


def test_nvcc_must_fit_torch(smi, site):
    def look(cuda):
        return doctor._nvcc(machine(path=smi, driver=hopper(), env={}, site=site(cuda=cuda), system='linux', user=1))

    assert look('12.6') == Row('ok', '12.9')
    want = 'sudo apt install cuda-toolkit-13-0'
    assert look('13.0') == Row('mismatch', '12.9, but torch is built for CUDA 13.0', want)


def test_what_makes_assembly_may_be_a_toolkits(tmp_path):
    for o in ('lib64/libnvrtc.so.13', 'bin/nvdisasm'):
        (tmp_path/o).parent.mkdir()
        (tmp_path/o).touch(0o755)
    def look(cuda, system='linux'): return doctor._assembly(machine(site=[], path='', cuda=cuda, system=system))
    assert look(tmp_path) == Row('ok', f'NVRTC libnvrtc.so.13, nvdisasm {tmp_path}/bin/nvdisasm')
    (tmp_path/'bin/nvdisasm').unlink()
    get = ".venv/bin/python -m pip install -c constraints.txt -e '.[asm]'"
    assert look(tmp_path).state == 'optional' and look(tmp_path).fix == get
    assert 'nvdisasm' in look(tmp_path).found and 'NVRTC' not in look(tmp_path).found
    assert 'nvdisasm' in look('/nowhere').found and 'NVRTC' in look('/nowhere').found
    assert look('/nowhere', 'darwin').state == 'optional' and 'darwin' in look('/nowhere', 'darwin').found


def test_a_check_that_fails_is_a_row_of_the_report(debian):
    def broken(m): raise OSError('no such thing')
    rows = examine(debian, [('toast', 'breakfast', broken), ('Python', 'everything', doctor._python)])
    assert [r.state for _, _, r in rows] == ['missing', 'ok']
    assert '(OSError: no such' in report(rows) and '1 to fix' in report(rows)
