"""Errors in a formula or its data are one sentence; nothing in a formula is executed."""

import builtins
import re
import subprocess
import time

import numpy as np
import pandas as pd
import pytest

import pyflowers
from pyflowers import Fit, Program
from pyflowers.errors import ConfigError, DataError, PyflowersError
from pyflowers.programs.terms import EDIT_PROGRAM, IMPUTE

NUM = 24
FRAME = pd.DataFrame(
    {
        "y": np.arange(NUM) + 1.0,
        "count": np.arange(NUM) % 5,
        "x": np.linspace(-1, 1, NUM),
        "twice": np.linspace(-2, 2, NUM),
        "z": np.arange(NUM) ** 2.0,
        "f": list("abc") * 8,
        "g": [label for label in "pqrstu" for _ in range(4)],
        "one": "k",
        "id": [f"i{i}" for i in range(NUM)],
        "n": 9,
        "bin": np.arange(NUM) % 2,
        "prop": np.linspace(0.1, 0.9, NUM),
        "gap": [None, *range(NUM - 1)],
        "infinite": [np.inf, *range(NUM - 1)],
        "same": 5.0,
        "zero": 0.0,
        "signed": np.arange(NUM) - 3,
        "half": np.arange(NUM) / 2,
        "large": 3e9,
        "l__p": 1.0,
        "slip": ["0.1", "O.2", *np.linspace(0.3, 2.4, NUM - 2).astype(str)],
        "mixed": [0.1, "?", *np.linspace(0.3, 2.4, NUM - 2)],
    }
)
NO_RESPONSE = "is neither a column nor a column with terms, such as y | trials(n); transform it"
NO_TRIALS = "write trials(n), where n is a column or a whole number"
NO_GROUP = "cannot be read; write (effects | group), where group is a column, a:b or a/b"
ALONE = "a group term needs separate brackets, such as (1 | group)"
FUNCTIONS = "is not one of the functions that terms can use: log, log2, log10, exp, sqrt, scale"
NO_MEANING = "is not allowed; terms are columns"
BAD = [
    ("y", "", "has no ~ between response and terms; add it"),
    ("y ~", "", "no term follows the ~; write 1 for the intercept alone"),
    ("y ~ +", "", "no term follows the ~"),
    ("~ x", "", "there is no response before the ~; name its column there"),
    ("y ~ x ~ z", "", "has more than one ~; keep only one"),
    ("y ~ x, sigma ~ f", "", "a comma comes before the formula of sigma; write a semicolon there"),
    ("y ~ x; sigma", "", "formula 'sigma' has no ~ between response and terms; add it"),
    ("y ~ x; sigma ~", "", "formula 'sigma ~': no term follows the ~; write 1 for the intercept"),
    ("y ~ x; ~ f", "", "formula '~ f': the formulas after the first belong to other parameters"),
    ("y ~ x; log(sigma) ~ f", "", "'log(sigma)' is not the name of one; write a name such as"),
    ("y ~ x; sigma | trials(n) ~ f", "", "'sigma | trials(n)' is not the name of one"),
    ("y ~ x; sigma ~ x; sigma ~ z", "", "sigma has two formulas; write all its terms in one"),
    ("y ~ x; sigma ~ x ~ z", "", "formula 'sigma ~ x ~ z' has more than one ~; keep only one"),
    ("y ~ x; shape ~ f", "", "family gaussian has no parameter shape; "),
    ("y ~ x; sigmma ~ f", "", "family gaussian has no parameter sigmma; did you mean sigma?"),
    ("y ~ x; mu ~ f", "", "the terms of mu belong in the first formula; move them there"),
    ("y ~ x; y ~ f", "", "the terms of y belong in the first formula; move them there"),
    ("count ~ x; sigma ~ f", "poisson", "family poisson has no parameter that can have terms"),
    ("n ~ x; threshold ~ f", "cumulative", "family cumulative has no parameter that can have"),
    ("f ~ x; mua ~ x", "categorical", "a is the reference category, whose linear predictor is 0"),
    ("f ~ x; mud ~ x", "categorical", "family categorical has no parameter mud; did you mean mu"),
    ("f ~ x; mu ~ z", "categorical", "the terms of mu belong in the first formula; move them the"),
    ("f ~ x; mub ~ w", "categorical", "terms 'w': there is no column 'w'; "),
    ("f ~ x; mub ~ x; mub ~ z", "categorical", "mub has two formulas; write all its terms in one"),
    ("f ~ 1; mub ~ x + twice", "categorical", "columns of 'mub ~ x + twice', twice is a combinat"),
    ("f ~ x + twice", "categorical", "twice is a combination of others"),
    ("f ~ x; sigma ~ x", "categorical", "family categorical has no parameter sigma; choose one o"),
    (
        "one ~ x",
        "categorical",
        "one has only one category, 'k', but family categorical needs at le",
    ),
    ("f | trials(n) ~ x", "categorical", "family categorical takes no trials; write f ~ …"),
    ("f | cens(bin) ~ x", "categorical", "family categorical takes no cens(), as Stan has no"),
    ("f | se(n) ~ x", "categorical", "family categorical takes no se(); choose gaussian or stud"),
    ('C(f, levels=["a", "b"]) ~ x', "categorical", "f is 'c', which is not one of the levels tha"),
    ("gap ~ x", "categorical", "1 of 24 rows lacks gap (row 1); fill in what is missing"),
    ("f ~ x + f", "categorical", "f is both the response and a term; leave it out of the terms"),
    ("f ~ x", "categorical(probit)", "family categorical has no link 'probit'; write logit, or"),
    ("cbind(n, count) ~ x", "categorical", "takes one column; choose family multinomial for count"),
    ("cbind(n, count) ~ x", "poisson", "takes one column; choose family multinomial for counts of"),
    ("cbind(n, count) ~ x", "binomial", "takes successes and trials; make a column of their total"),
    ("cbind(n, count) | trials(n) ~ x", "binomial", "the table, and write n | trials(total) ~ …"),
    ("mvbind(n, count) ~ x", "gaussian", "several responses are not supported; for counts of cat"),
    ("cbind(n) ~ x", "multinomial", "has one column, but counts of categories need at least two"),
    ("cbind() ~ x", "multinomial", "cbind() joins columns of counts, but nothing is not the na"),
    ("cbind(n, n) ~ x", "multinomial", "cbind(n, n) names n twice; keep only one"),
    ("cbind(n, count + 1) ~ x", "multinomial", "but 'count + 1' is not the name of one; write cb"),
    ("cbind(n, nope) ~ x", "multinomial", "there is no column 'nope'; "),
    ("cbind(n, count) ~ count", "multinomial", "count is both the response and a term; leave it o"),
    ("cbind(n, count) ~ x; mun ~ x", "multinomial", "leave this formula out, or write cbind(count"),
    ("cbind(n, count) ~ x; sigma ~ x", "multinomial", "has no parameter sigma; choose one of"),
    ("cbind(n, x) ~ 1", "multinomial", "but for family multinomial it "),
    ("cbind(n, count) | trials(n) ~ x", "multinomial", "n and count sum to "),
    ("cbind(n, count) | cens(bin) ~ x", "multinomial", "takes no cens(), as Stan has no accurat"),
    ("n ~ x", "multinomial", "takes the counts of each category; write cbind(a, b, c) ~ …"),
    ("f ~ x", "multinom", "family 'multinom' does not exist; did you mean categorical?"),
    ("y ~ x; sigma ~ w", "", "terms 'w': there is no column 'w'; "),
    ("y ~ x; sigma ~ (1 | h)", "", "there is no column 'h'; "),
    ("y ~ x; sigma ~ x +", "", "formula 'sigma ~ x +' ends with +; add a term or leave the + out"),
    ("y ~ x; sigma ~ x + 2", "", "2 is not a term; put arithmetic into I(...)"),
    ("y ~ x; sigma ~ y", "", "formula 'sigma ~ y': y is both the response and a term; leave"),
    ("y ~ x; sigma ~ (1 | g", "", "formula 'sigma ~ (1 | g': ( is not closed; balance"),
    ("y ~ x; sigma ~ x + twice", "", "of the columns of 'sigma ~ x + twice', twice is a"),
    ("y ~ x; sigma ~ (1 | one)", "", "one has one label; leave (1 | one) out"),
    ("y ~ x; sigma ~ (1 | g) + (x | g)", "", "both have an intercept for each g; write (1 + x"),
    ("y ~ x; sigma ~ (offset(x) | g)", "", "an offset does not vary by group; put it outside"),
    ("y ~ x; sigma ~ gap", "", "1 of 24 rows lacks gap (row 1); fill in what is missing"),
    ("y ~ x\nsigma ~ half(x)", "", f"half() {FUNCTIONS}"),
    ("y ~ x; sigma ~ __import__('os')", "", "there is a name with __"),
    ("y ~ x; sigma ~ exp.__class__(x)", "", "there is a name with __"),
    ("y ~ x; import(os) ~ x", "", "'import(os)' is not the name of one"),
    ("y | mi(z) ~ x", "", "mi() has no arguments, but 'z' is given; write mi(), and se(s, sigma ="),
    ("y | mi() + mi() ~ x", "", "mi() follows the response twice; keep only one"),
    ("y | mi() ~ x + ar(gr=f)", "", "ar() cannot be combined with mi(), as the residual after a"),
    ("y | mi() ~ gap", "", "1 of 24 rows lacks gap (row 1); fill in what is missing"),
    ("nowhere | mi() ~ x", "", "there is no column 'nowhere'; "),
    ("y ~ mi(gap) + x", "", "the missing values of gap need a formula; add it, as in y ~ mi(gap)"),
    ("y ~ x * mi(gap)", "", f"mi() is not supported; {IMPUTE}"),
    ("y ~ x + (mi(gap) | g)", "", f"mi() is not supported; {IMPUTE}"),
    ("y | rate(n) ~ z", "poisson", "rate() is not supported; add offset(log(n)) to the terms"),
    ("y ~ t2(x, z)", "", f"t2() is not supported; {EDIT_PROGRAM}"),
    ("y ~ te(x, z)", "", f"te() is not supported; {EDIT_PROGRAM}"),
    ("y ~ x + ti(x, z, k=5)", "", f"ti() is not supported; {EDIT_PROGRAM}"),
    ("y ~ as.factor(x)", "", "as.factor() is not supported; write C(x) for a factor"),
    ("y ~ z; sigma ~ as.ordered(x)", "", "as.ordered() is not supported; write C(x) for a fac"),
    ("bf(y ~ x, sigma ~ f)", "", "bf() is not supported; leave it out, and join several formulas"),
    ("bf(y ~ x; sigma ~ f)", "", "bf() is not supported; leave it out, and join several formulas"),
    ("bf(y ~ x)", "", "bf() is not supported; leave it out"),
    (
        "y ~ x + (x |p| g)",
        "",
        "by |p|; write (x | g), whose effects are correlated with each other",
    ),
    ("y ~ x; sigma ~ (1 | i | g)", "", "by |i|; write (1 | g), whose effects"),
    ("Surv(y, f) ~ x", "weibull", "write y | cens(c) ~ …, where the column c is 1 in a row that i"),
    ("Surv(time = y) ~ x", "weibull", "Surv() is not supported; write "),
    ("count / n ~ x", "binomial", "write count | trials(n) ~ … with family binomial; for any oth"),
    ("count/n | weights(n) ~ x", "binomial", "write count | trials(n) ~ … with family binomial"),
    ("cbind(count, n - count) ~ x", "binomial", "write count | trials(n) ~ … with family binomia"),
    ("cbind(`count`, n-`count`) ~ x", "binomial", "write `count` | trials(n) ~ … with family "),
    ("y ~ arma(x, gr=f)", "", f"arma() is not supported; {EDIT_PROGRAM}"),
    ("y ~ cr(x, 3)", "", "cr() is not supported; write ns(x, df=4) for a natural cubic spline"),
    ("y ~ cut(x, 3)", "", "cut() is not supported; make a column of intervals, for example"),
    ("log(y) ~ x", "", "log(y) is a function of one; write y ~ … with family lognormal"),
    ("sqrt(y) ~ x", "", "sqrt(y) is a function of one; make a column of sqrt(y) in the table"),
    ("I(y - 1) ~ x", "", "I(y - 1) is a function of one; make a column of y - 1 in the table"),
    ("log(y + 1) ~ x", "", "make a column of log(y + 1) in the table"),
    ("C(y) ~ x", "cumulative", "as a response, C(y) must give the labels in their order"),
    ("C(f, ref='a') ~ x", "cumulative", "and no reference level; write C(f, levels="),
    ("C(f, levels=['a']) ~ x", "cumulative", "levels must be a list of at least two levels"),
    ("C(f, levels=['a', 'b']) ~ x", "cumulative", "row 3: f is 'c', which is not one of the level"),
    ("C(f, levels=['a', 'b', 'c']) ~ x", "", "an order, but family gaussian takes numbers"),
    ("f ~ x", "bernoulli", "f has 3 labels, a, b, c, but family bernoulli has two outcomes; make"),
    ("one ~ x", "bernoulli", "one has 1 label, k, but family bernoulli has two outcomes"),
    ("C(f, levels=['a', 'b', 'c']) ~ x", "bernoulli", "f has 3 labels, a, b, c, but"),
    ("y + z ~ x", "", NO_RESPONSE),
    ("y[0] ~ x", "", NO_RESPONSE),
    (
        "count | trial(n) ~ x",
        "binomial",
        "trial() is not a term of a response; did you mean trials?",
    ),
    ("count | trials() ~ x", "binomial", f"trials() has no n; {NO_TRIALS}"),
    ("count | trials(m) ~ x", "binomial", "there is no column 'm'; the columns are y, count"),
    ("y | trials(n) ~ x", "binomial", "row 10: y is 10, but the number of trials is 9; correct"),
    ("count ~ x", "binomial", "family binomial takes trials; write count | trials(n) ~"),
    ("y | trials(n) ~ x", "gaussian", "family gaussian takes no trials; write y ~"),
    ("y ~ y", "", "y is both the response and a term; leave it out of the terms"),
    ("bin ~ x + (bin | g)", "bernoulli", "bin is both the response and a term"),
    ("y ~ x +", "", "ends with +; add a term or leave the + out"),
    ("y ~ x x", "", "a sign such as + is missing between two terms"),
    ("y ~ x:", "", "terms 'x:': the terms cannot be read"),
    ("y ~ * x", "", "terms '* x': the terms cannot be read"),
    ("y ~ 2", "", "2 is not a term; put arithmetic into I(...), such as I(2 * x)"),
    ("y ~ x + 2", "", "2 is not a term; put arithmetic into I(...)"),
    (
        "y ~ 'x'",
        "",
        "cannot be read; join columns by + - : * and close each bracket and quote",
    ),
    ("y ~ (x", "", "( is not closed; balance the brackets"),
    ("y ~ x)", "", ") closes nothing; balance the brackets"),
    ("y ~ log(x]", "", "] closes nothing"),
    ("y ~ `x", "", f"'`' {NO_MEANING}"),
    ("y ~ .", "", f"'.' {NO_MEANING}"),
    ("y ~ x^2", "", "only a sum in brackets can have a power, from 2 to 9, such as (a + b)**2"),
    ("y ~ I(x^2)", "", "write I(x**2) for a power of a column"),
    ("y ~ (x + z)**1", "", "only a sum in brackets can have a power, from 2 to 9"),
    ("y ~ (x + z)**2.5", "", "only a sum in brackets can have a power, from 2 to 9"),
    ("y ~ (x + z)**x", "", "only a sum in brackets can have a power, from 2 to 9"),
    ("y ~ log(x)**2", "", "only a sum in brackets can have a power, from 2 to 9"),
    ("y ~ (x + z)**2**2", "", "only a sum in brackets can have a power, from 2 to 9"),
    ("y ~ x %in% f", "", f"'%' {NO_MEANING}"),
    ("y ~ x ? z", "", f"'?' {NO_MEANING}"),
    ("y ~ x > 0", "", "a comparison must be inside I(...); write I(x > 2), which is 1 where"),
    ("y ~ x == z", "", "a comparison must be inside I(...); write I(x == 2)"),
    ("y ~ x + (z <= 2)", "", "a comparison must be inside I(...); write I(x <= 2)"),
    ("y ~ I(0 < x < 1)", "", "compares more than two values; write a product, such as I(x > 1):I("),
    ("y ~ I(f == 'a')", "", "I(f == 'a') compares labels, but I(...) takes numbers; write C(...)"),
    ("y ~ I(f > 2)", "", "f holds labels, such as 'a', but I(f > 2) takes numbers; write f by"),
    ("y ~ I(2 > 1)", "", "I(2 > 1) names no column; give it one"),
    ("y ~ I(x in z)", "", "the terms cannot be read; join columns by + - : *"),
    ("y ~ I((x > 0) + 1)", "", "I((x > 0) + 1) is not supported in a term; put arithmetic"),
    ("y ~ log(x > 0)", "", "log(x > 0) is not supported in a term"),
    ("y ~ x!", "", f"'!' {NO_MEANING}"),
    ("y ~ x[0]", "", f"'[' {NO_MEANING}"),
    ("y ~ x**2", "", "only a sum in brackets can have a power, from 2 to 9, such as (a + b)**2"),
    (
        "y ~ " + " * ".join("abcdefghijk"),
        "",
        "the products have 2,047 terms, more than",
    ),
    ("y ~ " + "x + " * 1000 + "x", "", "has more than 2000 characters; shorten it"),
    ("y ~ " + "(" * 30 + "x" + ")" * 30, "", "brackets are nested too deeply; write the terms out"),
    ("y ~ (1 | g", "", "( is not closed"),
    ("y ~ 1 | g", "", ALONE),
    ("y ~ x + 1 | g", "", ALONE),
    ("y ~ (1 | )", "", NO_GROUP),
    ("y ~ ( | g)", "", NO_GROUP),
    ("y ~ (1 || )", "", NO_GROUP),
    ("y ~ (1 | g + f)", "", NO_GROUP),
    ("y ~ (1 | g | f)", "", "by |g|; write (1 | f), whose effects are correlated"),
    ("y ~ (1 | g * f)", "", NO_GROUP),
    ("y ~ (1 | log(g))", "", NO_GROUP),
    ("y ~ (1 | g/g)", "", "(1 | g/g) names g twice; keep only one"),
    ("y ~ (1 | g:f:g)", "", "names g twice"),
    ("y ~ (1 | g/g:f)", "", "names g twice"),
    ("y ~ x - (1 | g)", "", "- comes before the group term (1 | g); group terms can only be"),
    ("y ~ x * (1 | g)", "", "* comes before the group term"),
    ("y ~ (1 | g) * x", "", "'* x' directly follows a group term; put a + between them"),
    ("y ~ (1 | g) + (1 | g)", "", "both have an intercept for each g; write (1 + x | g)"),
    (
        "y ~ (1 + x | g) + (0 + z | g)",
        "",
        "(1 + x | g) are correlated, but not with those of the other term of g; write",
    ),
    (
        "y ~ (1 | g) + (0 + C(num) | g)",
        "",
        "(0 + C(num) | g) are correlated, but not with those of the other term of g; write",
    ),
    ("y ~ (0 | g)", "", "needs an effect that varies; write 1"),
    ("y ~ (offset(x) | g)", "", "an offset does not vary by group; put it outside"),
    ("y ~ (poly(x, 11) | g)", "", "may be correlated; write (poly(x, 11) || g)"),
    ("y ~ w", "", "there is no column 'w'; the columns are y, count"),
    ("y ~ X", "", "there is no column 'X'; did you mean x?"),
    ("y ~ `no such`", "", "there is no column 'no such'"),
    ("y ~ (w | g)", "", "there is no column 'w'"),
    ("y ~ (1 | G)", "", "there is no column 'G'"),
    ("y ~ x + (1 / g)", "", "(1 / g) has a / where a group term has a bar; did you mean (1 | g)?"),
    ("y ~ (1 + x / g)", "", "did you mean (1 + x | g)?"),
    ("y ~ (1 / g / h)", "", "did you mean (1 | g / h)?"),
    ("y ~ x; sigma ~ (1 / g)", "", "did you mean (1 | g)?"),
    ("Y ~ x", "", "there is no column 'Y'"),
    ("y ~ x + offset(w)", "", "there is no column 'w'"),
    ("y ~ tan(x)", "", f"tan() {FUNCTIONS}"),
    ("y ~ te(x)", "", f"te() is not supported; {EDIT_PROGRAM}"),
    ("y ~ ofset(x)", "", "bs, ns, cc, I, C, s, gp, mo and offset; did you mean offset?"),
    ("y ~ log(*x)", "", "an argument of log(*x) begins with *; leave the * out"),
    ("y ~ offset()", "", "offset() is not an offset of a column; write offset(log(x))"),
    ("y ~ I()", "", "I() names no column; give it one"),
    ("y ~ I(1)", "", "I(1) names no column"),
    ("y ~ I(x, z)", "", "I takes nothing in addition to its column; correct I(x, z)"),
    ("y ~ log(x, 2)", "", "log takes nothing in addition to its column; correct log(x, 2)"),
    ("y ~ poly(x, z)", "", "poly takes degree=… in addition to its column; correct poly(x, z)"),
    ("y ~ poly(x, 0)", "", "degree must be a whole number from 1 to 50"),
    ("y ~ bs(x, df=1)", "", "bs(x, df=1): df must be at least the degree, 3"),
    ("y ~ C(f, base='a')", "", "C takes ref=… and levels=… in addition to its column, where … is"),
    ("y ~ C(f, levels='a')", "", "levels must be a list of at least two levels, such as levels=["),
    ("y ~ C(f, levels=[])", "", "levels must be a list of at least two levels"),
    ("y ~ C(f, levels=['a'])", "", "levels must be a list of at least two levels"),
    ("y ~ C(f, levels=c('a', 'b'))", "", "levels must be a list of at least two levels"),
    ("y ~ C(f, levels=['a', x])", "", "levels must be a list of at least two levels"),
    ("y ~ C(f, levels=['a', True])", "", "levels must be a list of at least two levels"),
    ("y ~ C(f, levels=['b', 'a', 'b'])", "", "has the level 'b' twice; keep one"),
    ("y ~ C(f, levels=['b', 'a'])", "", "row 3: f is 'c', which is not one of the levels that the"),
    ("y ~ C(f, levels=['A', 'b', 'c'])", "", "row 1: f is 'a', which is not one of the levels"),
    ("y ~ C(count, levels=[1, 2, 3])", "", "row 1: count is '0', which is not one of the levels"),
    ("y ~ C(f, levels=['c', 'b', 'a'], ref='q')", "", "ref='q' is not a level of f; choose one of"),
    (
        "y ~ C(f, levels=['c', 'b', 'a']) + x:C(f, levels=['a', 'b', 'c'])",
        "",
        "f is given two orders of levels; give the same order each time",
    ),
    ("y ~ mo(f, levels=['a', 'b'])", "", "row 3: f is 'c', which is not one of the levels that"),
    ("y ~ log(x, levels=[1, 2])", "", "log takes nothing in addition to its column"),
    ("y ~ C(f, ref='q')", "", "ref='q' is not a level of f; choose one of a, b, c"),
    ("y ~ offset(x):z", "", "an offset must be a term by itself; leave : and * out"),
    ("y ~ offset(f)", "", "offset(f) has 3 columns; give it a column of numbers"),
    ("y ~ log(x)", "", ", row 1: log(x) is nan; correct the column, or the term"),
    ("y ~ exp(z * 1)", "", "exp(z * 1) is 1.51143e+111; correct the column, or the term"),
    ("y ~ infinite", "", "row 1: infinite is 'inf', not a finite number; correct it"),
    ("y ~ x + twice", "", "of the formula's columns, twice is a combination of others"),
    ("y ~ x * twice", "", "rank 3, 24 rows); leave it out of the formula"),
    (
        "y ~ same",
        "",
        "of the formula's columns, same is 5 in every row (2 columns, rank 1, 24 rows)",
    ),
    (
        "y ~ 0 + I(0 * x)",
        "",
        "I(0 * x) is 0 in every row (1 column, rank 0, 24 rows); leave it out",
    ),
    ("y ~ one", "", "one is 'k' in every row; leave it out"),
    ("y ~ f * id", "", "are combinations of others"),
    ("y ~ f + (1 | f)", "", "f is both a factor outside the group terms and the group of"),
    ("y ~ (1 | one)", "", "one has one label; leave (1 | one) out"),
    ("y ~ (1 | id)", "", "each row has its own label of id"),
    ("y ~ gap", "", "1 of 24 rows lacks gap (row 1); fill in what is missing, or leave this row"),
    ("gap ~ x", "", "1 of 24 rows lacks gap (row 1)"),
    ("y ~ (1 | gap)", "", "1 of 24 rows lacks gap (row 1)"),
    ("count ~ x", "gamma", "row 1: count is 0, but for family gamma it must be above 0"),
    ("y ~ x", "bernoulli", "row 2: y is 2, but for family bernoulli it must be 0 or 1"),
    ("y ~ x", "beta", "row 1: y is 1, but for family beta it must be below 1"),
    ("prop ~ x", "poisson", "row 1: prop is 0.1, but for family poisson it must be a whole number"),
    ("f ~ x", "", "row 1: f is 'a', not a finite number; make the column numeric, as family"),
    (
        "same ~ x",
        "cumulative",
        "same has only one distinct rating, but family cumulative needs at least two",
    ),
    (
        "y ~ slip",
        "",
        "row 2: slip is 'O.2', but most of its cells are numbers; correct it, or, if slip is a "
        "factor, write C(slip)",
    ),
    ("y ~ (mixed | g)", "", "row 2: mixed is '?', but most of its cells are numbers; correct it"),
    (
        "half ~ x",
        "cumulative",
        "row 2: half is 0.5, but must be a whole number; correct it or choose another model",
    ),
    ("~", "", "no term follows the ~"),
    ("y ~ ()", "", "there are empty brackets; leave them out"),
    ("y ~ x + ()", "", "there are empty brackets"),
    ("y ~ ``", "", "there is a backslash or an empty name; leave it out"),
    ("y ~ C(f, ref='a\\\\b')", "", "there is a backslash or an empty name"),
    ("y ~ l__p", "", "there is a name with __; put it in backticks, such as `lp__`"),
    ("y ~ x z", "", "a sign such as + is missing between two terms"),
    ("y ~ (x + z) f", "", "a sign such as + is missing between two terms"),
    ("y ~ x (1 | g)", "", "a + is missing before the group term (1 | g); add it"),
    ("y ~ (1 | g) (1 | f)", "", "a + is missing before the group term (1 | f)"),
    ("y ~ (1 | g) x", "", "'x' directly follows a group term; put a +"),
    ("y ~ 2 * x", "", "2 is not a term; put arithmetic into I(...), such as I(2 * x)"),
    ("y ~ x / 2", "", "2 is not a term"),
    ("y ~ x * q - q", "", "there is no column 'q'"),
    ("y ~ x - q", "", "q is subtracted, but no other term contains it; leave q out"),
    ("y ~ 1 - z", "", "z is subtracted, but no other term contains it"),
    (
        "y ~ x + z - z",
        "",
        "z is subtracted, but no other term contains it; leave z out",
    ),
    ("y ~ Intercept", "", "Intercept is the name of the column of ones; write 1 for this"),
    ("y ~ (1 | g:f) + (1 | f:g)", "", "both have an intercept for each f:g"),
    ("y ~ (1 | g) + (0 + x + z | g)", "", "(0 + x + z | g) are correlated, but not with those"),
    ("y ~ (1 | g) + (0 + f | g)", "", "g cannot have two terms; write one, such as (f | g)"),
    ("y ~ (1 | `a:b`)", "", "a group's name cannot have a colon, which joins columns; rename"),
    ("y ~ (1 | G)", "student", "there is no column 'G'; did you mean g?"),
    ("Y ~ x", "student", "there is no column 'Y'; did you mean y?"),
    ("count | trials(N) ~ x", "binomial", "there is no column 'N'; did you mean n?"),
    ("y ~ logg(x)", "", "did you mean log?"),
    ("y ~ Scale(x)", "", "did you mean scale?"),
    ("y ~ log(for)", "", "cannot be read; put the column 'for' in backticks"),
    ("y ~ log(a.b)", "", "there is no column 'a.b'; the columns are"),
    ("y ~ log(log)", "", "names that are not plain words in backticks"),
    ("y ~ I(x + 'a')", "", "is not supported in a term; put arithmetic on columns into I(...)"),
    ("y ~ I(x + True)", "", "is not supported in a term"),
    ("y ~ log(f)", "", "f holds labels, such as 'a', but log(f) takes numbers; write f by itself"),
    ("y ~ scale(f)", "", "f holds labels, such as 'a', but scale(f) takes numbers"),
    ("y ~ poly(f, 2)", "", "f holds labels, such as 'a', but poly(f, 2) takes numbers"),
    ("y ~ bs(f, 4)", "", "f holds labels"),
    ("y ~ I(f * 2)", "", "f holds labels"),
    (
        "y ~ poly(count, 5)",
        "",
        "count has only 5 distinct values, but poly(count, 5) needs at least 6",
    ),
    ("y ~ poly(x, 2, 3)", "", "poly takes degree=… in addition to its column; correct"),
    ("y ~ poly(x, 2, degree=3)", "", "poly takes degree=… in addition to its column"),
    ("y ~ bs(x, 5, 3)", "", "bs takes df=… and degree=… in addition to its column; corr"),
    ("y ~ poly(x, True)", "", "degree must be a whole number from 1 to 50"),
    ("y ~ poly(poly(x, 2), 2)", "", "poly() must be a term by itself; take it out of"),
    ("y ~ mo(C(f))", "", "terms 'mo(C(f))': mo() takes a single column; correct mo(C(f))"),
    ("y ~ s(C(z))", "", "terms 's(C(z))': C() must be a term by itself; take it out of s(C(z))"),
    ("y ~ 0 + s(nope)", "", "terms 's(nope)': there is no column 'nope'; "),
    ("y ~ log(C(count))", "", "C() must be a term by itself; take it out of log(C(count))"),
    ("y ~ C(log(x))", "", "C() takes a single column; correct C(log(x))"),
    ("y ~ C(f, ref=a)", "", "C(f, ref=a): ref must be a number, or a level in quotes"),
    ("y ~ C(same)", "", "same is 5 in every row; leave it out"),
    ("y ~ I(x * 1e99)", "", "1e+99 in I(x * 1e+99) is too large; use a number up to 1e15"),
    ("y ~ factor(f)", "", "factor() is not one of the functions that terms can use: log"),
    ("y ~ factor(f)", "", "offset; write C(...)"),
    ("y ~ offset(3)", "", "offset(3) names no column; give it one"),
    ("y ~ offset(log(zero))", "", "the data frame, row 1: log(zero) is -inf; correct the"),
    ("signed ~ x", "poisson", "row 1: signed is -3, but for family poisson it cannot be negative"),
    ("signed ~ x", "bernoulli", "row 1: signed is -3, but for family bernoulli it must be 0 or 1"),
    ("half ~ x", "bernoulli", "row 2: half is 0.5, but for family bernoulli it must be 0 or 1"),
    (
        "half ~ x",
        "negbinomial",
        "row 2: half is 0.5, but for family negbinomial it must be a whole",
    ),
    ("large ~ x", "poisson", "is 3000000000, but for family poisson it must be at most 2147483647"),
    ("signed ~ x", "lognormal", "row 1: signed is -3, but for family lognormal it must be above 0"),
    ("zero ~ x", "gamma", "row 1: zero is 0, but for family gamma it must be above 0; correct it"),
    ("count | trials(half) ~ x", "binomial", "row 2: the number of trials is 0.5, but it"),
    ("count | trials(signed) ~ x", "binomial", "row 1: the number of trials is -3, but it"),
    ("count | trials(3000000000) ~ x", "binomial", "the number of trials is 3000000000"),
    ("count | trials(f) ~ x", "binomial", "row 1: f is 'a', not a finite number; give a column of"),
    ("count | trials(-3) ~ x", "binomial", "not the name of a column; compute the column in the"),
    ("same ~ x", "", "same is 5 in every row, so the data allow a residual sd of 0;"),
    ("count ~ 0 + x", "cumulative", "has thresholds instead of an intercept; leave out 0 or -1"),
    ("count | trials(n) ~ n", "binomial", "copy the column under another name for the term"),
    ('y ~ C(f, ref="(0, 10]")', "", "has an unmatched bracket; rename the level"),
    ("y ~ s()", "", "s() names no column; give it one"),
    ("y ~ s(x):z", "", "s() must be a term by itself, but it is in s(x):z; write s(x, by=z)"),
    ("y ~ mo(count) * f", "", "mo() must be a term by itself, but it is in mo(count) * f;"),
    ("y ~ log(s(x))", "", "s() must be a term by itself, but it is in log(s(x))"),
    ("y ~ x - s(x)", "", "s(x) is subtracted, but a curve can only be added; leave it out"),
    ("y ~ s(x) + s(x)", "", "s(x) occurs twice; keep only one"),
    ("y ~ s(x, z)", "", "s(x, z) has several columns, but a curve takes one; write a term for"),
    ("y ~ s(x, by=2)", "", "by= must be a column; correct it"),
    ("y ~ s(x, by=x)", "", "s(x, by=x) varies by its own column; leave by=x out"),
    ("y ~ s(x, by=w)", "", "there is no column 'w'"),
    ("y ~ s(x, m=2)", "", "s takes k=…, bs=… and period=… in addition to its column; correct"),
    ("y ~ s(x, k=3)", "", "s(x, k=3): k must be a whole number from 4 to 200"),
    ('y ~ s(x, bs="tp")', "", 'bs must be "cr" (a natural cubic spline) or "cc"'),
    (
        "y ~ s(x, bs=cc)",
        "",
        'bs must be "cr" (a natural cubic spline) or "cc" (a periodic one), in',
    ),
    ('y ~ s(x, bs="cc")', "", "needs the period; add period=…, such as period=12 for months"),
    ("y ~ s(x, period=12)", "", 'period=… needs bs="cc"; add bs="cc", or leave period=… out'),
    ("y ~ cc(x, 4)", "", "cc(x, 4) needs the period; add period=…"),
    ("y ~ s(count)", "", "the column has only 5 distinct values, fewer than 10; write k=5"),
    ("y ~ s(bin)", "", "only 2 distinct values, fewer than 10; use the column as a number or a"),
    ("y ~ s(f)", "", "f holds labels, such as 'a', but s(f) takes numbers; write f by itself"),
    ("y ~ gp(same)", "", "the column has only 1 distinct value"),
    ("y ~ gp(x, by=f)", "", "gp() does not vary with another column; leave by= out, or use s("),
    ("y ~ gp(x, c=1)", "", "c must be a number above 1, such as 1.5"),
    (
        "y ~ mo(f)",
        "",
        "the labels of f, such as 'a', have no order, which mo(f) needs; ",
    ),
    ("y ~ mo(log(x))", "", "mo() takes a single column; correct mo(log(x))"),
    ("y ~ mo(same)", "", "same is 5 in every row; leave it out"),
    ("y ~ mo(count, 3)", "", "mo takes levels=… in addition to its column; correct mo(count, 3)"),
    ("y ~ (s(x) | g)", "", "s() cannot vary by group, but it is in (s(x) | g); for a curve for"),
    ("y ~ ns(count, 5)", "", "the column has only 5 distinct values, fewer than 6; write df=4"),
    ("y ~ ns(x, 0)", "", "ns(x, 0): df must be a whole number from 1 to 50"),
    ("y ~ x", "poison", "family 'poison' does not exist; did you mean poisson?"),
    ("y ~ x", "Normal", "family 'Normal' does not exist; did you mean gaussian?"),
    ("y ~ x", "nb", "family 'nb' does not exist; did you mean negbinomial?"),
    ("y ~ x", "binary", "family 'binary' does not exist; did you mean bernoulli?"),
    ("y ~ x", "t", "family 't' does not exist; did you mean student?"),
    ("y ~ x", "negative binomial", "did you mean negbinomial?"),
]


@pytest.mark.parametrize(("formula", "family", "message"), BAD, ids=range(len(BAD)))
def test_a_bad_formula_is_one_english_sentence_with_a_remedy(formula, family, message):
    with pytest.raises(PyflowersError) as caught:
        Program.from_formula(formula, FRAME, family=family or "gaussian")
    said = str(caught.value)
    assert message in said
    assert "\n" not in said
    leaks = r"<class|dtype|ufunc|NoneType|object has|Traceback|[a-z]Error|column__|formulaic"
    assert not re.search(leaks, said)
    remedy = r"; (?!$)|did you mean|use a number|must be|no meaning there|such as \(1"
    assert re.search(remedy, said)


def test_there_are_eighty_of_them():
    assert len({formula + family for formula, family, _ in BAD}) >= 80


GOOD = ("y ~ x", "y ~ poly(x, 2) + (1 | g)", "y ~ f * x - 1", "count ~ (x + z):f", "y ~ I(x**2)")


@pytest.mark.parametrize("formula", GOOD)
def test_a_good_formula_is_not_refused(formula):
    """Negative control of the tables of bad formulas."""
    assert Program.from_formula(formula, FRAME).declaration.formula.text == formula


CODE = [
    "__import__('os').system('touch {mark}')",
    "I(__import__('os').system('touch {mark}'))",
    "I(open('{mark}', 'w'))",
    "open('{mark}', 'w')",
    "exec('x')",
    "eval('x')",
    "compile('x', 'x', 'exec')",
    "globals()",
    "getattr(x, 'values')",
    "I(getattr(x, 'y'))",
    "x.__class__",
    "I(x.__class__)",
    "I(x.values)",
    "I(x.to_csv('{mark}'))",
    "log(x.to_csv('{mark}'))",
    "I(x[0])",
    "I((lambda: 1)())",
    "I([i for i in x])",
    "I({{i for i in x}})",
    "I(x if x else z)",
    "I(x := 1)",
    "I(f'{{x}}')",
    "I(not x)",
    "I(x and z)",
    "I(x < z < 9)",
    "I(9**9**9)",
    "I(x**99)",
    "I(x * 9**9**9**9)",
    "I(1e400 * x)",
    "np.log(x)",
    "I(np.load('{mark}'))",
    "contr.treatment(x)",
    "hashed(x)",
    "lag(x, 1)",
    "C(f, ref=open('{mark}', 'w'))",
    "C(f, *x)",
    "poly(x, degree=10**9)",
    "bs(x, df=10**9)",
    "poly(x, **z)",
    "{{x}}",
    "{{open('{mark}', 'w')}}",
    "x; import os",
    "x\nimport os",
    "offset(open('{mark}', 'w'))",
    "offset(__import__('os'))",
    "(open('{mark}', 'w') | g)",
    "(1 | open('{mark}', 'w'))",
    "I(ｏｐｅｎ('{mark}', 'w'))",
    "x＿＿class＿＿",
    "yield",
    "await x",
    "I(...)",
    "I(x @ z)",
    "I(x // z)",
    "I(x % z)",
    "I(x << 9)",
    "I(print(x))",
    "`__import__('os')`",
]


@pytest.mark.parametrize("code", CODE)
def test_a_formula_runs_no_code(code, tmp_path, monkeypatch):
    """A declaration in an untrusted file runs no code either."""
    mark = tmp_path / "mark"
    text = code.format(mark=mark)
    called = []
    for name in ("open", "eval", "exec", "print"):
        original = getattr(builtins, name)

        def spy(*args, name=name, original=original, **keywords):
            if str(mark) in map(str, args) or args[:1] == ("x",):
                called.append(name)
            return original(*args, **keywords)

        monkeypatch.setattr(builtins, name, spy)
    started = time.monotonic()
    with pytest.raises(PyflowersError):
        Program.from_formula(f"y ~ {text}", FRAME)
    stan = tmp_path / "mine.stan"
    stan.write_text("data { int N; int K; matrix[N, K] X; vector[N] y; } parameters { real m; }")
    declaration = {"data": {"X": {"terms": text}}}
    with pytest.raises(PyflowersError):
        Program.open(stan, declaration=declaration).read(FRAME)
    assert time.monotonic() - started < 5
    assert not mark.exists()
    assert not called


def test_thirty_of_them_are_refused_as_formulas():
    assert len(set(CODE)) >= 30
    with pytest.raises(ConfigError):
        Program.from_formula("y ~ I(open('x'))", FRAME)


COLUMNS = ["for", "real", "data", "n", "beta", "lp__", "größe", "my col", "my-col", "a.b", "1st"]
COLUMNS += ["a(b)", "log(x)", "a+b", "a=b", "a,b", "a|b", "a~b", "a:b", "a*/b", "a//b", "a/*b"]
COLUMNS += ['a"b', "a'b", "a;b", "{a}", "a}b", "#include <x>", "log", "scale", "C", "I", "offset"]
COLUMNS += ["True", "None", "[a]", "a  b", "x__y", "X", "b", "N", "y_rep", "column__0_", "%", "\\"]


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_may_be_called_anything(name, cmdstan, tmp_path):
    """Any name works in a sum, in a function, as a factor, as a group and as the response."""
    rng = np.random.default_rng(1)
    number, labels = rng.uniform(1, 2, NUM), FRAME["f"]
    formulas = [
        (f"y ~ `{name}` * z", number, {name, "z", f"{name}:z"}),
        (f"y ~ log(`{name}`) + z", number, {f"log(`{name}`)", "z"}),
        (f"y ~ I(`{name}` + `z`)", number, {f"I(`{name}` + z)"}),
        (f"y ~ `{name}` + (1 | g)", labels, {f"{name}b", f"{name}c"}),
        (f"y ~ 1 + (1 | `{name}`)", labels, set()),
        (f"`{name}` ~ z", number, {"z"}),
    ]
    if ":" in name:
        del formulas[4]
    if "\\" in name:
        del formulas[:4]
    for formula, values, columns in formulas:
        frame = pd.DataFrame({"y": FRAME["y"], "z": rng.normal(size=NUM), "g": FRAME["g"]})
        frame[name] = values
        program = Program.from_formula(formula, frame)
        found = {its.replace("I(log", "I(`log") for its in program.read(frame).coords.get("X", ())}
        plain = {its.replace(f"(`{name}`)", f"({name})") for its in columns}
        assert {its.replace("`", "") for its in found} == {its.replace("`", "") for its in plain}
        path = tmp_path / "program.stan"
        path.write_text(program.source.text, encoding="utf-8")
        stanc = [cmdstan.path / "bin" / "stanc", "--o", tmp_path / "x.hpp", path]
        done = subprocess.run(stanc, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


LABELS = [
    "it's",
    'a "b"',
    "a\nb",
    "a]b[",
    "(a | b)",
    "a, b",
    "a:b",
    "a\\b",
    "T.a",
    "ä",
    "#;",
    "*/",
]


def test_labels_may_be_anything(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"y": rng.normal(size=96), "x": rng.normal(size=96)})
    frame["f"], frame["g"] = LABELS * 8, [LABELS[i // 2 % 12] for i in range(96)]
    how = {"engine": "stanli", "chains": 1, "warmup": 20, "draws": 20, "seed": 1}
    fit = pyflowers.fit("y ~ f + (x | g) + (1 | f:g)", frame, **how)
    fit.save(tmp_path / "run")
    again = Fit.load(tmp_path / "run")
    assert again.data.labels["g"].names == tuple(LABELS)
    others = sorted(LABELS)[1:]
    assert again.data.coords["X"] == tuple(f"f{label}" for label in others)
    np.testing.assert_array_equal(again.draws["r_g"], fit.draws["r_g"])
    column = np.asarray(again.data["X"])[:, others.index("a:b")]
    np.testing.assert_array_equal(column, frame["f"] == "a:b")
    program = Program.from_formula("y ~ f", frame)
    assert Program.open(program.write(tmp_path / "mine.stan")).declaration == program.declaration


def test_combinations_of_labels_with_colons_are_kept_apart():
    a, b = ["A", "A:1", "A", "A:1"], ["1:2", "2", "2", "1:2"]
    frame = pd.DataFrame({"y": np.arange(24) % 7, "a": a * 6, "b": b * 6})
    values = Program.from_formula("y ~ 0 + a + b", frame).read(frame)
    np.testing.assert_array_equal(values["X"][:, 0], frame["a"] == "A")
    with pytest.raises(DataError, match=r"row 2: a:b is 'A:1:2', as in an earlier row"):
        Program.from_formula("y ~ (1 | a:b)", frame)


def test_a_level_in_quotes_may_be_anything():
    for label in LABELS:
        quote = "'" if '"' in label else '"'
        if re.search(r"[\n\\\[]", label):
            continue
        frame = pd.DataFrame({"y": np.arange(24) % 7, "f": LABELS * 2})
        program = Program.from_formula(f"y ~ C(f, ref={quote}{label}{quote})", frame)
        names = program.read(frame).coords["X"]
        assert names == tuple(f"f{each}" for each in sorted(LABELS) if each != label)
