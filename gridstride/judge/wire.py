"""Messages between the judge and a submission's process: a JSON header and raw bytes. Nothing from that process is
unpickled or evaluated, and nothing beyond the agreed length is read."""

import json
import math
import select
import struct
import time

import torch

_LENGTH = struct.Struct('<Q')
_HEADER = 1 << 20  # limit of a header, in bytes
TEXT = 1 << 18  # limit of a text in a header, in characters
# Limits of a tensor
_DIMENSIONS = 16
_LARGEST = 1 << 48  # elements


class ConnectionClosed(Exception):
    "The other process has closed the connection"


class Timeout(Exception):
    "A message did not arrive in time, or only a part of it"


class ProtocolError(Exception):
    "The received bytes are not a message, or exceed the agreed length"


def _take(sock, n, end, buffer=bytearray):
    "Receive the next `n` bytes"
    buffer = memoryview(buffer(n))
    done = 0
    while done < n:
        left = None if end is None else end - time.monotonic()
        if left is not None and (left <= 0 or not select.select([sock], [], [], left)[0]):
            raise Timeout
        try:
            got = sock.recv_into(buffer[done:])
        except OSError:
            got = 0
        if not got:
            raise ConnectionClosed
        done += got
    return buffer.obj


def send(
    sock,
    header: dict,  # what JSON can hold
    blobs=(),  # of bytes
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
    most=None,  # limit of all blobs together, in bytes; None: no limit
    end=None,  # when to give up, by `time.monotonic()`
    buffer=bytearray,  # buffer(n): the buffer for n bytes of a blob
) -> tuple:  # (dict, list of what `buffer` gave)
    "Receive a message; raises `ConnectionClosed`, `Timeout` or `ProtocolError`"
    n = _LENGTH.unpack(_take(sock, 8, end))[0]
    if n > _HEADER:
        raise ProtocolError(f'a header of {n} bytes')
    try:
        header = json.loads(_take(sock, n, end))
        sizes = [int(size) for size in header.pop('blobs')]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ProtocolError('no header of a message') from None
    if min(sizes, default=0) < 0 or most is not None and sum(sizes) > most:
        raise ProtocolError(f'{sum(sizes)} bytes, but at most {most} are allowed')
    return header, [_take(sock, size, end, buffer) for size in sizes]


# Tensors as bytes
_TYPES = 'float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool'.split()
DTYPES = {name: getattr(torch, name) for name in _TYPES}


def name_of(dtype) -> str:
    "Return the name of a dtype: 'float32' for torch.float32"
    return str(dtype).removeprefix('torch.')


def bytes_of(x) -> memoryview:
    "Return the bytes of a tensor on the CPU"
    return memoryview(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def tensor_of(blob, dtype: str, shape):
    "Make a tensor from bytes, without a copy; raises `ProtocolError` if they do not fit its type and shape"
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ProtocolError(f'a tensor of {str(dtype)[:40]!r}')
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError('a tensor without a valid shape')
    if len(shape) > _DIMENSIONS or max(shape, default=0) > _LARGEST:  # before any product of theirs
        raise ProtocolError('a tensor that is too large for torch')
    numel = math.prod(shape)
    if math.prod(n or 1 for n in shape) > _LARGEST:  # also if one of the sizes is 0
        raise ProtocolError('a tensor that is too large for torch')
    if numel * DTYPES[dtype].itemsize != len(blob):
        raise ProtocolError(f'{len(blob)} bytes for {dtype} {tuple(shape)}')
    if not numel:
        return torch.empty(tuple(shape), dtype=DTYPES[dtype])
    return torch.frombuffer(blob, dtype=DTYPES[dtype]).reshape(tuple(shape))


def describe(x) -> dict:
    "Return the type and shape of a tensor for a header"
    return dict(dtype=name_of(x.dtype), shape=list(x.shape))
