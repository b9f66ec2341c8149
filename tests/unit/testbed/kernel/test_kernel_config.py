"""What the kernel says that it was built without."""

import gzip
from pathlib import Path

from testbed.kernel.kernel_config import lacks_option

TEXT = b"CONFIG_NET_SCH_TBF=m\nCONFIG_NET=y\n# CONFIG_NET_SCH_NETEM is not set\n"


def test_options_are_built_in_modules_or_missing(tmp_path: Path) -> None:
    packed, plain, broken = tmp_path / "config.gz", tmp_path / "config", tmp_path / "broken.gz"
    packed.write_bytes(gzip.compress(TEXT))
    plain.write_bytes(TEXT)
    broken.write_bytes(b"nothing of the kind")
    for place in (packed, plain):
        found = [lacks_option(f"CONFIG_{name}", (broken, place)) for name in ("NET", "NET_SCH_TBF", "NET_SCH_NETEM")]
        assert found == [False, False, True]


def test_a_kernel_that_does_not_say_lacks_nothing(tmp_path: Path) -> None:
    assert not lacks_option("CONFIG_NET_SCH_NETEM", (tmp_path / "none",))
    assert not lacks_option("CONFIG_NET_SCH_NETEM", ())
