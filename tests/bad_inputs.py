"""Bad inputs over every command, kind of file and entry from Python: made here, judged elsewhere.

A case is a command line and the files that it reads, or a call. Most are certain to be wrong; of
those that come of changing a whole file somewhere, a few are not, and may succeed.
"""

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLOWERS = "plant,month,flowers\n" + "".join(
    f"{p},{t},{y}\n"
    for p, ys in enumerate(([4, 5, 6, 4], [0, 2, 5, 3], [8, 6, 10, 8]), start=1)
    for t, y in enumerate(ys, start=1)
)
STAN = """data {
  int<lower=0> N;
  array[N] real y;
}
parameters {
  real mu;
}
model {
  mu ~ normal(0, 10);
  y ~ normal(mu, 1);
}
"""
DECLARATION = '[data]\ny = { column = "y" }\nN = { size = "obs" }\n'
OWN = {"p.stan": STAN, "p.toml": DECLARATION, "d.csv": "y\n1\n2\n3\n"}
CONFIG = "models = ['iid_normal']\n[sampler]\nseed = 1\nchains = 1\nwarmup = 20\ndraws = 20\n"
QUICK = ("--chains", "1", "--warmup", "20", "--draws", "20", "--seed", "1", "--plots", "none")
FIT = ("fit", "iid_normal", "--engine", "stanli", *QUICK, "--out", "out")
OWN_FIT = ("fit", "p.stan", "--engine", "stanli", *QUICK, "--out", "out", "--data")

LONG = "x" * 5000
DIGITS = "9" * 400
DEEP = "[" * 100_000
SURROGATE = "\udcff"


@dataclass(frozen=True)
class Case:
    """A command line and the files beside it.

    Attributes
    ----------
    name : str
        What is wrong.
    words : tuple of str
        The command line.
    files : dict of str to str or bytes
        What is in the folder in which it is run.
    may_succeed : bool
        Whether it may not be wrong after all.
    """

    name: str
    words: tuple[str, ...]
    files: dict[str, str | bytes] = field(default_factory=dict)
    may_succeed: bool = False


def cases(seed: int = 1) -> list[Case]:
    """Return all cases, the same for the same seed."""
    rng = random.Random(seed)
    made = [
        *_words(),
        *_options(),
        *_tables(rng),
        *_json_records(),
        *_data_blocks(),
        *_parquet(rng),
        *_programs(rng),
        *_declarations(),
        *_configurations(),
        *_run_folders(rng),
        *_outputs(),
    ]
    names = [case.name for case in made]
    assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
    return made


def _words() -> Iterator[Case]:
    """Commands that there are not, too few arguments, and names that are none."""
    commands = ("fit", "vb", "compare", "models", "compile", "new", "replay", "report", "lecture")
    for words in ((), ("fits",), ("--zzz",), ("",), (LONG,), (SURROGATE,), ("-",)):
        if words:
            yield Case(f"command {words[0][:8]!r}", words)
    for command in commands:
        yield Case(f"{command} of an unknown option", (command, "--zzz"))
        yield Case(f"{command} of an option without its value", (command, "--out"))
    for command in ("fit", "compile", "new", "replay", "lecture", "compare", "report"):
        if command not in ("lecture",):
            yield Case(f"{command} without arguments", (command,))
    odd = ("nope", "", " ", ".", "..", "/", "/dev/null", "/nowhere/x.stan", "a.txt", LONG)
    more = (SURROGATE, f"{LONG}.stan", ".stan", "\u202e.stan", "~", "-1", "folder")
    for i, name in enumerate((*odd, *more)):
        files = {"folder/x": ""}
        shown = f"{ascii(name)[:12]} ({i})"
        for words in (
            ("fit", name, "--out", "out"),
            ("vb", name),
            ("compare", name, "--out", "out"),
            ("models", name),
            ("compile", name),
            ("lecture", name, "--out", "out"),
            ("replay", name),
            ("report", name, "--out", "r.html"),
            ("report", "--model", name, "--out", "r.html"),
            ("new", "mine", "--from", name),
            ("new", name, "--data", "d.csv"),
        ):
            empty_is_default = name == "" and words[0] in ("vb", "compare")
            if not empty_is_default:
                option = words[1] if words[1] == "--model" else words[-2]
                yield Case(f"{words[0]} {option[:8]} named {shown}", words, files)


_NUMBERS = ("x", "", "1.5", "1e3", "nan", "inf", DIGITS, "0x10", "١", " ", "1,000", "\x01")


def _options() -> Iterator[Case]:
    out_of_range = {
        "--seed": ("-1", "4294967296"),
        "--chains": ("0", "-1", "10001", "2147483648"),
        "--warmup": ("-1", "2147483648"),
        "--draws": ("0", "-5", "2147483648"),
        "--thin": ("0", "-1"),
        "--max-treedepth": ("0", "31", "-1"),
    }
    for option, values in out_of_range.items():
        for value in (*values, *_NUMBERS):
            if value != "١":  # Python reads the digits of any script
                yield Case(f"{option} {ascii(value)[:12]}", (*FIT, option, value))
    for value in ("0", "1", "-0.5", "2", "nan", "inf", "x", "", DIGITS):
        yield Case(f"--adapt-delta {value[:12]}", (*FIT, "--adapt-delta", value))
    priors = ("", "x", "=", "=1", "mu_sd", "mu_sd=", "mu_sd=x", "mu_sd=nan", "mu_sd=inf", "mu_sd=0")
    more = (
        "mu_sd=-1",
        "zzz=1",
        "mu_sd=1=2",
        "mu sd=1",
        f"{LONG}=1",
        "mu_sd=1e999",
        "\x01=1",
        "μ=1",
    )
    for prior in (*priors, *more):
        for command in (FIT, ("vb",), ("compare", "--out", "out"), ("report", "--out", "r.html")):
            words = (*command, "--prior", prior)
            yield Case(f"{command[0]} --prior {ascii(prior)[:14]}", words)
    choices = ("--engine", "--time-order", "--plots", "--decimal")
    for option in choices:
        for value in ("", "x", "CMDSTAN", "\x01"):
            yield Case(f"{option} {value!r}", (*FIT, option, value))
    for option in ("--group", "--time", "--value"):
        for value in ("nope", "", "flowers,month", LONG, "\x01", SURROGATE):
            files = {"t.csv": FLOWERS}
            words = ("fit", "multilevel_poisson", *FIT[2:], "--data", "t.csv", option, value)
            yield Case(f"{option} {ascii(value)[:12]}", words, files)
    for value in ("", "x", "=", "plant=", "=plant", "plant=nope", "nope=plant", "flowers=plant"):
        words = (*FIT, "--data", "t.csv", "--column", value)
        yield Case(f"--column {value}", words, {"t.csv": FLOWERS})
    for value in ("ab", "é€", "\x01", "\n", '"', "5", "tabs"):
        words = (*FIT, "--data", "t.csv", "--sep", value)
        yield Case(f"--sep {value!r}", words, {"t.csv": FLOWERS})
    for value in ("nope", "utf-16", "utf-32", "hex", "rot13", LONG, "undefined"):
        words = (*FIT, "--data", "t.csv", "--encoding", value)
        yield Case(f"--encoding {value[:9]!r}", words, {"t.csv": FLOWERS})
    for value in ("/nowhere", "", ".", "/dev/null", "\x01", LONG, SURROGATE, "t.csv"):
        words = (*FIT[:2], "--cmdstan", value, *FIT[4:])
        yield Case(f"--cmdstan {ascii(value)[:12]}", words, {"t.csv": FLOWERS})
        words = ("compile", "p.stan", "--cmdstan", value)
        yield Case(f"compile --cmdstan {ascii(value)[:12]}", words, OWN)
    for value in ("/nowhere.whl", ".", "/dev/null", "\x01", LONG, "w.whl"):
        yield Case(f"--wheel {ascii(value)[:12]}", ("setup", "--wheel", value), {"w.whl": "PK"})
    for value in ("0", "-1", "x", DIGITS[:30]):
        if value[0] != "9":
            yield Case(f"--jobs {value}", ("setup", "--jobs", value))


def _tables(rng: random.Random) -> Iterator[Case]:
    """CSV files: whole ones with one cell changed, and what is no table."""
    cells = (
        "",
        "x",
        "nan",
        "NA",
        "inf",
        "-inf",
        "1e999",
        "None",
        "True",
        "1;2",
        "1,5",
        "--",
        "0x1",
    )
    cells = (
        *cells,
        DIGITS,
        "1 2",
        "٤٤٤x",
        "\x1b[2J",
        "4\u00a0",
        "=1+1",
        "1/2",
        "2024-01-01",
        "(1)",
    )
    rows = FLOWERS.splitlines()
    for i, cell in enumerate(cells):
        row = 1 + i % 12
        changed = [*rows]
        plant, month, _ = rows[row].split(",")
        quoted = '"' + cell + '"'
        changed[row] = f"{plant},{month},{quoted}"
        files = {"t.csv": "\n".join(changed)}
        # 400 digits are a finite double's size too many; a space around a number is none
        fine = cell in ("4\u00a0",)
        yield Case(f"a cell {ascii(cell)[:12]}", (*FIT, "--data", "t.csv"), files, fine)
    poisson = ("fit", "multilevel_poisson", *FIT[2:], "--data", "t.csv")
    for i, cell in enumerate(("-1", "1.5", "2147483648", "", "x", "1e10")):
        changed = [*rows]
        changed[1 + i] = ",".join([*rows[1 + i].split(",")[:2], cell])
        yield Case(f"a count {cell}", poisson, {"t.csv": "\n".join(changed)})
    for column in (0, 1):
        for cell in ("", " ", "\0", "\t"):
            changed = [*rows]
            parts = rows[4].split(",")
            parts[column] = cell
            changed[4] = ",".join(parts)
            name = f"a label {cell!r} in column {column}"
            yield Case(name, poisson, {"t.csv": "\n".join(changed)})
    header = FLOWERS.partition("\n")[0]
    texts: dict[str, str | bytes] = {
        "nothing": "",
        "a newline": "\n",
        "spaces": "   \n  ",
        "a header": header,
        "no header": "\n".join(rows[1:]),
        "a header twice": "plant,plant,flowers\n1,1,4\n",
        "empty names": ",,\n1,2,3\n",
        "other names": "a,b,c\n1,2,3\n",
        "long rows": header + "\n1,1,4,9,9\n1,2,3\n",
        "short rows": header + "\n1\n2\n",
        "an open quote": header + '\n1,"1,4\n2,1,3\n',
        "a repeated time": header + "\n1,1,4\n1,1,5\n2,1,3\n2,2,1\n",
        "semicolons": FLOWERS.replace(",", ";"),
        "tabs": FLOWERS.replace(",", "\t"),
        "utf-16": FLOWERS.encode("utf-16"),
        "utf-32": FLOWERS.encode("utf-32"),
        "latin-1": FLOWERS.replace("plant", "Blüte").encode("latin-1"),
        "NUL bytes": FLOWERS.replace("4", "\0").encode(),
        "a million columns": ",".join(map(str, range(20_000))) + "\n1\n",
        "a long cell": header + f"\n1,1,{'4' * 200_000}\n",
        "an image": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "an archive": b"PK\x03\x04" + bytes(200),
        "HTML": "<html><table><tr><td>1</td></tr></table></html>",
        "JSON": json.dumps([{"plant": 1}]),
        "few observations": header + "\n1,1,4\n",
    }
    for name, text in texts.items():
        for ending in ("csv", "tsv"):
            words = ("fit", "multilevel_normal", *FIT[2:], "--data", f"t.{ending}")
            right = ending == "tsv" and name == "tabs"
            if not right:
                yield Case(f"{name} as {ending}", words, {f"t.{ending}": text})
        yield Case(f"{name} to vb", ("vb", "multilevel_normal", "--data", "t.csv"), {"t.csv": text})
    endings = ("txt", "xlsx", "json5", "", "csv.gz", "rds", "CSV ")
    for ending in endings:
        file = f"t.{ending}"
        yield Case(f"a table that ends in {ending!r}", (*FIT, "--data", file), {file: FLOWERS})
    for path in ("nowhere.csv", ".", "/dev/null", "\x01.csv", f"{LONG}.csv", "", "folder.csv"):
        files = {"folder.csv/x": ""}
        for command in (FIT, ("vb",), ("report", "--out", "r.html"), ("compare", "--out", "out")):
            words = (*command, "--data", path)
            yield Case(f"{command[0]} --data {path[:12]!r}", words, files)
    whole = FLOWERS.encode()
    for i in range(40):
        text = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            position = rng.randrange(len(text))
            text[position] = rng.randrange(256)
        yield Case(f"changed bytes {i}", poisson, {"t.csv": bytes(text)}, may_succeed=True)


_ODD_VALUES: tuple[Any, ...] = (None, [], {}, "x", True, -1, 1.5, [[1]], float("nan"), 10**400)


def _json_records() -> Iterator[Case]:
    texts = {
        "nothing": "",
        "half": '[{"plant": 1, ',
        "a number": "3",
        "a list of numbers": "[1, 2]",
        "an empty list": "[]",
        "empty records": "[{}, {}]",
        "deep nesting": DEEP,
        "a 400-digit number": f'[{{"plant": 1, "month": 1, "flowers": {DIGITS}}}]',
        "a 9000-digit number": f'[{{"plant": 1, "month": 1, "flowers": {"9" * 9000}}}]',
        "a missing field": '[{"plant": 1, "month": 1}]',
        "surrogates": '[{"plant": "\\ud800", "month": 1, "flowers": 4}]',
        "NUL": '[{"plant": "a\\u0000b", "month": 1, "flowers": 4}]',
    }
    for name, text in texts.items():
        words = ("fit", "multilevel_normal", *FIT[2:], "--data", "t.json")
        yield Case(f"JSON records: {name}", words, {"t.json": text})
    for value in _ODD_VALUES:
        if value == 1.5 or value == -1:
            continue  # numbers, which a normal model takes
        rows = [{"plant": p, "month": m, "flowers": m} for p in "abc" for m in range(4)]
        rows[5]["flowers"] = value
        words = ("fit", "multilevel_normal", *FIT[2:], "--data", "t.json")
        name = f"JSON records: {ascii(value)[:8]} as a number"
        yield Case(name, words, {"t.json": json.dumps(rows)})


def _data_blocks() -> Iterator[Case]:
    """CmdStan JSON for a program of one's own without a declaration."""
    files = {"p.stan": STAN}
    whole: dict[str, Any] = {"N": 3, "y": [1.0, 2.0, 3.0]}
    texts = {"nothing": "", "half": '{"N": 3', "deep": DEEP}
    texts |= {"a list": "[1]", "a number": "3", "null": "null", "text": '"x"', "bytes": "\x00"}
    texts |= {"nested objects": '{"a":' * 5000 + "1" + "}" * 5000, "digits": f'{{"N": {DIGITS}}}'}
    texts |= {"many digits": f'{{"N": {"9" * 9000}}}'}
    for name, text in texts.items():
        yield Case(f"data block: {name}", (*OWN_FIT, "d.json"), {**files, "d.json": text})
    for key in ("N", "y"):
        changed = {k: v for k, v in whole.items() if k != key}
        words = (*OWN_FIT, "d.json")
        yield Case(f"data block without {key}", words, {**files, "d.json": json.dumps(changed)})
        for value in _ODD_VALUES:
            text = json.dumps({**whole, key: value})
            name = f"data block: {key} is {ascii(value)[:8]}"
            yield Case(name, words, {**files, "d.json": text})
    for value in (["a", 2, 3], [None, 2, 3], [[1], [2], [3]], [1, 2], [1, 2, 3, 4], {"1": 2}):
        text = json.dumps({**whole, "y": value})
        yield Case(f"data block: y is {value}", (*OWN_FIT, "d.json"), {**files, "d.json": text})


def _parquet(rng: random.Random) -> Iterator[Case]:
    import io

    import pandas as pd

    def stored(frame: pd.DataFrame) -> bytes:
        buffer = io.BytesIO()
        frame.to_parquet(buffer)
        return buffer.getvalue()

    frame = pd.read_csv(io.StringIO(FLOWERS))
    whole = stored(frame)
    odd = {
        "empty": b"",
        "text": FLOWERS.encode(),
        "half": whole[: len(whole) // 2],
        "no rows": stored(frame.iloc[:0]),
        "no columns": stored(frame[[]]),
        "dates": stored(frame.assign(flowers=pd.Timestamp("2024-01-01"))),
        "lists": stored(frame.assign(flowers=[[1]] * len(frame))),
        "truth": stored(frame.assign(flowers=True)),
        "bytes": stored(frame.assign(flowers=b"4")),
        "missing": stored(frame.assign(flowers=[None] * len(frame))),
    }
    for name, data in odd.items():
        yield Case(f"Parquet: {name}", (*FIT, "--data", "t.parquet"), {"t.parquet": data})
    for i in range(10):
        text = bytearray(whole)
        for _ in range(5):
            text[rng.randrange(len(text))] = rng.randrange(256)
        words = (*FIT, "--data", "t.parquet")
        yield Case(f"Parquet: changed bytes {i}", words, {"t.parquet": bytes(text)}, True)


def _programs(rng: random.Random) -> Iterator[Case]:
    texts: dict[str, str | bytes] = {
        "half": STAN[: len(STAN) // 2],
        "words": "What a fine day\n",
        "no semicolon": STAN.replace(";", ""),
        "a type error": STAN.replace("real mu", "int mu"),
        "an unknown function": STAN.replace("normal(0", "zzz(0"),
        "an unknown distribution": STAN.replace("~ normal(mu", "~ zzz(mu"),
        "an undeclared variable": STAN.replace("parameters {\n  real mu;\n}\n", ""),
        "an include of nothing": f"#include nowhere.stan\n{STAN}",
        "an include of itself": "#include p.stan\n",
        "an include of a folder": "#include .\n",
        "bytes": bytes(range(256)),
        "utf-16": STAN.encode("utf-16"),
        "deep braces": "model {" + "{" * 5000 + "}" * 5000,
        "open comment": f"/* {STAN}",
        "a rejection": STAN.replace("mu ~ normal(0, 10);", 'reject("never");'),
        "an improper start": STAN.replace("mu ~ normal(0, 10);", "target += negative_infinity();"),
        "division by zero": STAN.replace("normal(mu, 1)", "normal(mu, N - N)"),
        "an array of negative size": STAN.replace("real mu;", "array[-1] real mu;"),
    }
    files = {"p.toml": DECLARATION, "d.csv": OWN["d.csv"]}
    for name, text in texts.items():
        yield Case(f"program: {name}", (*OWN_FIT, "d.csv"), {**files, "p.stan": text})
        words = ("models", "p.stan")
        yield Case(f"models: {name}", words, {**files, "p.stan": text}, may_succeed=True)
    yield Case("program: empty, with data", (*OWN_FIT, "d.csv"), {**files, "p.stan": ""})
    for name in ("words", "half", "a type error", "an include of nothing"):
        yield Case(f"compile: {name}", ("compile", "p.stan"), {"p.stan": texts[name]})
    for i in range(20):
        text = list(STAN)
        for _ in range(2):
            text[rng.randrange(len(text))] = rng.choice("{}();~[]<>=0x\0é")
        words = (*OWN_FIT, "d.csv")
        yield Case(f"program: changed {i}", words, {**files, "p.stan": "".join(text)}, True)


_DECLARATIONS = {
    "half": "[data",
    "not utf-8": b"[data]\ny = '\xff'",
    "deep": f"x = {DEEP}",
    "an unknown section": "[zzz]\n",
    "an unknown key": "[data]\nzzz = { column = 'y' }\n",
    "a number for a source": "[data]\ny = 3\n",
    "an empty source": "[data]\ny = {}\n",
    "two sources": "[data]\ny = { column = 'y', size = 'obs' }\n",
    "an empty column": "[data]\ny = { column = '' }\n",
    "a column that is not there": "[data]\ny = { column = 'nope' }\nN = { size = 'obs' }\n",
    "no matrix": "[data]\ny = { columns = [] }\n",
    "a size of nothing": "[data]\ny = { column = 'y' }\nN = { size = 'nope' }\n",
    "an index of a real": "[data]\ny = { column = 'y', index = true }\nN = { size = 'obs' }\n",
    "a prior that is text": "[priors]\nmu_sd = 'x'\n",
    "a prior that is none": "[priors]\nzzz = 1.0\n",
    "a prior that is data": DECLARATION + "[priors]\ny = 1.0\n",
    "an infinite prior": "[priors]\nN = inf\n",
    "dims of nothing": DECLARATION + "[dims]\nzzz = ['plant']\n",
    "dims that are text": DECLARATION + "[dims]\nmu = 'plant'\n",
    "a role of nothing": DECLARATION + "[roles]\nobserved = 'zzz'\n",
    "an unknown role": DECLARATION + "[roles]\nzzz = 'y'\n",
    "omit of a number": DECLARATION + "omit = 3\n",
    "a table of a number": DECLARATION + "[table]\ngroup = 3\n",
    "a group that is not there": DECLARATION + "[table]\ngroup = 'nope'\n",
    "many digits": f"x = {'9' * 5000}\n",
    "NUL": "title = 'a\0b'\n",
    "a date": "title = 2024-01-01\n",
    "a list": "title = []\n",
    "keys twice": "title = 'a'\ntitle = 'b'\n",
}


def _declarations() -> Iterator[Case]:
    fine = ("a role of nothing", "an index of a real")
    for name, text in _DECLARATIONS.items():
        files = {**OWN, "p.toml": text}
        words = (*OWN_FIT, "d.csv")
        # What a role leaves out, or what is said of no quantity, is no mistake
        yield Case(f"declaration: {name}", words, files, name in fine)


_CONFIGURATIONS = {
    "half": "models = [",
    "bytes": b"\xff\xfe",
    "deep": f"x = {DEEP}",
    "many digits": f"models = {'9' * 5000}",
    "an unknown key": CONFIG + "[zzz]\n",
    "no models": "models = []\n",
    "models as text": "models = 'iid_normal'\n",
    "a model of nothing": "models = ['nope']\n",
    "a model that is a number": "models = [3]\n",
    "a CmdStan": CONFIG + "[toolchain]\ncmdstan = 'x'\n",
    "an infinite seed": CONFIG.replace("seed = 1", "seed = inf"),
    "a seed of text": CONFIG.replace("seed = 1", "seed = 'x'"),
    "no chains": CONFIG.replace("chains = 1", "chains = 0"),
    "chains of truth": CONFIG.replace("chains = 1", "chains = true"),
    "a prior of text": CONFIG + "[priors.iid_normal]\nmu_sd = 'x'\n",
    "a prior of nan": CONFIG + "[priors.iid_normal]\nmu_sd = nan\n",
    "a prior of nothing": CONFIG + "[priors.iid_normal]\nzzz = 1\n",
    "priors of no model": CONFIG + "[priors.zzz]\nmu_sd = 1\n",
    "priors as a list": CONFIG + "priors = []\n",
    "data of nowhere": CONFIG + "[data]\nfile = 'nowhere.csv'\n",
    "data as a number": CONFIG + "[data]\nfile = 3\n",
    "a column of nothing": CONFIG + "[data]\ngroup = 'nope'\n",
    "a plot of nothing": CONFIG + "[output]\nplots = 'gif'\n",
    "an output of a number": CONFIG + "[output]\nfolder = 3\n",
    "an output with NUL": CONFIG + '[output]\nfolder = "a\\u0000"\n',
    "an output too long": CONFIG + f"[output]\nfolder = '{LONG}'\n",
    "a report that is a folder": CONFIG + "[output]\nfolder = 'out'\nreport = '.'\n",
    "an engine of nothing": CONFIG + "engine = 'x'\n",
}


def _configurations() -> Iterator[Case]:
    for name, text in _CONFIGURATIONS.items():
        words = ("fit", "--config", "e.toml", "--engine", "stanli")
        yield Case(f"configuration: {name}", words, {"e.toml": text})
    for path in ("nowhere.toml", ".", "/dev/null", "\x01", LONG, SURROGATE):
        shown = ascii(path)[:12]
        yield Case(f"configuration at {shown}", ("fit", "--config", path), {}, path == "/dev/null")


RUN = "{run}"
"""Stands for the folder of a whole run, which is copied into the case's folder as ``run``."""


def _run_folders(rng: random.Random) -> Iterator[Case]:
    """Run folders with a record or draws that are none; see also :func:`records`."""
    odd: dict[str, str | bytes] = {
        "nothing": "",
        "a list": "[]",
        "an object": "{}",
        "a number": "2",
        "null": "null",
        "half": '{"format": 2, "program": {',
        "deep": DEEP,
        "many digits": f'{{"format": {"9" * 5000}}}',
        "bytes": bytes(range(256)),
        "the format alone": '{"format": 2}',
        "a later format": '{"format": 3}',
    }
    for name, text in odd.items():
        for command in (("report", "run", "--out", "r.html"), ("replay", "run")):
            files = {RUN: "", "run/run.json": text}
            yield Case(f"{command[0]} of a run.json: {name}", command, files)
    for name, text in (
        ("nothing", b""),
        ("text", b"x"),
        ("a head", b"\x89HDF\r\n\x1a\n" + bytes(99)),
    ):
        for command in (("report", "run", "--out", "r.html"), ("replay", "run")):
            files = {RUN: "", "run/draws.nc": text}
            yield Case(f"{command[0]} of draws: {name}", command, files)


def _outputs() -> Iterator[Case]:
    foreign = {"there/thesis.tex": "years", "file": "mine", "link": ""}
    places = ("there", "file", "file/below", "/dev/null", "/proc/x", LONG, f"a/{LONG}", "")
    for place in (*places, "there/../there", "/dev/full", "there/thesis.tex"):
        for command in (
            ("fit", "iid_normal", "--cmdstan", "/nowhere", "--out", place),
            ("compare", "iid_normal", "--cmdstan", "/nowhere", "--out", place),
            ("lecture", "markov-chain", "--cmdstan", "/nowhere", "--out", place),
            ("report", "--cmdstan", "/nowhere", "--out", place),
        ):
            yield Case(f"{command[0]} --out {place[:20]!r}", command, foreign)


def records(whole: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a run's record with each of its values changed to each of several odd ones."""
    for path in _paths(whole):
        for value in (..., *_ODD_VALUES):
            changed = copy.deepcopy(whole)
            *above, key = path
            inner: Any = changed
            for part in above:
                inner = inner[part]
            if value is ...:
                del inner[key]
            elif inner[key] == value and type(inner[key]) is type(value):
                continue
            else:
                inner[key] = value
            shown = "nothing" if value is ... else ascii(value)[:8]
            yield f"{'.'.join(map(str, path))} is {shown}", changed


def _paths(values: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = values.items() if isinstance(values, dict) else enumerate(values[:1])
    for key, value in items:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from _paths(value, (*above, key))


def written(folder: Path) -> dict[str, bytes | None]:
    """Return everything in a folder, to be compared with what is there afterwards."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
