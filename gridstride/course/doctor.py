"""Reports installed and missing programs and packages, and the one command that installs what is missing.

`python3 course.py doctor` must answer on a machine on which nothing works, so this module needs only Python, and no
check may end in a traceback.
"""

import csv
import ctypes
import importlib.util
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from collections import namedtuple
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import gridstride

__all__ = [
    'ROOT',
    'MIN_PYTHON',
    'MIN_FREE',
    'Row',
    'CHECKS',
    'machine',
    'fix',
    'compiler',
    'environment_version',
    'has_gpu',
    'torch_build',
    'examine',
    'report',
    'main',
]


# Checks read every fact about the machine from one object, so that a test can describe another machine.
ROOT = Path(gridstride.__file__).resolve().parents[1]


def machine(
    **overrides,  # attributes of another machine, for tests
) -> SimpleNamespace:
    "Describe this machine for the checks"
    machine_info = dict(
        system=sys.platform,
        path=os.environ.get('PATH', ''),
        env=os.environ,
        python=sys.version_info[:3],
        site=sys.path,
        include=sysconfig.get_path('include'),
        driver=_driver,
        no_launcher_reason=_no_launcher_reason,
        pci='/sys/bus/pci/devices',
        cuda='/usr/local/cuda',
        root=ROOT,
        course=(ROOT / 'course.py').is_file(),  # False: pip installed the package without the course
        user=getattr(os, 'geteuid', lambda: 1)(),
        has_module=lambda name: importlib.util.find_spec(name) is not None,
        free=lambda: shutil.disk_usage(ROOT).free,
    )
    return SimpleNamespace(**{**machine_info, **overrides})


def _find_program(machine_info, *names):
    "Return the path of the first of the programs `names` that is installed, or None"
    return next((p for p in (shutil.which(n, path=machine_info.path) for n in names) if p), None)


def _output_of(*cmd):
    "Return the output of a command; '' if it fails or takes over ten seconds"
    options = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    try:
        return subprocess.run(cmd, timeout=10, check=True, **options).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ''


def _driver():
    "Return (GPUs, newest CUDA version that the driver can run); (0, None) without a driver"
    name = 'nvcuda.dll' if sys.platform == 'win32' else 'libcuda.so.1'
    try:
        lib = ctypes.CDLL(name)
    except OSError:
        return 0, None
    num_gpus, version = ctypes.c_int(), ctypes.c_int()
    if lib.cuDriverGetVersion(ctypes.byref(version)):
        return 0, None
    if lib.cuInit(0) or lib.cuDeviceGetCount(ctypes.byref(num_gpus)):
        return 0, _version_text(version.value)
    return num_gpus.value, _version_text(version.value)


# This runs in a separate process, because it imports torch, which may crash.
def _no_launcher_reason():
    "Return the reason why ctypes launches kernels here; empty if compiled code does"
    probe = 'import sys; from gridstride.cpp.launcher import no_launcher_reason; sys.exit(no_launcher_reason())'
    try:
        completed = subprocess.run(
            [sys.executable, '-c', probe], stderr=subprocess.PIPE, text=True, timeout=_TIMEOUT_SECONDS, cwd=ROOT
        )
    except (OSError, subprocess.SubprocessError) as e:
        return f'{type(e).__name__}: {e}'
    error_lines = completed.stderr.strip().splitlines() or [f'the check ended with status {completed.returncode}']
    return error_lines[-1] if completed.returncode else ''


def _version_text(v):
    "Format a version of CUDA, such as 13000, as '13.0'"
    return f'{v // 1000}.{v % 1000 // 10}'


# The command that installs a package depends on the package manager. If there is none, the advice names the package.
_PACKAGES = {
    'compiler': {'apt': 'g++', 'dnf': 'gcc-c++', 'pacman': 'gcc'},
    'python': {'apt': 'python3', 'dnf': 'python3', 'pacman': 'python', 'brew': 'python'},
    'venv': {'apt': 'python{}.{}-venv', 'dnf': 'python3', 'pacman': 'python', 'brew': 'python'},
    'header': {'apt': 'python{}.{}-dev', 'dnf': 'python3-devel', 'pacman': 'python', 'brew': 'python'},
    'driver': {'apt': 'nvidia-driver', 'dnf': 'akmod-nvidia', 'pacman': 'nvidia'},
    'nvcc': {'apt': 'nvidia-cuda-toolkit', 'dnf': 'cuda-toolkit', 'pacman': 'cuda'},
}
_INSTALL = {'apt': 'apt install', 'dnf': 'dnf install', 'pacman': 'pacman -S', 'brew': 'brew install'}


def _package_manager(machine_info):
    "Return the package manager of the machine; None if it is unknown"
    return next(
        (
            manager
            for manager in (['brew'] if machine_info.system == 'darwin' else ['apt', 'dnf', 'pacman'])
            if _find_program(machine_info, manager)
        ),
        None,
    )


def fix(
    requirement,  # a key of `_PACKAGES`
    machine_info=None,  # the machine; None: this one
) -> str:  # a command
    "Return the command that installs a requirement on this machine"
    machine_info = machine_info or machine()
    if requirement == 'compiler' and machine_info.system == 'darwin':
        return 'xcode-select --install'
    manager = _package_manager(machine_info)
    package = _PACKAGES[requirement].get(manager)
    if not package:
        name = _PACKAGES[requirement]['apt'].format(*machine_info.python)
        return f"install {name} (or your system's package that provides it)"
    sudo = 'sudo ' if machine_info.user and manager != 'brew' else ''
    return f'{sudo}{_INSTALL[manager]} {package.format(*machine_info.python)}'


def _pip_command(machine_info, *args):
    "Return the command that installs packages: into the course's environment, or into the one that runs this"
    pip_install = (
        '.venv/bin/python -m pip install -c constraints.txt'
        if machine_info.course
        else f'{sys.executable} -m pip install'
    )
    return ' '.join([pip_install, *args])


# A check returns a row: the state, the finding, and the command that fixes it. The state is `missing` if the lessons
# need it, `optional` if they do not need it on this machine, and `mismatch` if it does not fit the other requirements.
MIN_PYTHON = (3, 10)
MIN_FREE = 5 * 10**9  # bytes of disk space for the set-up

Row = namedtuple('Row', 'state found fix', defaults=('', ''))
_COURSE_ONLY = Row('optional', 'none; only the course needs it')


def _python(machine_info):
    version = '.'.join(map(str, machine_info.python))
    if machine_info.python[:2] >= MIN_PYTHON:
        return Row('ok', version)
    return Row('missing', f'{version}, which is too old', fix('python', machine_info))


def _venv(machine_info):
    missing_modules = [module for module in ('venv', 'ensurepip') if not machine_info.has_module(module)]
    if missing_modules and not machine_info.course:
        return _COURSE_ONLY
    if missing_modules:
        return Row('missing', f"no module {' and '.join(missing_modules)}", fix('venv', machine_info))
    return Row('ok', 'venv and ensurepip')


# The probe detects two kinds of broken environment. Without pyvenv.cfg, the environment's Python acts as the base
# Python, and pip would install packages there. An interrupted installation of pip has no RECORD, which pip writes last.
# The check takes a second, but on a busy machine, or from a slow disk, it has taken more than a minute.
_TIMEOUT_SECONDS = 600
_PROBE = """
import os, pip, sys
from importlib.metadata import distribution
assert sys.prefix != sys.base_prefix and os.path.samefile(sys.prefix, sys.argv[1])
assert distribution('pip').read_text('RECORD')
print('%d.%d' % sys.version_info[:2])
"""


def environment_version(
    home,  # the folder of a virtual environment
    env=None,  # the environment variables of its Python; None: this process's
):  # such as '3.12', or None
    """Return the Python version of the virtual environment `home`; None if its Python or its pip does not work

    Raises `subprocess.TimeoutExpired` if it does not answer: that shows a busy machine, not a broken environment."""
    python = next((p for p in (home / 'bin' / 'python', home / 'Scripts' / 'python.exe') if p.exists()), home)
    cmd = [str(python), '-c', _PROBE, str(home)]
    try:
        completed = subprocess.run(
            cmd,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
            env=env,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return completed.stdout.strip()


def _environment(machine_info):
    "Check that the course's .venv exists and works"
    if not machine_info.course:
        return _COURSE_ONLY
    home = Path(machine_info.root) / '.venv'
    if not home.exists():
        return Row('missing', 'not set up yet', 'python3 course.py setup')
    try:
        works = environment_version(home)
    except subprocess.TimeoutExpired:
        return Row(
            'missing', f'no response within {_TIMEOUT_SECONDS} s: the machine is busy', 'python3 course.py doctor'
        )
    if not works:
        return Row('missing', 'does not work', 'python3 course.py clean && python3 course.py setup')
    return Row('ok', str(home))


def compiler(machine_info=None):  # the machine; None: this one
    "Return the path of a C++ compiler that works, or None"
    machine_info = machine_info or machine()
    if machine_info.system == 'darwin' and not _output_of(
        _find_program(machine_info, 'xcode-select') or 'xcode-select', '-p'
    ):
        return None  # without the command line tools clang++ is a stub
    return _find_program(machine_info, *(machine_info.env.get('CXX', '').split()[:1]), 'g++', 'clang++', 'c++')


def _compiler(machine_info):
    compiler_path = compiler(machine_info)
    if not compiler_path:
        return Row('missing', 'no g++, clang++ or c++', fix('compiler', machine_info))
    return Row('ok', (_output_of(compiler_path, '--version') or compiler_path).splitlines()[0])


def _disk(machine_info):
    is_set_up = not machine_info.course or (Path(machine_info.root) / '.venv').exists()
    free = machine_info.free()
    required_bytes = 10**9 if is_set_up else MIN_FREE
    free_space = f'{free / 1e9:.1f} GB free'
    return (
        Row('ok', free_space)
        if free >= required_bytes
        else Row('missing', free_space, f'free at least {required_bytes / 1e9:.0f} GB')
    )


# Importing torch takes seconds, and a broken torch may crash. So these functions read its version from its metadata,
# and its CUDA version from a small file.
def _distribution(machine_info, name):
    "Return the installed package `name`, or None"
    return next(iter(metadata.distributions(name=name, path=list(machine_info.site))), None)


def _row_for_absent(machine_info, name):
    "Return the row of a missing package: the set-up installs it, or pip if the set-up is complete"
    if not machine_info.course:
        return Row('missing' if name == 'numpy' else 'optional', 'not installed', _pip_command(machine_info, name))
    has_environment = environment_version(Path(machine_info.root) / '.venv')
    return Row(
        'missing', 'not installed', _pip_command(machine_info, name) if has_environment else 'python3 course.py setup'
    )


def _required_check(name):
    "Return a check for a Python package that the lessons need"

    def check(machine_info):
        distribution = _distribution(machine_info, name)
        return Row('ok', distribution.version) if distribution else _row_for_absent(machine_info, name)

    return check


def _optional_check(name, system=None):
    "Return a check for an optional Python package"

    def check(machine_info):
        distribution = _distribution(machine_info, name)
        if distribution:
            return Row('ok', distribution.version)
        if system and machine_info.system != system:
            return Row('optional', f'not available for {machine_info.system}')
        return Row('optional', 'not installed', _pip_command(machine_info, name))

    return check


def _torch_cuda(machine_info):
    "Return the CUDA version that torch was built for; None for a CPU build or no torch"
    distribution = _distribution(machine_info, 'torch')
    return runpy.run_path(str(distribution.locate_file('torch/version.py'))).get('cuda') if distribution else None


def _major(version):
    return int(re.match(r'\d+', version)[0])


def _total_size(distributions):
    "Format the disk space of packages, from their lists of files; return 0 if these do not state sizes"
    rows = csv.reader('\n'.join(d.read_text('RECORD') or '' for d in distributions).splitlines())
    size = sum(int(row[2]) for row in rows if len(row) == 3 and row[2].isdigit())
    return size and (f'{size / 1e9:.1f} GB' if size >= 1e8 else f'{size / 1e6:.1f} MB')


def torch_build(
    site,  # folders in which packages are installed
) -> str:  # such as '2.13.0+cpu, built for the CPU only, 0.7 GB'; '' if it is not installed
    "Return which build of PyTorch is installed, and its size with the CUDA libraries"
    machine_info = machine(site=site)
    distribution = _distribution(machine_info, 'torch')
    cuda = _torch_cuda(machine_info)
    if not distribution:
        return ''
    libraries = [
        library for library in metadata.distributions(path=list(site)) if str(library.name).startswith('nvidia-')
    ]
    libraries_size = cuda and _total_size(libraries)
    parts = distribution.version, f"built for {f'CUDA {cuda}' if cuda else 'the CPU only'}", _total_size([distribution])
    return ', '.join(filter(None, [*parts, libraries_size and f"and {libraries_size} of NVIDIA's libraries"]))


def has_gpu(machine_info=None) -> bool:  # the machine; None: this one
    "Return whether this machine has an NVIDIA GPU, with or without a driver that works"
    machine_info = machine_info or machine()
    return bool(machine_info.driver()[0]) or _is_on_pci_bus(machine_info)


def _torch(machine_info):
    build = torch_build(machine_info.site)
    cuda = _torch_cuda(machine_info)
    if not build:
        return _row_for_absent(machine_info, 'torch')
    num_gpus, newest_cuda = machine_info.driver()
    if has_gpu(machine_info) and not cuda:
        return Row(
            'mismatch', f'{build}, but this machine has a GPU', _pip_command(machine_info, '--force-reinstall torch')
        )
    if num_gpus and _major(newest_cuda) < _major(cuda):
        return Row(
            'mismatch', f'{build}, but the driver supports CUDA {newest_cuda} at most', fix('driver', machine_info)
        )
    return Row('ok', build)


# A GPU without a driver is visible on the PCI bus. NVIDIA's vendor number is 0x10de, and the class of a display
# controller starts with 0x03.
def _is_on_pci_bus(machine_info):
    "Return whether the PCI bus has an NVIDIA GPU, with or without a driver"

    def read(p):
        return p.read_text().strip() if p.exists() else ''

    return any(
        read(d / 'vendor') == '0x10de' and read(d / 'class').startswith('0x03')
        for d in Path(machine_info.pci).glob('*')
    )


def _gpu(machine_info):
    num_gpus, newest_cuda = machine_info.driver()
    nvidia_smi = _find_program(machine_info, 'nvidia-smi')
    gpu_names = _output_of(nvidia_smi, '--query-gpu=name,driver_version', '--format=csv,noheader') if nvidia_smi else ''
    if num_gpus:
        return Row(
            'ok', f"{num_gpus} with CUDA up to {newest_cuda}: {'; '.join(gpu_names.splitlines()) or 'name unknown'}"
        )
    if _is_on_pci_bus(machine_info):
        return Row('missing', 'an NVIDIA GPU whose driver does not work', fix('driver', machine_info))
    return Row('optional', 'none: kernels are simulated on the CPU')


def _nvcc(machine_info):
    homes = [machine_info.env[k] for k in ('CUDA_HOME', 'CUDA_PATH') if machine_info.env.get(k)] + [machine_info.cuda]
    nvcc_path = _find_program(machine_info, 'nvcc', *(f'{h}/bin/nvcc' for h in homes))
    if not nvcc_path and machine_info.driver()[0]:
        return Row('missing', 'not found', fix('nvcc', machine_info))
    if not nvcc_path:
        return Row('optional', 'none; not needed without a GPU')
    version = re.search(r'release (\d+\.\d+)', _output_of(nvcc_path, '--version'))
    if not version:
        return Row('missing', f'{nvcc_path} does not report its version', fix('nvcc', machine_info))
    cuda = _torch_cuda(machine_info)
    if not cuda or _major(cuda) == _major(version[1]):
        return Row('ok', version[1])
    return Row('mismatch', f'{version[1]}, but torch is built for CUDA {cuda}', _toolkit_fix(cuda, machine_info))


def _toolkit_fix(cuda, machine_info):
    "Return the command that installs the CUDA toolkit of a given version"
    if _package_manager(machine_info) not in ('apt', 'dnf'):
        return f'install the CUDA toolkit {cuda}'
    return f"{fix('nvcc', machine_info).replace('nvidia-cuda-toolkit', 'cuda-toolkit')}-{cuda.replace('.', '-')}"


def _ninja(machine_info):
    ninja_path = _find_program(machine_info, 'ninja', 'ninja-build')
    if not ninja_path:
        return Row('optional', 'not found', _pip_command(machine_info, 'ninja'))
    return Row('ok', _output_of(ninja_path, '--version') or ninja_path)


def _python_header(machine_info):
    header_path = Path(machine_info.include) / 'Python.h'
    return (
        Row('ok', str(header_path))
        if header_path.exists()
        else Row('optional', f'{header_path} does not exist', fix('header', machine_info))
    )


def _launcher(machine_info):
    "Check whether compiled code (`cpp/launcher.cpp`) launches kernels on a GPU, or ctypes, which is slower"
    if not machine_info.driver()[0]:
        return Row('optional', 'none; not needed without a GPU')
    if reason := machine_info.no_launcher_reason():
        return Row('optional', f'by ctypes, which is slower: {reason}', _launcher_fix(machine_info))
    return Row('ok', 'by compiled code')


def _launcher_fix(machine_info):
    if not (Path(machine_info.include) / 'Python.h').exists():
        return fix('header', machine_info)
    return '' if compiler(machine_info) else fix('compiler', machine_info)


def _assembly(machine_info):
    "Check for the compiler to PTX and SASS that needs no GPU: two packages, or the tools of a CUDA toolkit"

    def package(name):
        return getattr(_distribution(machine_info, name), 'version', None)

    nvrtc = package('nvidia-cuda-nvrtc') or next(
        (p.name for p in Path(machine_info.cuda).glob('lib64/libnvrtc.so.*')), None
    )
    disassembler = package('nvidia-cuda-nvdisasm') or _find_program(
        machine_info, 'nvdisasm', f'{machine_info.cuda}/bin/nvdisasm'
    )
    if nvrtc and disassembler:
        return Row('ok', f'NVRTC {nvrtc}, nvdisasm {disassembler}')
    if machine_info.system != 'linux':
        return Row('optional', f'not available for {machine_info.system}: lessons show recorded results')
    problem = ' and '.join(
        f'no {name}' for name, installed in (('NVRTC', nvrtc), ('nvdisasm', disassembler)) if not installed
    )
    packages = "-e '.[asm]'" if machine_info.course else 'nvidia-cuda-nvrtc nvidia-cuda-nvdisasm'
    return Row('optional', f'{problem}: lessons show recorded results', _pip_command(machine_info, packages))


CHECKS = [  # (requirement, its purpose, the function that checks it)
    ('Python', 'everything', _python),
    ('venv, pip', 'setting up', _venv),
    ('.venv', 'the packages of the lessons', _environment),
    ('disk', 'setting up, compiled kernels', _disk),
    ('C++ compiler', 'CUDA C on the CPU', _compiler),
    ('numpy', 'everything', _required_check('numpy')),
    ('torch', 'every lesson, gridstride.kernels', _torch),
    ('jupyterlab', 'reading the lessons', _required_check('jupyterlab')),
    ('numba', 'kernels in Numba', _optional_check('numba')),
    ('triton', 'kernels in Triton', _optional_check('triton', system='linux')),
    ('ninja', "torch's load_inline", _ninja),
    ('Python.h', "torch's load_inline, quick launches on a GPU", _python_header),
    ('GPU, driver', 'speed', _gpu),
    ('nvcc', 'CUDA C on a GPU', _nvcc),
    ('launches', 'short calls from Python on a GPU', _launcher),
    ('cuda-core', 'cuda_kernel on a GPU', _optional_check('cuda-core', system='linux')),
    ('NVRTC', 'PTX and SASS, without a GPU', _assembly),
]


def examine(
    machine_info=None,  # the machine; None: this one
    checks=CHECKS,  # the checks to run
) -> list:  # of (requirement, purpose, `Row`)
    "Run all checks; the row of a check that raises an exception has the error"

    def guard(check):
        try:
            return check(machine_info)
        except Exception as e:
            return Row('missing', f'the check failed ({type(e).__name__}: {e})')

    machine_info = machine_info or machine()
    return [(requirement, purpose, guard(check)) for requirement, purpose, check in checks]


def report(
    rows,  # (requirement, purpose, `Row`), as `examine` returns them
) -> str:
    "Return the rows as a table, with the command that fixes a row below it"
    lines = [f'{platform.system()} {platform.machine()}, {sys.executable}', '']
    for requirement, purpose, row in rows:
        lines.append(f'{row.state:<8}  {requirement:<12}  {row.found}  ({purpose})')
        if row.fix:
            lines.append(f"{'':<10}{'to fix:':<12}  {row.fix}")
    num_problems = sum(row.state in ('missing', 'mismatch') for _, _, row in rows)
    return '\n'.join(
        [*lines, '', f'{num_problems} to fix' if num_problems else 'Everything that is needed is installed.']
    )


def main(
    argv=(),  # ignored
) -> int:  # exit status
    "Print the table; 1 if something needs a fix"
    rows = examine()
    print(report(rows))
    return int(any(r.state in ('missing', 'mismatch') for _, _, r in rows))


if __name__ == '__main__':
    sys.exit(main())
