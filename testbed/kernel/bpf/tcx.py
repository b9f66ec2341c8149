"""eBPF programs on a port's ingress without a qdisc: TCX, since Linux 6.6.

clsact processes every packet in both directions of a port and calls a classifier to run the program; TCX runs the
program directly. The programs of a port run in the order in which they were attached, each after one that returned
TC_ACT_UNSPEC, and before those of clsact. Everything here is about the calling thread's namespace. Source: linux/bpf.h
(BPF_TCX_INGRESS, struct bpf_mprog).
"""

import ctypes
import errno
import os
import platform
import struct

from testbed.errors import KernelError
from testbed.kernel.ports.qdisc import Direction

_NUMBER = {"x86_64": 321, "aarch64": 280}
"""System call number of bpf(2): asm/unistd_64.h, asm-generic/unistd.h."""
_libc = ctypes.CDLL(None, use_errno=True)


def bpf_syscall(command: int, attributes: bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Call BPF `command`, which may write into an array; return its result. Raises OSError."""
    if (number := _NUMBER.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"the number of bpf(2) on {platform.machine()} is not known here")
    result = int(_libc.syscall(number, command, attributes, len(attributes)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


_PROG_LOAD, _SCHED_CLS = 5, 3  # BPF_PROG_LOAD, BPF_PROG_TYPE_SCHED_CLS
_RETURN_NEXT = struct.pack("=BBhiBBhi", 0xB7, 0, 0, -1, 0x95, 0, 0, 0)  # r0 = TC_ACT_UNSPEC; exit


def load_smallest_program() -> int:
    """Load a classifier that passes every packet on; return its descriptor. Raises OSError."""
    code, licence = ctypes.create_string_buffer(_RETURN_NEXT), ctypes.create_string_buffer(b"GPL")
    places = ctypes.addressof(code), ctypes.addressof(licence)
    return bpf_syscall(_PROG_LOAD, struct.pack("=IIQQIIQII", _SCHED_CLS, 2, *places, 0, 0, 0, 0, 0))


_GET_INFO = 15  # BPF_OBJ_GET_INFO_BY_FD


def program_id(fd: int) -> int:
    """Return the kernel's id of a loaded program. Raises OSError."""
    info = (ctypes.c_uint32 * 2)()  # the start of struct bpf_prog_info: type, id
    bpf_syscall(_GET_INFO, struct.pack("=IIQ", fd, ctypes.sizeof(info), ctypes.addressof(info)))
    return int(info[1])


_PROG_ATTACH, _PROG_DETACH, _PROG_QUERY = 8, 9, 16
_TCX_INGRESS, _TCX_EGRESS = 46, 47
_MOST = 64  # BPF_MPROG_MAX, linux/bpf_mprog.h


def attach(node: str, ifindex: int, fd: int) -> bool:
    """Attach a loaded classifier after the others of a port and read it back.

    It stays until it is detached or the port is removed; `grace_period` describes how long the kernel needs for that.
    `node` names the namespace in errors. False: this kernel has no TCX, and nothing was done. Raises KernelError.
    """
    try:
        bpf_syscall(_PROG_ATTACH, struct.pack("=IIII", ifindex, fd, _TCX_INGRESS, 0))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS):  # an attach type that the kernel does not know
            return False
        raise KernelError(node, f"attach a program to port {ifindex} by TCX", error.errno or 0) from error
    if program_id(fd) not in attached(node, ifindex):
        raise KernelError(node, f"read back a program attached to port {ifindex} by TCX", errno.ENOENT)
    return True


def detach(node: str, ifindex: int, fd: int) -> None:
    """Detach a program from a port; it is no error if program or port do not exist. Raises KernelError."""
    try:
        bpf_syscall(_PROG_DETACH, struct.pack("=IIII", ifindex, fd, _TCX_INGRESS, 0))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EINVAL, errno.ENOSYS):
            raise KernelError(node, f"detach a program from port {ifindex} by TCX", error.errno or 0) from error


def attached(node: str, ifindex: int, side: Direction = Direction.INGRESS) -> tuple[int, ...]:
    """Return ids of the programs in one direction of a port, in running order; empty without TCX.

    Raises KernelError.
    """
    ids = (ctypes.c_uint32 * _MOST)()
    place = _TCX_INGRESS if side is Direction.INGRESS else _TCX_EGRESS
    query = struct.pack("=IIIIQII", ifindex, place, 0, 0, ctypes.addressof(ids), _MOST, 0)
    answer = ctypes.create_string_buffer(query + bytes(32), len(query) + 32)
    try:
        bpf_syscall(_PROG_QUERY, answer)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS, errno.ENOENT):
            return ()
        raise KernelError(node, f"read programs of port {ifindex}", error.errno or 0) from error
    (count,) = struct.unpack_from("=I", answer, 24)
    return tuple(ids[:count])
