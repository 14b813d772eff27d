"""A headless Chromium, driven by its DevTools protocol over two pipes: it needs no package.

It is the one that PULSAR_DOCTOR_BROWSER names, or the first of PROGRAMS on the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, Any

PROGRAMS = (
    "chrome-headless-shell", "chromium-headless-shell", "chromium", "chromium-browser",
    "google-chrome", "chrome",
)  # fmt: skip
NEWS = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
CANVASES = """
  (() => {
    const within = root => [...root.querySelectorAll("*")].flatMap(each =>
      each.tagName === "CANVAS" ? [each] : each.shadowRoot ? within(each.shadowRoot) : [])
    const colours = canvas => new Set(new Uint32Array(canvas.getContext("2d")
      .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size
    const most = chart => Math.max(0, ...within(chart).map(colours))
    return [...document.querySelectorAll(".chart")].map(each => [each.id, most(each)])
  })()
"""
DRAWN = """
  new Promise(resolve => {
    const ask = () => performance.getEntriesByName("charts drawn").length
      ? requestAnimationFrame(() => setTimeout(() => resolve(true), 50)) : setTimeout(ask, 10)
    ask()
  })
"""


def program() -> str | None:
    """Where a browser is; None: there is none."""
    found = (os.environ.get("PULSAR_DOCTOR_BROWSER"), *map(shutil.which, PROGRAMS))
    return next(filter(None, found), None)


class Browser:
    """One tab. messages: of its console, and errors. requests: all addresses that it wanted."""

    def __init__(self, told: IO[bytes], ask: IO[bytes]) -> None:
        self._told, self._ask, self._numbers = told, ask, count(1)
        self._session: str | None = None
        self.messages: list[Any] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Network", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """What a method of the protocol answers; what happens meanwhile is kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._ask.write(json.dumps(message).encode() + b"\0")
        self._ask.flush()
        while (answer := self._heard()).get("id") != number:
            pass
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def _heard(self) -> Any:
        content = bytearray()
        while (byte := self._told.read(1)) != b"\0":
            assert byte, "the browser has ended"
            content += byte
        heard = json.loads(content)
        if heard.get("method") in NEWS:
            self.messages.append(heard["params"])
        if heard.get("method") == "Network.requestWillBeSent":
            self.requests.append(heard["params"]["request"]["url"])
        return heard

    def show(self, page: Path, width: int, ready: str = DRAWN) -> None:
        """Loads a page anew at this width, and waits for its charts, or until `ready` is true."""
        self.messages.clear()
        self.requests.clear()
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Page.navigate", url=page.as_uri())
        assert self.value(ready)

    def prefer(self, scheme: str) -> None:
        """The person turns to dark or to light."""
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=wanted)
        self.value("new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve, 50)))")

    def value(self, expression: str) -> Any:
        """What JavaScript in the page gives."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")


@contextmanager
def browsing(program: str, profile: Path) -> Iterator[Browser]:
    """A browser that runs meanwhile. profile: a folder of its own."""
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    line = ["bash", "-c", f'exec "$@" 3<&{asked} 4>&{tell}', "bash", program, "--headless"]
    line += ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
    line += ["--no-sandbox"] if os.geteuid() == 0 else []
    with (
        os.fdopen(told, "rb") as hear,
        os.fdopen(ask, "wb") as speak,
        subprocess.Popen(line, pass_fds=(asked, tell), stderr=subprocess.DEVNULL) as running,
    ):
        os.close(asked)
        os.close(tell)
        try:
            yield Browser(hear, speak)
        finally:
            running.terminate()
