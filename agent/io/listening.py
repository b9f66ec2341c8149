"""Listening unix socket at a path, for root only."""

import os
import socket
from pathlib import Path


def listen_at(path: Path, listener: socket.socket, waiting: int) -> None:
    """Make an unbound unix socket listen at `path`, with a backlog of `waiting` clients. Raises OSError.

    The file appears only when a connection is possible: a client that waits for the file is never refused.
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
