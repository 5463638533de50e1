"""Denies system calls that a submission does not need, with a filter of Linux (seccomp): they fail with an error.

It denies all sockets but Unix sockets, because a network namespace does not block those of a virtual machine
(AF_VSOCK). It denies keyrings, which no namespace separates from the user's. The other calls have had many flaws in the
kernel, and PyTorch, Triton, compilers and CUDA's driver do not need them."""

import ctypes
import errno
import os
import struct
import sys

_DENIED = (  # name, its number on x86_64, on 64-bit ARM
    ('add_key', 248, 217), ('request_key', 249, 218), ('keyctl', 250, 219), ('bpf', 321, 280), ('unshare', 272, 97),
    ('setns', 308, 268), ('perf_event_open', 298, 241), ('userfaultfd', 323, 282), ('open_by_handle_at', 304, 265),
    ('io_uring_setup', 425, 425),
)  # fmt: skip
_SOCKETS = (41, 198), (53, 199)  # socket, socketpair
_ARCHITECTURES = {'x86_64': 0xC000003E, 'aarch64': 0xC00000B7}
_AF_UNIX, _X32 = 1, 0x40000000  # from this number on, x86_64 has the system calls of its x32 ABI
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # in struct seccomp_data; both processors are little-endian
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of linux/bpf_common.h
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000  # of linux/seccomp.h; the second with an error number
_SET_SECCOMP, _FILTER = 22, 2  # of linux/prctl.h


def _return_error(number):
    return _RETURN, 0, 0, _FAIL | number


def _filter_program(machine):
    "Return the filter, a list of (code, instructions to skip if true, if false, value)"
    at = list(_ARCHITECTURES).index(machine)
    res = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), _return_error(errno.ENOSYS)]
    res += [(_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), _return_error(errno.ENOSYS)]
    for _, *syscalls in _DENIED:
        res += [(_EQUAL, 0, 1, syscalls[at]), _return_error(errno.EPERM)]
    allow = _RETURN, 0, 0, _ALLOW
    res += [(_EQUAL, 2, 0, _SOCKETS[0][at]), (_EQUAL, 1, 0, _SOCKETS[1][at]), allow]
    return [*res, (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, 1, 0, _AF_UNIX), _return_error(errno.EACCES), allow]


def deny() -> bool:  # whether the filter was installed
    "Install the filter for this process and its future children; it cannot be removed. The caller has set no_new_privs"
    machine = os.uname().machine
    if sys.platform != 'linux' or machine not in _ARCHITECTURES or sys.maxsize < 1 << 32:
        return False
    instructions = _filter_program(machine)
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in instructions))
    program = ctypes.create_string_buffer(struct.pack('@HP', len(instructions), ctypes.addressof(code)))
    arguments = [ctypes.c_ulong(value) for value in (_FILTER, ctypes.addressof(program), 0, 0)]
    return ctypes.CDLL(None).prctl(_SET_SECCOMP, *arguments) == 0
