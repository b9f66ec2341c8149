"""The layers as a module of Scapy's: loaded by `load_contrib`, with nothing of ours to import."""

import shutil
import subprocess
import sys

from agent.wire import layers

USED = """
import sys
import scapy.contrib
scapy.contrib.__path__.append(sys.argv[1])
from scapy.all import *
load_contrib("mrc")
packet = IPv6(dst="fd5f::1") / UDP(sport=0xC000) / BTH(opcode="SACK") / SETH(cack_psn=7, sack_offset=1, sack_bitmap=5)
packet = IPv6(bytes(packet / CC_STATE()))
print(packet.summary())
packet.show()
assert not [name for name in sys.modules if name.split(".")[0] in ("agent", "scenarios", "numpy")]
"""


def test_scapy_loads_them_as_it_loads_its_own(tmp_path):
    shutil.copy(layers.__file__, tmp_path / "mrc.py")
    command = [sys.executable, "-I", "-c", USED, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", timeout=60).stdout
    assert "MRC SACK dqp=0x0 psn=0; cack=7; arrived 8, 10" in said
    assert "sack_bitmap= 0x5 = PSN 8, 10" in said
