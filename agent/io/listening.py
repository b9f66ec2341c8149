"""A unix socket at a path, for root alone."""

import os
import socket
from pathlib import Path


def listen_at(path: Path, listener: socket.socket, waiting: int) -> None:
    """Have an unbound unix socket listen at `path`, for `waiting` clients that are not accepted yet. Raises OSError.

    The file is there only from when on one can connect: who waits for it is never refused.
    """
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    try:
        listener.bind(os.fspath(fresh))
        fresh.chmod(0o600)
        listener.listen(waiting)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
