"""The report in a real browser: it loads nothing, runs nothing, and fits a phone."""

import io
import shutil

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread
from pages import REPORTED, SECTIONS
from synthetic_fits import synthetic_fit

import pyflowers
from pyflowers.data import from_frame
from pyflowers.workflow.experiment import compare_all

pytestmark = pytest.mark.browser

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

RUN = "window.pwned=1"
SCRIPT = f"<script>{RUN}</script>"
AWAY = "http://127.0.0.1:9/"

INJECTIONS = [
    f"<img src=x onerror={RUN}>",
    *(f"{end}{SCRIPT}" for end in ("", "</title>", "</style>", "</script>", "</textarea>")),
    *(f"{end}{SCRIPT}" for end in ("-->", "]]>", "<!--", '">', "'>", "\u202e")),
    *(f"<{event}={RUN}>" for event in ("svg onload", "body onload", "details open ontoggle")),
    *(f"<{event}={RUN}>" for event in ("video><source onerror", "input autofocus onfocus")),
    *(f"<{link}=javascript:{RUN}>" for link in ("a href", "math><mi xlink:href", "object data")),
    *(f"<svg>{SCRIPT}</svg>", f"<embed src=javascript:{RUN}>", f"javascript:{RUN}"),
    *(
        "<iframe srcdoc='<script>parent.pwned=1</script>'>",
        "<iframe src=javascript:parent.pwned=1>",
    ),
    *(f"<link rel=stylesheet href={AWAY}x.css>", f"<base href={AWAY}>"),
    f"<meta http-equiv=refresh content='0;url={AWAY}'>",
    f"<form action={AWAY}><button>b",
    *("<style>*{display:none}</style>", "<plaintext>", "<xmp>", "<template>"),
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    *(f'" onmouseover="{RUN}', f"' onmouseover='{RUN}", f"` onmouseover=`{RUN}"),
    *(f'" autofocus onfocus="{RUN}" x="', f'"/><img src=x onerror={RUN}>'),
    *(f"data:text/html,{SCRIPT}", f"');{RUN};//", f'");{RUN};//', f"${{{RUN}}}"),
    *("{{ 7*7 }}", "{% for x in [1] %}{{ x }}{% endfor %}", "{# comment #}"),
    "{{ self.__init__.__globals__ }}",
    *(f"&lt;script&gt;{RUN}&lt;/script&gt;", f"&#60;script&#62;{RUN}"),
    f"expression({RUN});url({AWAY}x)",
]


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, headless."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("there is no chromium; apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """Open a file and record its complaints and requests."""
    contexts = []

    def opened(path, *, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        seen = {"console": [], "requests": []}
        page.on("console", lambda message: seen["console"].append(message.text))
        page.on("pageerror", lambda error: seen["console"].append(str(error)))
        page.on("request", lambda request: seen["requests"].append(request.url))
        page.goto(path.resolve().as_uri())
        page.wait_for_load_state("load")
        return page, seen

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def report(lecture_fits, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    fits = list(lecture_fits.values())
    return pyflowers.report(fits, path, comparisons=compare_all(fits))


def outside(requests, path):
    return [u for u in requests if u != path.resolve().as_uri() and not u.startswith("data:")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_lectures_report_opens(open_page, report, width, scheme):
    page, seen = open_page(report, width=width, scheme=scheme)
    assert seen["console"] == []
    assert outside(seen["requests"], report) == []
    sections = page.eval_on_selector_all("main > section", "nodes => nodes.map(n => n.id)")
    assert sections == SECTIONS
    decoded = page.eval_on_selector_all(
        "img", "nodes => nodes.map(n => n.complete && n.naturalWidth > 0 && n.naturalHeight > 0)"
    )
    assert len(decoded) == 29
    assert all(decoded)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_figure_is_dark_on_a_dark_page(open_page, report):
    """The figure has the page's background, in both colour schemes."""
    for scheme in ("light", "dark"):
        page, _ = open_page(report, scheme=scheme)
        image = page.locator("img").first
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        shot = page.screenshot(clip={"x": box["x"] + 1, "y": box["y"] + 1, "width": 4, "height": 4})
        assert (imread(io.BytesIO(shot))[0, 0, 0] < 60 / 255) == (scheme == "dark")


def test_tables_that_are_too_wide_scroll_by_keyboard(open_page, report):
    page, _ = open_page(report, width=390)
    focusable = page.eval_on_selector_all(
        "*",
        "nodes => nodes.filter(n => n.scrollWidth > n.clientWidth + 1 && n.clientWidth > 0 "
        "&& getComputedStyle(n).overflowX !== 'visible').map(n => n.tabIndex)",
    )
    assert len(focusable) > 0
    assert set(focusable) == {0}


SLOW = [pytest.param(place, marks=pytest.mark.slow) for place in ("month", "column")]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["plant", *SLOW])
def test_no_label_is_executed_and_all_are_shown(open_page, tmp_path, place):
    usual, three = ("plant", "month", "flowers"), ["m1", "m2", "m3"]
    around = [*INJECTIONS, *INJECTIONS[:2]]
    batches = {
        "plant": [(INJECTIONS, three, usual)],
        "month": [(["a", "b"], INJECTIONS[i : i + 25], usual) for i in (0, 25)],
        "column": [(["a", "b"], three, around[i : i + 3]) for i in range(0, len(INJECTIONS), 3)],
    }[place]
    for i, (plants, months, columns) in enumerate(batches):
        data = labelled(plants, months, columns)
        # A report on the Poisson model has no comparison with VB, which is slow and has no labels.
        fit = synthetic_fit("multilevel_poisson", data, draws=50)
        path = pyflowers.report([fit], tmp_path / f"{i}.html")
        page, seen = open_page(path)
        assert page.evaluate("window.pwned") is None
        assert seen["console"] == []
        assert outside(seen["requests"], path) == []
        sections = page.eval_on_selector_all("main > section", "nodes => nodes.map(n => n.id)")
        assert sections == REPORTED
        shown = " ".join(page.inner_text("body").split())
        wanted = {"plant": plants, "month": months, "column": columns}[place]
        assert [text for text in wanted if " ".join(text.split()) not in shown] == []


def labelled(plants, months, columns):
    rng = np.random.default_rng(1)
    rows = [(plant, month, int(rng.poisson(4))) for plant in plants for month in months]
    return from_frame(pd.DataFrame(rows, columns=list(columns)))


def test_the_injections_would_work_unescaped(open_page, tmp_path):
    """A page without escaping would be detected: the negative control of the test above."""
    path = tmp_path / "bad.html"
    path.write_text(f"<!DOCTYPE html><title>x</title><p>{INJECTIONS[0]}", encoding="utf-8")
    page, _ = open_page(path)
    page.wait_for_function("window.pwned === 1", timeout=5000)
