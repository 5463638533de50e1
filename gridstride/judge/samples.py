"The submissions in the package: known cheats, and honest kernels like those of the lessons."

from pathlib import Path

_HERE = Path(__file__).parent


def _files(folder):
    return {p.stem: p for p in sorted((_HERE / folder).glob('*.py'))}


def cheats() -> dict:  # name -> path
    "List the cheats, all of which are refused; the docstring of a file explains its trick"
    return _files('cheats')


def honest() -> dict:  # name -> path
    "List the honest kernels, all of which are accepted"
    return _files('honest')
