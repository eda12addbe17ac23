"""Run the Python cells of one page: JSON lines in and out, one namespace for all of them."""

import ast
import contextlib
import io
import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

DPI = 144


def main(images: Path) -> None:
    """Answer each cell on the original standard output, which the cells' output cannot reach."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path[0] = ""
    names: dict[str, Any] = {"__name__": "__page__"}
    for line in sys.stdin:
        cell = json.loads(line)
        answers.write(json.dumps(_answer(cell, names, images)) + "\n")
        answers.flush()


def _answer(cell: dict[str, Any], names: dict[str, Any], images: Path) -> dict[str, Any]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
        try:
            value = _run(cell["code"], names)
            shown = _show(value, cell, images)
        except BaseException:
            return {"error": traceback.format_exc(), "text": printed.getvalue()}
    return {**shown, "text": printed.getvalue() + shown["text"]}


def _run(code: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression, as a notebook shows it."""
    tree = ast.parse(code, "<page>")
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, "<page>", "exec"), names)
        return None
    tree.body.pop()
    exec(compile(tree, "<page>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<page>", "eval"), names)


def _show(value: Any, cell: dict[str, Any], images: Path) -> dict[str, Any]:
    if value is None:
        return {"text": ""}
    if hasattr(value, "savefig"):
        return {"text": "", "figures": [_save(value, cell, images)]}
    if hasattr(value, "to_html"):
        html = value.to_html(border=0, classes="table", float_format=_number, na_rep="–")
        return {"text": "", "html": html}
    return {"text": value if isinstance(value, str) else repr(value)}


def _number(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:#.3g}".rstrip(".")


def _save(figure: Any, cell: dict[str, Any], images: Path) -> dict[str, Any]:
    from pyflowers.plots import alt_text

    alt = cell["alt"] or alt_text(figure)
    if not alt:
        raise ValueError("the figure has no alternative text")
    name = f"{cell['number']}.png"
    figure.savefig(images / name, dpi=DPI)
    return {"file": name, "alt": alt, "width": round(100 * figure.get_figwidth())}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
