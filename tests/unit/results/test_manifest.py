"""What a run ran on."""

import platform

import msgspec

from results.manifest import Manifest, manifest


def test_manifest_tells_kernel_versions_and_command() -> None:
    told = manifest("2026-03-04T05:06:07Z", ["spraylab", "run", "gray-link"], "gray-link", 1)
    assert told.kernel == platform.release()
    assert told.command == ("spraylab", "run", "gray-link")
    assert told.packages["numpy"][0].isdigit()
    assert told.cpus >= told.cpus_usable >= 1
    assert "unknown" not in (told.distribution, told.python)
    assert told.repeats_with_seed
    assert told.varies
    assert msgspec.json.decode(msgspec.json.encode(told), type=Manifest) == told
    assert told.attached is False


def test_only_drops_without_a_seed_are_said_to_vary() -> None:
    told = manifest("2026-03-04T05:06:07Z", ["spraylab"], "gray-link", 1)
    drops = [text for text in told.varies if "drop" in text]
    assert drops == ["which packets a random drop takes whose fault_seed is null (netem before Linux 6.7)"]
    assert any("fault_seed" in text for text in told.repeats_with_seed)
