"""The reference: every public function and method is documented in full, with an example."""

import doctest
import inspect
import re
from dataclasses import fields, is_dataclass

import pytest
from site_parts import extension

import pyflowers

API = extension("api")
PARSER = doctest.DocTestParser()
NAMES = [name for names in API.sections().values() for name in names]
SECTIONS = r"(?m)^{}\n-+$"
WIDEST_EXAMPLE = 86
"""Characters that fit a box of code below a signature at 1,400 px."""


def has(documentation, section):
    return re.search(SECTIONS.format(section), documentation) is not None


def takes(function):
    parameters = list(inspect.signature(function).parameters)
    return [name for name in parameters if name not in ("self", "cls")]


def is_callable_type(value):
    return inspect.isclass(value) and not issubclass(value, BaseException)


def methods(cls):
    """Yield the public methods that a class defines and none of its base classes has."""
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        inherited = any(name in vars(base) for base in cls.__mro__[1:])
        if inspect.isfunction(function) and not name.startswith("_") and not inherited:
            yield name, function


def missing(name, documentation, function, documented=None):
    """Yield the parts that are missing in the docstring of a function or method."""
    parameters = takes(function)
    if parameters and not has(documentation, "Parameters"):
        yield f"{name}: no Parameters"
    elif parameters:
        section = re.split(SECTIONS.format("Parameters"), documentation)[1]
        listed = re.findall(r"(?m)^\**([\w, *]+?)(?: :.*)?$", section)
        named = {part.strip(" *") for line in listed for part in line.split(",")}
        yield from (f"{name}: {p} is not described" for p in parameters if p not in named)
    returns = function.__annotations__.get("return")
    summary = documentation.split("\n")[0]
    told = has(documentation, "Returns") or has(documentation, "Yields")
    told |= documented == "method" and summary.startswith(("Return", "Yield"))
    if returns not in (None, "None", "NoReturn") and not told:
        yield f"{name}: no Returns"
    raises = re.search(r"\braise (?!NotImplementedError)\w+\(", inspect.getsource(function))
    if raises and not has(documentation, "Raises"):
        yield f"{name}: no Raises"


def defects(name):
    value = API.resolve(name)
    documentation = inspect.getdoc(value) or ""
    if inspect.isfunction(value):
        yield from missing(name, documentation, value)
        if not has(documentation, "Examples"):
            yield f"{name}: no Examples"
    elif is_callable_type(value):
        examples = documentation
        for method, function in methods(value):
            text = inspect.getdoc(function) or ""
            examples += text
            yield from missing(f"{name}.{method}", text, function, "method")
        shown = "\n".join(example.source for example in PARSER.get_examples(examples))
        if getattr(value, "_is_protocol", False):
            return
        if not has(examples, "Examples"):
            yield f"{name}: no Examples"
        for method, _ in methods(value):
            if f".{method}(" not in shown:
                yield f"{name}.{method}: no example calls it"
        if is_dataclass(value):
            for field in fields(value):
                if not field.name.startswith("_") and not re.search(
                    rf"\b{field.name}\b", documented_fields(value)
                ):
                    yield f"{name}: {field.name} is not described"


def documented_fields(cls):
    """Return a dataclass's docstring and the fields, own or inherited, that have a docstring."""
    text = inspect.getdoc(cls) or ""
    for base in cls.__mro__[:-1]:
        if is_dataclass(base):
            source = inspect.getsource(base)
            text += "\n" + "\n".join(re.findall(r'(?m)^    (\w+): [^\n]*\n    """', source))
    return text


def test_every_name_of_pyflowers_is_in_one_section():
    of = {title: task.split() for title, task in API.TASKS.items()}
    assert all(hasattr(pyflowers, name) for name in of.pop("Classes"))
    assert sorted(name for names in of.values() for name in names) == pyflowers.__all__


@pytest.mark.quick
def test_docstrings_are_complete():
    assert [defect for name in NAMES for defect in defects(name)] == []


def test_defects_are_found():
    class Bad:
        """A class without an example."""

        def move(self, step: int) -> int:
            """Move."""
            if step < 0:
                raise ValueError("negative")
            return step

    text = inspect.getdoc(Bad.move)
    found = list(missing("move", text, Bad.move, "method"))
    assert found == ["move: no Parameters", "move: no Returns", "move: no Raises"]


def test_a_signature_is_python():
    def shown(value, what="function"):
        return API._spelled_out(None, what, "", value, None, "(shown)", "")[0]

    wrong = []
    for name in NAMES:
        value = API.resolve(name)
        if not (inspect.isfunction(value) or is_callable_type(value)):
            continue
        what = "class" if inspect.isclass(value) else "function"
        signature = shown(value, what)
        if "<" in signature or ": " in signature.replace("': ", ""):
            wrong.append((name, signature))
    assert not wrong
    assert shown(pyflowers.k_fold).endswith("advance=...)")
    assert shown(pyflowers.plots.forest) == "(fit, quantity=None, *, theme=...)"
    assert shown(pyflowers.Program, "class") == ""  # its page lists its attributes
    assert shown(pyflowers.Task, "class").startswith("(program, data=None, *, ")


def shown_on_site(name):
    """Return the docstring of an object as its page has it."""
    value = API.resolve(name)
    lines = (inspect.getdoc(value) or "").split("\n")
    what = "class" if inspect.isclass(value) else "function"
    API._shorten(None, what, name, value, None, lines)
    return "\n".join(lines)


def test_examples_fit_the_column_of_a_page():
    wide = []
    for name in NAMES:
        for example in PARSER.get_examples(shown_on_site(name)):
            code = example.source.splitlines()
            wide += [(name, line) for line in code if len(f">>> {line}") > WIDEST_EXAMPLE]
            wide += [
                (name, line) for line in example.want.splitlines() if len(line) > WIDEST_EXAMPLE
            ]
    assert not wide


def test_an_input_is_described_once():
    def page(function):
        return shown_on_site(f"pyflowers.{function.__name__}")

    assert "\nthin : int\n    Keep only every n-th" in page(pyflowers.fit)
    brief = page(pyflowers.sbc)
    assert "Keep only every n-th" not in brief
    assert "thin, adapt_delta" in brief
    assert "    As in :func:`pyflowers.fit`.\n\nReturns\n---" in brief
    assert "num_ranks : int\n    The minimum number" in brief


def test_methods_that_serve_pyflowers_itself_are_left_out():
    def is_left_out(value, name):
        return API._skipped(None, "class", name, getattr(value, name), False, None) is True

    for name, shown in API.SHOWN_METHODS.items():
        if hasattr(pyflowers, name):
            value = getattr(pyflowers, name)
            assert all(hasattr(value, method) for method in shown.split())
    assert is_left_out(pyflowers.Table, "refusal")
    assert is_left_out(pyflowers.Sensitivity, "to_dict")
    assert not is_left_out(pyflowers.Table, "numbers")
    assert not is_left_out(pyflowers.Sensitivity, "table")


def test_pages_of_an_earlier_version_are_removed(tmp_path):
    stale = [tmp_path / "api" / "pyflowers.gone.rst", tmp_path / "internals" / "index.rst"]
    kept = tmp_path / "api" / "pyflowers.fit.rst"
    for path in (*stale, kept):
        path.parent.mkdir(exist_ok=True)
        path.write_text("page", encoding="utf-8")
    API.write_lists(tmp_path)
    assert kept.read_text("utf-8") == "page"
    assert not [path for path in stale if path.exists()]
