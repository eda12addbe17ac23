"""What a program can do, from its text, its declaration and what is written in Python for it."""

from __future__ import annotations

from pyflowers.programs.capabilities import Capabilities, Capability
from pyflowers.programs.declaration import Declaration
from pyflowers.programs.source import Blocks


def capabilities_of(
    declaration: Declaration, blocks: Blocks, python: Capabilities
) -> frozenset[Capability]:
    """Return every capability that a program has.

    Parameters
    ----------
    declaration : Declaration
        Its roles, priors and parameters.
    blocks : Blocks
        The variables of its text.
    python : Capabilities
        What is written in Python.
    """
    roles = declaration.roles
    pointwise, closed = python.pointwise is not None, python.closed_form
    prior = python.prior
    has_density = prior is not None and prior.log_density is not None
    quantities = blocks.draws
    found = {
        Capability.LOG_LIK: pointwise or roles.log_lik in quantities,
        Capability.Y_REP: pointwise or roles.y_rep in quantities,
        Capability.Y_NEW: python.new_data is not None or roles.y_new in quantities,
        Capability.NEW_GROUP: (
            roles.y_new_group in quantities
            if python.new_data is None
            else python.new_data.new_groups is not None
        ),
        Capability.LPRIOR: has_density or roles.lprior in quantities,
        Capability.PRIOR_ONLY: prior is not None or roles.prior_only in blocks.data,
        Capability.HELD_OUT: pointwise or roles.held_out in blocks.data,
        Capability.OBSERVED: roles.observed in blocks.data,
        Capability.PRIOR_DENSITY: any(p.prior for p in declaration.parameters.values()),
        Capability.GROUP_MEAN: bool(roles.group_mean and declaration.table.group),
        Capability.EXACT: closed.exact is not None,
        Capability.VB: closed.vb is not None,
        Capability.CLOSED_FORM: closed.draw is not None,
    }
    return frozenset(capability for capability, has in found.items() if has)
