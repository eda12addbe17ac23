"""The functions of a fit are its methods, its priors are those that it was given."""

import inspect
import pickle

import pytest

import pyflowers
from pyflowers.errors import CompileError, ConfigError, DataError
from pyflowers.fits.methods import Question, Questions

ASKED = {name: its for name, its in vars(Questions).items() if isinstance(its, Question)}


@pytest.fixture(scope="module")
def fit():
    return pyflowers.fit("multilevel_poisson", seed=1, engine="exact", priors={"mu_sd": 10})


def function_of(question):
    found = pyflowers
    for part in question.name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", ASKED)
def test_a_method_is_the_function_of_its_name(fit, name):
    function = function_of(ASKED[name])
    assert name == ASKED[name].name.replace("plots.", "plot_").removesuffix("_overlay")
    assert getattr(fit, name).__func__ is function
    assert getattr(fit, name).__self__ is fit
    assert next(iter(inspect.signature(function).parameters)) in ("fit", "fits")
    assert name in dir(fit)


def test_the_functions_of_a_fit_are_its_methods():
    """Those that are not compare models, or refit."""
    of_fits = {
        name
        for name in pyflowers.__all__
        if inspect.isfunction(its := getattr(pyflowers, name))
        and next(iter(inspect.signature(its).parameters)) in ("fit", "fits")
    }
    assert of_fits - set(ASKED) == {"leave_one_group_out", "table"}


@pytest.mark.slow
def test_a_method_answers_as_the_function_does(fit, tmp_path):
    assert str(fit.check()) == str(pyflowers.check(fit))
    difference = "mu_plant[3] - mu_plant[1]"
    assert str(fit.contrast(difference)) == str(pyflowers.contrast(fit, difference))
    assert str(fit.loo()) == str(pyflowers.loo(fit))
    assert fit.plot_trace("mu").axes
    assert fit.report(tmp_path / "report.html").is_file()


def test_a_fit_with_methods_is_pickled(fit):
    assert str(pickle.loads(pickle.dumps(fit)).check()) == str(fit.check())


def test_a_method_that_there_is_not(fit):
    with pytest.raises(AttributeError, match="plot_nothing"):
        _ = fit.plot_nothing


def test_the_priors_of_a_fit_are_those_that_it_was_given(fit):
    found = fit.priors
    assert found.loc["mu", ["prior", "default"]].tolist() == ["normal(0, 10)", "no"]
    assert found.loc["sigma2", "default"] == "yes"
    assert fit.program.priors.loc["mu", ["prior", "default"]].tolist() == ["normal(0, 100)", "yes"]


@pytest.mark.parametrize("kind", [DataError, ConfigError, CompileError])
def test_ipython_shows_only_the_sentence_of_an_error(kind):
    """IPython calls this method, if an exception has it, instead of showing a traceback."""
    error = kind("t.csv, row 2: y is blank; fill it in")
    assert error._render_traceback_() == [f"{kind.__name__}: t.csv, row 2: y is blank; fill it in"]


def test_the_signature_of_fit_names_the_usual_inputs_first():
    parameters = inspect.signature(pyflowers.fit).parameters
    keywords = [each for each in parameters.values() if each.kind is each.KEYWORD_ONLY]
    names = [each.name for each in keywords]
    first = names.index("family")
    assert names[first : first + 6] == ["family", "priors", "seed", "chains", "warmup", "draws"]
    assert parameters["chains"].default == 4
    assert "Strict" not in str(inspect.signature(pyflowers.fit))
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
