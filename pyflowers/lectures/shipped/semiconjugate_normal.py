"""``semiconjugate_normal``: iid_normal in the notation of the lecture on variational Bayes."""

from pyflowers.lectures.shipped.iid_normal import OneNormal

CAPABILITIES = OneNormal("theta", ("mu0", "tau0", "nu0", "sigma0")).capabilities()
