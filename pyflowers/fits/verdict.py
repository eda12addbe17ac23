"""The verdict on a fit, in three parts: computation, prior and data.

Did the sampling work, does the prior suit the data, and does the model reproduce the data? Each
part has passed, has failed or was not examined. A fit can be trusted only if all three parts have
passed: the draws may be right even if the prior is absurd or the data contradict the model. Failed
checks are values, not exceptions.

Between passed and failed, a part may be imprecise: the draws are valid, but few or costly. Such a
fit can be trusted within its Monte Carlo errors, which the verdict states. Or it may be limited:
the model does not predict single values well, but this does not affect averages and effects.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pyflowers.advice import Advice
from pyflowers.display import Styled, as_html, command_lines, format_cell, styled, wrapped
from pyflowers.text import in_words

PartName = Literal["computation", "prior", "data"]
Status = Literal["passed", "imprecise", "limited", "failed", "not examined"]

_NOUNS = {"computation": "diagnostic", "prior": "prior check", "data": "predictive check"}
_NUMBERS = re.compile(r"( \([^()]*(\([^()]*\)[^()]*)*\))+$")  # in brackets, at the end
_COLUMNS = {"R-hat": "r_hat", "bulk ESS": "ess_bulk", "tail ESS": "ess_tail"}


@dataclass(frozen=True)
class Check:
    """One statistic that was examined, and whether it passed.

    Attributes
    ----------
    name : str
        The statistic, such as ``R-hat``.
    value : float or int
        The worst value of the statistic; a count is an int.
    threshold : float
        The limit for the value.
    relation : str
        ``≤`` or ``≥``: how the value must compare with the threshold.
    passed : bool
        Whether the value meets the threshold.
    where : str
        The parameter or chain with the worst value, if there is one.
    source : str
        The source of the threshold.
    advice : str
        What to do next when the check fails.
    finding : str
        The meaning of a failure, in words, if the numbers do not show it.
    imprecise : bool
        Whether a value beyond the threshold only means that the draws are few or costly. The check
        has then neither passed nor failed.
    limited : bool
        Whether a value beyond the threshold concerns predictions of single values, but neither
        averages nor effects. The check has then neither passed nor failed.
    """

    name: str
    value: float
    threshold: float
    relation: str
    passed: bool
    where: str
    source: str
    advice: str
    finding: str = ""
    imprecise: bool = False
    limited: bool = False

    @property
    def command(self) -> str:
        """The complete command that carries out the advice; empty if there is none."""
        if isinstance(self.advice, Advice):
            return self.advice.command
        return ""

    @property
    def failed(self) -> bool:
        """Whether the value is beyond the threshold, and neither imprecise nor limited."""
        return not (self.passed or self.imprecise or self.limited)

    @property
    def status(self) -> Status:
        """``passed``, ``imprecise``, ``limited`` or ``failed``."""
        if self.failed:
            return "failed"
        if self.imprecise:
            return "imprecise"
        if self.limited:
            return "limited"
        return "passed"

    @property
    def number(self) -> str:
        """The value as it is printed, with enough digits to show a failure."""
        if isinstance(self.value, int):
            return str(self.value)
        text = format_cell(_COLUMNS.get(self.name, ""), self.value)
        for digits in range(4, 18):
            if self.passed or not math.isfinite(self.value) or not self._holds(float(text)):
                break
            text = f"{self.value:.{digits}g}"
        return text

    def _holds(self, value: float) -> bool:
        if self.relation == "≤":
            return value <= self.threshold
        return value >= self.threshold

    @property
    def result(self) -> str:
        """The result: the numbers, or the meaning of a failure."""
        if self.finding and not self.passed:
            return self.finding
        found = with_note(f"{self.name} {self.number}", self.where)
        if self.threshold == 0:
            return f"{found}, must be 0"
        return f"{found}, must be {self.relation} {self.threshold:.4g}"

    def __str__(self) -> str:
        if self.passed:
            return f"passed  {self.result}"
        return f"{loud(self)}  {self.result}: {self.advice}"


def with_note(text: str, note: str) -> str:
    """Return a text with a note in brackets, if there is one."""
    if note:
        return f"{text} ({note})"
    return text


def _verb(plural: str, num: int) -> str:
    """Return a verb in the present tense, for one thing or several."""
    if num != 1:
        return plural
    if plural.endswith("s"):
        return f"{plural}es"
    return f"{plural}s"


def loud(judged: Check | Part) -> str:
    """Return the status of a check or a part, with a failure in capitals."""
    if judged.failed:
        return "FAILED"
    return judged.status


def _with_grade(judged: Check) -> str:
    """Return a check's result, marked if it is only imprecise."""
    if judged.imprecise:
        return f"{judged.result} (imprecise)"
    return judged.result


@dataclass(frozen=True, repr=False)
class Part:
    """One part of the verdict, which prints as its result.

    Attributes
    ----------
    name : str
        ``computation``, ``prior`` or ``data``.
    checks : tuple of Check
        The checks; empty if nothing was examined.
    note : str
        What was not examined, and why.
    claim : str
        The claim that is justified if all checks pass.
    denial : str
        The statement that holds instead if a check fails.
    limits : str
        The statement about predictions of single values that holds if the part is limited.
    """

    name: PartName
    checks: tuple[Check, ...] = ()
    note: str = ""
    claim: str = ""
    denial: str = ""
    limits: str = ""

    @property
    def passed(self) -> bool:
        """Whether no check failed; a part that is only imprecise or limited has passed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.failed)

    @property
    def imprecise(self) -> tuple[Check, ...]:
        """The checks that found the draws to be few or costly."""
        return tuple(check for check in self.checks if check.imprecise)

    @property
    def limited(self) -> tuple[Check, ...]:
        """The checks that concern only predictions of single values."""
        return tuple(check for check in self.checks if check.limited)

    @property
    def shown(self) -> tuple[Check, ...]:
        """The checks that did not pass, with the failed ones first."""
        return (*self.failed, *self.imprecise, *self.limited)

    @property
    def status(self) -> Status:
        """``passed``, ``imprecise``, ``limited``, ``failed`` or ``not examined``."""
        if not self.checks:
            return "not examined"
        if self.shown:
            return self.shown[0].status
        return "passed"

    @property
    def tally(self) -> str:
        """The number of checks that passed or failed, in words."""
        total, num = len(self.checks), len(self.failed)
        if num:
            return f"{num} of {total} {self._noun(total)} {_verb('fail', num)}"
        if num := len(self.imprecise):
            return f"{num} of {total} {self._noun(total)} {_verb('show', num)} imprecision"
        if num := len(self.limited):
            verb = _verb("concern", num)
            return f"{num} of {total} {self._noun(total)} {verb} only predictions of single values"
        every = {1: "1", 2: "both"}.get(total, f"all {total}")
        return f"{every} {self._noun(total)} {_verb('pass', total)}"

    @property
    def brief(self) -> str:
        """The result in one line."""
        if not self.checks:
            return self.note
        if self.failed or self.limited or self.name == "computation":
            return with_note(self.tally, self.note)
        return with_note(self.claim, self.note)

    @property
    def by_advice(self) -> list[tuple[list[str], str, str]]:
        """The results of the checks that did not pass, with their shared advice and command.

        The statistics and p-values of predictive checks are left out, as their table has them.
        """
        found = []
        for advice in dict.fromkeys(check.advice for check in self.shown):
            same = [check for check in self.shown if check.advice == advice]
            results = [check.result for check in same]
            if self.name == "data":
                results = [_NUMBERS.sub("", result) for result in results]
            elif self.failed:  # they are listed below the number of checks that failed
                results = list(map(_with_grade, same))
            found.append((results, str(advice), same[0].command))
        return found

    def _noun(self, num: int) -> str:
        if num == 1:
            return _NOUNS[self.name]
        return f"{_NOUNS[self.name]}s"

    def __str__(self) -> str:
        if not self.checks:
            return with_note("not examined", self.note)
        return "\n".join([with_note(self.tally, self.note), *map(str, self.shown)])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the part as plain values, for JSON."""
        checks = [asdict(check) for check in self.checks]
        for check in checks:
            if not math.isfinite(check["value"]):
                check["value"] = None
            if check["passed"]:  # it explains a failure, and there is none
                check["finding"] = ""
        return {"status": self.status, "checks": checks, "note": self.note, "claim": self.claim}


@dataclass(frozen=True, repr=False)
class Verdict:
    """The judgement on a fit in three parts: computation, prior and data.

    Each part has passed, is imprecise, is limited, has failed or was not examined. A verdict prints
    as one sentence, followed by a line for each part.

    Attributes
    ----------
    computation : Part
        Whether the sampling worked: R-hat, ESS, divergences and so on.
    prior : Part
        Whether prior and data agree: no declared prior contradicts the data.
    data : Part
        Whether the model reproduces the data: the predictive checks, if they were run.

    See Also
    --------
    pyflowers.check : Examine the third part, the data.

    Examples
    --------
    >>> import pyflowers
    >>> fit = pyflowers.fit("iid_normal", seed=1, engine="exact")
    >>> verdict = fit.verdict
    >>> print(verdict.sentence)
    the draws are independent and finite
    >>> [part.status for part in verdict.parts]
    ['passed', 'passed', 'not examined']

    Add the predictive checks of the data, and convert the verdict to plain values for JSON:

    >>> verdict = verdict.also(pyflowers.check(fit).verdict.data)
    >>> verdict.trusted
    True
    >>> list(verdict.to_dict())
    ['passed', 'trusted', 'sentence', 'computation', 'prior', 'data']
    """

    computation: Part
    prior: Part
    data: Part

    @property
    def parts(self) -> tuple[Part, Part, Part]:
        """Computation, prior and data, in this order."""
        return self.computation, self.prior, self.data

    @property
    def passed(self) -> bool:
        """Whether no check that was run has failed."""
        return not self.failed

    @property
    def trusted(self) -> bool:
        """Whether all three parts were examined, and none failed or is limited."""
        return all(part.status in ("passed", "imprecise") for part in self.parts)

    @property
    def limited(self) -> bool:
        """Whether averages and effects can be trusted, but not predictions of single values."""
        is_known = all(part.checks for part in self.parts)
        return is_known and self.passed and self.data.status == "limited"

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed, in all parts."""
        return tuple(check for part in self.parts for check in part.failed)

    def also(self, part: Part) -> Verdict:
        """Return the verdict with more checks in one part.

        Parameters
        ----------
        part : Part
            Checks to add to the part of the same name. A part without checks adds only its note,
            and only to a part that has no checks, either. Checks that all pass are not added if a
            diagnostic failed, because such draws cannot show that nothing is wrong. If there are
            too few draws for an ESS, no checks are added.

        Returns
        -------
        Verdict
            A new verdict; this one does not change.
        """
        known: Part = getattr(self, part.name)
        if part.checks and self._is_unsound_for(part):
            part = Part(part.name, note="the draws do not yet represent the posterior")
        if not known.checks and (part.checks or part.note):
            grown = part
        elif not known.checks or not part.checks:
            grown = known
        else:
            claim = f"{known.claim}, and {part.claim}"
            denial = in_words([each.denial for each in (known, part) if each.failed])
            checks = (*known.checks, *part.checks)
            grown = replace(known, checks=checks, claim=claim, denial=denial)
        return replace(self, **{part.name: grown})

    def _is_unsound_for(self, part: Part) -> bool:
        """Whether the draws are too poor to support the results of a part's checks."""
        if part.passed:
            return bool(self.computation.failed)
        return self._has_no_ess

    @property
    def _has_no_ess(self) -> bool:
        failed = self.computation.failed
        return any(check.name.endswith("ESS") and math.isnan(check.value) for check in failed)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, without the failed checks and the advice."""
        if self.trusted:
            if self.computation.imprecise:
                return "this fit can be trusted, but its draws are imprecise"
            return "this fit can be trusted"
        if self.limited:
            return f"averages and effects can be trusted, but {self.data.limits}"
        wrong = [part.denial for part in (self.prior, self.data) if part.failed]
        if self.data.status == "limited":
            wrong.append(self.data.limits)
        if self.computation.failed:
            return f"do not trust this fit: {self.computation.tally}"
        if not self.computation.checks:
            return in_words(wrong) or "the sampling was not examined"
        return ", but ".join(filter(None, (self.computation.claim, in_words(wrong))))

    def __str__(self) -> str:
        return self._in_lines(self.sentence)

    def _in_lines(self, first: str) -> str:
        """Return a first line, a line for each part, and what did not pass, with its advice."""
        lines = [wrapped(first)]
        given = set[str]()
        for part in self.parts:
            beginning = f"  {part.name:<11}  {loud(part):<12}  "
            lines.append(wrapped(f"{beginning}{part.brief}".rstrip(), len(beginning)))
            for results, advice, command in part.by_advice:
                lines += [wrapped(f"    {result}") for result in results]
                if advice:
                    lines.append(wrapped(f"      → {advice}"))
                # Other findings may have the same remedy; each command is printed once.
                if command and command not in given:
                    lines.append(command_lines(command, 8))
                given.add(command)
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def line(self) -> Styled:
        """The verdict as commands print it, in green only if the fit can be trusted."""
        made = styled(self._in_lines(f"verdict: {self.sentence}"), fg=self._colour)
        made.html = self._repr_html_()
        return made

    @property
    def _colour(self) -> str | None:
        """The colour of the verdict; None if nothing failed, but not all parts were examined."""
        if self.limited or (self.trusted and self.computation.imprecise):
            return "yellow"
        if self.trusted:
            return "green"
        if not self.passed:
            return "red"
        return None

    def _repr_html_(self) -> str:
        style, rows, given = "text-align: left; vertical-align: top", list[str](), set[str]()
        for part in self.parts:
            colour = {"passed": "#1a7f37", "failed": "#cf222e"}.get(part.status, "inherit")
            texts = [as_html(part.brief)]
            for results, advice, command in part.by_advice:
                texts += map(as_html, results)
                if advice:
                    texts.append(f"→ {as_html(advice)}")
                if command and command not in given:
                    texts.append(f"<code>{as_html(command)}</code>")
                given.add(command)
            rows.append(
                f'<tr><th style="{style}">{part.name}</th>'
                f'<td style="{style}; color: {colour}"><b>{part.status}</b></td>'
                f'<td style="{style}">{"<br>".join(texts)}</td></tr>'
            )
        return (
            f"<p><b>verdict: {as_html(self.sentence)}</b></p>\n<table>\n<tbody>\n"
            + "\n".join(rows)
            + "\n</tbody>\n</table>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values, for JSON.

        Returns
        -------
        dict
            ``passed``, ``trusted``, ``sentence``, and the parts ``computation``, ``prior`` and
            ``data``, each with its checks.
        """
        return {
            "passed": self.passed,
            "trusted": self.trusted,
            "sentence": self.sentence,
            **{part.name: part.to_dict() for part in self.parts},
        }
