"""The page in a real browser: it renders, fits, sorts, and says nothing on the console."""

from __future__ import annotations

import html
import json
import re

import pytest
from draftgate.report.page import render_page

from tests import states
from tests.chromium import dump, find_chromium

pytestmark = pytest.mark.skipif(
    find_chromium() is None, reason="no Chromium here (Debian: apt-get install chromium)"
)

PROBE = """
<script>
const order = () => [...document.querySelector("tbody").rows].map(row => row.dataset.server);
const seen = {
  width: document.documentElement.scrollWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  colors: [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor],
  unnamed: document.querySelectorAll("svg:not([aria-label]):not([aria-hidden])").length,
  wide: [...document.querySelectorAll("figure > svg")].filter(
    svg => svg.getBoundingClientRect().right > innerWidth).length,
  orders: {},
};
for (const button of document.querySelectorAll("table:first-of-type thead button")) {
  if (button.closest("table") !== document.querySelector("table")) continue;
  button.focus();
  seen.focused = (seen.focused ?? true) && document.activeElement === button;
  button.click();
  const up = order();
  button.click();
  seen.orders[button.textContent] = [up, order(), button.closest("th").getAttribute("aria-sort")];
}
parent.document.body.lastChild.textContent = JSON.stringify(seen);
</script>
</body>"""


@pytest.fixture
def seen(tmp_path):
    """Render a state and return what the browser made of it."""

    def see(state: str, width: int, dark: bool):
        record = getattr(states, state)()
        text = render_page(record, accepted=states.accepted_nights(), history=states.history_of(20))
        dom, console = dump(text.replace("</body>", PROBE), tmp_path, width=width, dark=dark)
        assert console == []
        told = re.search(r"<pre>(.*?)</pre></body>", dom, re.DOTALL)
        assert told is not None
        return record, json.loads(html.unescape(told[1]))

    return see


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1400, False)])
@pytest.mark.parametrize("state", ["green", "red", "nothing", "sixty"])
def test_it_renders_and_fits(seen, state, width, dark):
    _, page = seen(state, width, dark)
    assert page["width"] == width  # nothing to scroll sideways but the tables
    assert page["wide"] == 0
    assert page["dark"] is dark
    assert page["unnamed"] == 0
    assert contrast(*page["colors"]) > 7


def test_every_column_sorts_both_ways_from_the_keyboard(seen):
    record, page = seen("red", 1400, False)
    assert page["focused"]
    speeds = {id_: server.tok_s for id_, server in record.servers.items()}
    up, down, said = page["orders"]["tok/s"]
    measured = sorted((id_ for id_ in speeds if speeds[id_]), key=speeds.__getitem__)
    assert up == [*measured, states.NOT_BOOTED]  # what was not measured stays last
    assert down == [*measured[::-1], states.NOT_BOOTED]
    assert said == "descending"
    reds = page["orders"]["verdict"][0][:3]
    assert set(reds) == {states.SLOW, states.MIS_WIRED, states.NOT_BOOTED}
    names, *_ = page["orders"]["server"]
    assert names == sorted(names)
    assert len(page["orders"]) == 10


def contrast(*colors: str) -> float:
    """The contrast ratio of two colours as WCAG 2 defines it."""
    lights = sorted(map(_luminance, colors))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(color: str) -> float:
    channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
