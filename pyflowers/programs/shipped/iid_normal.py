"""``iid_normal``: y ~ N(mu, sigma2), one normal distribution for all."""

from __future__ import annotations

from typing import Any

from pyflowers.programs.capabilities import Capabilities, ClosedForm
from pyflowers.programs.data import Data
from pyflowers.programs.moments import inv_chi2_moments
from pyflowers.programs.shipped.normal_density import (
    LOG_2_PI,
    far_start,
    one_normal,
    one_normal_draw,
    one_normal_prior,
    one_normal_vb,
)
from pyflowers.programs.shipped.population import multilevel_prior

_PRIOR = ("mu_mean", "mu_sd", "sigma2_nu", "sigma2_scale")
_pointwise, _new_data = one_normal("mu")
_vb: Any = one_normal_vb("mu", _PRIOR)


def _exact(data: Data) -> Any:
    from pyflowers.closed_form.exact import exact_iid_normal

    return exact_iid_normal(data.y, multilevel_prior(data))


CAPABILITIES = Capabilities(
    pointwise=_pointwise,
    new_data=_new_data,
    prior=one_normal_prior("mu", _PRIOR),
    closed_form=ClosedForm(
        exact=_exact,
        vb=_vb,
        draw=one_normal_draw("mu", _PRIOR),
        vb_from_afar=lambda data: _vb(data, far_start(data)) if data.num_obs > 1 else None,
        log_constant=lambda data: -0.5 * data.num_obs * LOG_2_PI,
    ),
    # sigma2 has N more degrees of freedom than its prior.
    missing_moments=lambda data: inv_chi2_moments("sigma2", data.num_obs + data["sigma2_nu"]),
)
