"""Counters of a leaf in the kernel: eBPF maps, opened by id and read in batches, whose old entries are erased.

Reads, erases and writes thresholds; the fabric's builder makes and attaches programs and maps. Judges nothing.
Source: libbpf's bpf.h.
"""

import ctypes
import errno as errno_names
import os
from ctypes import byref, c_char_p, c_int, c_uint32, c_void_p
from functools import cache
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from agent.base.libbpf import MISSING, libbpf
from agent.spraycheck.errors import CountersError
from agent.spraycheck.leaf.bpf_layout import ELSEWHERE_KEY, MARK, REFUSAL, SUPERSEDED_KEY, TEST, Counting

_BATCH = 64  # entries asked for at a time; a flow has 248 bytes with 8 spines, 5,480 with 256
_DQPN = np.dtype("u4")


class LeafCounters(Protocol):
    """Interface that a leaf's detector needs of its data plane."""

    def flows(self) -> NDArray[np.void]:
        """Return every flow record (Counting.flow) now held, ended ones too, `(n,)`; any order."""
        ...

    def marks(self) -> tuple[NDArray[np.uint32], NDArray[np.void]]:
        """Return QPs whose packets this leaf marks as their source, and their MARKs, `(n,)` each."""
        ...

    def refusals(self) -> NDArray[np.void]:
        """Return flows for which this leaf had no room (REFUSAL), `(n,)`; any order."""
        ...

    def take_elsewhere(self) -> NDArray[np.void]:
        """Take declarations of flows in other planes that came since the last call (Counting.elsewhere), `(n,)`."""
        ...

    def set_test(self, dqpn: int, epoch: int, last_psn: int, threshold: int) -> None:
        """Make the data plane flag counts below `threshold` when that flow's last PSN comes (D2)."""
        ...

    def erase(self, dqpn: int, epoch: int) -> None:
        """Forget the record of one flow; nothing happens if a newer flow of the QP has taken its place."""
        ...

    def erase_marks(self, before_ns: int) -> None:
        """Stop marking QPs announced before that time, and forget the flows refused before it."""
        ...


class KernelCounters:
    """Maps of one leaf, open inside a `with`, or until `close`."""

    def __init__(
        self,
        flows_id: int,
        superseded_id: int,
        measured_id: int,
        tests_id: int,
        refused_id: int,
        elsewhere_id: int,
        counting: Counting | None = None,
    ) -> None:
        counting = counting or Counting()
        record = counting.flow
        self._flows = HashMap(flows_id, _DQPN, record)
        self._superseded = HashMap(superseded_id, SUPERSEDED_KEY, record)
        self._measured = HashMap(measured_id, _DQPN, MARK)
        self._tests = HashMap(tests_id, _DQPN, TEST)
        self._refused = HashMap(refused_id, _DQPN, REFUSAL)
        self._elsewhere = HashMap(elsewhere_id, ELSEWHERE_KEY, counting.elsewhere)
        self._maps = (
            self._flows,
            self._superseded,
            self._measured,
            self._tests,
            self._refused,
            self._elsewhere,
        )

    def __enter__(self) -> Self:
        """Open all maps. Raises CountersError."""
        try:
            for each in self._maps:
                each.open()
        except CountersError:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close all maps."""
        self.close()

    def close(self) -> None:
        """Close every descriptor. Twice is safe."""
        for each in self._maps:
            each.close()

    def flows(self) -> NDArray[np.void]:
        """Return every flow record (Counting.flow) now held, ended ones too, `(n,)`; any order."""
        return np.concatenate((self._flows.read()[1], self._superseded.read()[1]))

    def marks(self) -> tuple[NDArray[np.uint32], NDArray[np.void]]:
        """Return QPs whose packets this leaf marks as their source, and their MARKs, `(n,)` each."""
        return self._measured.read()

    def refusals(self) -> NDArray[np.void]:
        """Return flows for which this leaf had no room (REFUSAL), `(n,)`; any order."""
        return self._refused.read()[1]

    def take_elsewhere(self) -> NDArray[np.void]:
        """Take declarations of flows in other planes that came since the last call (Counting.elsewhere), `(n,)`."""
        keys, records = self._elsewhere.read()
        whole = records["seen_ns"] > 0
        for key in keys[whole]:
            self._elsewhere.delete(key.tobytes())
        return records[whole]

    def set_test(self, dqpn: int, epoch: int, last_psn: int, threshold: int) -> None:
        """Make the data plane flag counts below `threshold` when that flow's last PSN comes (D2)."""
        self._tests.update(np.array(dqpn, _DQPN).tobytes(), np.array((threshold, last_psn, epoch), TEST).tobytes())

    def erase(self, dqpn: int, epoch: int) -> None:
        """Forget the record of one flow; nothing happens if a newer flow of the QP has taken its place."""
        self._superseded.delete(np.array((dqpn, epoch), SUPERSEDED_KEY).tobytes())
        key = np.array(dqpn, _DQPN).tobytes()
        current = self._flows.lookup(key)
        if current is not None and current["epoch"] == epoch:
            self._flows.delete(key)
            self._tests.delete(key)

    def erase_marks(self, before_ns: int) -> None:
        """Stop marking QPs announced before that time, and forget the flows refused before it."""
        for table in (self._measured, self._refused):
            dqpns, values = table.read()
            for dqpn in dqpns[values["since_ns"] < before_ns]:
                table.delete(dqpn.tobytes())


class HashMap:
    """One hash map of the kernel by its id, with the numpy layouts of its key and value."""

    def __init__(self, map_id: int, key: np.dtype[Any], value: np.dtype[Any]) -> None:
        self._id, self._key, self._value = map_id, key, value
        self._fd: int | None = None

    def open(self) -> None:
        """Open a descriptor. Raises CountersError if there is no such map or its sizes are not those of the layouts."""
        fd = _library().bpf_map_get_fd_by_id(self._id)
        if fd < 0:
            raise self._refused("open")
        self._fd = fd
        words = (c_uint32 * 4)()  # struct bpf_map_info: type, id, key_size, value_size
        size = c_uint32(ctypes.sizeof(words))
        if _library().bpf_obj_get_info_by_fd(fd, words, byref(size)) < 0:
            raise self._refused("query")
        if (words[2], words[3]) != (self._key.itemsize, self._value.itemsize):
            raise CountersError(
                self._id, f"keys and values of {words[2]} and {words[3]} bytes: not a map of this version"
            )

    def close(self) -> None:
        """Close the descriptor. Twice is safe."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def read(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return all keys and values, `(n,)` each, in the map's own order. Raises CountersError."""
        keys, values = [np.empty(0, self._key)], [np.empty(0, self._value)]
        cursor = ctypes.create_string_buffer(4)
        start, room, reason = None, _BATCH, 0
        while reason != errno_names.ENOENT:  # which a hash map says with its last batch
            some_keys, some_values, reason = self._read_batch(start, cursor, room)
            if reason == errno_names.ENOSPC:  # one bucket holds more than there is room for
                room *= 2
                continue
            start = cursor
            keys.append(some_keys)
            values.append(some_values)
        return np.concatenate(keys), np.concatenate(values)

    def _read_batch(
        self, start: ctypes.Array[ctypes.c_char] | None, cursor: ctypes.Array[ctypes.c_char], room: int
    ) -> tuple[NDArray[Any], NDArray[Any], int]:
        keys, values = np.empty(room, self._key), np.empty(room, self._value)
        count = c_uint32(room)
        done = _library().bpf_map_lookup_batch(
            self._fd, start, cursor, keys.ctypes.data, values.ctypes.data, byref(count), None
        )
        reason = 0 if done >= 0 else ctypes.get_errno()
        if reason not in (0, errno_names.ENOENT, errno_names.ENOSPC):
            raise self._refused("read")
        return keys[: count.value], values[: count.value], reason

    def lookup(self, key: bytes) -> NDArray[Any] | None:
        """Return the value of one key, shape (), or None. Raises CountersError."""
        value = np.empty((), self._value)
        if _library().bpf_map_lookup_elem(self._fd, key, value.ctypes.data) >= 0:
            return value
        if ctypes.get_errno() == errno_names.ENOENT:
            return None
        raise self._refused("look up")

    def update(self, key: bytes, value: bytes) -> None:
        """Set the value of one key. Raises CountersError, also when the map is full."""
        if _library().bpf_map_update_elem(self._fd, key, value, ctypes.c_uint64(0)) < 0:
            raise self._refused("update")

    def delete(self, key: bytes) -> None:
        """Remove one key if it is there. Raises CountersError."""
        if _library().bpf_map_delete_elem(self._fd, key) < 0 and ctypes.get_errno() != errno_names.ENOENT:
            raise self._refused("delete")

    def _refused(self, request: str) -> CountersError:
        return CountersError(self._id, f"{request}: {os.strerror(ctypes.get_errno())}")


@cache
def _library() -> ctypes.CDLL:
    lib = libbpf()
    if lib is None:
        raise CountersError(0, MISSING)
    lib.bpf_map_lookup_elem.argtypes = (c_int, c_char_p, c_void_p)
    lib.bpf_map_delete_elem.argtypes = (c_int, c_char_p)
    lib.bpf_map_update_elem.argtypes = (c_int, c_char_p, c_char_p, ctypes.c_uint64)
    lib.bpf_map_lookup_batch.argtypes = (c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p)
    return lib
