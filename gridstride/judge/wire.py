"""Messages between the judge and a submission's process: a line of JSON and raw bytes. Nothing that comes from there is
unpickled or evaluated, and nothing longer than was agreed is read."""

import json
import math
import select
import struct
import time

import torch

_LENGTH = struct.Struct('<Q')
_HEADER = 1 << 20  # bytes of a header at most
TEXT = 1 << 18  # characters that a text in a header may have
# Limits of a tensor
_DIMENSIONS = 16
_LARGEST = 1 << 48  # elements


class ConnectionClosed(Exception):
    "The other end is closed"


class Timeout(Exception):
    "Nothing, or not all, came in time"


class ProtocolError(Exception):
    "The received bytes are not a message, or are longer than was agreed"


def _take(sock, n, end, buffer=bytearray):
    "Return the next `n` bytes"
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
    "Send a message; `ConnectionClosed`, and `Timeout` if the socket has a time-out"
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
    most=None,  # bytes that the blobs may have together; None: any number
    end=None,  # when to give up, by `time.monotonic()`
    buffer=bytearray,  # buffer(n): the buffer for n bytes of a blob
) -> tuple:  # (dict, list of what `buffer` gave)
    "Return the next message; `ConnectionClosed`, `Timeout`, `ProtocolError`"
    n = _LENGTH.unpack(_take(sock, 8, end))[0]
    if n > _HEADER:
        raise ProtocolError(f'a header of {n} bytes')
    try:
        header = json.loads(_take(sock, n, end))
        sizes = [int(size) for size in header.pop('blobs')]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ProtocolError('no header of a message') from None
    if min(sizes, default=0) < 0 or most is not None and sum(sizes) > most:
        raise ProtocolError(f'{sum(sizes)} bytes where at most {most} belong')
    return header, [_take(sock, size, end, buffer) for size in sizes]


# Tensors as bytes
_TYPES = 'float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool'.split()
DTYPES = {name: getattr(torch, name) for name in _TYPES}


def name_of(dtype) -> str:
    "'float32' of torch.float32"
    return str(dtype).removeprefix('torch.')


def bytes_of(x) -> memoryview:
    "Return the bytes of a tensor in the CPU's memory"
    return memoryview(x.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def tensor_of(blob, dtype: str, shape):
    "Return a tensor over these bytes; raises `ProtocolError` if they are too many or too few"
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ProtocolError(f'a tensor of {str(dtype)[:40]!r}')
    if not isinstance(shape, (list, tuple)) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError('a tensor without sizes')
    if len(shape) > _DIMENSIONS or max(shape, default=0) > _LARGEST:  # before any product of theirs
        raise ProtocolError('a tensor of sizes that torch does not know')
    numel = math.prod(shape)
    if math.prod(n or 1 for n in shape) > _LARGEST:  # with a 0 any other size fits
        raise ProtocolError('a tensor of sizes that torch does not know')
    if numel * DTYPES[dtype].itemsize != len(blob):
        raise ProtocolError(f'{len(blob)} bytes for {dtype} {tuple(shape)}')
    if not numel:
        return torch.empty(tuple(shape), dtype=DTYPES[dtype])
    return torch.frombuffer(blob, dtype=DTYPES[dtype]).reshape(tuple(shape))


def describe(x) -> dict:
    "Type and shape of a tensor, as a header has them"
    return dict(dtype=name_of(x.dtype), shape=list(x.shape))
