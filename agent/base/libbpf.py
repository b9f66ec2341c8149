"""libbpf, loaded once per process, with errors reported as in version 1."""

import ctypes
from functools import cache

SONAMES = ("libbpf.so.1", "libbpf.so.0")
"""Library names: Debian 12 and 13, Ubuntu 24.04; Ubuntu 22.04."""

MISSING = f"none of {', '.join(SONAMES)} is here; install libbpf1 (libbpf0 on Ubuntu 22.04)"

_STRICT = 0x01 | 0x02  # LIBBPF_STRICT_CLEAN_PTRS, _DIRECT_ERRS: makes 0.x report errors as 1.x does


@cache
def libbpf() -> ctypes.CDLL | None:
    """Return the library, with strict errors on; None if it is not installed.

    Callers declare the functions they use.
    """
    for name in SONAMES:
        try:
            library = ctypes.CDLL(name, use_errno=True)
        except OSError:
            continue
        library.libbpf_set_strict_mode(_STRICT)
        return library
    return None
