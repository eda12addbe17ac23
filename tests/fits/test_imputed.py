"""Completed tables of multiple imputation, fitted and pooled."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner

import pyflowers
from pyflowers import convergence
from pyflowers.cli.main import cli
from pyflowers.engines.cmdstan import CmdStanEngine
from pyflowers.errors import ConfigError, DataError, PyflowersError
from pyflowers.fits.posterior import stacked
from pyflowers.fits.sampling import Prepared

pytestmark = pytest.mark.usefixtures("in_a_shell")

NUM = 60
RNG = np.random.default_rng(1)
X = RNG.normal(size=NUM)
Y = 1 + 2 * X + RNG.normal(size=NUM)
LOST = RNG.random(NUM) < 0.3
BASE = pd.DataFrame({"x": X, "y": Y, "g": np.tile(list("abcdef"), NUM // 6)})
TABLES = [
    BASE.assign(x=np.where(LOST, (Y - 1) / 2.5 + RNG.normal(size=NUM) * 0.5, X)) for _ in range(3)
]
HOW = {"seed": 4, "engine": "stanli", "chains": 2, "warmup": 200, "draws": 200}


@pytest.fixture(scope="module")
def pooled():
    return pyflowers.fit("y ~ x", TABLES, **HOW)


def test_the_draws_are_those_of_each_table_as_further_chains(pooled):
    """The program, with its priors, is that of the first table; each table has its own seed."""
    program = pyflowers.Program.from_formula("y ~ x", TABLES[0])
    assert pooled.posterior.sizes == {"chain": 6, "draw": 200, "X": 1}
    for i, table in enumerate(TABLES):
        alone = pyflowers.fit(program, table, **HOW | {"seed": HOW["seed"] + i})
        its = pooled.posterior["b"][2 * i : 2 * i + 2]
        np.testing.assert_array_equal(its, alone.posterior["b"])


def test_the_share_between_tables_is_rubins(pooled):
    draws = np.stack([np.asarray(fit.draws["b"])[..., 0] for fit in pooled.fits])
    within = draws.var(axis=(1, 2), ddof=1).mean()
    between = (1 + 1 / 3) * draws.mean(axis=(1, 2)).var(ddof=1)
    row = pooled.summary().loc["b[x]"]
    assert row["between"] == pytest.approx(between / (within + between), rel=1e-6)
    assert row["between"] > 0.2
    np.testing.assert_allclose(row[["mean", "median"]], [draws.mean(), np.median(draws)])
    assert "of the variance of b[x] lies between the tables, so 3 tables are few" in str(pooled)


def test_equal_tables_have_no_variance_between():
    """The negative control: what is left is the Monte Carlo error."""
    equal = pyflowers.fit("y ~ x", [BASE, BASE], **HOW)
    assert equal.between.max() < 0.05
    assert not any("between the tables" in note for note in equal.notes)


def test_r_hat_compares_the_chains_of_one_table(pooled):
    """Tables differ, so that R-hat over all chains would fail; the verdict does not."""
    tables = [fit.summary() for fit in pooled.fits]
    found = pooled.summary()
    for row in found.index:
        assert found.loc[row, "r_hat"] == max(table.loc[row, "r_hat"] for table in tables)
        assert found.loc[row, "ess_bulk"] == pytest.approx(
            sum(table.loc[row, "ess_bulk"] for table in tables)
        )
    across = convergence.r_hat(stacked(pooled.posterior))
    assert np.max(across) > 1.05 > found["r_hat"].max()


def test_the_verdict_names_the_worst_table():
    """The priors, on the scale of the first table, contradict the second."""
    far = TABLES[1].assign(y=Y * 1e4)
    mixed = pyflowers.fit("y ~ x", [TABLES[0], far], **HOW)
    checks = mixed.verdict.prior.checks
    assert [part.passed for part in (fit.verdict.prior for fit in mixed.fits)] == [True, False]
    assert any("table 2" in str(check) for check in checks if check.failed)
    assert not mixed.verdict.passed
    assert mixed.verdict.data.note.endswith("run pyflowers check on the run folder of each table")


def test_what_belongs_to_one_table_is_sought_in_its_fit(pooled):
    with pytest.raises(AttributeError, match=r"a PooledFit has no 'model'; .* such as \.fits\[0\]"):
        pyflowers.plots.conditional_effects(pooled, "x")
    assert not hasattr(pooled, "draws")


def test_the_error_of_a_property_is_its_own(pooled):
    class Failing(pyflowers.PooledFit):
        heading = property(lambda self: self.fits[0].none)

    with pytest.raises(AttributeError, match="'Fit' object has no attribute 'none'"):
        _ = Failing(pooled.fits).heading


def test_a_run_folder_for_each_table(pooled, tmp_path):
    pooled.save(tmp_path / "pooled")
    again = pyflowers.Fit.load(tmp_path / "pooled" / "table-2")
    np.testing.assert_array_equal(again.draws["b"], pooled.fits[1].draws["b"])
    table = pd.read_csv(tmp_path / "pooled" / "summary.csv", index_col=0)
    np.testing.assert_allclose(table["between"], pooled.summary()["between"])
    assert pooled.to_dict()["tables"] == 3


def test_tables_stay_with_their_engine_after_the_program_was_compiled(
    tmp_path, cmdstan, monkeypatch
):
    how = {"seed": 1, "chains": 1, "warmup": 20, "draws": 20, "out": tmp_path}
    pyflowers.fit("y ~ x", TABLES, engine="stanli", **how)
    monkeypatch.setattr("pyflowers.engines._compiled", lambda _: CmdStanEngine(cmdstan))
    again = pyflowers.fit("y ~ x", TABLES, **how)
    assert {each.record.engine.name for each in again.fits} == {"stanli"}


def test_what_a_folder_holds_is_not_refitted(tmp_path):
    how = HOW | {"warmup": 50, "draws": 50, "out": tmp_path / "runs"}
    first = pyflowers.fit("y ~ x", TABLES[:2], **how)
    again = pyflowers.fit("y ~ x", TABLES[:2], **how)
    assert [fit.folder.name for fit in again.fits] == ["table-1", "table-2"]
    for one, other in zip(first.fits, again.fits, strict=True):
        np.testing.assert_array_equal(one.draws["b"], other.draws["b"])


def test_a_folder_is_read_and_asked(curved, tmp_path):
    folder = curved.save(tmp_path / "pooled")
    again = pyflowers.PooledFit.load(folder)
    np.testing.assert_array_equal(again.posterior["b"], curved.posterior["b"])
    new = tmp_path / "new.csv"
    new.write_text("x\n0\n1.5\n")
    asked = {
        "effects": (["x"], curved.effects("x", interval=0.8)),
        "predict": (["--new", str(new)], curved.predict(new, interval=0.8)),
        "contrast": (["b[x] > 2"], curved.contrast("b[x] > 2", interval=0.8)),
    }
    for name, (words, found) in asked.items():
        words = [name, str(folder), *words, "--interval", "0.8", "--out", str(tmp_path / name)]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        assert "3 completed tables, pooled" in done.output
        for file, table in found.files().items():
            kept = pd.read_csv(tmp_path / name / file)
            for column in {*kept.columns} & {"median", "between", "probability"}:
                np.testing.assert_allclose(kept[column], table[column], rtol=1e-12)
    refused = CliRunner().invoke(cli, ["check", str(folder)])
    assert refused.exit_code == 1
    assert "name one of the runs in it, such as" in str(refused.exception)
    with pytest.raises(DataError, match="not a folder of fits of completed tables; name one"):
        pyflowers.PooledFit.load(folder / "table-1")


def test_a_fit_of_a_further_table_is_not_pooled_by_accident(pooled, tmp_path):
    how = HOW | {"warmup": 20, "draws": 20, "out": tmp_path}
    pooled.save(tmp_path)
    for write in (
        lambda: pyflowers.fit("y ~ x", TABLES[:2], **how),
        lambda: pyflowers.PooledFit(pooled.fits[:2]).save(tmp_path),
    ):
        with pytest.raises(ConfigError, match="table-3 is a fit of an additional table; name"):
            write()
    assert len(pyflowers.PooledFit.load(tmp_path).fits) == 3


def test_a_summary_of_something_else_is_not_overwritten(pooled, tmp_path):
    how = HOW | {"warmup": 20, "draws": 20}
    run, mine = tmp_path / "run", tmp_path / "mine"
    pyflowers.fit("y ~ x", BASE, out=run, **how)
    mine.mkdir()
    (mine / "summary.csv").write_text("mine\n")
    for folder in (run, mine):
        before = (folder / "summary.csv").read_bytes()
        for write in (lambda to: pyflowers.fit("y ~ x", TABLES, out=to, **how), pooled.save):
            with pytest.raises(ConfigError, match=r"contains summary\.csv, which no"):
                write(folder)
        assert (folder / "summary.csv").read_bytes() == before
        assert not (folder / "table-1").exists()


def test_the_run_of_a_later_table_is_refused_before_the_first_is_sampled(tmp_path):
    how = HOW | {"warmup": 20, "draws": 20}
    pyflowers.fit("y ~ x", BASE, out=tmp_path / "table-2", **how)
    with pytest.raises(ConfigError, match="table-2 holds another run"):
        pyflowers.fit("y ~ x", TABLES, out=tmp_path, **how)
    assert not (tmp_path / "table-1").exists()


def test_keep_is_refused_before_anything_is_sampled(monkeypatch):
    monkeypatch.setattr(Prepared, "sample", None)
    with pytest.raises(ConfigError, match="keep does not apply to completed tables"):
        pyflowers.fit("y ~ x", TABLES, seed=1, engine="exact", keep=["b"])


def test_the_command_takes_repeated_data(tmp_path):
    files = []
    for number, table in enumerate(TABLES, 1):
        files += ["--data", str(tmp_path / f"{number}.csv")]
        table.to_csv(files[-1], index=False)
    options = ["--seed", "4", "--engine", "stanli", "--chains", "2", "--warmup", "50"]
    options += ["--draws", "50", "--plots", "none", "--out", str(tmp_path / "runs")]
    found = CliRunner().invoke(cli, ["fit", "y ~ x", *files, *options])
    assert found.exit_code == 0, found.output
    assert "3 completed tables, pooled" in found.output
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        *("summary.csv", "table-1", "table-2", "table-3"),
    ]
    refused = CliRunner().invoke(cli, ["prior", "y ~ x", *files, "--out", str(tmp_path / "p")])
    assert refused.exit_code == 2
    assert "only pyflowers fit, without --config, pools completed tables" in refused.output


BAD = [
    ([], ConfigError, "completed versions of one table, but this one has 0; add the others, or"),
    (TABLES[:1], ConfigError, "but this one has 1; add the others, or give the table itself"),
    ([BASE, BASE.iloc[1:]], DataError, "table 2 has 59 observations, but table 1 has 60; give"),
    ([BASE, BASE.assign(x=np.nan)], DataError, "table 2: the data frame, row 1: x is missing"),
    ([BASE, BASE.drop(columns="x")], DataError, "table 2: the data frame: there is no column 'x'"),
    ([BASE.drop(columns="x"), BASE], PyflowersError, "table 1: "),
    ([BASE, BASE.replace("f", "k")], DataError, "is a parameter of only one of tables 1 and 2"),
    ([BASE, "none.csv"], DataError, "table 2: none.csv: no such file; check the path"),
]


@pytest.mark.parametrize(("tables", "kind", "message"), BAD, ids=range(len(BAD)))
def test_bad_tables_are_refused(tables, kind, message):
    with pytest.raises(kind) as caught:
        pyflowers.fit("y ~ x + (1 | g)", tables, **HOW | {"warmup": 20, "draws": 20})
    assert message in str(caught.value)


OF_ONE_TABLE = [
    pyflowers.check,
    pyflowers.loo,
    pyflowers.sensitivity,
]


@pytest.mark.parametrize("question", OF_ONE_TABLE, ids=range(len(OF_ONE_TABLE)))
def test_other_questions_on_data_take_the_fit_of_one_table(question, pooled):
    with pytest.raises(
        ConfigError, match=r"several tables; give the fit of one table, such as pooled\.fits"
    ):
        question(pooled)


CURVED = "y ~ x + I(x**2)"


@pytest.fixture(scope="module")
def curved():
    """Return fits of a curve, whose average slope depends on the rows of each table."""
    return pyflowers.fit(CURVED, TABLES, **HOW)


def test_an_effect_is_averaged_over_the_rows_of_each_draws_table(curved):
    found = pyflowers.effects(curved, "x")
    expected = []
    for fit, table in zip(curved.fits, TABLES, strict=True):
        b, x = fit.draws["b"], table["x"].to_numpy()
        expected.append(b[..., 0] + b[..., 1] * ((x + 1) ** 2 - x**2).mean())
    draws = found.draws().values[..., 0]
    np.testing.assert_allclose(draws, np.concatenate(expected), rtol=1e-10, atol=1e-10)
    other = curved.fits[0].draws["b"], TABLES[1]["x"].to_numpy()
    wrong = other[0][..., 0] + other[0][..., 1] * ((other[1] + 1) ** 2 - other[1] ** 2).mean()
    assert np.abs(draws[:2] - wrong).max() > 1e-6  # the negative control
    assert found.draws().sizes["chain"] == 6
    np.testing.assert_array_equal(curved.effects("x").draws(), found.draws())


def test_the_table_of_pooled_effects_has_the_share_between_tables(curved):
    found = pyflowers.effects(curved, "x")
    draws = np.split(found.draws().values[..., 0], 3)
    within = np.mean([its.var(ddof=1) for its in draws])
    between = (1 + 1 / 3) * np.var([its.mean() for its in draws], ddof=1)
    row = found.table().iloc[0]
    assert row["between"] == pytest.approx(between / (within + between), rel=1e-10)
    assert row["median"] == pytest.approx(np.median(found.draws()))
    each = [pyflowers.effects(fit, "x").table().iloc[0] for fit in curved.fits]
    assert row["ess_bulk"] == pytest.approx(sum(its["ess_bulk"] for its in each))
    error = np.sqrt(sum(its["mcse"] ** 2 for its in each)) / 3
    assert row["mcse"] == pytest.approx(error)
    assert "3 completed tables, pooled" in str(found)
    assert "between" in str(found)
    assert found.to_dict()["tables"] == 3
    assert found.files()["effects.csv"]["between"].iloc[0] == row["between"]
    assert "between" not in each[0]


def test_pooled_effects_over_rows_that_are_given(curved):
    new = pd.DataFrame({"x": [0.0, 1.0]})
    found = pyflowers.effects(curved, "x", new=new, slopes=True, interval=0.5)
    b = np.concatenate([fit.draws["b"] for fit in curved.fits])
    expected = b[..., 0] + 2 * b[..., 1] * 0.5
    np.testing.assert_allclose(found.draws().values[..., 0], expected, rtol=1e-6)
    assert "2 rows of" in str(found)


def test_ratios_are_pooled_and_told_in_words():
    counts = [each.assign(n=np.round(np.exp(0.5 * each["x"])) + 1) for each in TABLES]
    pooled = pyflowers.fit("n ~ x + (1 | g)", counts, family="poisson", **HOW)
    found = pyflowers.effects(pooled, "x")
    b = np.concatenate([fit.draws["b"][..., 0] for fit in pooled.fits])
    np.testing.assert_allclose(found.ratios.values[..., 0], np.exp(b), rtol=1e-10)
    assert len(found.sentences()) == 1
    by = pyflowers.effects(pooled, "x", by="g")
    alone = [pyflowers.effects(fit, "x", by="g").draws().values for fit in pooled.fits]
    np.testing.assert_array_equal(by.draws().values, np.concatenate(alone))
    rows = pyflowers.effects(pooled, "x", slopes=True)
    assert np.isfinite(rows.table()["between"]).all()


def test_changes_that_differ_between_tables_are_refused():
    """A column with two values is compared at these values."""
    tables = [BASE.assign(x=np.where(BASE["x"] > 0, high, 0)) for high in (3, 4)]
    pooled = pyflowers.fit("y ~ x", tables, **HOW)
    with pytest.raises(DataError, match="tables 1 and 2 have different changes, such as x"):
        pyflowers.effects(pooled, "x")
    assert len(pyflowers.effects(pooled, "x", between=(0, 1)).table()) == 1


def test_a_row_is_predicted_by_the_fit_of_each_table(curved, tmp_path):
    new = pd.DataFrame({"x": [0.0, 1.0, 2.0]})
    found = curved.predict(new)
    b, a = (np.concatenate([fit.draws[name] for fit in curved.fits]) for name in ("b", "Intercept"))
    x = new["x"].to_numpy()
    expected = a[..., None] + b[..., :1] * x + b[..., 1:] * x**2
    np.testing.assert_allclose(found.draws(), expected, rtol=1e-10, atol=1e-10)
    table = found.table()
    np.testing.assert_allclose(table["median"], np.median(expected, axis=(0, 1)), rtol=1e-10)
    tables = np.split(expected, 3)
    within = np.mean([its.var(axis=(0, 1), ddof=1) for its in tables], axis=0)
    between = (1 + 1 / 3) * np.var([its.mean(axis=(0, 1)) for its in tables], axis=0, ddof=1)
    np.testing.assert_allclose(table["between"], between / (within + between), rtol=1e-8)
    each = [pyflowers.predict(fit, new).table() for fit in curved.fits]
    error = np.sqrt(sum(its["mcse"] ** 2 for its in each)) / 3
    np.testing.assert_allclose(table["mcse"], error)
    assert "between" not in each[0]
    assert list(table.index.names) == ["row", "x"]
    assert "3 completed tables, pooled" in str(found)
    assert found.to_dict()["tables"] == 3
    found.save(tmp_path / "p.nc")
    with xr.open_datatree(tmp_path / "p.nc") as kept:
        np.testing.assert_allclose(kept["predictions"]["expected"], expected, rtol=1e-10)


def test_the_rows_of_completed_tables_are_predicted_with_their_own_values(curved):
    found = curved.predict()
    expected = []
    for fit, table in zip(curved.fits, TABLES, strict=True):
        x = table["x"].to_numpy()
        line = fit.draws["b"][..., :1] * x + fit.draws["b"][..., 1:] * x**2
        expected.append(fit.draws["Intercept"][..., None] + line)
    np.testing.assert_allclose(found.draws(), np.concatenate(expected), rtol=1e-10, atol=1e-10)
    assert list(found.table().index.names) == ["row"]  # x differs between the tables
    assert f"{NUM} rows of each of 3 completed tables" in str(found)


def test_pooled_observations_probabilities_and_averages():
    counts = [each.assign(n=np.round(np.exp(0.5 * each["x"])) + 1) for each in TABLES]
    pooled = pyflowers.fit("n ~ x + (1 | g)", counts, family="poisson", **HOW)
    new = pd.DataFrame({"x": [0.0, 0.0, 1.0], "g": ["a", "new", "b"]})
    observed = pooled.predict(new, kind="observation", seed=np.int64(7))
    for number, fit in enumerate(pooled.fits):
        its = pyflowers.predict(fit, new, kind="observation", seed=7 + number)
        own = slice(2 * number, 2 * number + 2)
        np.testing.assert_array_equal(observed.draws()[own], its.draws())
    assert np.all(observed.table()["median"] % 1 == 0)
    likely = pooled.predict(new, outcome=["> 0", "<= 2"])
    each = [pyflowers.predict(fit, new, outcome=["> 0", "<= 2"]).draws() for fit in pooled.fits]
    np.testing.assert_allclose(likely.draws(), np.concatenate(each))
    medians = np.median(np.concatenate(each), axis=(0, 1)).T.ravel()
    np.testing.assert_allclose(likely.table()["median"], medians)
    by = pooled.predict(new, by="x")
    each = [pyflowers.predict(fit, new, by="x").draws() for fit in pooled.fits]
    np.testing.assert_allclose(by.draws(), np.concatenate(each))
    assert list(by.table().index) == ["0", "1"]


def test_what_cannot_be_pooled_is_answered_with_what_can(pooled):
    with pytest.raises(DataError, match=r"different labels by which .*; average by columns"):
        pooled.predict(by="x")
    flowers = pyflowers.fit("iid_normal", [pyflowers.example("flowers")] * 2, **HOW)
    with pytest.raises(ConfigError, match="rows can be pooled; give --new TABLE"):
        flowers.predict()


def test_expressions_are_evaluated_for_each_table(curved):
    texts = ["b[x] / b[2]", "b[x] > 2", "rank(b)", "effect[x]", "mu"]
    found = curved.contrast(*texts, interval=0.8)
    each = [pyflowers.contrast(fit, *texts, interval=0.8) for fit in curved.fits]
    for i, its in enumerate(found.derived):
        np.testing.assert_array_equal(its, np.concatenate([one.derived[i] for one in each]))
    draws = [one.derived[3].values for one in each]
    row = found.numbers().loc["effect[x]"]
    assert row["median"] == pytest.approx(np.median(draws))
    assert row["90%"] == pytest.approx(np.quantile(draws, 0.9), rel=1e-3)
    within = np.mean([its.var(ddof=1) for its in draws])
    between = (1 + 1 / 3) * np.var([its.mean() for its in draws], ddof=1)
    assert row["between"] == pytest.approx(between / (within + between), rel=1e-10)
    rows = [one.numbers().loc["effect[x]"] for one in each]
    assert row["mcse"] == pytest.approx(np.sqrt(sum(its["mcse"] ** 2 for its in rows)) / 3)
    holds = found.conditions().loc["b[x] > 2"]
    assert holds["probability"] == pytest.approx(
        np.mean([one.conditions()["probability"].iloc[0] for one in each])
    )
    assert holds["ess"] == pytest.approx(sum(one.conditions()["ess"].iloc[0] for one in each))
    first = found.ranks()["P(first)"]
    np.testing.assert_allclose(first, np.mean([one.ranks()["P(first)"] for one in each], axis=0))
    assert "3 completed tables, pooled" in str(found)
    assert found.to_dict()["tables"] == 3
    assert list(curved.contrast("b[x] > 0").tables()) == ["conditions.csv"]


def test_a_quotient_is_a_ratio_only_if_it_is_above_0_for_every_table(pooled):
    assert "P(> 1)" in pooled.contrast("b[x] / sigma").numbers()
    shifted = "(b[x] - 1.9) / sigma"
    nulls = [pyflowers.contrast(fit, shifted).derived[0].attrs["null"] for fit in pooled.fits]
    assert pooled.contrast(shifted).derived[0].attrs["null"] == min(nulls)
