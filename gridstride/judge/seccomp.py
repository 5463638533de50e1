"""Installs a seccomp filter: system calls that a submission does not need fail with an error.

The filter denies all sockets but Unix sockets, because a network namespace does not block VM sockets (AF_VSOCK). It
denies keyrings, because no namespace separates them from the user's keyrings. It denies the other calls because the
kernel has had many vulnerabilities in them, and PyTorch, Triton, compilers and the CUDA driver do not need them."""

import ctypes
import errno
import os
import struct
import sys

_DENIED_CALLS = (  # name of a system call, its number on x86_64, its number on AArch64
    ('add_key', 248, 217), ('request_key', 249, 218), ('keyctl', 250, 219), ('bpf', 321, 280), ('unshare', 272, 97),
    ('setns', 308, 268), ('perf_event_open', 298, 241), ('userfaultfd', 323, 282), ('open_by_handle_at', 304, 265),
    ('io_uring_setup', 425, 425),
)  # fmt: skip
_SOCKET_CALLS = (41, 198), (53, 199)  # socket and socketpair, likewise
_ARCHITECTURES = {'x86_64': 0xC000003E, 'aarch64': 0xC00000B7}  # machine -> AUDIT_ARCH_* constant
_AF_UNIX = 1
_FIRST_X32_CALL = 0x40000000  # system calls of the x32 ABI of x86_64 have this number or a higher one
# Offsets in struct seccomp_data; both architectures are little-endian
_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 4, 16
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF opcodes, from linux/bpf_common.h
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000  # actions, from linux/seccomp.h; _RET_ERRNO | errno
_SET_SECCOMP, _FILTER_MODE = 22, 2  # from linux/prctl.h and linux/seccomp.h


def _return_errno(number):
    "Return the instruction that makes the system call fail with an errno"
    return _RETURN, 0, 0, _RET_ERRNO | number


def _filter_program(machine):
    "Return the filter, a list of `struct sock_filter`: (opcode, instructions to skip if true, if false, operand)"
    column = list(_ARCHITECTURES).index(machine)  # in the tables of system calls
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE_OFFSET),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        _return_errno(errno.ENOSYS),
    ]
    instructions += [(_LOAD, 0, 0, _NUMBER_OFFSET), (_AT_LEAST, 0, 1, _FIRST_X32_CALL), _return_errno(errno.ENOSYS)]
    for _, *syscall_nrs in _DENIED_CALLS:
        instructions += [(_EQUAL, 0, 1, syscall_nrs[column]), _return_errno(errno.EPERM)]
    socket_number, socketpair_number = (syscall_nrs[column] for syscall_nrs in _SOCKET_CALLS)
    allow = _RETURN, 0, 0, _RET_ALLOW
    instructions += [(_EQUAL, 2, 0, socket_number), (_EQUAL, 1, 0, socketpair_number), allow]
    instructions += [
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_EQUAL, 1, 0, _AF_UNIX),
        _return_errno(errno.EACCES),
        allow,
    ]
    return instructions


def install_filter() -> bool:  # whether the filter was installed
    "Install the filter, permanently, for this process and its future children; the caller must have set no_new_privs"
    machine = os.uname().machine
    if sys.platform != 'linux' or machine not in _ARCHITECTURES or sys.maxsize < 1 << 32:
        return False
    instructions = _filter_program(machine)
    code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *instruction) for instruction in instructions))
    filter_struct = ctypes.create_string_buffer(struct.pack('@HP', len(instructions), ctypes.addressof(code)))
    arguments = [ctypes.c_ulong(value) for value in (_FILTER_MODE, ctypes.addressof(filter_struct), 0, 0)]
    return ctypes.CDLL(None).prctl(_SET_SECCOMP, *arguments) == 0
