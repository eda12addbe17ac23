"""``semiconjugate_normal``: the same in the symbols of the lecture's variational Bayes."""

from __future__ import annotations

from typing import Any

from pyflowers.programs.capabilities import Capabilities, ClosedForm
from pyflowers.programs.data import Data
from pyflowers.programs.moments import inv_chi2_moments
from pyflowers.programs.shipped.normal_density import (
    LOG_2_PI,
    far_start,
    normal_prior,
    one_normal,
    one_normal_draw,
    one_normal_prior,
    one_normal_vb,
)

_PRIOR = ("mu0", "tau0", "nu0", "sigma0")
_pointwise, _new_data = one_normal("theta")
_vb: Any = one_normal_vb("theta", _PRIOR)


def _exact(data: Data) -> Any:
    from pyflowers.closed_form.exact import NormalExact

    return NormalExact(data.y, normal_prior(data, _PRIOR))  # type: ignore[arg-type]


CAPABILITIES = Capabilities(
    pointwise=_pointwise,
    new_data=_new_data,
    prior=one_normal_prior("theta", _PRIOR),
    closed_form=ClosedForm(
        exact=_exact,
        vb=_vb,
        draw=one_normal_draw("theta", _PRIOR),
        vb_from_afar=lambda data: _vb(data, far_start(data)) if data.num_obs > 1 else None,
        log_constant=lambda data: -0.5 * data.num_obs * LOG_2_PI,
    ),
    missing_moments=lambda data: inv_chi2_moments("sigma2", data.num_obs + data["nu0"]),
)
