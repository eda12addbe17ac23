"""What follows a fit, for the tests that add a toy term, a toy parameter or a toy engine."""

import numpy as np

import pyflowers


def answers(fit, rows, column):
    """Predict, check, compare and save a fit; return the median of the effect of a column."""
    predicted = pyflowers.predict(fit, rows).table()
    assert np.isfinite(predicted["median"]).all()
    assert pyflowers.check(fit).passed
    assert np.isfinite(pyflowers.loo(fit).table()["elpd"]).all()
    return float(pyflowers.effects(fit, column).table()["median"].iloc[0])


def reported(fit, folder):
    """Return the page of a report on a fit that was saved and loaded."""
    loaded = pyflowers.Fit.load(fit.save(folder / "run"))
    return pyflowers.report(loaded, folder / "report.html").read_text(encoding="utf-8")


def batch_medians(fit, program, frame, folder, keep=()):
    """Return the medians of the parameters from a batch of one task with the options of a fit."""
    options = fit.record.options
    task = pyflowers.Task(
        program, frame, warmup=options.warmup, draws=options.draws, keep=[*keep, "summary"]
    )
    how = {"seed": options.seed, "engine": fit.record.engine.name, "workers": 1}
    batch = pyflowers.batch([task], out=folder / "batch", **how)
    return batch.table("summary").set_index("parameter")["median"]
