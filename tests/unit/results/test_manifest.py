"""What a run ran on."""

import platform

import msgspec

from results.records.manifest import Manifest, Repeating, manifest


def test_manifest_tells_kernel_versions_and_command() -> None:
    told = manifest("2026-03-04T05:06:07Z", ["spraylab", "run", "gray-link"], "gray-link", 1, Repeating(("a",), ("b",)))
    assert told.kernel == platform.release()
    assert told.command == ("spraylab", "run", "gray-link")
    assert told.packages["numpy"][0].isdigit()
    assert told.cpus >= told.cpus_usable >= 1
    assert "unknown" not in (told.distribution, told.python)
    assert (told.repeats_with_seed, told.varies) == (("a",), ("b",))
    assert msgspec.json.decode(msgspec.json.encode(told), type=Manifest) == told
    assert told.attached is False
