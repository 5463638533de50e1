"""Launches of kernels whose first arrays are described by tensor maps, and the counters by which blocks share work."""

from functools import lru_cache

import torch

from .. import rung
from ..maps import tensor_map
from ..tool import enter_thread


class Mapped(rung.Launcher):
    "A kernel with its numbers in their places; called with tensors, the first of which go as tensor maps"

    def __init__(self, call, boxes, backend):
        super().__init__(rung.compiled(call.src, call.name, backend), len(call.arrays), *call[3:])
        self.boxes, self.maps = boxes, {}

    def __call__(self, arrays, stream=None):
        if not self.kernel.handle:
            arrays = [*map(tensor_map, arrays, self.boxes), *arrays[len(self.boxes) :]]
        super().__call__(arrays, stream)

    def put(self, arrays):
        for i, x in enumerate(arrays):
            self.pointers[i] = x.data_ptr()
        for i, box in enumerate(self.boxes):
            self.places[i] = self.map(i, arrays[i], box).address

    def map(self, i, x, box):
        "The map of an array that is the `i`th argument, made once for an address and its strides"
        key = i, x.data_ptr(), x.shape, x.stride()
        if key not in self.maps:
            if len(self.maps) >= rung.KEPT:
                self.maps.clear()
            self.maps[key] = tensor_map(x, box)
        return self.maps[key]


@lru_cache(1024)
def _launcher(call, boxes, device, backend):
    return Mapped(call, boxes, backend)


@lru_cache(256)
def _kept_counter(device, stream):
    return torch.zeros(1, dtype=torch.uint32, device=device)


def _counter(x, stream):
    "A number that is 0 between two launches on a stream; of its own in a graph, which may run beside others"
    if not x.is_cuda or torch.cuda.is_current_stream_capturing():
        return torch.zeros(1, dtype=torch.int32, device=x.device).view(torch.uint32)
    return _kept_counter(x.device, stream)


def launch_mapped(call, boxes, x, **arrays):
    "Launch where `x` is, on the current stream; `arrays`: tensors, by the names that the call has"
    if not x.is_cuda:
        arrays |= dict(taken=_counter(x, None))
        return _launcher(call, boxes, None, 'sim')([arrays[o] for o in call.arrays])
    device = x.get_device()
    with torch.cuda.device(device):
        enter_thread()
        stream = torch._C._cuda_getCurrentRawStream(device)
        arrays |= dict(taken=_counter(x, stream))
        _launcher(call, boxes, device, 'gpu')([arrays[o] for o in call.arrays], stream)
