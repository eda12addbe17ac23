"""Advice in the language of the caller: options of a command, or arguments in Python."""

import pytest

from pyflowers.advice import Advice, in_shell, worded

WORDED = {
    "refit with --family negbinomial": 'refit with family="negbinomial"',
    "--family bernoulli(probit), or stop": 'family="bernoulli(probit)", or stop',
    "use --family beta or --family gamma": 'use family="beta" or family="gamma"',
    'the formula "y ~ x" --family poisson': 'the formula "y ~ x", family="poisson"',
    "--adapt-delta 0.99 --max-treedepth 12; then": "adapt_delta=0.99, max_treedepth=12; then",
    "run longer: --draws 4000, as": "run longer: draws=4000, as",
    "double --warmup and --draws": "double warmup and draws",
    "(--chains 4)": "(chains=4)",
    "give --new TABLE, or --kind KIND": "give new=TABLE, or kind=KIND",
    "such as --parameter sigma": 'such as parameter="sigma"',
    "--time in the table": "time in the table",
    "with NUTS (--engine auto): the": 'with NUTS (engine="auto"): the',
    "narrow its prior (--prior)": "narrow its prior (priors)",
    "with --prior b_scale[x:z]=…; the": 'with priors={"b_scale[x:z]": …}; the',
    "--prior mu_sd=1 --prior nu=2.5, or": 'priors={"mu_sd": 1, "nu": 2.5}, or',
    "--prior 'sd ~ normal(0, 1)'": 'priors={"sd": "normal(0, 1)"}',
    "a copy: pyflowers new NAME --from rats": "a copy: pyflowers new NAME --from rats",
    "add log(x), or x - 1 -- whichever fits": "add log(x), or x - 1 -- whichever fits",
}


@pytest.mark.parametrize("text", WORDED)
def test_options_are_arguments_in_python(text):
    assert worded(text) == WORDED[text]
    with in_shell():
        assert worded(text) == text
    assert worded(text) == WORDED[text]


def test_advice_keeps_what_it_changes():
    advice = Advice("refit with --family poisson", family="poisson").with_command("do")
    assert (advice, advice.command) == ('refit with family="poisson"', "do")
    assert (advice.step, advice.change) == ("fit", {"family": "poisson"})
