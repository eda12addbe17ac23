"""Write brms' log densities of the cases in tests/programs/formulas, for a test of formulas.

Run ``python benchmarks/brms_reference.py``; it takes about eight minutes and writes
tests/programs/formulas/brms.json. It needs a C++ compiler, and R with brms and jsonlite: on Debian
12, ``apt-get install --no-install-recommends r-cran-brms r-cran-jsonlite`` gives brms 2.18. With
``--more`` it writes tests/programs/formulas/brms_more.json, the cases of more_formula_cases.py,
in about three minutes and without a compiler.

1. R gets the Stan program and the data of each case from brms, with the priors of the case set
   by ``set_prior``. brms' programs are under the GPL: they go to a temporary folder, which is
   deleted.
2. Array declarations are rewritten in the syntax that Stan has had since 2.33; the programs are not
   changed otherwise. They are compiled with the embedded toolchain. Most of the compile time is
   spent on Stan's headers, so one library holds many programs, and a number in the data chooses
   one.
   With ``--more``, pyflowers' interpreter runs them, which also has the densities of Stan Math but
   leaves out constants.
3. Points are drawn from normal(0, 1/2) on the unconstrained scale. The constrained parameters and
   their log density, without the Jacobian and with all constants, are written.

The file has ``versions`` and ``cases``. A case states its formula, family and hyperparameters.
``b_labels`` are brms' names of the elements of ``b``; ``groups`` gives the effects and labels of
each group in brms' order; ``defaults`` gives brms' default priors by class. A point has
``Intercept_at_means``, or ``threshold_at_means`` (a list), ``b`` (a list), ``sd_GROUP`` (a list,
one per effect), ``z_GROUP`` (effects × labels), ``L_GROUP`` (effects × effects), the family's own
parameters and ``log_density``. GROUP is ``a_b`` for a:b, and its labels are those of a and b joined
by ``_``. Two terms of one group have one list of effects.

With ``--more``, points are drawn from normal(0, 0.4) around the centre of a case. A case has its
formula, ``groups`` and points; more_formula_cases.py has the rest. GROUP ends with the parameter
that the effects are on, ``sd_g_sigma``, and parameters with terms have names such as ``b_sigma``.
``groups`` gives the labels of each GROUP. Missing responses, which are parameters in brms, are
integrated out; missing predictors are not.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import stanli
from scipy import stats

sys.path.append(str(Path(__file__).resolve().parents[1]))

from pyflowers.engines.bridge import Bridge, FloatArray, _load
from pyflowers.toolchain.build import _INTERFACE, _SUNDIALS
from pyflowers.toolchain.compiler import compiler
from pyflowers.toolchain.embedded import VERSION, stan_folder

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "programs" / "formulas"))

import more_formula_cases as more_cases

from tests.programs.formulas.formula_cases import CASES, Case, table

FORMULAS = Path(__file__).resolve().parents[1] / "tests" / "programs" / "formulas"
OUT, MORE_OUT = FORMULAS / "brms.json", FORMULAS / "brms_more.json"
SEED = 1
POINTS = 20
PROGRAMS_PER_LIBRARY = 16

_FAMILIES = {
    "gaussian": "gaussian()",
    "student": "student()",
    "lognormal": "lognormal()",
    "gamma": "Gamma('log')",
    "beta": "Beta('logit')",
    "bernoulli": "bernoulli()",
    "binomial": "binomial()",
    "poisson": "poisson()",
    "negbinomial": "negbinomial()",
    "zero_inflated_poisson": "zero_inflated_poisson()",
    "zero_inflated_negbinomial": "zero_inflated_negbinomial()",
    "cumulative": "cumulative('logit')",
}
_FAMILY_PRIORS = {
    "sigma": "student_t(3, 0, {sigma_scale})",
    "shape": "inv_gamma({shape_alpha}, {shape_beta})",
    "phi": "gamma({phi_alpha}, {phi_beta})",
    "nu": "gamma({nu_alpha}, {nu_beta})",
    "zi": "beta({zi_alpha}, {zi_beta})",
}

# Numbers go from R to Python as text with 17 digits, because jsonlite would round them to 15.
_R = r"""
suppressMessages(library(brms))
library(splines)
center <- function(x) x - mean(x)
asked <- jsonlite::read_json("asked.json")
cells <- function(column) unlist(lapply(column, function(cell) if (is.null(cell)) NA else cell))
table <- as.data.frame(lapply(asked$table, cells))
known <- as.matrix(as.data.frame(lapply(asked$known, unlist)))
rownames(known) <- colnames(known)
exactly <- function(value) {
  list(dim = as.list(dim(value)), values = as.list(sprintf("%.17g", value)))
}
answer <- function(case) {
  formula <- eval(parse(text = case$formula))
  prior <- Reduce(`+`, lapply(case$priors, function(given) do.call(set_prior, given)))
  data <- make_standata(formula, table, prior = prior, data2 = list(A = known))
  complete <- brms:::validate_formula(formula, data = table)
  terms <- brms:::tidy_ranef(brmsterms(complete), table)
  default <- get_prior(formula, table, data2 = list(A = known))
  default <- subset(default, prior != "" & coef == "" & group == "")
  list(
    defaults = as.list(setNames(default$prior, default$class)),
    program = as.character(
      make_stancode(formula, table, prior = prior, data2 = list(A = known))
    ),
    data = lapply(unclass(data), exactly),
    columns = as.list(colnames(data$X)),
    terms = lapply(
      seq_len(NROW(terms)), function(i) as.list(terms[i, c("id", "group", "coef", "dpar")])
    ),
    levels = lapply(attr(terms, "levels"), as.list)
  )
}
versions <- list(
  brms = as.character(packageVersion("brms")),
  R = paste(R.version$major, R.version$minor, sep = ".")
)
answers <- list(versions = versions, cases = lapply(asked$cases, answer))
jsonlite::write_json(answers, "answers.json", auto_unbox = TRUE)
"""

_SIZES = r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]"
_ARRAY = re.compile(
    r"^(\s*)((?:int|real|vector|matrix|cholesky_factor_corr)(?:<[^;]*?>)?"
    rf"(?:{_SIZES})?) (\w+)\[([^\]]*)\];",
    re.MULTILINE,
)
_ARRAY_ARGUMENT = re.compile(r"\b(int|real|vector|matrix)\[(,*)\]")


def main() -> None:
    """Write the file of all cases."""
    asked = [
        {"formula": f"bf({case.brms}, family = {_FAMILIES[case.family]})", "priors": priors(case)}
        for case in CASES
    ]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        answers = ask_brms(folder, asked, table())
        cases = []
        for start in range(0, len(CASES), PROGRAMS_PER_LIBRARY):
            chosen = slice(start, start + PROGRAMS_PER_LIBRARY)
            own = answers["cases"][chosen]
            path = compile_programs([each["program"] for each in own], folder, start)
            for number, (case, answer) in enumerate(zip(CASES[chosen], own, strict=True)):
                model = open_model(path, {**stan_data(answer["data"]), "program_number": number})
                cases.append(reference(case, answer, model, SEED + start + number))
                print(case.name, cases[-1]["points"][0]["log_density"], flush=True)
    check_one_group(next(case for case in cases if case["name"] == "one_group"))
    write(OUT, answers["versions"], cases)


def write_more() -> None:
    """Write the file of the cases in more_formula_cases.py."""
    asked = [
        {"formula": case.brms, "priors": more_cases.set_priors(case)} for case in more_cases.CASES
    ]
    with tempfile.TemporaryDirectory() as made:
        answers = ask_brms(Path(made), asked, more_cases.table(), more_cases.known_covariance())
    cases = []
    for case, answer in zip(more_cases.CASES, answers["cases"], strict=True):
        cases.append(interpreted_reference(case, answer))
        print(case.name, cases[-1]["points"][0]["log_density"], flush=True)
    write(MORE_OUT, answers["versions"], cases)


def write(path: Path, versions: dict[str, str], cases: Sequence[dict[str, Any]]) -> None:
    """Write a file with a case per line."""
    versions = {**versions, "Stan": VERSION}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    path.write_text(f'{{"versions":{json.dumps(versions)},\n"cases":[\n{lines}\n]}}\n', "utf-8")


def ask_brms(
    folder: Path,
    cases: Sequence[dict[str, Any]],
    frame: pd.DataFrame,
    known: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Return brms' program, data and names of each case, in the order of the cases."""
    columns = frame.astype(object).where(frame.notna(), None).to_dict("list")
    matrix = {} if known is None else known.loc[known.columns].to_dict("list")
    asked = {"table": columns, "known": matrix, "cases": cases}
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    (folder / "ask.R").write_text(_R, encoding="utf-8")
    # R sorts levels according to the locale.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    subprocess.run(["Rscript", "ask.R"], cwd=folder, env=environment, check=True)
    answers: dict[str, Any] = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    return answers


def priors(case: Case) -> list[dict[str, str]]:
    """Return the arguments of a call of ``set_prior`` for each of a case's priors."""
    given, found = case.hyperparameters, []
    if "Intercept_scale" in given:
        text = "student_t(3, {Intercept_location}, {Intercept_scale})".format_map(given)
        found.append({"prior": text, "class": "Intercept"})
    if "threshold_scale" in given:
        text = "student_t(3, 0, {threshold_scale})".format_map(given)
        found.append({"prior": text, "class": "Intercept"})
    for name, text in _FAMILY_PRIORS.items():
        if f"{name}_scale" in given or f"{name}_alpha" in given:
            found.append({"prior": text.format_map(given), "class": name})
    for name, value in given.items():
        if match := re.fullmatch(r"b_scale\[(.+)\]", name):
            found.append({"prior": f"normal(0, {value})", "class": "b", "coef": match[1]})
        elif match := re.fullmatch(r"sd_(.+)_scale", name):
            prior = f"student_t(3, 0, {value})"
            found.append({"prior": prior, "class": "sd", "group": match[1].replace("_", ":")})
        elif match := re.fullmatch(r"cor_(.+)_eta", name):
            prior = f"lkj({value})"
            found.append({"prior": prior, "class": "cor", "group": match[1].replace("_", ":")})
    return found


def stan_data(items: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the data in JSON for Stan, which accepts an integer for a real number."""
    data: dict[str, Any] = {}
    for name, item in items.items():
        # brms has Inf where a response is missing, and its program replaces it.
        texts = [text.replace("Inf", "0") for text in item["values"]]
        values = [int(text) if re.fullmatch(r"-?\d+", text) else float(text) for text in texts]
        sizes = item["dim"]
        if not sizes and len(values) > 1:  # a vector in R
            sizes = [len(values)]
        array = np.array(values, dtype=object).reshape(sizes, order="F")
        data[name] = array.tolist() if sizes else values[0]
    return data


def with_arrays(program: str) -> str:
    """Return a program with the syntax of arrays that Stan has had since 2.33."""
    return _ARRAY_ARGUMENT.sub(r"array[\2] \1", _ARRAY.sub(r"\1array[\4] \2 \3;", program))


def compile_programs(programs: Sequence[str], folder: Path, first: int) -> Path:
    """Return a library of several programs; ``program_number`` in the data chooses one."""
    stan, header = stan_folder(), folder / f"programs_{first}.hpp"
    lines, choices = ["#include <stan/model/model_header.hpp>"], []
    for number, program in enumerate(programs):
        path = folder / f"case_{first + number}.stan"
        path.write_text(with_arrays(program), encoding="utf-8")
        generated = path.with_suffix(".hpp")
        subprocess.run([stan / "stanc", f"--o={generated}", path], check=True)
        # Every generated file defines these names, so they are numbered.
        names = ("stan_model", "new_model", "get_stan_profile_data")
        lines += [f"#define {name} {name}_{number}" for name in names]
        lines += [f'#include "{generated}"', *(f"#undef {name}" for name in names)]
        choices.append(f"    case {number}: return new_model_{number}(data, seed, out);")
    lines += [
        "stan::model::model_base& new_model(stan::io::var_context& data, unsigned int seed,",
        "                                   std::ostream* out) {",
        '  switch (data.vals_i("program_number").at(0)) {',
        *choices,
        "  }",
        '  throw std::out_of_range("program_number");',
        "}",
    ]
    header.write_text("\n".join(lines) + "\n", encoding="utf-8")
    library = header.with_suffix(".so")
    arguments = [
        *("-std=c++17", "-O0", "-D_REENTRANT", "-DBOOST_DISABLE_ASSERTS", "-fPIC", "-shared"),
        *("-fvisibility=hidden", "-w", "-isystem", stan / "include", "-include", header),
        *(_INTERFACE, *(stan / "lib" / f"libsundials_{part}.a" for part in _SUNDIALS)),
        *(f"-L{stan / 'lib'}", "-ltbb", "-lpthread", f"-Wl,-rpath,{stan / 'lib'}", "-o", library),
    ]
    subprocess.run([*compiler().split(), *map(str, arguments)], check=True)
    return library


def open_model(path: Path, data: dict[str, Any]) -> Bridge:
    """Return the density of one program of a library."""
    library, error = _load(str(path)), ctypes.c_char_p()
    model = library.bs_model_construct(json.dumps(data).encode(), SEED, ctypes.byref(error))
    if model is None:
        raise RuntimeError((error.value or b"").decode())
    bridge = Bridge(str(path), model)
    weakref.finalize(bridge, library.bs_model_destruct, model)
    return bridge


def reference(case: Case, answer: dict[str, Any], model: Bridge, seed: int) -> dict[str, Any]:
    """Return the entry of a case in the file."""
    rng = np.random.default_rng(seed)
    points = rng.normal(0, 0.5, (POINTS, len(model.names)))
    values = model.constrain(points)
    parameters = {name.split(".")[0] for name in model.names}
    groups = named_groups(answer)
    written = []
    for row, log_density in zip(values, log_densities(model, points), strict=True):
        arrays = by_name(model.elements, row, parameters)
        point = by_our_names(arrays, case, answer)
        written.append({**point, "log_density": float(log_density)})
    return {
        "name": case.name,
        "formula": case.formula,
        "brms": case.brms,
        "family": case.family,
        "hyperparameters": case.hyperparameters,
        "b_labels": [label for label in answer["columns"] if label != "Intercept"],
        "groups": groups,
        "defaults": answer["defaults"],
        "points": written,
    }


def log_densities(model: Bridge, points: FloatArray) -> FloatArray:
    """Return log densities of the constrained parameters, with all constants and no Jacobian."""
    found = np.empty(len(points))
    function = model._library.bs_log_density
    for _ in model._failures(function, (False, False), [points, found]):
        raise model._failure()
    if not np.isfinite(found).all():
        raise RuntimeError(f"log densities are not finite: {found}")
    return found


def named_groups(answer: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return the effects and labels of each group, after checking which rows have which label."""
    found: dict[str, dict[str, list[str]]] = {}
    for term in answer["terms"]:
        labels = answer["levels"][term["group"]]
        rows = table()[term["group"].split(":")].agg("_".join, axis=1)
        indices = [int(text) for text in answer["data"][f"J_{term['id']}"]["values"]]
        if [labels[index - 1] for index in indices] != list(rows):
            raise RuntimeError(f"brms' labels of {term['group']} are not the table's")
        group = term["group"].replace(":", "_")
        found.setdefault(group, {"effects": [], "labels": labels})["effects"].append(term["coef"])
    return found


def by_name(
    elements: Sequence[str], values: FloatArray, parameters: set[str]
) -> dict[str, FloatArray]:
    """Return the arrays of parameters whose elements have names such as ``z_1.2.3``."""
    where: dict[str, list[tuple[tuple[int, ...], float]]] = {}
    for element, value in zip(elements, values, strict=True):
        name, *indices = element.split(".")
        if name in parameters:
            where.setdefault(name, []).append((tuple(int(i) - 1 for i in indices), value))
    arrays = {}
    for name, entries in where.items():
        columns = zip(*(index for index, _ in entries), strict=True)
        array = np.full([1 + max(column) for column in columns], np.nan)
        for index, value in entries:
            array[index] = value
        arrays[name] = array
    return arrays


def by_our_names(
    arrays: dict[str, FloatArray], case: Case, answer: dict[str, Any]
) -> dict[str, Any]:
    """Return the parameters of a point, by pyflowers' names."""
    groups = {str(term["id"]): term["group"].replace(":", "_") for term in answer["terms"]}
    intercept = "threshold" if case.family == "cumulative" else "Intercept"
    point: dict[str, Any] = {}
    for name, array in arrays.items():
        kind, _, number = name.partition("_")
        if number:
            ours = f"{kind}_{groups[number]}"
            if ours in point and kind == "L":
                raise RuntimeError(f"{case.name} has two correlated terms of {groups[number]}")
            point[ours] = [*point.get(ours, []), *array.tolist()]
        else:
            point[f"{intercept}_at_means" if name == "Intercept" else name] = array.tolist()
    return point


def interpreted_reference(case: more_cases.Case, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a case whose program the interpreter runs."""
    text, data = with_arrays(answer["program"]), json.dumps(stan_data(answer["data"]))
    model = interpreted(text, data)
    # The Jacobian is the density of a program with the same parameters and nothing else.
    jacobian = interpreted(text.partition("transformed parameters {")[0] + "model {}", data)
    points = points_with_a_density(model, case)
    values, gradients = model.evaluate(points, True)
    values -= jacobian.evaluate(points, False)[0]
    parameters = {name.split(".")[0] for name in model.names}
    tags = tags_of(answer)
    written = []
    for row, value, gradient in zip(model.constrain(points), values, gradients, strict=True):
        arrays = by_name(model.elements, row, parameters)
        if arrays.pop("Ymi", None) is not None:
            # The log density is a parabola in each missing response.
            slopes = gradient[[name.startswith("Ymi.") for name in model.names]]
            value += np.sum((slopes * arrays["sigma"]) ** 2 / 2 + np.log(arrays["sigma"]))
        point = {our_name(name, case, tags): its.tolist() for name, its in arrays.items()}
        written.append({**point, "log_density": float(value)})
    labels = {tags[str(term["id"])]: answer["levels"][term["group"]] for term in answer["terms"]}
    return {"name": case.name, "formula": case.formula, "groups": labels, "points": written}


def interpreted(text: str, data: str) -> Bridge:
    """Return the interpreter's density of a program, in this process."""
    mir = stanli.stan_to_mir(text)
    model = stanli.bridgestan_model(mir=mir, data=data, seed=SEED)
    return Bridge(model.lib_path, model.model, model, forgiving=True)


def points_with_a_density(model: Bridge, case: more_cases.Case) -> FloatArray:
    """Return points at which the density is not 0, with few digits.

    They do not depend on the place of the case in the list. Some links require positive linear
    predictors, so the intercepts are drawn around the centre of the case.
    """
    rng = np.random.default_rng([SEED, *case.name.encode()])
    points = rng.normal(0, 0.4, (50 * POINTS, len(model.names))).round(3)
    points[:, [name in ("Intercept", "Intercept.1") for name in model.names]] += case.centre
    values, _ = model.evaluate(points, False)
    kept = points[np.isfinite(values)][:POINTS]
    if len(kept) < POINTS:
        raise RuntimeError(f"only {len(kept)} points have a density")
    return kept


def tags_of(answer: dict[str, Any]) -> dict[str, str]:
    """Return pyflowers' name of each of brms' numbered groups."""
    found = {}
    for term in answer["terms"]:
        group = "mm_g_g2" if term["group"] == "mmgg2" else term["group"]
        found[str(term["id"])] = "_".join(filter(None, (group, term["dpar"])))
    return found


def our_name(name: str, case: more_cases.Case, tags: dict[str, str]) -> str:
    """Return pyflowers' name of a parameter of brms."""
    if name in case.names:
        return str(case.names[name])
    if match := re.fullmatch(r"(sd|z|L|df|udf)_(\d+)", name):
        return f"{match[1].replace('udf', 'u')}_{tags[match[2]]}"
    if name == "Intercept" and case.family.partition("(")[0] in more_cases.ORDINAL:
        return "threshold_at_means"
    if name.partition("_")[0] == "Intercept":
        return f"{name}_at_means"
    return name


def check_one_group(case: dict[str, Any]) -> None:
    """Compare brms' density of ``y ~ x + (1 | g)`` with a density written out in Python."""
    frame, given = table(), case["hyperparameters"]
    x, labels = frame["x"] - frame["x"].mean(), case["groups"]["g"]["labels"]
    for point in case["points"]:
        effects = dict(zip(labels, point["sd_g"][0] * np.array(point["z_g"][0]), strict=True))
        mu = point["Intercept_at_means"] + point["b"][0] * x + frame["g"].map(effects)
        location, scale = given["Intercept_location"], given["Intercept_scale"]
        terms = [
            stats.norm.logpdf(frame["y"], mu, point["sigma"]),
            stats.t.logpdf(point["Intercept_at_means"], 3, location, scale),
            stats.norm.logpdf(point["b"], 0, given["b_scale[x]"]),
            stats.norm.logpdf(point["z_g"]),
            np.log(2) + stats.t.logpdf(point["sd_g"], 3, 0, given["sd_g_scale"]),
            np.log(2) + stats.t.logpdf(point["sigma"], 3, 0, given["sigma_scale"]),
        ]
        expected = sum(np.sum(term) for term in terms)
        np.testing.assert_allclose(point["log_density"], expected, rtol=1e-11)


if __name__ == "__main__":
    if "--more" in sys.argv[1:]:
        write_more()
    else:
        main()
