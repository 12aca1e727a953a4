#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# check_page.py BROWSER PAGE SCREENSHOT_FOLDER: opens a page of `kiln report` in a headless Chromium, from a phone's
# window to a wide one, and complains on standard output about: a page wider than its window, headings without room, a
# source out of view, covered letters, errors in the console, anything fetched, controls that Tab does not reach or that
# have no visible focus, controls that do not work. Leaves screenshots. Exit status 1: there was something. It speaks the DevTools protocol through a pipe, and needs nothing
# but Python.
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SIZES = {"phone": (390, 844, True), "narrow": (420, 900, False), "laptop": (1000, 800, False),
         "desk": (1280, 900, False), "wide": (1600, 900, False)}
LONGEST_SCREENSHOT = 16000  # pixels; textures of browsers end there


class Browser:
    """One browser process with one tab; descriptors 3 and 4 of the process are its ends of the pipe."""

    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()

        def before_start():
            # First out of the way, since either may be 3 or 4 already.
            reading, writing = os.dup(to_read), os.dup(to_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
             "--force-prefers-reduced-motion", "--user-data-dir=" + profile, "about:blank"],
            preexec_fn=before_start, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        page = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.of, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer.get("result", {})
            self.events.append(answer)

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "an exception"))
        return answer["result"].get("value")

    def press(self, key):
        code, text = {"Tab": (9, ""), " ": (32, " "), "Enter": (13, "\r")}[key]
        about = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def screenshot(self, path, height=None):
        clip = {}
        if height:
            width = self.evaluate("innerWidth")
            clip = {"captureBeyondViewport": True,
                    "clip": {"x": 0, "y": 0, "width": width, "height": min(height, LONGEST_SCREENSHOT), "scale": 1}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", **clip)["data"]))

    def end(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


# What Tab should reach: what is visible and takes focus.
FOCUSABLE = """
(() => [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
  .filter((one) => !one.disabled && one.getClientRects().length > 0)
  .map((one) => one.outerHTML.slice(0, 120)))()"""
FOCUSED = """
(() => {
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  return {html: one.outerHTML.slice(0, 120),
          visible: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0};
})()"""


# Headings of tables that have no room for a word, and the source of many variants where the bars are scrolled.
NARROW_HEADINGS = """
[...document.querySelectorAll('h1, h2, h3, thead th')].filter((one) => {
  if (!one.textContent.trim() || one.getClientRects().length === 0) return false;
  const box = one.getBoundingClientRect();
  return box.width < 24 || (box.width < 60 && box.height > 3 * box.width);
}).map((one) => one.textContent.trim().slice(0, 60))"""
HIDDEN_SOURCE = """
[...document.querySelectorAll('.source')].filter((table) => {
  if (table.querySelectorAll('th.heat').length < 4) return false;
  const scroll = table.closest('.scroll'), line = table.tBodies[0].querySelector('tr:not(.quiet) .code');
  if (!line) return false;
  return [0, scroll.scrollWidth].some((to) => {
    scroll.scrollLeft = to;
    const seen = scroll.getBoundingClientRect(), box = line.getBoundingClientRect();
    return box.left < seen.left || box.left + 160 > seen.right || box.width > .8 * seen.width;
  });
}).map((table) => table.id)"""
# Letters of the roofline with a name or a line above them: what is drawn later covers what was drawn before.
COVERED_LETTERS = """
[...document.querySelectorAll('#roofline .kiln-picture')].flatMap((picture) => {
  const all = [...picture.querySelectorAll('text, line')];
  const letters = all.filter((one) => one.matches('.letter, .hollow-letter'));
  const apart = (a, b) => a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 1 || b.bottom <= a.top + 1;
  return letters.filter((letter) => all.some((other) => other !== letter &&
    (other.matches('.letter, .hollow-letter')
      ? !apart(letter.getBoundingClientRect(), other.getBoundingClientRect())
      : other.matches('.leader') && all.indexOf(other) > all.indexOf(letter)))).map((one) => one.textContent);
})"""


def complaints_of_layout(browser):
    for heading in browser.evaluate(NARROW_HEADINGS):
        yield "a heading has no room: " + heading
    for table in browser.evaluate(HIDDEN_SOURCE):
        yield "the source is not in view beside the bars: " + table
    for letter in browser.evaluate(COVERED_LETTERS):
        yield "something covers the letter " + letter + " of the roofline"


def complaints_of_log(events, page_url):
    for event in events:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            yield "exception: " + details.get("exception", {}).get("description", details["text"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            yield "console: " + " ".join(str(one.get("value", "")) for one in parameters["args"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            yield "log: " + parameters["entry"]["text"]
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if url != page_url and not url.startswith("data:"):
                yield "fetches " + url


def complaints_of_keyboard(browser):
    wanted = browser.evaluate(FOCUSABLE)
    browser.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    reached = []
    for _ in range(len(wanted) + 2):
        browser.press("Tab")
        focused = browser.evaluate(FOCUSED)
        if focused is None:
            break
        reached.append(focused["html"])
        if not focused["visible"]:
            yield "has no visible focus: " + focused["html"]
    for one in wanted:
        if one not in reached:
            yield "is not reached by Tab: " + one
    if not wanted:
        yield "nothing can be reached by Tab"


def complaints_of_controls(browser):
    """Works each kind of control by its keys, where the page has one."""
    def focus(selector):
        return browser.evaluate(f"(() => {{ const one = document.querySelector('{selector}'); "
                                "one?.focus(); return Boolean(one); })()")

    shown = "[...document.querySelectorAll('.compare tbody tr')].filter((row) => row.offsetHeight > 0).length"
    if browser.evaluate("document.querySelectorAll('.compare .same').length > 0") and focus(".differences"):
        before = browser.evaluate(shown)
        browser.press(" ")
        if browser.evaluate(shown) >= before:
            yield "'Only what differs' hides nothing"
        browser.press(" ")
        if browser.evaluate(shown) != before:
            yield "'Only what differs' does not bring rows back"
    lines = "[...document.querySelectorAll('.source tbody tr')].filter((row) => row.offsetHeight > 0).length"
    if browser.evaluate("document.querySelectorAll('.source .quiet').length > 0") and focus(".fold"):
        before = browser.evaluate(lines)
        browser.press(" ")
        if browser.evaluate(lines) <= before:
            yield "unfolding shows no more lines"
        browser.press(" ")
    if focus(".sortable th.number button"):
        column = "[...document.querySelectorAll('.sortable')[0].tBodies[0].rows].map((row) => Number(row.cells[3].dataset.value))"
        browser.press("Enter")
        values = browser.evaluate(column)
        if values != sorted(values, reverse=True):
            yield f"sorting by requests gives {values}"
    ordered = browser.evaluate("""(() => {
      const order = document.querySelector('.order');
      if (!order || order.options.length < 2) return null;
      order.selectedIndex = 1;
      order.dispatchEvent(new Event('change'));
      const choice = order.selectedOptions[0];
      const values = [...document.querySelectorAll(`[data-row="${choice.value}"] td[data-value]`)]
        .map((cell) => Number(cell.dataset.value));
      const heads = [...document.querySelectorAll('.compare thead th[data-item]')].map((one) => one.dataset.item);
      const cells = [...document.querySelector(`[data-row="${choice.value}"]`).querySelectorAll('[data-item]')]
        .map((one) => one.dataset.item);
      order.selectedIndex = 0;
      order.dispatchEvent(new Event('change'));
      return {values, more: choice.dataset.more === '1', aligned: heads.join() === cells.join()};
    })()""")
    if ordered:
        if ordered["values"] != sorted(ordered["values"], reverse=ordered["more"]):
            yield f"ordering variants gives {ordered['values']}"
        if not ordered["aligned"]:
            yield "ordering variants tears heads from their columns"


def check(browser, page, folder):
    url = page.resolve().as_uri()
    for name, (width, height, mobile) in SIZES.items():
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=mobile)
        for scheme in ("light", "dark"):
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.open(url)
            stem = f"{page.stem}-{name}-{scheme}"
            browser.screenshot(folder / f"{stem}.png")
            total = browser.evaluate("document.scrollingElement.scrollHeight")
            browser.screenshot(folder / f"{stem}-whole.png", total)
            wide = browser.evaluate("document.scrollingElement.scrollWidth - innerWidth")
            if wide > 0:
                yield f"{stem}: the page is {wide} pixels wider than its window"
            for complaint in complaints_of_layout(browser):
                yield f"{stem}: {complaint}"
            for complaint in complaints_of_log(browser.events, url):
                yield f"{stem}: {complaint}"
        for complaint in complaints_of_keyboard(browser):
            yield f"{name}: {complaint}"
        for complaint in complaints_of_controls(browser):
            yield f"{name}: {complaint}"
        for complaint in complaints_of_log(browser.events, url):
            yield f"{name}: {complaint}"


def main():
    program, page, folder = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    complaints = []
    # Ends with the browser's profile, whatever happens.
    with tempfile.TemporaryDirectory(prefix="kiln-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            complaints = list(check(browser, page, folder))
        finally:
            browser.end()
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
