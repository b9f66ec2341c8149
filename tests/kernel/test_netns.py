"""Namespaces: made all or none, entered and left again, found by prefix."""

import errno
import os
import subprocess
import threading

import pytest

from testbed.errors import KernelError
from testbed.kernel.netns import (
    NETNS_DIR,
    command_inside,
    create_namespaces,
    delete_namespaces,
    in_nameless_namespace,
    inside,
    namespace_path,
    namespaces,
)
from testbed.model.node_names import namespace_prefix
from tests.support.namespaces import needs_root, removed_lab

pytestmark = [pytest.mark.root, needs_root]


def here() -> str:
    return os.readlink("/proc/thread-self/ns/net")


@pytest.fixture
def prefix():
    with removed_lab() as lab:
        yield namespace_prefix(lab)


def test_names_work_with_iproute2(prefix):
    create_namespaces([f"{prefix}a", f"{prefix}b"])
    assert namespaces(prefix) == (f"{prefix}a", f"{prefix}b")
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, check=True, text=True).stdout.split()
    assert {f"{prefix}a", f"{prefix}b"} <= set(listed)
    inode = os.stat(namespace_path(f"{prefix}a")).st_ino
    shown = subprocess.run(
        command_inside(f"{prefix}a", ["readlink", "/proc/self/ns/net"]), capture_output=True, check=True
    )
    assert shown.stdout.decode().strip() == f"net:[{inode}]"
    assert inode != os.stat(namespace_path(f"{prefix}b")).st_ino


def test_all_or_none_are_made(prefix):
    create_namespaces([f"{prefix}taken"])
    inode = os.stat(namespace_path(f"{prefix}taken")).st_ino
    with pytest.raises(KernelError) as refused:
        create_namespaces([f"{prefix}new", f"{prefix}taken", f"{prefix}never"])
    assert (refused.value.node, refused.value.errno) == (f"{prefix}taken", errno.EEXIST)
    assert namespaces(prefix) == (f"{prefix}taken",)
    assert os.stat(namespace_path(f"{prefix}taken")).st_ino == inode


def test_the_thread_comes_back_whatever_happens(prefix):
    create_namespaces([f"{prefix}a"])
    before = here()
    with inside(namespace_path(f"{prefix}a")):
        assert here() != before
    with pytest.raises(ZeroDivisionError), inside(namespace_path(f"{prefix}a")):
        1 / 0  # noqa: B018
    with pytest.raises(FileNotFoundError), inside(namespace_path(f"{prefix}none")):
        pass
    assert here() == before


def test_a_file_that_is_no_namespace_cannot_be_entered(prefix, tmp_path):
    (tmp_path / "plain").write_text("")
    before = here()
    with pytest.raises(KernelError, match="plain: enter the namespace: EINVAL"), inside(tmp_path / "plain"):
        pass
    assert here() == before


def test_deleting_is_safe_twice_and_on_stale_files(prefix):
    create_namespaces([f"{prefix}a"])
    stale = NETNS_DIR / f"{prefix}stale"
    stale.touch()
    assert delete_namespaces([f"{prefix}a", f"{prefix}stale", f"{prefix}never"]) == (f"{prefix}a", f"{prefix}stale")
    assert delete_namespaces([f"{prefix}a", f"{prefix}stale"]) == ()


def test_a_nameless_namespace_is_new_and_leaves_nothing():
    before, names, threads = here(), os.listdir(NETNS_DIR), threading.active_count()
    assert in_nameless_namespace(here) != before
    with pytest.raises(ZeroDivisionError):
        in_nameless_namespace(lambda: 1 // 0)
    assert (here(), os.listdir(NETNS_DIR), threading.active_count()) == (before, names, threads)
