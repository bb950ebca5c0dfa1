from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from draftgate.report.page import render_page
from draftgate.report.rows import speed_up_of

from tests import states

STATES = ("green", "red", "nothing", "sixty", "real")
VOID = {"meta", "link", "br", "hr", "img", "input"}
LIMIT = 500_000


class Page(HTMLParser):
    """Refuses tags that are not closed in order; keeps what the tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.cells: dict[str, dict[str, str]] = {}
        self.row = ""
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if "data-server" in given:
            self.row = given["data-server"]
            self.cells[self.row] = {}
        if "data-name" in given:
            self.cells[self.row][given["data-name"]] = given["data-value"]

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open and "script" not in self.open:
            self.words += data


@pytest.fixture(scope="module")
def past():
    return states.history_of(31)


@pytest.fixture(scope="module")
def rendered(past):
    """Each state as (record, page)."""
    accepted = states.accepted_nights()
    found = {}
    for name in STATES:
        record = getattr(states, name)()
        found[name] = record, render_page(record, accepted=accepted, history=past)
    return found


@pytest.mark.parametrize("state", STATES)
def test_the_page_is_whole_and_fetches_nothing(rendered, state):
    _, text = rendered[state]
    page = Page(text)
    links = [v for k, v in page.attributes if k in ("src", "href", "srcset", "action", "data")]
    assert all(v.startswith(("#", "data:,", "../")) for v in links)
    assert not re.search(r"@import|url\(|//[a-z]|fetch\(|XMLHttp", text)
    assert len(text.encode()) < LIMIT
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


@pytest.mark.parametrize("state", STATES)
def test_numbers_are_the_records(rendered, state):
    record, text = rendered[state]
    cells = Page(text).cells
    assert list(cells) == list(record.servers)
    for id_, server in record.servers.items():
        sample = server.last.acceptance
        length = sample.length if sample and server.spec.speculation else None
        expected = {
            "acceptance_length": length,
            "floor": server.spec.acceptance_floor,
            "tok_s": server.tok_s,
            "speed_up": speed_up_of(record, server),
        }
        assert cells[id_] == {k: "" if v is None else str(v) for k, v in expected.items()}


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        ("green", "8 servers, all green."),
        ("red", "3 of 8 servers are red; 1 asked for and not measured in full."),
        ("nothing", "Nothing was measured."),
        ("sixty", "60 servers, all green."),
        ("real", "Nothing is red; 8 of 8 servers not judged in full; 2 not measured."),
    ],
)
def test_the_headline(rendered, state, sentence):
    _, text = rendered[state]
    assert f'id="headline">{sentence}</h1>' in text


def test_what_is_red_and_why(rendered):
    record, text = rendered["red"]
    words = Page(text).words
    red = words.split("What is red")[1].split("tiny\n")[0]
    for said in (
        "slower: 744",
        "the draft was trained on [1, 3, 5], fed [2, 4, 6]",
        "below the profile's floor 4.8",
        "ServerExited: the server's process ended with exit code 1; root exception: "
        "torch.OutOfMemoryError: CUDA out of memory",
        "Asked for and not measured in full: needs SGLang >=0.5.22",
    ):
        assert said in red
    assert "remedy: lower mem_fraction_static" in red  # in full, one click away
    assert "What was not judged" not in words
    assert record.missing == (states.MISSING,)


def test_what_nobody_judged(rendered):
    words = " ".join(Page(rendered["real"][1]).words.split())
    assert "no baseline, 8 servers" in words
    assert "not measured, tiny/embed-s3k1d4/eager needs SGLang >=0.5.22, here is 0.5.16" in words
    assert "What is red" not in words


def test_every_reason_why_nobody_judged_is_told(rendered):
    record, text = rendered["real"]
    words = " ".join(Page(text).words.split())
    missing = [
        (id_, verdict)
        for id_, server in record.servers.items()
        for verdict in server.verdicts
        if verdict.status == "no baseline"
    ]
    assert len(missing) == 8
    for id_, verdict in missing:
        assert f"{id_}: {verdict.name}: {verdict.reasons[0]}" in words


def test_what_was_served_and_how_much(rendered):
    words = Page(rendered["real"][1]).words
    for fact in (
        "targetbuiltin:tiny",
        "draftbuiltin:tiny-eagle3",
        "acceptance and text32 prompts of builtin:tiny, 128 tokens each",
        "speed8 of those prompts, 64 tokens each, 1 at once, 3 rounds, 1 boot",
    ):
        assert fact in words
    assert "How they were started" not in words  # the record of those days holds no command


def test_facts_that_differ_say_whose_they_are():
    record = states.real()
    server = record.servers[states.SLOW]
    twice = replace(server, boots=server.boots * 2)
    words = Page(render_page(replace(record, servers={**record.servers, server.id: twice}))).words
    assert "3 rounds, 2 boots (eagle3-s3k1d4/graph)" in words
    assert "3 rounds, 1 boot (none/graph and 6 more)" in words


def test_the_command_line_is_behind_a_fold():
    record = states.real()
    id_, server = next(iter(record.servers.items()))
    boot = replace(server.last, command=("python -m sglang.launch_server --tp 1",))
    text = render_page(replace(record, servers={id_: replace(server, boots=(boot,))}))
    fold = text.split("<summary>How they were started</summary>")[1].split("</details>")[0]
    assert "<pre>python -m sglang.launch_server --tp 1</pre>" in fold


def test_speculation_that_is_slower_than_none_is_said(rendered):
    record, text = rendered["real"]
    words = Page(text).words
    for id_, server in record.servers.items():
        gain = speed_up_of(record, server) if server.spec.speculation else None
        said = f"{id_.partition('/')[2]}: speculation is slower than none"
        assert (said in words) == (gain is not None and round(gain, 2) < 1)
    assert "eagle3-s3k4d8/graph: speculation is slower than none: 0.84 × its speed." in words


def test_a_red_test_names_the_section_that_explains_it(rendered):
    words = Page(rendered["red"][1]).words
    for where in (
        "docs/gate.md, “The rule”",
        "docs/faults.md, “Who is guilty”",
        "docs/faults.md, “What a red test means”",
    ):
        assert f"What it means: {where}" in words


def test_differences_since_the_baseline():
    accepted = states.accepted_nights()
    now = states.green()
    now = replace(now, software={**now.software, "sglang": "0.5.17"})
    now = replace(now, machine=replace(now.machine, driver="590.1"))
    text = render_page(now, accepted=accepted)
    words = Page(text).words
    assert f"tiny/none/graph and 7 more, since {accepted[-1].session}" in words
    assert "sglang 0.5.16 -> 0.5.17" in words
    assert "driver 580.159.04 -> 590.1" in words


def test_text_of_others_is_no_markup():
    record = states.red()
    server = record.servers[states.NOT_BOOTED]
    said = states.message(server.id, "<script>alert(1)</script>")
    evil = replace(server, messages=dict.fromkeys(server.messages, said))
    text = render_page(replace(record, servers={**record.servers, evil.id: evil}))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_the_worst_night_of_sixty_servers_fits():
    record = states.sixty()
    said = states.message("", "Error: no\n" + "x" * 5000)
    servers = {
        id_: replace(server, outcomes={"fc-width": "failed"}, messages={"fc-width": said})
        for id_, server in record.servers.items()
    }
    nights = states.history_of(70)
    own = [point for point in nights if point.server == states.SLOW]
    points = [replace(point, server=id_) for id_ in servers for point in own]
    text = render_page(
        replace(record, servers=servers), accepted=states.accepted_nights(), history=points
    )
    assert "60 of 60 servers are red." in text
    assert len(text.encode()) < LIMIT


def test_of_a_traceback_the_error_is_the_sentence():
    record = states.red()
    server = record.servers[states.NOT_BOOTED]
    said = "def test_flags():\n>   assert 1 == 2\nE       AssertionError: 1 is not 2\nE       more"
    told = states.message(server.id, said)
    server = replace(server, messages=dict.fromkeys(server.messages, told))
    text = render_page(replace(record, servers={**record.servers, server.id: server}))
    assert "<p>AssertionError: 1 is not 2</p>" in text


def test_links_lead_to_the_logs():
    record = states.real()
    id_, server = next(iter(record.servers.items()))
    boot = replace(server.last, log=f"{record.session}/tiny--none--graph/boot-0/server.log")
    text = render_page(
        replace(record, servers={id_: replace(server, boots=(boot,))}), logs="../../nights"
    )
    assert f'href="../../nights/{boot.log}"' in text


def test_a_figure_is_left_out_where_the_record_holds_nothing(rendered):
    words = Page(rendered["nothing"][1]).words
    assert "Break-even" not in words
    assert "over time" not in Page(render_page(states.green())).words
    assert "Speed over time, tok/s" in Page(rendered["green"][1]).words
