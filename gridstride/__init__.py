"""GPU kernels in Python and CUDA C that run, and are checked, without a GPU.

Most programs need one import line:

    from gridstride import cdiv, check, cuda, cuda_kernel, dim3, load_cuda, sim, to_cuda

A name is imported on first use, so `import gridstride` takes milliseconds and imports neither NumPy nor torch nor
Numba. The subpackages have more: `gridstride.kernels`, `gridstride.bench.recording`,
`gridstride.course.grading`.
"""

from importlib import import_module

_MODULE_OF = dict(
    cdiv='utils', dim3='utils', check='utils', get_signature='utils', show_img='utils',
    load_cuda='cpp', cuda_kernel='cpp', to_cuda='translate',
)  # fmt: skip
_SUBPACKAGES = ('cuda', 'sim', 'triton', 'tile', 'cpp', 'translate', 'asm', 'bench', 'prof', 'draw', 'kernels')

__all__ = [*_MODULE_OF, *_SUBPACKAGES]


def __getattr__(name):
    "Import a public name on first use; `__version__` comes from settings.ini"
    if name in _MODULE_OF:
        return getattr(import_module(f'gridstride.{_MODULE_OF[name]}'), name)
    if name in _SUBPACKAGES:
        return import_module(f'gridstride.{name}')
    if name == '__version__':
        return _version()
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def _version():
    "Return the version of the installed package, or the one in settings.ini next to a package that is only on the path"
    from configparser import ConfigParser
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        return version('gridstride')
    except PackageNotFoundError:
        settings = ConfigParser()
        settings.read(Path(__file__).parents[1] / 'settings.ini', encoding='utf8')
        return settings.get('DEFAULT', 'version', fallback='unknown')


_REQUIRED = dict(tile='ml_dtypes', triton='ml_dtypes', kernels='torch')  # by subpackages, beyond NumPy


def __dir__():
    "List the public names, without subpackages that cannot be imported here: `help(gridstride)` imports all it lists"
    from importlib.util import find_spec

    missing = {name for name, package in _REQUIRED.items() if not find_spec(package)}
    return sorted({*globals(), *__all__, '__version__'} - missing)
