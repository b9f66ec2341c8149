"""Compilation, loading and maps of eBPF: from a C source to an object file to programs and maps by file descriptor.

Uses libbpf by ctypes, so that only its shared library is needed. Pins nothing: what is not attached ends with its
BpfObject. Does not know what a program does nor where it is attached (see `qdisc`). Source: libbpf's bpf.h, libbpf.h.
"""

import contextlib
import ctypes
import errno as errno_names
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.base.libbpf import MISSING, libbpf
from testbed.errors import MissingFeatureError, TestbedError
from testbed.root_environment import clean_environment, find_tool

_LOG_BYTES = 1 << 18  # a verifier log longer than this is cut; its end, which holds the reason, is kept by libbpf
_SCHED_CLS = 3  # BPF_PROG_TYPE_SCHED_CLS
_ANY = 0  # BPF_ANY
_PERCPU_TYPES = frozenset({5, 6, 10})  # BPF_MAP_TYPE_PERCPU_HASH, _PERCPU_ARRAY, _LRU_PERCPU_HASH


class BpfError(TestbedError):
    """A program does not compile or load, or a map request was refused.

    `log` is the whole output of the compiler or verifier; the message shows its end, which holds a verifier's reason.
    """

    def __init__(self, what: str, reason: str, log: str = "", shown: int = 12) -> None:
        self.what, self.reason, self.log = what, reason, log
        super().__init__("\n".join([f"{what}: {reason}", *log.splitlines()[-shown:]]))


@dataclass(frozen=True, slots=True)
class BpfProgram:
    """A loaded program; `fd` belongs to its BpfObject."""

    name: str
    fd: int
    id: int


@dataclass(frozen=True, slots=True)
class BpfMap:
    """A map in the kernel. Keys and values are bytes in the program's layout; `fd` belongs to the opener."""

    name: str
    fd: int
    id: int
    key_bytes: int
    value_bytes: int
    per_cpu: bool

    @property
    def stored_bytes(self) -> int:
        """Return the bytes of one entry as read.

        A per-CPU map has one value per possible CPU, each padded to 8 bytes.
        """
        return (self.value_bytes + 7) // 8 * 8 * possible_cpus() if self.per_cpu else self.value_bytes

    def lookup(self, key: bytes) -> bytes | None:
        """Return the value of `key`, `stored_bytes` long, or None. Raises BpfError."""
        value = ctypes.create_string_buffer(self.stored_bytes)
        found = self._request("bpf_map_lookup_elem", key, value)
        return value.raw if found else None

    def update(self, key: bytes, value: bytes) -> None:
        """Set the value of `key`. Raises BpfError, ValueError for a wrong length."""
        if len(value) != self.stored_bytes:
            raise ValueError(f"a value of map {self.name} has {self.stored_bytes} bytes, not {len(value)}")
        if not self._request("bpf_map_update_elem", key, value, ctypes.c_uint64(_ANY)):
            raise BpfError(f"map {self.name}", "update: no such entry")

    def delete(self, key: bytes) -> bool:
        """Remove `key`; False if it was not there. Raises BpfError."""
        return self._request("bpf_map_delete_elem", key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over keys and values. Entries added or removed meanwhile may or may not appear."""
        key: bytes | None = None
        following = ctypes.create_string_buffer(self.key_bytes)
        while _ask(f"map {self.name}", "bpf_map_get_next_key", self.fd, key, following):
            key = following.raw
            if (value := self.lookup(key)) is not None:
                yield key, value

    def _request(self, name: str, key: bytes, *rest: object) -> bool:
        if len(key) != self.key_bytes:
            raise ValueError(f"a key of map {self.name} has {self.key_bytes} bytes, not {len(key)}")
        return _ask(f"map {self.name}", name, self.fd, key, *rest)


class BpfObject:
    """One loaded object file: its programs and maps by name, until `close`. `load` creates it."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle: int | None = handle

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the object."""
        self.close()

    def program(self, name: str) -> BpfProgram:
        """Return the program called `name`. Raises BpfError."""
        lib = _library()
        found = lib.bpf_object__find_program_by_name(self._open(), name.encode())
        if not found:
            raise BpfError(str(self.path), f"holds no program {name!r}")
        fd = lib.bpf_program__fd(found)
        return BpfProgram(name, fd, _info(f"program {name}", fd)[1])

    def map(self, name: str) -> BpfMap:
        """Return the map called `name`. Raises BpfError."""
        lib = _library()
        found = lib.bpf_object__find_map_by_name(self._open(), name.encode())
        if not found:
            raise BpfError(str(self.path), f"holds no map {name!r}")
        return _map_of(lib.bpf_map__fd(found), name)

    def close(self) -> None:
        """Close every descriptor; attached programs stay in force. Repeating it is safe."""
        if self._handle is not None:
            _library().bpf_object__close(self._handle)
            self._handle = None

    def _open(self) -> int:
        if self._handle is None:
            raise BpfError(str(self.path), "used after close")
        return self._handle


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:  # the error of a write does not name the file
        raise OSError(error.errno, error.strerror, str(file)) from error


_LEAST_FREE = 1 << 20
"""Free bytes of a disk below which a failure of clang is reported as a full disk (our choice)."""


def build(source: Path, headers: Mapping[str, str], out_dir: Path) -> Path:
    """Compile `source` to an object file in `out_dir`, after writing `headers` (name to text) there.

    Raises MissingFeatureError naming the package when the compiler or libbpf's headers are not installed, BpfError with
    the compiler's output when the source is wrong.
    """
    clang = find_tool("clang")
    if clang is None:
        raise MissingFeatureError("clang", "it compiles the eBPF programs; install the package clang")
    for name, text in headers.items():
        _write(out_dir / name, text)
    target = out_dir / f"{source.name.removesuffix('.c')}.o"
    system = f"/usr/include/{platform.machine()}-linux-gnu"  # asm/types.h lives there on Debian and Ubuntu
    flags = ("-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3", "-I", str(out_dir), "-I", system)
    done = subprocess.run(
        (clang, *flags, "-c", str(source), "-o", str(target)),
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
        cwd=out_dir,
    )
    if done.returncode == 0:
        return target
    if "'bpf/" in done.stderr and "file not found" in done.stderr:
        raise MissingFeatureError("bpf/bpf_helpers.h", "the eBPF programs include it; install the package libbpf-dev")
    if shutil.disk_usage(out_dir).free < _LEAST_FREE:
        raise OSError(errno_names.ENOSPC, os.strerror(errno_names.ENOSPC), str(target))
    raise BpfError(str(source), "clang refuses it", done.stderr)


def load(path: Path, shared: Mapping[str, BpfMap] | None = None) -> BpfObject:
    """Load every program of an object file, all as traffic-control classifiers.

    Maps named in `shared` are not created: the given ones, of another object of the same file, are used. Raises
    MissingFeatureError without libbpf, BpfError with the verifier's log when the kernel refuses a program.
    """
    lib = _library()
    with _diagnostics() as log:
        handle = lib.bpf_object__open(str(path).encode())
        if not handle:
            raise BpfError(str(path), _errno_text(), "".join(log))
        for name, other in (shared or {}).items():
            found = lib.bpf_object__find_map_by_name(handle, name.encode())
            if not found or lib.bpf_map__reuse_fd(found, other.fd) != 0:
                lib.bpf_object__close(handle)
                raise BpfError(str(path), f"cannot share map {name}: {_errno_text()}")
        if lib.bpf_object__load(handle) != 0:
            reason = _errno_text()
            lib.bpf_object__close(handle)
            raise BpfError(str(path), f"the kernel refuses it: {reason}", "".join(log))
    return BpfObject(path, handle)


@cache
def possible_cpus() -> int:
    """Return the number of values per entry of a per-CPU map."""
    return int(_library().libbpf_num_possible_cpus())


def libbpf_version() -> str:
    """Return the version, as `1.1`. Raises MissingFeatureError without libbpf."""
    lib = _library()
    if not hasattr(lib, "libbpf_version_string"):
        return "older than 0.6"
    return str(lib.libbpf_version_string().decode()).removeprefix("v")


_PRINT = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)
_lines: list[str] = []  # output of libbpf meanwhile; it has one print callback per process


def _keep(level: int, form: bytes, arguments: int) -> int:
    text = ctypes.create_string_buffer(_LOG_BYTES)
    ctypes.CDLL(None).vsnprintf(text, c_size_t(_LOG_BYTES), form, c_void_p(arguments))
    if level == 0:  # LIBBPF_WARN; information and debugging are of no use in an error
        _lines.append(text.value.decode(errors="replace"))
    return 0


_print = _PRINT(_keep)  # libbpf keeps the pointer, so this must live as long


@contextlib.contextmanager
def _diagnostics() -> Iterator[list[str]]:
    """Collect what libbpf would have printed on stderr, in a list that is filled inside the `with`."""
    _lines.clear()
    yield _lines
    _lines.clear()


@cache
def _library() -> ctypes.CDLL:
    if (lib := libbpf()) is None:
        raise MissingFeatureError("libbpf", MISSING)
    return _declared(lib)


def _declared(lib: ctypes.CDLL) -> ctypes.CDLL:
    """Declare pointer types of the library and redirect its messages."""
    for name in ("open", "find_program_by_name", "find_map_by_name"):
        getattr(lib, f"bpf_object__{name}").restype = c_void_p
    lib.bpf_object__open.argtypes = (c_char_p,)
    for name in ("find_program_by_name", "find_map_by_name"):
        getattr(lib, f"bpf_object__{name}").argtypes = (c_void_p, c_char_p)
    lib.bpf_map__reuse_fd.argtypes = (c_void_p, c_int)
    for name in ("bpf_object__load", "bpf_object__close", "bpf_program__fd", "bpf_map__fd"):
        getattr(lib, name).argtypes = (c_void_p,)
    lib.bpf_object__close.restype = None
    lib.bpf_obj_get_info_by_fd.argtypes = (c_int, c_void_p, POINTER(c_uint32))
    if hasattr(lib, "libbpf_version_string"):  # since 0.6
        lib.libbpf_version_string.restype = c_char_p
    lib.libbpf_set_print(_print)
    return lib


def _ask(what: str, name: str, *arguments: object) -> bool:
    """Call libbpf; True if done, False if there is no such entry, BpfError for anything else."""
    if getattr(_library(), name)(*arguments) >= 0:
        return True
    if ctypes.get_errno() == errno_names.ENOENT:
        return False
    raise BpfError(what, f"{name}: {_errno_text()}")


def _info(what: str, fd: int) -> tuple[int, int, int, int]:
    """Return type, id and the two following words of a program or map: for a map its key and value bytes."""
    words = (c_uint32 * 4)()
    size = c_uint32(ctypes.sizeof(words))
    _ask(what, "bpf_obj_get_info_by_fd", fd, words, byref(size))
    return words[0], words[1], words[2], words[3]


def _map_of(fd: int, name: str = "") -> BpfMap:
    kind, map_id, key_bytes, value_bytes = _info(f"map {name or fd}", fd)
    return BpfMap(name or f"#{map_id}", fd, map_id, key_bytes, value_bytes, kind in _PERCPU_TYPES)


def _errno_text() -> str:
    code = ctypes.get_errno()
    return f"{errno_names.errorcode.get(code, code)}: {os.strerror(code)}"
