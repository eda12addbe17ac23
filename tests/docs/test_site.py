"""The built site: every public name is in it, links work, and a browser shows it without complaint.

The site is built once, with the options of scripts/docs; if Sphinx is not installed, these tests
are skipped. PYFLOWERS_SITE names a site that has already been built.
"""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest
from site_parts import DOCS, extension

import pyflowers

pytestmark = pytest.mark.slow
WIDTHS = (390, 1400)
WIDE_BOXES = """() => [...document.querySelectorAll(".bd-article pre")]
    .filter(box => box.scrollWidth > box.clientWidth + 1)
    .map(box => box.textContent.slice(0, 40))"""
"""Script for the boxes of code and output that are wider than their column."""
HIDDEN = """() => [...document.querySelectorAll(".bd-article td, .bd-article p, .bd-article code")]
    .filter(cell => !cell.closest(".cell-table, pre"))
    .filter(cell => cell.getBoundingClientRect().right > window.innerWidth)
    .map(cell => cell.textContent.slice(0, 40))"""
"""Script for text beyond the window, except in boxes of code and tables printed by code cells."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, with every warning an error."""
    if "PYFLOWERS_SITE" in os.environ:
        return Path(os.environ["PYFLOWERS_SITE"]).resolve()
    pytest.importorskip("sphinx", reason="the site is built with requirements-docs.lock")
    folder = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def inventory(site):
    """Return the Python names that the site describes."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(content).decode().splitlines()
    return {line.split(" ")[0] for line in lines if " py:" in line}


def test_every_public_name_is_described(site):
    described = inventory(site)
    api = extension("api")
    names = [name for section in api.sections().values() for name in section]
    assert len(names) > 150
    assert not [name for name in names if name not in described]
    alone = [task for title, task in api.TASKS.items() if title not in api.ON_ONE_PAGE]
    pages = [f"reference/api/pyflowers.{name}.html" for task in alone for name in task.split()]
    assert not [page for page in pages if not (site / page).is_file()]


def test_options_in_docstrings_can_be_copied(site):
    page = (site / "reference/api/pyflowers.fit.html").read_text(encoding="utf-8")
    assert "--data FILE --list" in page  # typographic dashes made it –data FILE –list


def test_links_anchors_and_alternative_texts(site):
    wrong, external = extension("links").problems(site)
    assert not wrong
    listed = (site / "external-links.txt").read_text("utf-8").split()
    assert sorted(external) == sorted(listed)


def test_a_dead_link_is_found(tmp_path):
    page = '<a href="missing.html">a</a><a href="#b">b</a><img src="p.html" alt=""><i id="c">'
    (tmp_path / "p.html").write_text(page, encoding="utf-8")
    wrong, _ = extension("links").problems(tmp_path)
    assert len(wrong) == 3


@pytest.fixture(scope="module")
def address(site):
    """The site behind its own web server."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that prints nothing."""

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture(scope="module")
def browser():
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("there is no chromium; apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = driver.chromium.launch(executable_path=executable, args=arguments)
        yield chromium
        chromium.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_pages_fit_and_complain_of_nothing(site, address, browser, width):
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    complaints = []
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    # Requests that are still running when the next page is opened are aborted, which is not an
    # error.
    page.on(
        "requestfailed",
        lambda r: None if r.failure == "net::ERR_ABORTED" else complaints.append(r.url),
    )
    wide, hidden, outside = [], [], []
    page.on("request", lambda r: None if r.url.startswith(address) else outside.append(r.url))
    names = [
        p.relative_to(site).as_posix()
        for p in sorted(site.rglob("*.html"))
        if "_static" not in p.parts
    ]
    for name in names:
        page.goto(f"{address}/{name}", wait_until="load")
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(name)
        hidden += [f"{name}: {text}" for text in page.evaluate(HIDDEN)]
        if width > 1000:  # on a phone, boxes scroll
            hidden += [f"{name}: {text}" for text in page.evaluate(WIDE_BOXES)]
    context.close()
    assert len(names) > 30
    assert not wide
    assert not hidden
    assert not complaints
    assert not [url for url in outside if not url.startswith("data:")]


def first_result(page, address, query):
    """Return the address of the first search result."""
    page.goto(f"{address}/search.html?q={query}")
    page.wait_for_selector("#search-results li a", timeout=10_000)
    return page.locator("#search-results li a").first.get_attribute("href")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("install", "tutorials/installation.html"),
        ("prior", "how-to/choosing-priors.html"),
        ("overdispersion", "tutorials/first-answer.html"),
        ("new data", "how-to/predictions.html"),
        ("95%25", "how-to/reading-the-report.html"),
        ("notebook", "how-to/notebooks.html"),
        ("cite", "help.html"),
    ],
)
def test_search_finds_the_right_page_first(address, browser, query, expected):
    page = browser.new_page()
    found = first_result(page, address, query)
    page.close()
    assert expected in found


@pytest.mark.browser
def test_search_finds_every_name_of_pyflowers(address, browser):
    page = browser.new_page()
    missing = []
    for last in pyflowers.__all__:
        page.goto(f"{address}/search.html?q={last}")
        try:
            target = f"#search-results li a[href*='reference/api/'][href*='{last}']"
            page.wait_for_selector(target, timeout=10_000)
        except Exception:
            missing.append(last)
    page.close()
    assert not missing
