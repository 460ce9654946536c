"""The report and the karate animation in a real browser, used as people use them."""

import csv
import re

import numpy as np
import pytest
from tests.browser import open_browser
from tests.generated_graphs import generate, split

from graphconv import Graph, load_dataset
from graphconv.paper.karate import edges_of, train_embeddings
from graphconv.report import karate
from graphconv.report.page import write_report
from graphconv.training.fit import fit_gcn

TAB, ENTER, SPACE, LEFT, RIGHT, HOME, END = (
    "\ue004", "\ue007", " ", "\ue012", "\ue014", "\ue011", "\ue010",
)  # fmt: skip
NASTY = "<img src=x onerror=document.title='broken'>"


@pytest.fixture(scope="module")
def browser():
    opened = open_browser()
    yield opened
    opened.driver.quit()


@pytest.fixture
def page(browser):
    """The browser; whatever a test does, the page must stay calm and keep to itself."""
    yield browser
    assert browser.errors() == []
    assert browser.outside_requests() == []


@pytest.fixture(scope="module")
def club(tmp_path_factory):
    """Report of the karate club: small, with its graph."""
    fitted = fit_gcn(load_dataset("karate"), overrides={"max_epochs": 60})
    path = tmp_path_factory.mktemp("club") / "report.html"
    write_report(fitted, path)
    return path, fitted


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Report of 2,100 nodes, drawn with WebGL and without a graph, whose names try to break out."""
    graph = split(generate("homophilous, bag of words", n_nodes=2100), n_validation=100)
    named = Graph(
        graph.adjacency,
        graph.features,
        graph.labels,
        class_names=["plain", f"class {NASTY}", "c" * 80, "d_" * 40],
        node_ids=[f"{NASTY} {'x' * 150}", *(f"node-{n}" for n in range(1, 2100))],
        train_index=graph.train_index,
        validation_index=graph.validation_index,
        test_index=graph.test_index,
        name="crowd " + "e" * 90,
    )
    fitted = fit_gcn(named, overrides={"max_epochs": 30})
    path = tmp_path_factory.mktemp("crowd") / "report.html"
    write_report(fitted, path)
    return path, fitted


def where(page, chart, node):
    """Where a node's mark is on the screen; the chart is scrolled into view."""
    return page.run(
        """
        const chart = document.getElementById(arguments[0]);
        chart.scrollIntoView({block: "center"});
        const layout = chart._fullLayout, box = chart.getBoundingClientRect();
        for (const trace of chart.data) {
          const place = (trace.customdata ?? []).indexOf(arguments[1]);
          if (place >= 0) return [
            box.left + layout._size.l + layout.xaxis.l2p(trace.x[place]),
            box.top + layout._size.t + layout.yaxis.l2p(trace.y[place])];
        }
        return null;
        """,
        chart,
        node,
    )


def search(page, query):
    page.run("document.getElementById('query').focus()")
    page.run("document.getElementById('query').value = ''")
    page.press(query, ENTER)


def test_the_watch_sees_complaints_and_requests(browser, tmp_path):
    """Else the checks of `page` could not fail."""
    path = tmp_path / "loud.html"
    path.write_text("<img src='http://outside.invalid/a.png'><script>nonsense()</script>")
    browser.open(path)
    assert any("nonsense is not defined" in entry["message"] for entry in browser.errors())
    assert browser.outside_requests() == ["http://outside.invalid/a.png"]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["club", "crowd"])
def test_everything_is_drawn(page, name, dark, request):
    path, _ = request.getfixturevalue(name)
    page.open(path, dark=dark)
    charts = page.run("return [...document.querySelectorAll('.chart')].map(e => e.id)")
    drawn = page.run("return [...document.querySelectorAll('.js-plotly-plot')].map(e => e.id)")
    has_graph = name == "club"
    assert sorted(set(charts) - set(drawn)) == ([] if has_graph else ["graph"])
    assert page.run("return document.getElementById('graph-section').hidden") is not has_graph
    n_marks = page.run(
        "return document.getElementById('map').data"
        ".reduce((sum, trace) => sum + (trace.customdata?.length ?? 0), 0)"
    )
    assert n_marks == (34 if has_graph else 2100)
    assert page.run("return document.title").startswith("Report: ")


def test_search_finds_and_marks_a_node(page, club):
    path, fitted = club
    page.open(path)
    search(page, "33")
    shares = fitted.ensemble_probabilities()[33]
    best = int(shares.argmax())
    assert page.text("#node h3") == "Node 33"
    label, sure = re.match(r"(.*), ([\d.]+) % sure\.", page.text("#node p")).groups()
    assert label == f"community {best}"
    assert float(sure) == pytest.approx(100 * shares.max(), abs=0.6)
    assert page.text("#search-status") == "1 node found."
    listed = page.run(
        "return [...document.querySelectorAll('.share span:first-child')].map(e => e.textContent)"
    )
    assert listed == [f"community {number}" for number in np.argsort(-shares)[:3]]
    for chart in ("map", "graph"):
        ring = page.run(
            f"const d = document.getElementById('{chart}').data; "
            "return [d.at(-1).x[0], d.at(-1).y[0]]"
        )
        mark = page.run(
            f"for (const t of document.getElementById('{chart}').data) "
            "{ const i = (t.customdata ?? []).indexOf(33); if (i >= 0) return [t.x[i], t.y[i]]; }"
        )
        assert ring == mark
        tag = page.run(f"return document.getElementById('{chart}').layout.annotations[0].text")
        assert tag == "33"


def test_a_node_has_neighbours_columns_and_reasons(page, club):
    path, fitted = club
    page.open(path)
    assert "There are no features" in page.text("#drives")
    search(page, "11")  # member 11 is linked with the instructor only
    listed = "return [...document.querySelectorAll('#node li button')].map(e => e.textContent)"
    assert page.run(listed) == ["0"]
    page.run("document.querySelector('#node li button').click()")
    assert page.text("#node h3") == "Node 0"
    assert "Neighbours (6 of 16)" in page.text("#node")
    explained = page.run("return Object.keys(data.why).map(Number)")
    assert explained
    page.run("choose(arguments[0], false)", explained[0])
    assert "speaks" in page.text("#node ul:last-child") or "decides it" in page.text("#node")
    node_id = fitted.graph.node_ids[explained[0]]
    assert page.text("#node h3") == f"Node {node_id}"


def test_what_drives_the_labels_has_bars(page, crowd):
    page.open(crowd[0])
    assert "Without its links" in page.text("#drives")
    widths = page.run(
        "return [...document.querySelectorAll('#drives .bar')]"
        ".map(e => e.getBoundingClientRect().width)"
    )
    assert len(widths) > 2
    assert max(widths[:2]) > 20


def test_search_by_a_part_of_an_id(page, crowd):
    path, _ = crowd
    page.open(path)
    search(page, "ODE-20")  # capitals do not matter
    # node-20, node-200 to 209 and node-2000 to 2099.
    assert page.text("#search-status") == "111 nodes found; the first 12 are shown."
    matches = page.run(
        "return [...document.querySelectorAll('#matches li')].map(e => e.textContent)"
    )
    assert matches[:3] == ["node-20", "node-200", "node-201"]
    assert len(matches) == 12
    assert page.text("#node h3") == "Node node-20"
    search(page, "nobody")
    assert page.text("#search-status") == "No node has an id with “nobody” in it."
    assert page.run("return document.querySelectorAll('#matches li').length") == 0


@pytest.mark.parametrize("name", ["club", "crowd"])
def test_hover_tells_id_label_and_confidence(page, name, request):
    path, fitted = request.getfixturevalue(name)
    page.open(path)
    shares = fitted.ensemble_probabilities()
    names = [str(class_name) for class_name in fitted.graph.class_names]
    # The mark that lies farthest from the others can't be mistaken.
    node = page.run(
        """
        const x = nodes.x, y = nodes.y;
        let best = [-1, null];
        for (let i = 1; i < x.length; i++) {
          let nearest = Infinity;
          for (let j = 0; j < x.length; j++)
            if (i !== j) nearest = Math.min(nearest, (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2);
          if (nearest > best[0]) best = [nearest, i];
        }
        return best[1];
        """
    )
    x, y = where(page, "map", node)
    page.move_mouse(x, y)
    page.wait("document.querySelectorAll('#map .hoverlayer .hovertext').length > 0", "hover text")
    said = page.text("#map .hoverlayer")
    label, sure = names[int(shares[node].argmax())], 100 * shares[node].max()
    assert said.startswith(f"{fitted.graph.node_ids[node]}{label}, ")
    assert float(re.search(r", ([\d.]+) % sure", said)[1]) == pytest.approx(sure, abs=1)
    page.move_mouse(x, y, click=True)
    page.wait(f"chosen === {node}", "the node that was clicked on")
    assert page.text("#node h3") == f"Node {fitted.graph.node_ids[node]}"


def test_names_are_shown_as_they_are(page, crowd):
    path, _ = crowd
    page.open(path)
    search(page, NASTY)
    assert page.text("#node h3").startswith(f"Node {NASTY}")
    assert page.run("return document.title").startswith("Report: crowd")
    assert page.run("return document.images.length") == 0
    assert NASTY in page.text("#legend")
    ticks = page.run(
        "return [...document.querySelectorAll('#confusion .yaxislayer-above text')]"
        ".map(e => e.textContent)"
    )
    assert ticks[1].startswith("class <img src=x")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["club", "crowd"])
def test_narrow_screen_has_no_sideways_scroll(page, name, dark, request):
    path, _ = request.getfixturevalue(name)
    page.open(path, width=360, height=740, dark=dark)
    assert page.sideways() <= 0
    search(page, NASTY if name == "crowd" else "0")
    page.run("document.querySelector('details').open = true")
    assert page.sideways() <= 0
    widths = page.run(
        "return [...document.querySelectorAll('.js-plotly-plot')]"
        ".map(e => e.getBoundingClientRect().right)"
    )
    assert max(widths) <= 360
    # Fingers need room: controls are at least 36 pixels high, but for words in a table.
    heights = page.run(
        "return [...document.querySelectorAll('button')].filter(e => !e.closest('table'))"
        ".map(e => e.getBoundingClientRect().height)"
    )
    assert min(heights) >= 36


def test_narrow_confusion_matrix_has_room_for_its_cells(page, crowd):
    path, _ = crowd
    page.open(path, width=360, height=740)
    width = page.run("return document.getElementById('confusion')._fullLayout._size.w")
    assert width > 150


@pytest.mark.parametrize("dark", [False, True])
def test_colours_can_be_read_in_light_and_dark(page, club, dark):
    path, _ = club
    page.open(path, dark=dark)
    assert page.contrast("body") > 12
    for selector in (".soft", "figcaption", "nav a", "table button", "#search button"):
        assert page.contrast(selector) >= 4.5, selector
    for selector in ("#loss .xtitle", "#loss .ytitle", "#loss .xtick text", "#confidence .ytitle"):
        assert page.contrast(selector, "fill") >= 7, selector
    backdrop = page.run("return getComputedStyle(document.body).backgroundColor")
    assert backdrop == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")


def test_page_follows_a_change_to_dark(page, club):
    path, _ = club
    page.open(path)
    before = page.contrast("#loss .xtitle", "fill")
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    page.wait(
        "document.getElementById('loss')._fullLayout.font.color === '#ececec'", "charts in the dark"
    )
    assert before > 7
    assert page.contrast("#loss .xtitle", "fill") > 7
    bar = page.run("return document.getElementById('confidence').data[0].marker.color")
    assert bar == "#3D9BE0"


def test_keyboard_alone(page, club):
    path, _ = club
    page.open(path)
    page.press(TAB)
    assert page.run("return document.activeElement.textContent") == "Skip to the summary"
    page.focus_with_tab("#query")
    page.press("5", ENTER)
    assert page.text("#node h3") == "Node 5"
    page.focus_with_tab("#matches button")
    page.press(TAB, ENTER)
    assert page.text("#node h3") == "Node 15"

    page.focus_with_tab("input[name=colour]")
    page.press(RIGHT)
    assert page.run("return document.getElementById('map').data[0].name") == "confidence"
    assert page.run("return document.getElementById('legend').hidden")
    page.press(LEFT)
    page.focus_with_tab("#legend button")
    page.press(SPACE)
    assert page.run("return document.activeElement.getAttribute('aria-pressed')") == "false"
    visible = page.run("return document.getElementById('map').data.map(t => t.visible ?? true)")
    assert visible.count(False) == 1
    page.press(SPACE)
    assert page.run("return document.activeElement.getAttribute('aria-pressed')") == "true"

    page.focus_with_tab("table button[data-node]")
    node = page.run("return document.activeElement.textContent")
    page.press(ENTER)
    assert page.text("#node h3") == f"Node {node}"
    assert page.run("return document.getElementById('find').getBoundingClientRect().top") < 50


def test_no_button_sends_data_away(page, club):
    path, _ = club
    page.open(path)
    titles = page.run(
        "return [...document.querySelectorAll('.modebar-btn')].map(e => e.dataset.title)"
    )
    assert set(titles) == {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}


@pytest.fixture(scope="module")
def animation(tmp_path_factory):
    graph = load_dataset("karate")
    evolution = train_embeddings(graph, range(1), 60)
    shown = karate.Club(edges_of(graph), graph.labels, graph.train_index, evolution.positions[:, 0])
    path = tmp_path_factory.mktemp("karate") / "karate.html"
    karate.write_page(shown, evolution.accuracy[:, 0], path)
    return path


def frame(page):
    """The iteration that is said to be shown, and where a member is."""
    status = page.text("#status")
    transform = page.run(
        "return document.querySelector('#plane .member').getAttribute('transform')"
    )
    return int(re.match(r"Iteration (\d+) of 60", status)[1]), transform


def test_animation_plays_to_its_end(page, animation):
    page.open(animation)
    end = frame(page)
    assert end[0] == 60
    # Time passes when we say so: a busy machine would miss the second and a half it takes.
    page.run(
        "window.clock = 0; performance.now = () => clock;"
        "window.requestAnimationFrame = draw => { window.next = draw; };"
        "window.pass = n => { for (let i = 0; i < n; i++) next(clock += 25); };"
    )
    page.run("document.getElementById('play').click(); pass(10)")
    assert page.text("#play") == "Pause"
    under_way = frame(page)
    assert under_way[0] == 10
    assert under_way[1] != end[1]
    page.run("document.getElementById('play').click(); pass(10)")
    assert page.text("#play") == "Play"
    assert frame(page) == under_way
    page.run("document.getElementById('play').click(); pass(50)")
    assert page.text("#play") == "Play"
    assert frame(page) == end


def test_animation_slider_and_keys_move_the_frames(page, animation):
    page.open(animation)
    page.focus_with_tab("#slider")
    page.press(HOME)
    first = frame(page)
    page.press(RIGHT, RIGHT)
    third = frame(page)
    assert (first[0], third[0]) == (0, 2)
    assert first[1] != third[1]
    page.press(LEFT)
    assert frame(page)[0] == 1
    page.press(END)
    assert frame(page)[0] == 60
    box = page.run(
        "const b = slider.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]"
    )
    page.move_mouse(box[0] + box[2] / 2, box[1] + box[3] / 2, click=True)
    assert 25 <= frame(page)[0] <= 35
    assert page.run("return document.querySelectorAll('#plane line').length") == 78 + 2


@pytest.mark.parametrize("dark", [False, True])
def test_animation_on_a_narrow_screen(page, animation, dark):
    page.open(animation, width=360, height=740, dark=dark)
    assert page.sideways() <= 0
    assert page.contrast("body") > 12
    assert page.contrast("#play") > 12


def test_labels_can_be_saved_as_a_table(page, crowd):
    path, fitted = crowd
    page.open(path)
    page.run(
        "window.saved = []; URL.createObjectURL = blob => { blob.text().then(t => saved.push(t));"
        " return '#'; };"
        "HTMLAnchorElement.prototype.click = function() { saved.name = this.download; }"
    )
    page.run("document.getElementById('download').click()")
    page.wait("saved.length === 1", "the file")
    name, text = page.run("return [saved.name, saved[0]]")
    lines = list(csv.reader(text.splitlines()))
    assert name == "labels.csv"
    assert lines[0] == ["id", "label", "confidence"]
    assert [line[0] for line in lines[1:]] == [str(node) for node in fitted.graph.node_ids]
    shares = fitted.ensemble_probabilities()
    names = [str(one) for one in fitted.graph.class_names]
    assert [line[1] for line in lines[1:]] == [names[k] for k in shares.argmax(axis=1)]
    assert float(lines[1][2]) == pytest.approx(float(shares[0].max()), abs=2e-4)
