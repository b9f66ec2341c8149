"""eBPF programs on a port's ingress without a qdisc: TCX, since Linux 6.6.

clsact processes every packet in both directions of a port and calls a classifier to run the program; TCX runs the
program directly. The programs of a port run in the order in which they were attached, each after one that returned
TC_ACT_UNSPEC, and before those of clsact. Everything here is about the calling thread's namespace. Source: linux/bpf.h
(BPF_TCX_INGRESS, struct bpf_mprog).
"""

import ctypes
import errno
import struct

from testbed.errors import KernelError
from testbed.kernel.bpf.syscall import bpf_syscall, program_id
from testbed.kernel.ports.qdisc import Direction

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
