"""What depends on the prior."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

from pyflowers import plots
from pyflowers.analysis.prior_sensitivity import Sensitivity
from pyflowers.display import records_of
from pyflowers.reports.banner import Dependence, prior_dependence, short
from pyflowers.reports.markup import Text, code, fill, join, names_of, number, paragraph, unbroken
from pyflowers.reports.material import Material
from pyflowers.reports.section import Block, Drawings, Picture, Section, Table

MOST_NAMED = 3
"""The largest number of quantities that the banner lists as depending on their prior."""

MOST_CONCLUSIONS = 24
"""The largest number of conclusions that the page lists as changing with a prior."""


def content(material: Material) -> Iterator[Block]:
    """Yield what depends on the prior of each model, a figure, and the conclusions that change."""
    for name, found in material.sensitivities.items():
        if isinstance(found, str):
            why = unbroken(found.rstrip("."))
            which = material.named(name)
            said = fill("The sensitivity of {} to its prior is not shown: {}.", which, why)
        else:
            said = fill("{}", material.in_words(found.sentence))
            for name in found.sensitive[:1]:  # which is the first word of the sentence
                said = Markup(str(said).replace(str(escape(name)), code(name), 1))
        yield paragraph(said)
    yield Picture(
        "sensitivity",
        "Sensitivity to the prior (diamonds) and to the data (dots). The data say little about a "
        "quantity that is sensitive to the prior alone.",
    )
    moves = _moves(material)
    if len(moves):
        yield moves_table(material, moves)
    for found in _known(material):
        for note in found.notes:
            said = fill("{}.", unbroken(note))
            yield paragraph(material.of_model(found.name, said), "note")
    if len(moves) > MOST_CONCLUSIONS:
        yield paragraph(
            f"{MOST_CONCLUSIONS} of {len(moves)} conclusions that change are shown; pyflowers "
            "sensitivity shows all of them.",
            "note",
        )


def _known(material: Material) -> list[Sensitivity]:
    """Return the results of the sensitivity analyses, without the reasons for missing ones."""
    return [found for found in material.sensitivities.values() if isinstance(found, Sensitivity)]


def _drawn(material: Material) -> list[Sensitivity]:
    """Return the sensitivities that could be computed."""
    return [each for each in _known(material) if each.distances["prior"].notna().any()]


def _moves(material: Material) -> pd.DataFrame:
    """Return the conclusions that change with a prior."""
    drawn = _drawn(material)
    if not drawn:
        return pd.DataFrame()
    return pd.concat({each.name: each.moves() for each in drawn})


def moves_table(material: Material, moves: pd.DataFrame) -> Table:
    """Return the first conclusions that change with a prior."""
    rows: list[list[Text]] = [
        [
            code(parameter),
            material.labels[name],
            conclusion,
            *map(number, map(float, values)),
            ways,
        ]
        for (name, parameter, conclusion), *values, ways in moves[:MOST_CONCLUSIONS].itertuples()
    ]
    head = ["Parameter", "Model", "Conclusion", "Posterior", "At 0.8", "At 1.25", "Per doubling"]
    caption = "Results that change when the prior is weakened (power 0.8) or strengthened (1.25)"
    return Table(caption, [*head, "Moves"], rows, [1, 2, len(head)])


def banner(material: Material) -> Text:
    """Return what depends on the prior of the model behind the answer."""
    if not material.best.diagnostics.passed:
        return ""
    found = prior_dependence(material)
    if found is None:
        answer: Text = "the answer"
        if not material.alone:
            answer = fill("the answer from {}", material.named(material.best.name))
        link = _link("was not examined")
        return fill("Whether {} depends on the prior {}.", answer, link)
    if found.names:
        return join([_which_model(material), _quantities(found)])
    if found.of_answer:
        return fill(
            "No single quantity depends on its prior, but the answer does ({} {}).",
            _link("sensitivity"),
            short(found.answer),
        )
    return fill("Nothing depends visibly on the {}.", _link("prior"))


def _link(text: str) -> Markup:
    return fill('<a href="#{}">{}</a>', SENSITIVITY.id, text)


def _which_model(material: Material) -> Text:
    if material.alone:
        return ""
    return fill("In {},", material.named(material.best.name))


def _quantities(found: Dependence) -> Markup:
    """Return the quantities that depend on their priors, and whether the answer does."""
    names = names_of(found.names[:MOST_NAMED])
    more = len(found.names) - MOST_NAMED
    if more > 0:
        first = Markup(", ").join(map(code, found.names[:MOST_NAMED]))
        names = fill("{} and {} more", first, more)
    depend, up_to = "depend on their priors", "up to "
    if len(found.names) == 1:
        depend, up_to = "depends on its prior", ""
    said = fill("{} {} ({} {}{})", names, depend, _link("sensitivity"), up_to, short(found.most))
    if found.of_answer:
        return fill("{}; the answer depends on the prior, too ({}).", said, short(found.answer))
    if found.answer == found.answer:  # it is NaN if the answer consists of these quantities
        return fill("{}; the answer does not depend on the prior ({}).", said, short(found.answer))
    return said + "."


def late_figures(material: Material) -> Drawings:
    """Return the figure of the sensitivities."""
    drawn = _drawn(material)
    if not drawn:
        return {}
    return {"sensitivity": partial(plots.power_scaling, drawn, labels=material.labels)}


def record(material: Material) -> Mapping[str, Any]:
    """Return each model's sensitivities and the sentence that summarises them."""
    return {
        found.name: {"conclusion": found.sentence, "sensitivity": records_of(found.table())}
        for found in _known(material)
    }


SENSITIVITY = Section(
    "sensitivity",
    lambda _: "What depends on the prior",
    content,
    late_figures=late_figures,
    banner=banner,
    record=record,
)
