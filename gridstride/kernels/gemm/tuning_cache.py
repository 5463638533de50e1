"""Cache the results of `tune` on disk: the fastest kernel per shape, keyed by GPU, driver and package version."""

import json
from datetime import date
from functools import lru_cache
from typing import NamedTuple

from ... import __version__
from ...bench.clocks import driver
from ...support.atomic_write import write_atomically
from ...bench.keys import key
from ...utils import cache_dir


class TunedKernel(NamedTuple):
    "The fastest of the kernels that were measured for a shape"

    name: str  # of the kernel
    source_hash: str  # a kernel whose source has changed since is measured again
    candidates: int  # number of kernels that were measured
    date: str  # of the measurement


def path():
    "Return the path of the file in the user's cache"
    return cache_dir() / 'tuned.json'


@lru_cache
def machine_key(device) -> str:  # device: index of the GPU
    "Return the key of measurements on this machine: the GPU, its driver and this version"
    import torch

    return f'{torch.cuda.get_device_name(device)}, driver {driver()}, gridstride {__version__}'


def source_hash(kernel) -> str:
    "Return a hash of a kernel's name, source and constants"
    return key(kernel.name, kernel.src)


def _problem_key(M, N, K, dtype, layout):
    "Return the key of a GEMM in the file, such as 64x32 @ 32x16 bfloat16 nn"
    return f'{M}x{K} @ {K}x{N} {dtype} {layout}'


def _read():
    "Return all entries, {machine: {shape: entry}}; none if the file is missing, truncated or in another format"
    try:
        entries = json.loads(path().read_text(encoding='utf-8'))
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {machine: dict(shapes) for machine, shapes in entries.items() if isinstance(shapes, dict)}


@lru_cache
def _cached_entries(file):
    "Return the entries as the file held them when this process first read it"
    return _read()


def _parse_entry(entry):
    "Return an entry of the file as a `TunedKernel`; None if it has other fields or types"
    try:
        tuned_kernel = TunedKernel(**entry)
    except TypeError:
        return None
    types = TunedKernel.__annotations__.values()
    return tuned_kernel if all(isinstance(value, type) for value, type in zip(tuned_kernel, types)) else None


def find(M, N, K, dtype, device, layout):  # a `TunedKernel`, or None
    "Return the result of an earlier measurement on this GPU for (M x K) @ (K x N)"
    entries = _cached_entries(path())
    if not entries:
        return None
    return _parse_entry(entries.get(machine_key(device), {}).get(_problem_key(M, N, K, dtype, layout)))


def store(kernel, num_candidates, M, N, K, dtype, device, layout):
    "Store the fastest of `num_candidates` measured kernels; does nothing if the folder is read-only"
    tuned_kernel = TunedKernel(kernel.name, source_hash(kernel), num_candidates, str(date.today()))
    entries = _read()
    entries.setdefault(machine_key(device), {})[_problem_key(M, N, K, dtype, layout)] = tuned_kernel._asdict()
    try:
        path().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path(), json.dumps(entries, indent=1))
    except OSError:
        pass
    _cached_entries.cache_clear()


def report_lines():
    "Yield one line per stored result"
    for machine, shapes in _read().items():
        for shape, entry in shapes.items():
            tuned_kernel = _parse_entry(entry)
            yield f'{machine}: {shape}: ' + (
                f'{tuned_kernel.name}, the fastest of {tuned_kernel.candidates}, {tuned_kernel.date}'
                if tuned_kernel
                else 'invalid entry'
            )


def clear() -> bool:  # whether there was a file
    "Delete the results on disk"
    _cached_entries.cache_clear()
    try:
        path().unlink()
    except FileNotFoundError:
        return False
    return True
