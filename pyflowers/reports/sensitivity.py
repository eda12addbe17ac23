"""Section 7: how much of the answer depends on the prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
from markupsafe import Markup

from pyflowers import plots
from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.reports.embed import Drawing
from pyflowers.reports.material import Material, Table
from pyflowers.reports.numbers import number, unbroken

MOST_ROWS = 24
"""Most rows of conclusions in the table, which says how many it leaves out."""

_CAPTION = (
    "Sensitivity to the prior (diamonds) and to the likelihood (dots): the distance between the "
    "posterior and the one whose prior, or likelihood, counts twice. A quantity that moves with "
    "its prior alone is hardly known from the data."
)


@dataclass(frozen=True)
class PriorSection:
    """The part of the page on the priors.

    Attributes
    ----------
    sentences : sequence of str or Markup
        The conclusion for each model, or why there is none.
    drawing : Drawing or None
        The sensitivities of all models.
    table : Table or None
        The conclusions that move when a prior counts twice.
    notes : sequence of Markup
        What is refused or left out.
    """

    sentences: Sequence[Markup | str]
    drawing: Drawing | None
    table: Table | None
    notes: Sequence[Markup]


def prior_section(material: Material) -> PriorSection:
    """Return the section on priors."""
    found = [each for each in material.sensitivities.values() if isinstance(each, Sensitivity)]
    sentences = [
        each.sentence
        if isinstance(each, Sensitivity)
        else Markup("The prior of <code>{}</code> is not covered: {}.").format(
            name, unbroken(each.rstrip("."))
        )
        for name, each in material.sensitivities.items()
    ]
    drawn = [each for each in found if each.distances["prior"].notna().any()]
    drawing = (partial(plots.power_scaling, drawn), _CAPTION) if drawn else None
    moves = pd.concat({each.name: each.moves() for each in drawn}) if drawn else pd.DataFrame()
    notes = [
        Markup("<code>{}</code>: {}.").format(each.name, unbroken(note))
        for each in found
        for note in each.notes
    ]
    if len(moves) > MOST_ROWS:
        notes.append(
            Markup(
                "{} of {} conclusions that move are shown; pyflowers sensitivity has all."
            ).format(MOST_ROWS, len(moves))
        )
    return PriorSection(sentences, drawing, _table(moves.head(MOST_ROWS)), notes)


def _table(moves: pd.DataFrame) -> Table | None:
    if moves.empty:
        return None
    columns = [column for column in moves.columns if column != "moves"]
    names, parameters, conclusions = (moves.index.get_level_values(level) for level in range(3))
    rows: list[list[Markup | str]] = [
        [
            Markup("<code>{}</code>").format(parameter),
            *(name, conclusion),
            *(number(float(value)) for value in values),
            way,
        ]
        for name, parameter, conclusion, values, way in zip(
            names, parameters, conclusions, moves[columns].to_numpy(), moves["moves"], strict=True
        )
    ]
    head = ["Parameter", "Model", "Conclusion", "Posterior", "At 0.8", "At 1.25", "Per doubling"]
    head.append("Moves")
    caption = "Conclusions that move with the prior, and where they are at its power 0.8 and 1.25"
    return Table(caption, head, rows, text_columns=[1, 2, len(head) - 1])
