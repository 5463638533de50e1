"""GPU kernels in Python and CUDA C that run, and are checked, without a GPU.

One import line offers what most programs need:

    from gridstride import cdiv, check, cuda, cuda_kernel, dim3, load_cuda, sim, to_cuda

A name is imported on first use, so `import gridstride` itself takes milliseconds and imports neither NumPy nor torch
nor numba. The subpackages have the rest: `gridstride.kernels`, `gridstride.bench.recording`,
`gridstride.course.grading`.
"""

from importlib import import_module

_ROOM_OF = dict(
    cdiv='utils', dim3='utils', check='utils', get_signature='utils', show_img='utils',
    load_cuda='cpp', cuda_kernel='cpp', to_cuda='translate',
)  # fmt: skip
_ROOMS = ('cuda', 'sim', 'triton', 'tile', 'cpp', 'translate', 'asm', 'bench', 'prof', 'draw', 'kernels')

__all__ = [*_ROOM_OF, *_ROOMS]


def __getattr__(name):
    "What the front door offers, and `__version__`, which settings.ini alone says"
    if name in _ROOM_OF:
        return getattr(import_module(f'gridstride.{_ROOM_OF[name]}'), name)
    if name in _ROOMS:
        return import_module(f'gridstride.{name}')
    if name == '__version__':
        return _version()
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def _version():
    "The installed package's; of a folder that is only on the path, the one in the settings.ini next to it"
    from configparser import ConfigParser
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        return version('gridstride')
    except PackageNotFoundError:
        said = ConfigParser()
        said.read(Path(__file__).parents[1] / 'settings.ini', encoding='utf8')
        return said.get('DEFAULT', 'version', fallback='unknown')


def __dir__():
    return sorted({*globals(), *__all__, '__version__'})
