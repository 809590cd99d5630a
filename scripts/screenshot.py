"""Takes a screenshot of a page once it shows what it should; for `scripts/pictures`.

    screenshot.py BROWSER ADDRESS WIDTH,HEIGHT FILE [TEXT]

Waits in real time: the page must show TEXT (a regular expression), and nothing may have been loaded for some seconds.
Chromium speaks its DevTools protocol over pipes: JSON messages, each followed by a zero byte.
"""

import base64
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time

QUIET = 4.0  # seconds without network traffic after which a page is complete
LIMIT = 300.0

# The text of a page, with that of its web components and frames.
TEXT = """(() => {
  const all = node => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    const parts = [node.shadowRoot, node.contentDocument?.body, ...node.childNodes];
    return /^(SCRIPT|STYLE)$/.test(node.nodeName) ? "" : parts.map(part => part ? all(part) : "").join(" ");
  };
  return all(document.body);
})()"""


class Browser:
    def __init__(self, program, size, profile):
        (ours_in, self.write), (self.read, ours_out) = os.pipe(), os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--no-first-run"]
        flags += ["--hide-scrollbars", "--disable-background-networking", f"--window-size={size}", "--remote-debugging-pipe"]
        # The protocol's pipes are file descriptors 3 and 4.
        command = ["sh", "-c", f'exec "$0" "$@" 3<&{ours_in} 4>&{ours_out} </dev/null >/dev/null 2>&1', program, *flags]
        pipes = (ours_in, ours_out)
        self.process = subprocess.Popen([*command, f"--user-data-dir={profile}"], pass_fds=pipes)
        for pipe in pipes:
            os.close(pipe)
        self.buffer, self.sent, self.session, self.traffic = b"", 0, None, time.monotonic()

    def message(self, until):
        """The next message, or None if there is none until then."""
        while b"\0" not in self.buffer:
            if not select.select([self.read], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            got = os.read(self.read, 1 << 20)
            if not got:
                sys.exit("error: the browser ended")
            self.buffer += got
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if message.get("method", "").startswith("Network."):
            self.traffic = time.monotonic()
        return message

    def call(self, method, **parameters):
        self.sent += 1
        call = {"id": self.sent, "method": method, "params": parameters}
        if self.session:
            call["sessionId"] = self.session
        os.write(self.write, json.dumps(call).encode() + b"\0")
        end = time.monotonic() + LIMIT
        while (message := self.message(end)) is not None:
            if message.get("id") == self.sent:
                return message.get("result", {})
        sys.exit(f"error: the browser does not answer to {method}")


def screenshot(program, address, size, file, text=""):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, size, profile)
        try:
            width, height = map(int, size.split(","))
            target = browser.call("Target.createTarget", url="about:blank")["targetId"]
            browser.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            browser.call("Network.enable")
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.call("Emulation.setDeviceMetricsOverride", **metrics)
            browser.call("Page.navigate", url=address)
            end, shown = time.monotonic() + LIMIT, ""
            while not (re.search(text, shown, re.DOTALL) and time.monotonic() - browser.traffic > QUIET):
                if time.monotonic() > end:
                    sys.exit(f"error: {address} does not show `{text}` after {LIMIT:.0f} s")
                browser.message(time.monotonic() + 0.5)
                shown = browser.call("Runtime.evaluate", expression=TEXT)["result"].get("value", "")
            image = browser.call("Page.captureScreenshot", format="png")["data"]
        finally:
            browser.process.kill()
            browser.process.wait()
    with open(file, "wb") as out:
        out.write(base64.b64decode(image))


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6):
        sys.exit(__doc__)
    screenshot(*sys.argv[1:])
