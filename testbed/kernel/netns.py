"""Named network namespaces: create, find, enter and remove them. Knows no nodes and no fabrics.

The names are where iproute2 keeps them (ip-netns(8)), so `ip netns exec NAME` works on every one.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from agent.base import system_calls
from testbed.errors import KernelError

NETNS_DIR = Path("/run/netns")

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_SHARED = 0x1000, 0x4000, 1 << 20  # linux/mount.h
_MNT_DETACH = 2  # linux/fs.h

Result = TypeVar("Result")

_libc = ctypes.CDLL(None, use_errno=True)


def namespace_path(name: str) -> Path:
    """Return the file of the namespace `name`, whether it exists or not."""
    return NETNS_DIR / name


def namespaces(prefix: str) -> tuple[str, ...]:
    """Return the names of the namespaces that start with `prefix`, sorted."""
    with suppress(FileNotFoundError):
        return tuple(sorted(entry for entry in os.listdir(NETNS_DIR) if entry.startswith(prefix)))
    return ()


def create_namespaces(names: Sequence[str]) -> None:
    """Create new namespaces, all or none. Raises KernelError, errno EEXIST for a name that is taken."""
    made: list[str] = []
    _share_mounts()
    try:
        in_thread(partial(_create, names, made))
    except BaseException:
        delete_namespaces(made)
        raise


def delete_namespaces(names: Sequence[str]) -> tuple[str, ...]:
    """Remove those that exist and return their names.

    The kernel frees each, with its links, once nothing runs inside.
    """
    removed = []
    for name in names:
        path = namespace_path(name)
        _libc.umount2(os.fsencode(path), _MNT_DETACH)  # fails on a file left behind without its mount, which is fine
        with suppress(FileNotFoundError):
            path.unlink()
            removed.append(name)
    return tuple(removed)


@contextmanager
def inside(path: Path) -> Iterator[None]:
    """Run the body with the calling thread in the namespace at `path`, and return the thread after it.

    Raises FileNotFoundError when there is no such namespace, KernelError when it cannot be entered.
    """
    with ExitStack() as entered:
        try:
            entered.enter_context(system_calls.inside(path))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise KernelError(path.name, "enter the namespace", error.errno or 0) from error
        yield


def in_nameless_namespace(work: Callable[[], Result]) -> Result:
    """Run `work` in a new nameless namespace, which is removed afterwards; return its result. Raises KernelError."""
    return in_thread(partial(_run_nameless, work))


def in_thread(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread of its own, whose namespace ends with the thread; return its result or raise its error."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns") as pool:
        return pool.submit(work).result()


def command_inside(name: str, command: Sequence[str]) -> list[str]:
    """Return `command` as it must be started to run inside the namespace `name`, with a /sys that shows it."""
    return ["ip", "netns", "exec", name, *command]


def _create(names: Sequence[str], made: list[str]) -> None:
    """Put the calling thread into one new namespace after the other; only for a thread that ends soon."""
    for name in names:
        _create_one(name, made)


def _create_one(name: str, made: list[str]) -> None:
    path = namespace_path(name)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o444))
    except OSError as error:
        raise KernelError(name, "create the namespace", error.errno or 0) from error
    made.append(name)
    _check(_libc.unshare(_CLONE_NEWNET), name, "create the namespace")
    _mount(b"/proc/thread-self/ns/net", path, _MS_BIND, name)


def _share_mounts() -> None:
    """Make /run/netns a shared mount as iproute2 does, so that names removed here vanish everywhere."""
    NETNS_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
    with suppress(KernelError):  # EINVAL: not a mount point yet
        _mount(b"", NETNS_DIR, _MS_SHARED | _MS_REC, str(NETNS_DIR))
        return
    _mount(os.fsencode(NETNS_DIR), NETNS_DIR, _MS_BIND | _MS_REC, str(NETNS_DIR))
    _mount(b"", NETNS_DIR, _MS_SHARED | _MS_REC, str(NETNS_DIR))


def _mount(source: bytes, target: Path, flags: int, node: str) -> None:
    _check(_libc.mount(source, os.fsencode(target), b"none", flags, None), node, "mount the namespace's name")


def _check(result: int, node: str, request: str) -> None:
    if result != 0:
        raise KernelError(node, request, ctypes.get_errno())


def _run_nameless(work: Callable[[], Result]) -> Result:
    _check(_libc.unshare(_CLONE_NEWNET), "a nameless namespace", "create it")
    return work()


def delete_all_namespaces(prefix: str) -> tuple[str, ...]:
    """Remove every namespace whose name begins so, whoever made it, and return their names."""
    return delete_namespaces(namespaces(prefix))
