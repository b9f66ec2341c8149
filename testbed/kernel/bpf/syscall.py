"""Direct use of bpf(2), for what needs no library: loading the smallest program, reading an id. See `tcx`.

Source: bpf(2), linux/bpf.h.
"""

import ctypes
import errno
import os
import platform
import struct

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
