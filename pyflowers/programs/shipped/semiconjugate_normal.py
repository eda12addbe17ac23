"""``semiconjugate_normal``: the same in the symbols of the lecture's variational Bayes."""

from pyflowers.programs.shipped.iid_normal import OneNormal

CAPABILITIES = OneNormal("theta", ("mu0", "tau0", "nu0", "sigma0")).capabilities()
