"""Headless Chromium, driven over the pipe of its debugging protocol: a page's messages, requests and measures."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

BROWSER = which("chromium") or which("chromium-browser") or which("google-chrome")

_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-pipe",
)
_WITHIN_S = 60.0


class Page:
    """One page; everything the browser says of it is kept in `events`."""

    def __init__(self, commands: int, replies: int) -> None:
        self._commands, self._replies = commands, replies
        self._number, self._buffer, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command and wait for its result; events that come before it are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return said["result"]
            self.events.append(said)

    def show(self, file: Path, width: int, dark: bool = False) -> None:
        """Load a file at a width and wait until it is shown."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.ask("Page.navigate", url=file.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, script: str) -> Any:
        """What a script evaluates to in the page."""
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def messages(self) -> list[dict[str, Any]]:
        """What the page wrote to the console, threw, or was told by the browser."""
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in methods]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _next(self) -> Any:
        until = time.monotonic() + _WITHIN_S
        while b"\0" not in self._buffer:
            assert time.monotonic() < until, "the browser says nothing"
            read = os.read(self._replies, 1 << 16)
            assert read, "the browser is gone"
            self._buffer += read
        said, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(said)


@contextmanager
def page() -> Iterator[Page]:
    """An empty page of a browser of its own, with nothing kept from before."""
    assert BROWSER is not None
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()

    def fixed_numbers() -> None:
        """The protocol's pipe is 3 and 4 in the browser."""
        for source, target in ((os.dup(to_browser), 3), (os.dup(to_us), 4)):
            os.dup2(source, target)

    with TemporaryDirectory() as profile:
        browser = subprocess.Popen(
            (BROWSER, *_OPTIONS, f"--user-data-dir={profile}"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=fixed_numbers,
        )
        os.close(to_browser)
        os.close(to_us)
        try:
            shown = Page(from_us, from_browser)
            yield shown
            shown._session = ""
            shown.ask("Browser.close")
            browser.wait(20)
        finally:
            browser.kill()
            browser.wait()
            os.close(from_us)
            os.close(from_browser)
