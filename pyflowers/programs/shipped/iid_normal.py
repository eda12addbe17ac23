"""``iid_normal``: y ~ N(mu, sigma2), one normal distribution for all."""

from pyflowers.programs.shipped.one_normal import OneNormal

CAPABILITIES = OneNormal("mu", ("mu_mean", "mu_sd", "sigma2_nu", "sigma2_scale")).capabilities()
