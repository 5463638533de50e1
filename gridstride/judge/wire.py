"""Messages between the judge and a submission's process: a JSON header, followed by blobs of raw bytes. The judge
unpickles and evaluates nothing from that process, and reads nothing beyond the agreed length."""

import json
import math
import select
import struct
import time

import torch

_LENGTH = struct.Struct('<Q')
_MAX_HEADER_BYTES = 1 << 20
MAX_TEXT = 1 << 18  # characters of a string in a header
_MAX_AXES = 16  # of a tensor
_MAX_ELEMENTS = 1 << 48  # of a tensor


class ConnectionClosed(Exception):
    "The other process has closed the connection"


class Timeout(Exception):
    "A message did not arrive completely in time"


class ProtocolError(Exception):
    "The received bytes are not a message, or exceed the agreed length"


class ProcessEnded(Exception):
    "A submission's process has ended, or must be ended, for the reason `code` of `verdicts.REASONS`"

    def __init__(self, code, text):
        self.code, self.text = code, text
        super().__init__(text)


def _receive_bytes(sock, n, deadline, make_buffer=bytearray):
    "Receive the next `n` bytes into `make_buffer(n)`, and return this buffer"
    view = memoryview(make_buffer(n))
    num_received = 0
    while num_received < n:
        seconds_left = None if deadline is None else deadline - time.monotonic()
        if seconds_left is not None and (seconds_left <= 0 or not select.select([sock], [], [], seconds_left)[0]):
            raise Timeout
        try:
            num_new = sock.recv_into(view[num_received:])
        except OSError:
            num_new = 0
        if not num_new:
            raise ConnectionClosed
        num_received += num_new
    return view.obj


def send(
    sock,
    header: dict,  # of values that JSON supports
    blobs=(),  # bytes-like objects
):
    "Send a message; raises `ConnectionClosed`, or `Timeout` if the socket has a time limit"
    blobs = [memoryview(b).cast('B') for b in blobs]
    text = json.dumps({**header, 'blobs': [len(b) for b in blobs]}).encode()
    try:
        sock.sendall(_LENGTH.pack(len(text)) + text)
        for b in blobs:
            sock.sendall(b)
    except TimeoutError:
        raise Timeout from None
    except OSError:
        raise ConnectionClosed from None


def receive(
    sock,
    max_bytes=None,  # limit of the sum of all blobs; None: no limit
    deadline=None,  # by `time.monotonic()`; None: no time limit
    make_buffer=bytearray,  # make_buffer(n) returns the buffer for a blob of n bytes
) -> tuple:  # (header, list of buffers)
    "Receive a message; raises `ConnectionClosed`, `Timeout` or `ProtocolError`"
    header_bytes = _LENGTH.unpack(_receive_bytes(sock, 8, deadline))[0]
    if header_bytes > _MAX_HEADER_BYTES:
        raise ProtocolError(f'the header of a message is too large: {header_bytes} bytes')
    try:
        header = json.loads(_receive_bytes(sock, header_bytes, deadline))
        sizes = [int(size) for size in header.pop('blobs')]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ProtocolError('the header of a message is not valid') from None
    if min(sizes, default=0) < 0 or max_bytes is not None and sum(sizes) > max_bytes:
        raise ProtocolError(f'expected buffers of at most {max_bytes} bytes, got {sum(sizes)}')
    return header, [_receive_bytes(sock, size, deadline, make_buffer) for size in sizes]


# Tensors as bytes
_DTYPE_NAMES = 'float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool'.split()
DTYPES = {name: getattr(torch, name) for name in _DTYPE_NAMES}


def dtype_name(dtype) -> str:
    "Return the name of a dtype: 'float32' for torch.float32"
    return str(dtype).removeprefix('torch.')


def tensor_bytes(x) -> memoryview:
    "Return the bytes of a tensor on the CPU"
    return memoryview(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def tensor_from_bytes(blob, dtype: str, shape):
    "Create a tensor on a buffer, without a copy; raise `ProtocolError` unless the buffer fits the dtype and shape"
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ProtocolError(f'the dtype of a tensor must be one of {", ".join(DTYPES)}; got {str(dtype)[:40]!r}')
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError('the shape of a tensor must be a list of non-negative integers')
    if len(shape) > _MAX_AXES or max(shape, default=0) > _MAX_ELEMENTS:  # before `prod`, which is slow for huge sizes
        raise ProtocolError('a tensor is too large for torch')
    numel = math.prod(shape)
    if math.prod(size or 1 for size in shape) > _MAX_ELEMENTS:  # also if a size is 0
        raise ProtocolError('a tensor is too large for torch')
    if numel * DTYPES[dtype].itemsize != len(blob):
        raise ProtocolError(
            f'expected {numel * DTYPES[dtype].itemsize} bytes for a tensor {dtype} {tuple(shape)}, got {len(blob)}'
        )
    if not numel:
        return torch.empty(tuple(shape), dtype=DTYPES[dtype])
    return torch.frombuffer(blob, dtype=DTYPES[dtype]).reshape(tuple(shape))


def describe(x) -> dict:
    "Return the dtype and shape of a tensor, for a header"
    return dict(dtype=dtype_name(x.dtype), shape=list(x.shape))
