"""The report in a real browser: it loads nothing, runs nothing, and fits a phone."""

import shutil

import pytest
from synthetic_fits import synthetic_fit

import pyflowers
from pyflowers.workflow.experiment import compare_all

pytestmark = pytest.mark.browser

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

INJECTIONS = [
    "<script>window.pwned=1</script>",
    "</title><script>window.pwned=1</script>",
    "</style><script>window.pwned=1</script>",
    "</script><script>window.pwned=1</script>",
    "</textarea><script>window.pwned=1</script>",
    "--><script>window.pwned=1</script>",
    "]]><script>window.pwned=1</script>",
    "<!--<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "<svg><script>window.pwned=1</script></svg>",
    "<body onload=window.pwned=1>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'>",
    "<iframe src=javascript:parent.pwned=1>",
    "<a href=javascript:window.pwned=1>a</a>",
    "<details open ontoggle=window.pwned=1>",
    "<video><source onerror=window.pwned=1></video>",
    "<input autofocus onfocus=window.pwned=1>",
    "<math><mi xlink:href=javascript:window.pwned=1>",
    "<object data=javascript:window.pwned=1>",
    "<embed src=javascript:window.pwned=1>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<base href=http://127.0.0.1:9/>",
    "<form action=http://127.0.0.1:9/><button>b",
    "<style>*{display:none}</style>",
    "<plaintext>",
    "<xmp>",
    "<template>",
    "<noscript><p title='</noscript><img src=x onerror=window.pwned=1>'>",
    '" onmouseover="window.pwned=1',
    "' onmouseover='window.pwned=1",
    '"><script>window.pwned=1</script>',
    "'><script>window.pwned=1</script>",
    '" autofocus onfocus="window.pwned=1" x="',
    "` onmouseover=`window.pwned=1",
    '"/><img src=x onerror=window.pwned=1>',
    "javascript:window.pwned=1",
    "data:text/html,<script>window.pwned=1</script>",
    "');window.pwned=1;//",
    '");window.pwned=1;//',
    "${window.pwned=1}",
    "{{ 7*7 }}",
    "{% for x in [1] %}{{ x }}{% endfor %}",
    "{{ self.__init__.__globals__ }}",
    "{# comment #}",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "&#60;script&#62;window.pwned=1",
    "\u202e<script>window.pwned=1</script>",
    "expression(window.pwned=1);url(http://127.0.0.1:9/x)",
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
    """Open a file and record what it complains about and asks for."""
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
    expected = ["answer", "verdict", "data", "models", "checks", "comparison", "methods"]
    expected += ["sensitivity", "calibration", "provenance"]
    assert sections == expected
    decoded = page.eval_on_selector_all(
        "img", "nodes => nodes.map(n => n.complete && n.naturalWidth > 0 && n.naturalHeight > 0)"
    )
    assert len(decoded) == 28
    assert all(decoded)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_figure_is_dark_on_a_dark_page(open_page, report):
    """The figure's background is the page's, in either scheme."""
    for scheme in ("light", "dark"):
        page, _ = open_page(report, scheme=scheme)
        image = page.locator("img").first
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        shot = page.screenshot(clip={"x": box["x"] + 1, "y": box["y"] + 1, "width": 4, "height": 4})
        assert (pixel(shot)[0] < 60) == (scheme == "dark")


def pixel(png):
    import io

    import matplotlib.image

    return (matplotlib.image.imread(io.BytesIO(png))[0, 0, :3] * 255).round().astype(int)


def test_tables_that_are_too_wide_scroll_by_keyboard(open_page, report):
    page, _ = open_page(report, width=390)
    focusable = page.eval_on_selector_all(
        "*",
        "nodes => nodes.filter(n => n.scrollWidth > n.clientWidth + 1 && n.clientWidth > 0 "
        "&& getComputedStyle(n).overflowX !== 'visible').map(n => n.tabIndex)",
    )
    assert len(focusable) > 0
    assert set(focusable) == {0}


@pytest.mark.parametrize(
    "place",
    [
        "plant",
        pytest.param("month", marks=pytest.mark.slow),
        pytest.param("column", marks=pytest.mark.slow),
    ],
)
def test_no_label_is_executed_and_all_are_shown(open_page, tmp_path, place):
    if place == "plant":
        batches = [(INJECTIONS, ["m1", "m2", "m3"], ("plant", "month", "flowers"))]
    elif place == "month":
        batches = [
            (["a", "b"], INJECTIONS[i : i + 25], ("plant", "month", "flowers")) for i in (0, 25)
        ]
    else:
        around = [*INJECTIONS, *INJECTIONS[:2]]
        batches = [
            (["a", "b"], ["m1", "m2", "m3"], around[i : i + 3])
            for i in range(0, len(INJECTIONS), 3)
        ]
    for i, (plants, months, columns) in enumerate(batches):
        data = labelled(plants, months, columns)
        # The Poisson model has no comparison with VB, which takes longest and shows no label.
        fit = synthetic_fit("multilevel_poisson", data, draws=50)
        path = pyflowers.report([fit], tmp_path / f"{i}.html")
        page, seen = open_page(path)
        assert page.evaluate("window.pwned") is None
        assert seen["console"] == []
        assert outside(seen["requests"], path) == []
        assert page.locator("main > section").count() == 9
        shown = " ".join(page.inner_text("body").split())
        wanted = {"plant": plants, "month": months, "column": columns}[place]
        assert [text for text in wanted if " ".join(text.split()) not in shown] == []


def labelled(plants, months, columns):
    import numpy as np
    import pandas as pd

    from pyflowers.data import from_frame

    rng = np.random.default_rng(1)
    rows = [(plant, month, int(rng.poisson(4))) for plant in plants for month in months]
    return from_frame(pd.DataFrame(rows, columns=list(columns)))


def test_the_injections_would_work_unescaped(open_page, tmp_path):
    """A page that did not escape would be caught: the negative control of the test above."""
    path = tmp_path / "bad.html"
    path.write_text(f"<!DOCTYPE html><title>x</title><p>{INJECTIONS[8]}", encoding="utf-8")
    page, _ = open_page(path)
    page.wait_for_function("window.pwned === 1", timeout=5000)
