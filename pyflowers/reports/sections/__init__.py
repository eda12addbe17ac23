"""The sections of the report, one module each."""

from pyflowers.reports.section import Section
from pyflowers.reports.sections.answer import ANSWER
from pyflowers.reports.sections.appendix import APPENDIX
from pyflowers.reports.sections.calibration import CALIBRATION
from pyflowers.reports.sections.checks import CHECKS
from pyflowers.reports.sections.comparison import COMPARISON
from pyflowers.reports.sections.data import DATA
from pyflowers.reports.sections.effects import EFFECTS
from pyflowers.reports.sections.methods import METHODS
from pyflowers.reports.sections.models import MODELS
from pyflowers.reports.sections.provenance import PROVENANCE
from pyflowers.reports.sections.sensitivity import SENSITIVITY
from pyflowers.reports.sections.verdict import VERDICT

SECTIONS: tuple[Section, ...] = (
    ANSWER,
    VERDICT,
    EFFECTS,
    DATA,
    MODELS,
    CHECKS,
    COMPARISON,
    METHODS,
    SENSITIVITY,
    CALIBRATION,
    PROVENANCE,
    APPENDIX,
)
"""The sections of a report, in their order on the page."""
