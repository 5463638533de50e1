"The submissions in the package: known cheats, and honest kernels like those of the lessons."

from pathlib import Path

_HERE = Path(__file__).parent


def _files(folder):
    return {p.stem: p for p in sorted((_HERE / folder).glob('*.py'))}


def cheats() -> dict:  # name -> path
    "Cheats, each of which is refused; the first lines of the file explain the trick"
    return _files('cheats')


def honest() -> dict:  # name -> path
    "Honest kernels, each of which is accepted"
    return _files('honest')
