"""Draws pages and figures of a complete result; their errors neither hide nor change it."""

from collections.abc import Callable

from scenarios.cli.output import echo_aside


def draw_aside(draw: Callable[[], object], what: str, later: str) -> None:
    """Draw `what`; on an error, print why and `later`: what is complete, and how to draw it again.

    Raises only KeyboardInterrupt.
    """
    try:
        draw()
    except KeyboardInterrupt:
        echo_aside(f"spraylab: interrupted while drawing the {what}: {later}")
        raise
    except OSError as error:
        why = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
        echo_aside(f"spraylab: no {what}: {why}; {later}")
    except Exception as error:  # of whatever kind: a fault in a figure is none of the result
        echo_aside(f"spraylab: no {what}: {type(error).__name__}: {error}; {later}")
