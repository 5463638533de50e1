"""What `tune` has measured, kept on disk: the fastest kernel for a shape, by GPU, driver and version."""

import json
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from ... import __version__
from ...bench.clocks import driver
from ...support.atomic_write import write_whole
from ...bench.recording import key
from ...utils import cache_dir


class Found(NamedTuple):
    "The fastest of those that were measured"

    name: str  # of the kernel
    source: str  # `identity` of it: a kernel that was changed since has to be measured again
    of: int  # how many were measured
    date: str  # when


def path():
    "The file in the user's cache"
    return cache_dir() / 'tuned.json'


@lru_cache
def owner(device) -> str:  # device: its number
    "Whose measurements they are: a GPU, its driver, this version"
    import torch

    return f'{torch.cuda.get_device_name(device)}, driver {driver()}, gridstride {__version__}'


def identity(kernel) -> str:
    "A hash of a kernel's source and constants"
    return key(kernel.name, kernel.src)


def _label(h, w, k, dtype, layout):
    return f'{h}x{k} @ {k}x{w} {dtype} {layout}'


def _read():
    "All entries; none if the file is missing, truncated, or not ours"
    try:
        every = json.loads(path().read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return {}
    return {o: dict(v) for o, v in every.items() if isinstance(v, dict)} if isinstance(every, dict) else {}


@lru_cache
def _known(file):
    "What the file held when this process first asked"
    return _read()


def _found(entry):
    "A `Found` of what the file has, None if that is none"
    try:
        found = Found(**entry)
    except TypeError:
        return None
    types = Found.__annotations__.values()
    return found if all(isinstance(o, t) for o, t in zip(found, types)) else None


def find(h, w, k, dtype, device, layout):  # a `Found`, or None
    "What was measured on such a GPU for h x k @ k x w"
    every = _known(path())
    return _found(every.get(owner(device), {}).get(_label(h, w, k, dtype, layout))) if every else None


def keep(kernel, of, h, w, k, dtype, device, layout):
    "Note the fastest kernel; a folder that cannot be written only means to measure again in the next process"
    found = Found(kernel.name, identity(kernel), of, str(date.today()))
    every = _read()
    every.setdefault(owner(device), {})[_label(h, w, k, dtype, layout)] = found._asdict()
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        write_whole(path(), json.dumps(every, indent=1))
    except OSError:
        pass
    _known.cache_clear()


def lines():
    "All that is kept, a line each"
    for who, shapes in _read().items():
        for shape, entry in shapes.items():
            found = _found(entry)
            yield f'{who}: {shape}: ' + (
                f'{found.name}, the fastest of {found.of}, {found.date}' if found else 'is not measured'
            )


def forget() -> bool:  # was there anything?
    "Throw away all that is kept on disk"
    _known.cache_clear()
    try:
        path().unlink()
    except FileNotFoundError:
        return False
    return True
