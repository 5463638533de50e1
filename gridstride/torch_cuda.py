"""Substitutes for the functions and classes of `torch.cuda`, on a machine without a GPU.

`gridstride.as_gpu` installs them: streams and events are those of a GPU that executes each operation immediately."""

import types
from contextlib import nullcontext
from time import perf_counter

__all__ = ['cuda_substitutes', 'return_model']


class _Event:
    "A substitute for `torch.cuda.Event` that reads the clock of the CPU"

    def __init__(self, *args, **kwargs):
        self.time = None

    def record(self, stream=None):
        self.time = perf_counter()

    def elapsed_time(self, end):  # ms
        return (end.time - self.time) * 1e3

    def synchronize(self):
        pass

    wait = synchronize

    def query(self):
        return True


class _NullContext:
    "A context manager that does nothing"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class _Stream(_NullContext):
    "A substitute for `torch.cuda.Stream`: each operation ends before the next one begins"

    cuda_stream = 0

    def __init__(self, *args, **kwargs):
        pass

    def synchronize(self, *args):
        pass

    wait_stream = wait_event = synchronize

    def query(self):
        return True

    def record_event(self, event=None):
        return event or _Event()


class _Device(_NullContext):
    "A substitute for `torch.cuda.device` on a machine with one GPU"

    def __init__(self, device=None):
        self.idx = 0


_PROPERTIES = dict(
    name='gridstride, an emulator', major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, warp_size=32,
    L2_cache_size=50 << 20, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    gcnArchName='', is_integrated=False, is_multi_gpu_board=False,
)  # fmt: skip


def return_model(model=None, **options):
    "Return the model unchanged: a substitute for `torch.compile`, whose compiler needs a GPU"
    return (lambda model: model) if model is None else model


def cuda_substitutes():
    "Return {name in torch.cuda: substitute}"
    import torch

    memory_functions = dict.fromkeys(
        'memory_allocated max_memory_allocated memory_reserved max_memory_reserved'.split(), lambda device=None: 0
    )
    return memory_functions | dict(
        is_available=lambda: True,
        device_count=lambda: 1,
        current_device=lambda: 0,
        get_device_name=lambda device=None: 'gridstride, an emulator',
        get_device_capability=lambda device=None: (9, 0),
        set_device=lambda device: None,
        synchronize=lambda device=None: None,
        empty_cache=lambda: None,
        manual_seed=lambda seed: None,
        manual_seed_all=lambda seed: None,
        # the emulated GPU's random values are those of the CPU's generator
        get_rng_state=lambda device=None: torch.get_rng_state(),
        get_rng_state_all=lambda: [torch.get_rng_state()],
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        set_rng_state_all=lambda states: torch.set_rng_state(states[0]),
        Event=_Event,
        Stream=_Stream,
        get_device_properties=lambda device=None: types.SimpleNamespace(**_PROPERTIES),
        is_bf16_supported=lambda including_emulation=True: True,
        current_stream=_Stream,
        default_stream=_Stream,
        stream=lambda stream=None: nullcontext(),
        device=_Device,
        device_of=_Device,
        mem_get_info=lambda device=None: (80 << 30, 80 << 30),
        reset_peak_memory_stats=lambda device=None: None,
        ipc_collect=lambda: None,
    )
