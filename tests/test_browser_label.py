"""The labelling page in a real browser, used as people use it."""

import threading
import time

import numpy as np
import pytest
from tests.browser import open_browser
from tests.command_line import PATIENCE
from tests.generated_graphs import generate
from tests.label_server import serving, until

from graphconv import Graph
from graphconv.io.label_file import latest_labels, read_label_lines

ENTER, ESCAPE, TAB = "\ue007", "\ue00c", "\ue004"
NASTY = "<img src=x onerror=document.title='broken'>"
N_NODES = 120


@pytest.fixture(scope="module")
def browser():
    opened = open_browser()
    yield opened
    opened.driver.quit()


@pytest.fixture
def graph():
    made = generate("homophilous, bag of words", n_nodes=N_NODES)
    ids = [f"{NASTY} node", *(f"node-{number}" for number in range(1, N_NODES))]
    return Graph(made.adjacency, made.features, node_ids=ids), made.labels


@pytest.fixture
def desk(browser, graph, tmp_path):
    """The page, its session, and the true labels; nothing may be complained of or asked outside."""
    table = {
        "title": [f"all about {number}" for number in range(N_NODES)],
        "link": ["https://example.invalid/page"] * N_NODES,
        "markup": [NASTY] * N_NODES,
    }
    finished = []

    def finish():
        finished.append(1)
        return {"output": "the-folder"}

    with serving(graph[0], tmp_path / "labels.csv", table, finish) as (session, access):
        desk = Desk(browser, session, access, graph[1])
        desk.finished = finished
        yield desk
        browser.driver.get("about:blank")
        severe = browser.errors()
        assert severe == desk.expected_errors(severe)
        assert browser.outside_requests((access.address(),)) == []
        assert browser.run("return document.title") != "broken"


class Desk:
    """Somebody in front of the page."""

    def __init__(self, page, session, access, truth):
        self.page, self.session, self.access, self.truth = page, session, access, truth
        self.may_fail = ()

    def expected_errors(self, entries):
        return [one for one in entries if any(part in one["message"] for part in self.may_fail)]

    def open(self, **screen):
        self.page.visit(self.access.address(), **screen)
        self.page.wait("card !== null && state.mapVersion > 0", "the first question")

    @property
    def node(self):
        return self.page.run("return question.node")

    def name(self, node):
        return f"kind {self.truth[node]}"

    def answer(self):
        """By the keyboard, truthfully; a class that is new is named."""
        node, n_before = self.node, len(self.session.answers.actions)
        known = self.page.run("return card.classes")
        if self.name(node) in known:
            self.page.press(str(known.index(self.name(node)) + 1))
        else:
            self.page.press("n")
            self.page.wait("document.getElementById('naming').open", "the dialog")
            self.page.press(self.name(node), ENTER)
        until(lambda: len(self.session.answers.actions) > n_before, what="the answer")
        self.page.wait(
            f"question.node !== {node} && state.picture === state.answers", "the next question"
        )
        return node

    def click(self, selector):
        """With the mouse, in the middle of an element."""
        x, y = self.page.run(
            "const b = document.querySelector(arguments[0]).getBoundingClientRect();"
            "return [b.left + b.width / 2, b.top + b.height / 2]",
            selector,
        )
        self.page.move_mouse(x, y, click=True)

    def saved(self):
        """What the file holds: label by node."""
        held = latest_labels(read_label_lines(self.session.answers.file.path))
        return {node: line.label for node, line in held.items()}

    def ids(self, *nodes):
        return [self.session.answers.node_ids[node] for node in nodes]


def test_label_by_keys_from_nothing(desk):
    desk.open()
    assert "no class yet" in desk.page.text("#classes")
    asked = [desk.answer() for _ in range(12)]
    assert len(set(asked)) == 12
    truth = {desk.ids(node)[0]: desk.name(node) for node in asked}
    assert desk.saved() == truth
    lines = read_label_lines(desk.session.answers.file.path)
    assert [line.how for line in lines[:5]] == ["asked"] * 4 + ["random"]
    assert {line.who for line in lines} == {"tester"}
    until(lambda: desk.session.is_settled)
    desk.page.wait("state.estimate !== null", "an estimate")
    assert "95 % confidence" in desk.page.text("#estimate-about")
    # The map's colours are the model's.
    until(
        lambda: np.array_equal(desk.page.run("return [...nodes.kind]"), desk.session.found),
        what="the colours of the last fit",
    )
    node, best = desk.node, desk.page.run("return card.classes[likeliest()]")
    desk.page.press(ENTER)
    desk.page.wait(f"question.node !== {node}", "the next question")
    assert desk.saved()[desk.ids(node)[0]] == best


def test_label_by_mouse_undo_and_skip(desk):
    desk.open()
    first = desk.answer()
    second = desk.node
    desk.click("#classes button")
    desk.page.wait(f"question.node !== {second}", "the next question")
    assert len(desk.saved()) == 2
    desk.page.press("u")
    desk.page.wait(f"question.node === {second} && card.label < 0", "the question again")
    assert list(desk.saved()) == desk.ids(first)
    desk.click("#skip")
    desk.page.wait(f"question.node !== {second}", "the next question")
    assert desk.session.answers.skipped == {second}
    desk.click("#undo")
    until(lambda: not desk.session.answers.skipped)
    for _ in range(2):
        desk.page.press("u")
    desk.page.wait("document.getElementById('saved').textContent.startsWith('There is nothing')",
                   "the end of undo")  # fmt: skip
    assert desk.saved() == {}


def test_click_on_the_map_and_lasso(desk):
    desk.open()
    desk.answer()
    x, y = desk.page.run(
        "const b = map.canvas.getBoundingClientRect(), p = map.onScreen(7);"
        "return [b.left + p[0], b.top + p[1]]"
    )
    expected = desk.page.run("const p = map.onScreen(7); return map.at(p[0], p[1])")
    desk.page.move_mouse(x, y)
    desk.page.wait("!document.getElementById('tip').hidden", "the hover text")
    desk.page.move_mouse(x, y, click=True)
    desk.page.wait(f"question.node === {expected} && question.how === 'chosen'", "that node")
    left, top, right, bottom = desk.page.run(
        "const b = map.canvas.getBoundingClientRect();"
        "return [b.left + 2, b.top + 2, b.right - 2, b.bottom - 2]"
    )
    desk.page.press("l")
    desk.page.drag([(left, top), (right, top), (right, bottom), (left, bottom)])
    desk.page.wait("document.getElementById('several').open", "the dialog")
    assert f"{N_NODES} nodes inside" in desk.page.text("#several-about")
    desk.page.press("1")
    until(lambda: len(desk.session.answers.labelled) == N_NODES)
    desk.page.wait("document.getElementById('node-id').textContent.startsWith('Every node')"
                   " || card.label >= 0", "the end")  # fmt: skip
    desk.page.press("u")
    until(lambda: len(desk.session.answers.labelled) == 1)


def test_search_yes_no_help_and_table(desk):
    desk.open()
    for _ in range(6):
        desk.answer()
    desk.page.press("/")
    desk.page.wait("document.getElementById('search').open", "the search")
    desk.page.press("about 77")
    desk.page.wait("document.querySelectorAll('#found button').length === 1", "one node")
    desk.page.press(ENTER)
    desk.page.wait("question.node === 77 && question.how === 'chosen'", "node 77")
    desk.page.press("y")
    best = desk.page.run("return card.classes[likeliest()]")
    assert f"Is it {best}?" in desk.page.text("#classes")
    desk.page.press("2")  # no: the next likeliest is asked about
    assert f"Is it {best}?" not in desk.page.text("#classes")
    asked = desk.page.run("return card.classes[yesNoSuggested]")
    desk.page.press("1")
    until(lambda: "node-77" in desk.saved())
    assert desk.saved()["node-77"] == asked
    desk.page.press("y", "?")
    assert desk.page.run("return document.getElementById('help').open")
    desk.page.press(ESCAPE)
    desk.page.run(
        "const s = document.getElementById('filter-kind'); s.value = 'labelled';"
        "s.dispatchEvent(new Event('change'))"
    )
    desk.page.wait("document.querySelectorAll('#rows tr').length === 7", "seven rows")
    assert "node-77" in desk.page.text("#rows")
    desk.page.run("document.getElementById('finish').click()")
    desk.page.wait("document.getElementById('saved').textContent.includes('the-folder')", "the end")
    assert desk.finished == [1]


def test_a_wrong_label_is_worth_a_second_look(desk):
    for node in range(60):
        desk.session.give([node], desk.name(node), "tester", "chosen")
    until(lambda: desk.session.is_settled, seconds=60)
    believed = set(range(60)) - {node for node, _, _ in desk.session.doubts}
    node = min(believed)
    wrong = next(f"kind {k}" for k in range(4) if f"kind {k}" != desk.name(node))
    desk.session.give([node], wrong, "tester", "chosen")
    until(lambda: desk.session.is_settled, seconds=60)
    doubted = [node for node, _, _ in desk.session.doubts]
    assert node in doubted
    desk.open()
    desk.page.press("c")
    desk.page.wait(f"question.node === {doubted[0]}", "the most doubtful one")
    assert "but the others around it say" in desk.page.text("#given")
    number = desk.page.run("return card.doubt.class") + 1
    desk.page.press(str(number))
    until(lambda: desk.session.answers.labels[doubted[0]] == number - 1)


def test_reload_and_a_second_page_agree(desk):
    desk.open()
    for _ in range(3):
        desk.answer()
    before = desk.page.run("return [state.nAnswered, card.classes.length]")
    desk.page.driver.refresh()
    desk.page.wait("card !== null && state.mapVersion > 0", "the page again")
    assert desk.page.run("return [state.nAnswered, card.classes.length]") == before
    first = desk.page.driver.current_window_handle
    desk.page.driver.switch_to.new_window("tab")
    second = desk.page.driver.current_window_handle
    desk.page.driver.get(desk.access.address())
    desk.page.wait("card !== null", "the second page")
    other = desk.node
    desk.page.driver.switch_to.window(first)
    assert desk.node != other  # nobody is asked the same at the same time
    desk.answer()
    desk.page.driver.switch_to.window(second)
    desk.page.wait("state.nAnswered === 4 && state.picture === state.answers", "the news")
    assert desk.node == other
    kinds = desk.page.run("return [...nodes.kind]")
    desk.page.driver.close()
    desk.page.driver.switch_to.window(first)
    desk.page.wait("state.nAnswered === 4 && shown.looks === state.looks", "the news")
    assert desk.page.run("return [...nodes.kind]") == kinds


def test_names_are_shown_as_they_are(desk):
    desk.open()
    desk.page.run("pick(0)")
    desk.page.wait("card.node === 0", "node 0")
    assert desk.page.text("#node-id") == f"{NASTY} node"
    assert NASTY in desk.page.text("#columns")
    desk.page.press("n")
    desk.page.wait("document.getElementById('naming').open", "the dialog")
    desk.page.press(f"a {NASTY}", ENTER)
    until(lambda: desk.session.answers.class_names == [f"a {NASTY}"])
    desk.page.wait(
        "document.getElementById('legend').textContent.includes('onerror')", "the legend"
    )
    assert desk.page.run("return document.images.length") == 0
    link = desk.page.run("const a = document.querySelector('#columns a');"
                         "return a && [a.href, a.rel]")  # fmt: skip
    assert link in (None, ["https://example.invalid/page", "noopener noreferrer"])


def test_a_full_disk_is_said_and_nothing_pretended(desk, monkeypatch):
    desk.open()
    desk.answer()
    node, before = desk.node, desk.saved()
    desk.may_fail = ("507",)

    def refuse(lines):
        raise OSError(28, "No space left on device", "labels.csv")

    with monkeypatch.context() as patch:
        patch.setattr(desk.session.answers.file, "append", refuse)
        desk.page.press("1")
        desk.page.wait("!document.getElementById('alarm').hidden", "the alarm")
        assert "Not saved: No space left on device" in desk.page.text("#alarm")
        assert desk.page.text("#saved") == "Not saved."
    assert desk.saved() == before
    assert desk.node == node
    assert desk.session.answers.labels[node] < 0
    desk.page.press("1")
    desk.page.wait(f"question.node !== {node}", "the next question")
    assert desk.page.run("return document.getElementById('alarm').hidden")
    assert len(desk.saved()) == 2


@pytest.mark.parametrize("dark", [False, True])
def test_phone_width_and_contrast(desk, dark):
    desk.open(width=390, height=844, dark=dark)
    for _ in range(2):
        desk.answer()
    assert desk.page.run("return innerWidth") == 390
    assert desk.page.sideways() <= 0
    heights = desk.page.run(
        "return [...document.querySelectorAll('#card > .buttons button, #classes button')]"
        ".map(e => e.getBoundingClientRect().height)"
    )
    assert min(heights) >= 36
    assert desk.page.contrast("body") > 12
    for selector in (".soft", "#headline", "#classes .share"):
        assert desk.page.contrast(selector) >= 4.5, selector


def test_keyboard_only_and_names_for_screen_readers(desk):
    desk.open()
    desk.page.press(TAB)
    assert desk.page.run("return document.activeElement.textContent") == "Skip to the question"
    desk.page.focus_with_tab("#new-class")
    desk.page.press(ENTER)
    desk.page.press("first", ENTER)
    until(lambda: desk.session.answers.class_names == ["first"])
    until(lambda: desk.session.is_settled)  # or the next card takes the place of this one
    desk.page.wait("card.classes.length === 1", "the class")
    desk.page.focus_with_tab("#classes button", most=200)  # news may put a reader back
    desk.page.press(" ")
    until(lambda: len(desk.session.answers.labelled) == 2)
    desk.page.focus_with_tab("#map")
    before = desk.page.run("return [...map.centre]")
    desk.page.press("\ue014")
    assert desk.page.run("return [...map.centre]") != before
    unnamed = desk.page.run(
        "return [...document.querySelectorAll('button, input, select, canvas[role], section')]"
        ".filter(e => !(e.textContent.trim() || e.ariaLabel || e.labels?.length"
        " || e.getAttribute('aria-label'))).map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert desk.page.run("return document.getElementById('saved').getAttribute('aria-live')")


def test_a_slow_fit_says_how_old_the_picture_is(desk, monkeypatch):
    """As on a large graph: the model follows when it can, and answers never wait for it."""
    desk.open()
    desk.answer()
    may_go_on = threading.Event()
    fit = desk.session.learner.fit

    def slow_fit(*arguments):
        may_go_on.wait(PATIENCE)
        return fit(*arguments)

    monkeypatch.setattr(desk.session.learner, "fit", slow_fit)
    for _ in range(2):
        node = desk.node
        desk.page.press("1")
        desk.page.wait(f"question.node !== {node}", "the next question")
    assert len(desk.saved()) == 3
    old = "/the picture is \\d+ s old/.test(document.getElementById('headline').textContent)"
    desk.page.wait(old, "the age of the picture")
    may_go_on.set()
    desk.page.wait(f"!{old} && state.picture === state.answers", "the picture")


def test_signing_in_with_a_password(browser, graph, tmp_path):
    access = {"password": "a long secret", "who": ""}
    with serving(graph[0], tmp_path / "labels.csv", **access) as (session, given):
        browser.visit(given.address())
        browser.wait("document.getElementById('login').open", "the sign-in")
        for password, is_right in (("wrong one", False), ("a long secret", True)):
            browser.run(
                "document.getElementById('login-name').value = 'ann';"
                "document.getElementById('login-password').value = arguments[0];"
                "document.getElementById('login-form').requestSubmit()",
                password,
            )
            if not is_right:
                browser.wait("login.textContent.includes('not the password')", "the refusal")
        browser.wait("card !== null", "the question")
        browser.press("n")
        browser.press("red", ENTER)
        until(lambda: len(session.answers.actions) == 1)
        assert session.answers.actions[0].who == "ann"
        browser.driver.get("about:blank")
        browser.errors()


def test_a_hundred_thousand_nodes_stay_smooth(browser, tmp_path):
    """Frames while zooming, by a software renderer, far slower than any graphics card."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    n = 100_000
    ends = rng.integers(0, n, (2, 2 * n))
    links = sp.coo_array((np.ones(2 * n), ends), shape=(n, n)).tocsr()
    links = links.maximum(links.T)
    links.data[:] = 1
    graph = Graph(links, rng.normal(size=(n, 8)).astype(np.float32))
    with serving(graph, tmp_path / "labels.csv") as (session, access):
        session.places = rng.uniform(-1, 1, (n, 2)).astype(np.float32)
        session.map_version += 1
        browser.visit(access.address())
        browser.wait("card !== null && map.count === 100000", "the map")
        # The best of some: others may have the processor meanwhile.
        best = (
            "function best(n, work) { let least = Infinity; for (let k = 0; k < n; k++) {"
            " const begin = performance.now(); work(k);"
            " least = Math.min(least, performance.now() - begin); } return least; }"
        )
        draw = "k => { map.scale = 1 + k / 5; map.drawNow(); map.gl.finish(); }"
        assert browser.run(f"{best} return best(10, {draw})") < 1000
        assert browser.run(f"{best} return best(100, k => map.at(3 * k, 2 * k))") < 20
        session.give([1], "a", "me", "chosen")
        began = time.monotonic()
        browser.wait("state.nAnswered === 1", "the answer")
        assert time.monotonic() - began < 120
        browser.driver.get("about:blank")
        browser.errors()
