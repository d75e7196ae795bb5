# SPDX-License-Identifier: BSD-3-Clause
"""Drives a headless Chromium over its debugging pipe: opens a page, asks it, notes what it requests and complains about."""
import base64
import collections
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE_S = 60


def chromium():
    """The browser's program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One tab. `requests`: every address that it asked for; `complaints`: what it wrote to the console, and uncaught errors."""

    def __init__(self):
        self.requests, self.complaints = [], []
        self.folder = tempfile.TemporaryDirectory(prefix="troupe-browser-", ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        flags = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "--no-first-run", "--disable-gpu",
                 "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "about:blank"]
        if os.geteuid() == 0:
            flags.insert(0, "--no-sandbox")
        # The browser reads commands from descriptor 3 and writes to 4, whatever they are here.
        script = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(["bash", "-c", script, chromium(), *flags], pass_fds=(theirs_in, theirs_out), start_new_session=True,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder.name})
        os.close(theirs_in)
        os.close(theirs_out)
        self.reads, self.writes = ours_in, ours_out
        self.rest, self.number, self.session, self.events = b"", 0, None, collections.deque()
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.tell(f"{domain}.enable")

    def close(self):
        """Ends the browser with all its processes."""
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.reads)
        os.close(self.writes)
        self.folder.cleanup()

    def tell(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writes, data):]
        while True:
            said = self.hear()
            if said.get("id") == self.number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                return said["result"]

    def hear(self):
        deadline = time.monotonic() + DEADLINE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.reads], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.reads, 1 << 16) if ready else b""
            if not more:
                raise RuntimeError("the browser says nothing more")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        said = json.loads(one)
        self.note(said.get("method"), said.get("params", {}))
        return said

    def note(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str([argument.get("value") for argument in params["args"]]))

    def open(self, address, width=1280, height=800, dark=False):
        self.look_as(width, height, dark)
        self.tell("Page.navigate", url=address)
        self.until(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def look_as(self, width, height, dark):
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def ask(self, expression):
        """The value of an expression in the page."""
        out = self.tell("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in out:
            raise RuntimeError(f"{expression}: {out['exceptionDetails']}")
        return out["result"].get("value")

    def until(self, expression):
        """Waits until an expression is true in the page, and returns its value."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            if value := self.ask(expression):
                return value
            self.ask("new Promise(done => setTimeout(done, 50))")
        raise RuntimeError(f"never true: {expression}; the page says: {self.ask('document.body?.innerText')}; complaints: {self.complaints}")

    def picture(self, file, whole=False):
        shot = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))
