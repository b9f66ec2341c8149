"""Errors of describing, building and removing a fabric.

    TestbedError
    ├── FabricError          sizes that cannot be built, all of them at once
    ├── UnknownNameError     a node or link name that is not in the fabric, with near names
    ├── MissingFeatureError  this machine lacks something (root, a kernel option, a tool)
    ├── LabStateError        the lab is already up, or not up
    ├── KernelError          the kernel refused one request of a batch
    ├── ReadBackError        the kernel holds something else than what was requested
    └── NotOfferedError      a part of Mininet that a fabric of SRv6 routers cannot have

The command line chooses the exit code of each.
"""

import errno as errno_names
import os


class TestbedError(Exception):
    """Base of every error that this folder raises."""

    __test__ = False  # the name starts with "Test"; it is not one of pytest's


class FabricError(TestbedError):
    """A fabric description that cannot be built; `problems` lists every reason."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class UnknownNameError(TestbedError):
    """A name that no node or link of the fabric has.

    `near` holds the right names spelt most alike, at most three; `known` describes the existing names, for when none is
    alike.
    """

    def __init__(self, kind: str, text: str, reason: str, near: tuple[str, ...] = (), known: str = "") -> None:
        self.kind, self.text, self.reason, self.near = kind, text, reason, near
        self.right = f"did you mean {' or '.join(near)}?" if near else known
        super().__init__(f"{kind} {text!r}: {reason}{'; ' if self.right else ''}{self.right}")


class MissingFeatureError(TestbedError):
    """This machine lacks something; `advice` says what to enable or install."""

    def __init__(self, feature: str, advice: str) -> None:
        self.feature, self.advice = feature, advice
        super().__init__(f"{feature} is missing: {advice}")


class LabStateError(TestbedError):
    """The lab is not in the state the request needs; `namespaces` are those found."""

    def __init__(self, lab: str, reason: str, namespaces: tuple[str, ...] = ()) -> None:
        self.lab, self.reason, self.namespaces = lab, reason, namespaces
        super().__init__(f"lab {lab!r}: {reason}")


class KernelError(TestbedError):
    """The kernel refused a request; `errno` is positive, `detail` is the kernel's message or empty."""

    def __init__(self, node: str, request: str, errno: int, detail: str = "") -> None:
        self.node, self.request, self.errno, self.detail = node, request, errno, detail
        name = errno_names.errorcode.get(errno, f"errno {errno}")
        said = f" ({detail})" if detail else ""
        super().__init__(f"{node}: {request}: {name}: {os.strerror(errno)}{said}")


class ReadBackError(TestbedError):
    """The kernel's state differs from the wanted one; `differences` holds one readable line each."""

    def __init__(self, differences: tuple[str, ...], shown: int = 20) -> None:
        self.differences = differences
        lines = list(differences[:shown])
        if len(differences) > shown:
            lines.append(f"... and {len(differences) - shown} more")
        super().__init__(f"{len(differences)} differences between wanted and found:\n" + "\n".join(lines))


class NotOfferedError(TestbedError):
    """A part of Mininet that is not available here; `instead` says what to do."""

    def __init__(self, what: str, why: str, instead: str) -> None:
        self.what, self.why, self.instead = what, why, instead
        super().__init__(f"{what}: {why}; {instead}")
