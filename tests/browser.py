"""A headless Chromium for tests: what it logs, what it asks the network for, how a page looks."""

import json
import shutil
import warnings
from pathlib import Path

import pytest
from tests.command_line import PATIENCE

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))


def open_browser():
    """A browser, or a skipped test where the machine has none."""
    if CHROMIUM is None or DRIVER is None:
        missing = "chromium" if CHROMIUM is None else "chromedriver (Debian: chromium-driver)"
        pytest.skip(f"a test in a browser needs {missing}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the driver's own dependencies
        webdriver = pytest.importorskip("selenium.webdriver")
        from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",  # tests may run as root
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--enable-unsafe-swiftshader",  # WebGL without a graphics card
        "--window-size=1200,900",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(120)  # a busy machine draws 100,000 nodes slowly
    return Browser(driver)


class Browser:
    """Thin cover over the driver: opens a page on a phone or a desk, in the light or the dark."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, path: Path, width=1200, height=900, dark=False):
        self.visit(path.resolve().as_uri(), width, height, dark)

    def visit(self, address, width=1200, height=900, dark=False):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        self.driver.get_log("browser"), self.driver.get_log("performance")
        self.driver.get(address)
        # On a busy machine the driver comes back before the page has begun to load.
        loaded = f"location.href === {json.dumps(address)} && document.readyState === 'complete'"
        loaded += " && document.documentElement.dataset.state !== 'loading'"
        self.wait(loaded, f"{address} to be loaded")

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def wait(self, condition, what, seconds=PATIENCE):
        """Until a condition in JavaScript holds."""
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, seconds, poll_frequency=0.05)
        return waiting.until(lambda driver: self.run(f"return {condition}"), what)

    def press(self, *keys):
        """Keys on the keyboard, to whatever has the focus."""
        from selenium.webdriver import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def move_mouse(self, x, y, click=False):
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        actions = ActionBuilder(self.driver, duration=0)
        actions.pointer_action.move_to_location(round(x) - 1, round(y)).move_to_location(
            round(x), round(y)
        )
        actions.perform()
        if click:
            ActionChains(self.driver).click().perform()

    def drag(self, corners):
        """Press the mouse at the first of some places and move it over the others."""
        from selenium.webdriver.common.actions.action_builder import ActionBuilder

        actions = ActionBuilder(self.driver, duration=20)
        pointer = actions.pointer_action
        pointer.move_to_location(*map(round, corners[0])).pointer_down()
        for corner in corners[1:]:
            pointer.move_to_location(*map(round, corner))
        pointer.pointer_up()
        actions.perform()

    def focus_with_tab(self, selector, most=60):
        """Press Tab until an element has the focus, as who has no mouse would."""
        for _ in range(most):
            if self.run("return document.activeElement.matches(arguments[0])", selector):
                return
            self.press("\ue004")
        raise AssertionError(f"{selector} can't be reached by Tab")

    def errors(self):
        """What the page complained of on the console."""
        return [entry for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def outside_requests(self, inside=()):
        """Addresses asked for that are not the page itself, inside it, or begin as told."""
        messages = [json.loads(entry["message"]) for entry in self.driver.get_log("performance")]
        asked = [
            message["message"]["params"]["request"]["url"]
            for message in messages
            if message["message"]["method"] == "Network.requestWillBeSent"
        ]
        assert asked, "the page itself must have been asked for"
        own = ("file:", "data:", "blob:", "about:", *inside)
        return [url for url in asked if not url.startswith(own)]

    def sideways(self):
        """By how many pixels the page is wider than the screen."""
        return self.run("return document.documentElement.scrollWidth - innerWidth")

    def contrast(self, selector, colour="color"):
        """Contrast of an element's text with the page behind it, as WCAG has it."""
        return self.run(_CONTRAST, selector, colour)


_CONTRAST = """
const [selector, property] = arguments;
const parts = text => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = text => {
  const [r, g, b] = parts(text).map(v => linear(v / 255));
  return .2126 * r + .7152 * g + .0722 * b;
};
const element = document.querySelector(selector);
const ink = light(getComputedStyle(element)[property]);
const paper = light(getComputedStyle(document.body).backgroundColor);
return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
"""
