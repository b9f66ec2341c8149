"""Compiling, loading and reading eBPF on this machine: what works, and what the errors say."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.base import libbpf
from testbed.errors import MissingFeatureError
from testbed.kernel.bpf import programs as bpf

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to load eBPF"),
    pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang to compile eBPF"),
]

MAPS_AND_A_PROGRAM = """
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "numbers.h"
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64); __type(key, __u32); __type(value, __u64); } table
	SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); __uint(max_entries, 2); __type(key, __u32); __type(value, __u32); }
	per_cpu SEC(".maps");
SEC("classifier") int look(struct __sk_buff *skb)
{
	__u32 key = KEY;
	__u64 *value = bpf_map_lookup_elem(&table, &key);

	bpf_map_lookup_elem(&per_cpu, &key);
	return value BODY ? 0 : -1;
}
char LICENSE[] SEC("license") = "GPL";
"""


def object_file(directory: Path, body: str = "") -> Path:
    source = directory / "look.bpf.c"
    source.write_text(MAPS_AND_A_PROGRAM.replace("BODY", body))
    return bpf.build(source, {"numbers.h": "#define KEY 1\n"}, directory)


def u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "little")


def test_maps_are_read_written_walked_and_emptied(tmp_path):
    with bpf.load(object_file(tmp_path)) as loaded:
        table = loaded.map("table")
        assert (table.key_bytes, table.value_bytes, table.stored_bytes) == (4, 8, 8)
        assert table.lookup(u32(1)) is None
        for number in range(50):
            table.update(u32(number), u64(number * number))
        assert table.lookup(u32(7)) == u64(49)
        assert sorted(table.items()) == sorted((u32(n), u64(n * n)) for n in range(50))
        assert table.delete(u32(7)) is True
        assert table.delete(u32(7)) is False
        assert len(list(table.items())) == 49


def test_a_per_cpu_map_has_a_value_for_every_possible_cpu(tmp_path):
    with bpf.load(object_file(tmp_path)) as loaded:
        per_cpu = loaded.map("per_cpu")
        assert per_cpu.stored_bytes == 8 * bpf.possible_cpus()
        assert per_cpu.lookup(u32(0)) == bytes(per_cpu.stored_bytes)


def test_program_and_maps_end_with_the_object(tmp_path):
    loaded = bpf.load(object_file(tmp_path))
    program = loaded.program("look")
    assert program.id in program_ids()
    loaded.close()
    loaded.close()
    assert program.id not in program_ids()
    with pytest.raises(bpf.BpfError, match="after close"):
        loaded.map("table")


def program_ids() -> set[int]:
    if shutil.which("bpftool") is None:
        pytest.skip("needs bpftool to list the kernel's programs")
    listed = subprocess.run(["bpftool", "prog", "list"], capture_output=True, text=True, check=True).stdout
    return {int(line.split(":")[0]) for line in listed.splitlines() if line[:1].isdigit()}


def test_no_descriptor_is_left_or_inherited(tmp_path):
    object_path = object_file(tmp_path)
    before = set(os.listdir("/proc/self/fd"))
    with bpf.load(object_path) as loaded:
        assert not os.get_inheritable(loaded.program("look").fd)
        assert not os.get_inheritable(loaded.map("table").fd)
    assert set(os.listdir("/proc/self/fd")) == before


def test_wrong_names_and_lengths_are_told(tmp_path):
    with bpf.load(object_file(tmp_path)) as loaded:
        with pytest.raises(bpf.BpfError, match="no program 'absent'"):
            loaded.program("absent")
        with pytest.raises(bpf.BpfError, match="no map 'absent'"):
            loaded.map("absent")
        with pytest.raises(ValueError, match="a key of map table has 4 bytes, not 8"):
            loaded.map("table").lookup(u64(1))
        with pytest.raises(ValueError, match="a value of map table has 8 bytes, not 4"):
            loaded.map("table").update(u32(1), u32(1))


def test_a_compile_error_holds_the_compilers_words(tmp_path):
    with pytest.raises(bpf.BpfError, match="undeclared identifier 'nonsense'"):
        object_file(tmp_path, "&& nonsense")


def test_a_refused_program_holds_the_verifiers_log_and_nothing_goes_to_stderr(tmp_path, capfd):
    with pytest.raises(bpf.BpfError) as caught:
        bpf.load(object_file(tmp_path, "|| *(volatile __u64 *)value"))
    assert "the kernel refuses it: EACCES" in str(caught.value)
    assert "BEGIN PROG LOAD LOG" in caught.value.log
    assert "invalid mem access" in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_no_object_is_told(tmp_path):
    path = tmp_path / "text.o"
    path.write_text("not ELF")
    with pytest.raises(bpf.BpfError, match=r"text\.o"):
        bpf.load(path)


def test_without_the_compiler_the_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(bpf, "find_tool", lambda name: None)
    with pytest.raises(MissingFeatureError, match="install the package clang"):
        object_file(tmp_path)


def test_without_the_library_the_package_is_named(monkeypatch, tmp_path):
    path = object_file(tmp_path)
    monkeypatch.setattr(libbpf, "SONAMES", ("libabsent.so.9",))
    for loaded in (libbpf.libbpf, bpf._library):
        loaded.cache_clear()
    try:
        with pytest.raises(MissingFeatureError, match="install libbpf1"):
            bpf.load(path)
    finally:
        for loaded in (libbpf.libbpf, bpf._library):
            loaded.cache_clear()
