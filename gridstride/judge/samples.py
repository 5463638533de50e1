"The submissions in the package: known cheats, and honest kernels like those of the lessons."

from pathlib import Path

_FOLDER = Path(__file__).parent


def _files(folder):  # name -> path
    return {path.stem: path for path in sorted((_FOLDER / folder).glob('*.py'))}


def cheats() -> dict:  # name -> path
    "List the cheats, all of which are rejected; each file's docstring explains its method"
    return _files('cheats')


def honest() -> dict:  # name -> path
    "List the honest kernels, all of which are accepted"
    return _files('honest')
