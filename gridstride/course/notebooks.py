"""Finds the notebooks of the lessons, reads their code, and detects outputs that are older than the code.

Only the standard library is imported, because `lessons` must run before anything is installed."""

import hashlib
import json
import re
from pathlib import Path

import gridstride
from .publishing import is_setup

__all__ = ['ROOT', 'NBS', 'lessons', 'pick', 'read', 'code', 'code_hash', 'is_stale']


# A lesson is a notebook in `nbs/` whose name starts with the number of its chapter, and a letter if the chapter has
# several: `08a_timing.ipynb`.
ROOT = Path(gridstride.__file__).resolve().parents[1]
NBS = ROOT / 'nbs'


def lessons(
    folder=NBS,  # where to look
) -> list:  # paths
    "Return the lessons in `folder`, in order"
    return sorted(p for p in Path(folder).glob('[0-9][0-9]*_*.ipynb') if re.match(r'\d\d[a-z]?_', p.name))


def _find_lessons(name, path_of_number):
    "Return the lessons that `name` selects: all of a chapter, one lesson, or the notebook at a path"
    if name.endswith('.ipynb') and Path(name).is_file():
        return [Path(name).resolve()]
    number = re.sub(r'^(\d)(?!\d)', r'0\1', name)
    if found := [p for k, p in path_of_number.items() if number in (k, k[:2])]:
        return found
    raise LookupError(f"There is no lesson {name}. The lessons are: {', '.join(path_of_number) or 'none'}.")


def pick(
    numbers,  # of lessons as typed, '3', '03' or '08a', or paths of other notebooks
    folder=NBS,  # where to look
) -> list:  # paths
    """Return the lessons with these numbers, all of a chapter for its number, or all lessons; raises `LookupError` for
    a number that no lesson has"""
    path_of_number = {p.name.partition('_')[0]: p for p in lessons(folder)}
    return list(dict.fromkeys(p for number in numbers for p in _find_lessons(number, path_of_number))) or list(
        path_of_number.values()
    )


# When a lesson is saved, a hash of its code is saved with it. Later the hash shows whether the code was
# edited after the outputs were made. Prose may change freely.
def read(path) -> dict:  # the notebook's JSON
    "Return the notebook at `path`; raises `ValueError`, which names it if it is not a notebook"
    try:
        nb = json.loads(Path(path).read_text(encoding='utf-8'))
        if isinstance(nb['cells'], list):
            return nb
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise ValueError(f'{path} cannot be read as a notebook: {e}') from None
    raise ValueError(f'{path} cannot be read as a notebook: it has no list of cells')


def code(nb) -> list:  # of str
    "Return the sources of the code cells, in order, without the cell that installs the package"
    return [''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'code' and not is_setup(c)]


def code_hash(nb) -> str:  # 16 hexadecimal digits
    "Return a hash of all the code in a notebook"
    return hashlib.sha256(json.dumps(code(nb)).encode()).hexdigest()[:16]


def is_stale(nb) -> bool:
    "Return whether the code has changed since the outputs were made; True if no outputs were ever recorded"
    return nb['metadata'].get('gridstride', {}).get('code') != code_hash(nb)
