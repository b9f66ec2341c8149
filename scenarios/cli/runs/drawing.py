"""Pages and figures of a result that is complete: no error of theirs hides or changes it."""

from collections.abc import Callable

from scenarios.cli.output import echo_aside


def draw_aside(draw: Callable[[], object], what: str, later: str) -> None:
    """Draw `what`; why that failed is a line on stderr, with `later`: what is complete, and how to draw it again.

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
