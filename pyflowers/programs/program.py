"""A program: a ``.stan`` file, a declaration of how a table becomes its data, and capabilities.

Shipped programs and user programs have the same type and are used in the same way. They differ in
their capabilities.

>>> import pyflowers
>>> program = pyflowers.Program.open("examples/pumps/pumps.stan")
>>> fit = pyflowers.fit(program, "examples/pumps/pumps.csv", seed=1)
>>> fit.draws["theta"].shape
(4, 1000, 10)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pyflowers.advice import Advice
from pyflowers.data import read_table
from pyflowers.display import Line, Shown, heading
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.capabilities import Capabilities, Capability, Draws, MissingMoment
from pyflowers.programs.data import Data, as_table, check_shapes, read_data
from pyflowers.programs.declaration import Declaration, Parameter, variable_of
from pyflowers.programs.densities import PriorDensity, prior_density, read_stated, value_of
from pyflowers.programs.families import find_family
from pyflowers.programs.formulas import digest_of, to_toml, write_formula
from pyflowers.programs.formulas.predictions import capabilities_of
from pyflowers.programs.model import Model
from pyflowers.programs.prediction import indices_of, names_of
from pyflowers.programs.shipped import python_of
from pyflowers.programs.source import Source, read_source
from pyflowers.programs.stated_priors import is_stated, prior_table
from pyflowers.records import read_toml
from pyflowers.text import in_words

_ADDED_TO_LPRIOR = re.compile(r"lprior \+= (\w+)_lpdf\((\w+) \| (.+)\);")
_PER_TIME = re.compile(r" per (\{group\} and )?\{time\}( and \{group\})?")


@dataclass(frozen=True, eq=False, repr=False)
class Program(Shown):
    """A Stan program, its declaration and its capabilities.

    Open your own program with :meth:`open`, or write the program of a formula with
    :meth:`from_formula`. The program of a fit is ``fit.program``.

    Attributes
    ----------
    source : Source
        The ``.stan`` file and the files that it includes.
    declaration : Declaration
        How a table becomes data, and the program's dimensions, priors and roles.
    declared_in : str
        Origin of the declaration, usually its file, for use in messages.
    reference : str
        The name, path or formula from which the program can be reopened; a formula also needs its
        table.
    include_paths : tuple of Path
        Folders that are searched for included files.
    python : Capabilities
        Capabilities that are written in Python.
    example : Path or None
        The table that is read if no data are given.
    withheld : mapping of Capability to str
        Capabilities that a fit cannot use, each with the reason and the remedy. For example, they
        may need draws that were not kept.

    See Also
    --------
    pyflowers.fit : Sample the posterior of a program.

    Examples
    --------
    Ask whether the program has a capability, or require it; if the capability is missing, the
    error shows how to add it:

    >>> import pyflowers
    >>> from pyflowers.programs import Capability
    >>> program = pyflowers.Program.open("examples/pumps/pumps.stan")
    >>> program.can(Capability.LPRIOR)
    True
    >>> program.require(Capability.EXACT)
    Traceback (most recent call last):
        ...
    pyflowers.errors.ConfigError: pumps has no exact, which is needed for the exact posterior: give
    Program a ClosedForm with exact= in Python

    Turn a table and priors into the data block for Stan:

    >>> priors = program.resolve_priors({"alpha_rate": 0.5})
    >>> program.prior_values(priors)
    {'alpha_rate': 0.5, 'beta_shape': 0.1, 'beta_rate': 1.0}
    >>> data, notes = program.fill(program.read("examples/pumps/pumps.csv"), priors)
    >>> list(program.stan_values(data))[:7]
    ['N', 'P', 'pump', 't', 'y', 'alpha_rate', 'beta_shape']

    Look up what is declared about the program's quantities:

    >>> program.kept()[:3]
    ['alpha', 'beta', 'theta']
    >>> program.description_of("theta[3]"), program.unit_of("theta[3]", data)
    ('Failure rate of each pump', 'failures per 1000 h')
    >>> program.declares_prior("beta"), program.prior_of("beta", data.values).text
    (True, 'Gamma(0.1, 1)')
    >>> program.improper_priors(data.values)
    {}
    >>> print(program.prior_on_scale("alpha", data))
    the values of failures have mean 7.5 and sd 7.46; choose a prior from what is known beforehand,
    with --prior alpha_rate=…; the default is alpha_rate=1

    Compute the log likelihood, replicated data and the log density of the prior for each draw:

    >>> import numpy as np
    >>> fit = pyflowers.fit(program, "examples/pumps/pumps.csv", seed=1, engine="stanli")
    >>> program.log_lik(fit.draws, fit.data, rows=np.array([9, 0])).shape
    (4, 1000, 2)
    >>> program.answers_by_rule("log_lik")  # computed in Stan, not from [prediction]
    False
    >>> program.y_rep(fit.draws, fit.data, np.random.default_rng(1)).shape
    (4, 1000, 10)
    >>> program.lprior(fit.draws, fit.data).shape
    (4, 1000)

    A shipped program may declare more:

    >>> fit = pyflowers.fit("multilevel_poisson", seed=1, engine="exact")
    >>> fit.program.parametrisation(centered=False)
    {'centered': 0}
    >>> [moment.parameter for moment in fit.program.missing_moments(fit.data)]
    ['sigma2']
    >>> fit.program.log_axis("sigma2")
    True
    """

    source: Source
    declaration: Declaration
    declared_in: str
    reference: str
    include_paths: tuple[Path, ...] = ()
    python: Capabilities = field(default_factory=Capabilities)
    example: Path | None = None
    withheld: Mapping[Capability, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.declaration.check(self.source.blocks, self.declared_in)
        if self.declaration.formula is not None and self.python == Capabilities():
            if self.is_as_written:
                object.__setattr__(self, "python", capabilities_of(self.declaration))
            else:
                object.__setattr__(self, "declaration", self.declaration.of_edited())

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        include_paths: Sequence[str | Path] = (),
        declaration: Mapping[str, Any] | None = None,
        python: Capabilities | None = None,
    ) -> Program:
        """Open a ``.stan`` file and its declaration.

        Parameters
        ----------
        path : str or Path
            The program, ``NAME.stan``. The declaration is ``NAME.toml`` in the same folder; a
            program without a declaration takes CmdStan JSON, or a table whose columns have the
            names of its data variables.
        include_paths : sequence of path
            Folders that are searched for included files, after the program's folder.
        declaration : mapping, optional
            The declaration as nested mappings, instead of ``NAME.toml``.
        python : Capabilities, optional
            Likelihoods, closed forms and checks in Python.

        Returns
        -------
        Program
            The program, which has not been compiled.

        Raises
        ------
        ConfigError
            If the program or its declaration cannot be used.
        CompileError
            If an included file is missing.

        Examples
        --------
        >>> import pyflowers
        >>> program = pyflowers.Program.open("examples/seeds/seeds.stan")
        >>> program
        <pyflowers.Program: seeds  y ~ Binomial(total, p), logit p = alpha0 + ...>
        >>> program.title
        'Germination of seeds on 21 plates'
        """
        source = read_source(path, include_paths)
        file = source.path.with_suffix(".toml")
        where = str(file)
        if declaration is not None:
            where = f"the declaration of {source.path.name} in Python"
        elif file.is_file():
            declaration = read_toml(file)
        declared = Declaration.parse(dict(declaration or {}), where)
        return cls(
            source,
            declared,
            where,
            str(source.path),
            tuple(Path(folder).resolve() for folder in include_paths),
            python or Capabilities(),
            _example(file.parent, declared, where),
        )

    @classmethod
    def from_formula(
        cls,
        formula: str | Sequence[str],
        data: Any,
        *,
        family: str = "gaussian",
        drop_missing: bool = False,
        centered: bool | Mapping[str, bool] | None = None,
        default_priors: str | None = None,
        known: Mapping[str, Any] | None = None,
        priors: Mapping[str, str] | Sequence[str] | None = None,
        **reading: Any,
    ) -> Program:
        """Write a program for a formula and a table.

        Parameters
        ----------
        formula : str or sequence of str
            The formula, such as ``"reaction ~ days + (days | subject)"``; see the guide to
            formulas. Formulas for other parameters of the family follow it after semicolons, on
            lines of their own, or as further elements of a sequence.
        data : path, DataFrame or Table
            The table, which determines the scales of the default priors.
        family : str
            The family of the response, such as ``poisson``, or a family with a link, such as
            ``bernoulli(probit)``; the reference has a table of families.
        drop_missing : bool
            Whether to leave out rows with missing values; otherwise, missing values are an error.
        centered : bool or mapping of str to bool, optional
            Whether the group effects are sampled in the centred parametrisation, for all groups or
            by group. Default: chosen from the data.
        default_priors : str, optional
            ``brms`` for the default priors of brms 2.23, which are flat for coefficients. Default:
            proper priors on the scale of the data; see the guide to formulas.
        known : mapping of str to path or DataFrame, optional
            Known covariances of labels, by their names in terms such as
            ``(1 | gr(animal, cov=A))``.
        priors : mapping of str to str, or sequence of str, optional
            Priors to use instead of the defaults, such as ``{"b[age]": "normal(0.5, 0.2)"}`` or
            ``["b[age] ~ normal(0.5, 0.2)", "sd ~ exponential(1)"]``; see the guide to formulas.
        **reading
            ``sep``, ``decimal`` and ``encoding``; see :func:`pyflowers.read_table`.

        Returns
        -------
        Program
            The program with its declaration; nothing is written to disk.

        Raises
        ------
        ConfigError
            If the formula cannot be used.
        DataError
            If the formula cannot be fitted to the table.

        Examples
        --------
        >>> import pyflowers
        >>> program = pyflowers.Program.from_formula(
        ...     "flowers ~ 1 + (1 | plant)", "data/flowers.csv", family="poisson"
        ... )
        >>> program.name
        'flowers_1_1_plant_poisson'
        >>> fit = pyflowers.fit(program, "data/flowers.csv", seed=1, engine="stanli")
        >>> list(fit.posterior)
        ['Intercept', 'sd_plant', 'r_plant']
        """
        formula = str(joined_formulas(formula))
        how = {name: value for name, value in reading.items() if value is not None}
        table = as_table(data, how)
        if table is None and isinstance(data, str | Path):
            table = read_table(data, **how)  # rejects JSON that is not a list of records
        if table is None:
            raise DataError(f"formula {formula!r} needs a table; name one with --data")
        name, text, declaration = write_formula(
            formula,
            table,
            family,
            drop_missing=drop_missing,
            centered=centered,
            default_priors=default_priors,
            known=known,
            given=densities_of(named_priors(priors)),
        )
        where = f"the declaration of {formula!r}"
        reference = declaration["formula"]["text"]
        source = Source(Path(f"{name}.stan"), {f"{name}.stan": text.encode()}, reference)
        return cls(source, Declaration.parse(declaration, where), where, reference)

    def write(self, path: str | Path) -> Path:
        """Write the program and its declaration into files that can be edited.

        Parameters
        ----------
        path : str or Path
            The program's file, whose name must end in ``.stan``. The declaration is written to the
            file with the same name that ends in ``.toml``.

        Returns
        -------
        Path
            The program's file.

        Raises
        ------
        ConfigError
            If the name does not end in ``.stan``, or one of the files exists or cannot be written.

        Examples
        --------
        >>> import pyflowers
        >>> program = pyflowers.Program.from_formula(
        ...     "weight ~ age + (age | rat)", "example:rats"
        ... )
        >>> path = program.write("growth.stan")
        >>> pyflowers.Program.open(path).name
        'growth'
        """
        target = Path(path)
        if target.suffix != ".stan":
            raise ConfigError(f"{target}: a Stan program's name must end in .stan; rename it")
        declared = self.declaration.model_dump(mode="json", exclude_defaults=True)
        write_new({target: self.source.text, target.with_suffix(".toml"): to_toml(declared)})
        return target

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a shipped program's capabilities, whose lambda functions cannot be pickled."""
        if self.python is python_of(self.reference):
            return {**self.__dict__, "python": None}
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the capabilities of a shipped program by its name."""
        python = state["python"] or python_of(state["reference"])
        self.__dict__.update({**state, "python": python})

    @cached_property
    def is_as_written(self) -> bool:
        """Whether the program was written for a formula and has not been edited since."""
        formula, rule = self.declaration.formula, self.declaration.prediction
        return formula is not None and digest_of(self.source.text, rule) == formula.sha256

    def answers_by_rule(self, name: str) -> bool:
        """Return whether ``log_lik`` or ``y_rep`` is computed by the rule in ``[prediction]``.

        If the program has a rule and also computes the quantity in Stan, the result of Stan is
        used. For the program of a formula, the rule is used until the program is edited, and never
        afterwards.

        Parameters
        ----------
        name : str
            The program's name for the quantity.

        Returns
        -------
        bool
            True if the quantity is computed by the rule.
        """
        rule = self.declaration.prediction
        observed = self.source.blocks.data.get(self.declaration.roles.observed)
        if rule is None or rule.censored or observed is None:
            return False
        if observed.ndim != 1 + find_family(rule.family).has_columns:
            return False
        if self.declaration.formula is not None:
            return self.is_as_written
        return name not in self.source.blocks.draws

    @property
    def stated_priors(self) -> dict[str, str]:
        """The priors that the declaration states, and those that the program adds to lprior."""
        statements = _ADDED_TO_LPRIOR.findall(self.source.text)
        found = {name: f"{kind}({values})" for kind, name, values in statements}
        declared = self.declaration.parameters
        return found | {name: its.prior for name, its in declared.items() if its.prior}

    @property
    def priors(self) -> pd.DataFrame:
        """The prior of each parameter whose prior is stated, with the default hyperparameters.

        The columns are the prior in Stan's notation, its 5% and 95% quantiles, whether it is the
        default, what these quantiles mean on the scale of the response (for a formula), and the
        meaning of the parameter. The priors of a formula's intercept and thresholds apply where all
        terms are equal to their means. Thresholds of ratings, and shares of the steps of a
        monotonic effect, have a joint prior and no quantiles.

        Examples
        --------
        >>> import pyflowers
        >>> given = ["b[age] ~ normal(6, 1)", "sd ~ exponential(0.1)"]
        >>> program = pyflowers.Program.from_formula(
        ...     "weight ~ age + (1 | rat)", "example:rats", priors=given
        ... )
        >>> program.priors[["prior", "default"]]
                                         prior default
        parameter
        Intercept          student_t(3, 246, 75.6)     yes
        b[age]                        normal(6, 1)      no
        sd_rat[Intercept]         exponential(0.1)      no
        sigma                student_t(3, 0, 75.6)     yes
        """
        return prior_table(self, self.prior_values(self.resolve_priors()))

    @cached_property
    def states_prior(self) -> bool:
        """Whether the declaration states every prior in full; see :mod:`.stated_priors`."""
        return is_stated(self)

    @property
    def draws_prior(self) -> bool:
        """Whether draws from the prior come from NumPy, and not from Stan with ``prior_only``."""
        by_stan = self.declaration.roles.prior_only in self.source.blocks.data
        return self.python.prior is not None or (self.states_prior and not by_stan)

    @cached_property
    def predicts_groups(self) -> bool:
        """Whether the rule predicts an observation from its group alone, without covariates."""
        rule, roles, block = self.declaration.prediction, self.declaration.roles, self.source.blocks
        if rule is None or self.declaration.formula or not self.answers_by_rule(roles.y_rep):
            return False
        read = {name for name in names_of(rule) if name in block.data and block.data[name].ndim}
        groups = {index for name, index in indices_of(rule) if name in rule.effects}
        return read == groups and len(groups) == bool(roles.group_mean)

    @property
    def name(self) -> str:
        """The program's name, which is the name of its file without ``.stan``."""
        return self.source.name

    @property
    def path(self) -> Path:
        """The ``.stan`` file."""
        return self.source.path

    def contents(self) -> list[Line]:
        """Return the model, its hyperparameters, and the capabilities."""
        declared = self.declaration
        rows = {
            name: {"default": prior.value, "meaning": prior.description}
            for name, prior in declared.priors.items()
        }
        lines: list[Line] = [self.head]
        if declared.story:
            lines.append(declared.story)
        if rows:
            lines.append(pd.DataFrame.from_dict(rows, orient="index").rename_axis("prior"))
        return [*lines, f"can: {', '.join(sorted(self.capabilities))}"]

    @property
    def title(self) -> str:
        """The declared title, or a title with the name of the file."""
        return self.declaration.title or f"The program {self.path.name}"

    @property
    def called(self) -> str:
        """The name of the program in results: its formula, or its own name."""
        formula = self.declaration.formula
        if formula is not None and is_formula(self.reference):
            return formula.text
        return self.name

    @property
    def called_in_full(self) -> str:
        """The name of the program in results that do not also show its family."""
        if self.called == self.name:
            return self.name
        return self.title

    @property
    def head(self) -> tuple[str, ...]:
        """The first line of a result: the formula and its family, or the name and the model."""
        formula = self.declaration.formula
        if formula is not None and is_formula(self.reference):
            return heading(formula.text, formula.family)
        return heading(self.name, self.about)

    @property
    def about(self) -> str:
        """One line for a terminal: the model's equation, or the program's path."""
        return self.declaration.equation or str(self.path)

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """The capabilities that the program has, except those that are withheld."""
        has = {capability for capability in Capability if capability.is_had(self)}
        return frozenset(has - self.withheld.keys())

    def can(self, capability: Capability) -> bool:
        """Return whether the program has a capability.

        Parameters
        ----------
        capability : Capability
            The capability, such as ``pyflowers.programs.Capability.LOG_LIK``.

        Returns
        -------
        bool
            True if the program has the capability and the capability is not withheld.
        """
        return capability in self.capabilities

    def require(self, capability: Capability) -> None:
        """Raise an error with a remedy if the program lacks a capability.

        Parameters
        ----------
        capability : Capability
            The capability, such as ``pyflowers.programs.Capability.LOG_LIK``.

        Raises
        ------
        ConfigError
            If the program lacks the capability.
        """
        if capability in self.withheld:
            raise ConfigError(
                f"{self.called} cannot be used for {capability.purpose}: "
                f"{self.withheld[capability]}"
            )
        if not self.can(capability):
            raise ConfigError(
                f"{self.called} has no {capability}, which is needed for {capability.purpose}: "
                f"{capability.remedy}"
            )

    def read(
        self,
        data: Any = None,
        *,
        columns: Mapping[str, str] | None = None,
        time_order: str = "value",
        design_only: bool = False,
        **reading: Any,
    ) -> Data:
        """Read data in any form into the program's data block, without the priors.

        Parameters
        ----------
        data : path, DataFrame, Table, Data or mapping, optional
            A tidy table, or the data block as a mapping or CmdStan JSON. Default: the program's
            example table.
        columns : mapping of str to str, optional
            The table's names for the declaration's columns, where they differ. The keys ``group``,
            ``time`` and ``value`` stand for the columns in these roles.
        time_order : str
            Order of the times: ``value`` sorts numbers, dates and numbered labels; ``appearance``
            keeps the order of the rows.
        design_only : bool
            Whether to ignore the observed values. If so, their column is not read and may be
            missing, and their variable holds 0, or its lower bound if that is above 0. A column
            that is read as labels, such as ordered ratings, is still needed.
        **reading
            ``group``, ``time`` and ``value``, as in `columns`; ``drop_missing``, which leaves out
            rows without a value in a column that is used; ``sep``, ``decimal`` and ``encoding``
            (see :func:`pyflowers.read_table`).

        Returns
        -------
        Data
            The data block without priors, and the labels behind it.

        Raises
        ------
        DataError
            If the data cannot be used; the message names the place, such as a row, and the remedy.
        ConfigError
            If the declaration does not match the program or the table, or an option does not apply.

        Examples
        --------
        >>> import pandas as pd
        >>> import pyflowers
        >>> program = pyflowers.Program.open("examples/pumps/pumps.stan")
        >>> frame = pd.DataFrame({"unit": ["a", "b"], "thousand_hours": [94.3, 15.7]})
        >>> data = program.read(frame.assign(failures=[5, 1]), group="unit")
        >>> data["pump"].tolist(), data["y"].tolist(), data.by_group.names
        ([1, 2], [5, 1], ('a', 'b'))
        """
        return read_data(self, data, columns, time_order, design_only, reading)

    def resolve_priors(
        self, given: Mapping[str, float | str] | None = None, data: Data | None = None
    ) -> dict[str, float]:
        """Complete the hyperparameters with the declared defaults, and check them.

        Parameters
        ----------
        given : mapping of str to float or str, optional
            Hyperparameters to change, by name. The name of a vector sets all its elements. A
            density, such as ``normal(0, 1)``, is allowed only if the program of a formula was
            written with it.
        data : Data, optional
            The data; a data block, unlike a table, may also contain hyperparameters.

        Returns
        -------
        dict of str to float
            All hyperparameters by name; elements of a vector have names such as ``b_scale[age]``.

        Raises
        ------
        ConfigError
            If the program has no hyperparameter with a given name, or a value is out of range.
        """
        if not isinstance(given, Mapping | None):
            raise ConfigError(
                'priors must be a mapping of names to numbers, such as {"mu_sd": 10}, got '
                f"{type(given).__name__}"
            )
        priors = self.declaration.priors
        values = {name: prior.value for name, prior in priors.items()}
        block, asked = dict[str, Any](), dict[str, Any]()
        if data is not None and not data.has_table:
            block |= data.values
        for name, elements in self.declaration.prior_elements.items():
            if name in block and elements == [name]:
                asked[name] = block[name]
            elif name in block:
                given_here = np.ravel(block[name])
                if len(given_here) != len(elements):
                    raise ConfigError(
                        f"prior {name}: the data block has {len(given_here)} "
                        f"value{'s' * (len(given_here) != 1)}, but {self.declared_in} declares "
                        f"{len(elements)}: {', '.join(elements)}; give one value for each"
                    )
                asked |= dict(zip(elements, given_here, strict=True))
        for name, value in (given or {}).items():
            if isinstance(value, str) and "(" in value:
                self._refuse_other_density(name, value)
                continue
            elements = [name]
            if name not in priors:
                elements = self.declaration.prior_elements.get(name, [name])
            asked |= dict.fromkeys(elements, value)
        for name, value in asked.items():
            if not priors:
                raise ConfigError(
                    f"prior {name}: {self.called} declares no priors; list its hyperparameters "
                    f"under [priors] in {self.declared_in}"
                )
            if name not in priors:
                raise ConfigError(
                    f"prior {name}: {self.called} has no such prior; it has {', '.join(priors)}"
                )
            values[name] = self._checked_prior(name, value)
        self.python.check_priors(values)
        return values

    def _refuse_other_density(self, name: str, text: str) -> None:
        """Reject a density that was not given when the program was written."""
        prior, about = str(read_stated(name, text)), self.declaration.formula
        own = [each for each in self.declaration.priors if each.startswith(f"{name}_")]
        if about is None and own:
            raise ConfigError(
                f"prior {name} ~ {text}: a density can be given only for a formula; in "
                f"{self.called}, set the prior of {name} with {in_words(own)}"
            )
        if about is None or about.given.get(name) != prior:
            raise ConfigError(
                f"prior {name} ~ {text}: {self.called} has already been written without this "
                "density; give the density to Program.from_formula, or change the prior in "
                f"{self.path.name}"
            )

    def _checked_prior(self, name: str, value: Any) -> float:
        """Return a hyperparameter; reject values that are not numbers or out of range."""
        prior = self.declaration.priors[name]
        variable, lower = self.source.blocks.data[variable_of(name)], prior.lower
        if lower is None and prior.above is None:
            lower = variable.lowest
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value.item()
        is_finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if is_finite and variable.is_int and value != int(value):
            raise ConfigError(f"prior {name} must be a whole number, got {value!r}")
        limit = ""
        if prior.above is not None:
            limit = f" and above {prior.above:g}"
        elif lower is not None:
            limit = f" and at least {lower:g}"
        is_low = is_finite and lower is not None and value < lower
        if not is_finite or is_low or (prior.above is not None and value <= prior.above):
            raise ConfigError(f"prior {name} must be a finite number{limit}, got {value!r}")
        return float(value)

    def fill(
        self,
        data: Data,
        priors: Mapping[str, float],
        *,
        centered: bool | Mapping[str, bool] | None = None,
    ) -> tuple[Data, list[str]]:
        """Complete the data block with priors and the parametrisation, and check it as a whole.

        Parameters
        ----------
        data : Data
            Data as :meth:`read` returns them.
        priors : mapping of str to float
            Hyperparameters as :meth:`resolve_priors` returns them.
        centered : bool or mapping of str to bool, optional
            Whether the group effects are sampled in the centred parametrisation, for programs with
            ``int centered`` in their data, or with one ``int centered_g`` for each group ``g``.
            Default: chosen from the data.

        Returns
        -------
        data : Data
            The whole data block.
        notes : list of str
            Notes on the data, one sentence each.

        Raises
        ------
        ConfigError
            If the program does not offer this choice of parametrisation.
        DataError
            If the posterior would be improper, or the program cannot use the data for another
            reason.
        """
        block, choices = self.source.blocks.data, self.python.choices
        numbers = self.prior_values(priors)
        whole = replace(data, values={**data.values, **numbers})
        source = data.source or "the data"
        missing = [n for n in block if n not in whole.values and n not in choices]
        if missing:
            shapes = {np.shape(value) for value in data.values.values()}
            remedy = "add it"
            if not data.has_table and len(shapes) == 1 and () not in shapes:
                remedy = "add it; if the data are a table, give pandas.DataFrame(...)"
            raise DataError(
                f"{source}: the data variable {missing[0]}, which {self.path.name} declares, is "
                f"missing; {remedy}"
            )
        check_shapes(whole.values, block, source, self.path.name)
        chosen = {
            name: choose(whole)
            for name, choose in choices.items()
            if data.has_table or name not in data.values
        }
        chosen |= self.parametrisation(centered)
        whole = replace(whole, values={**whole.values, **chosen})
        return whole, [*data.notes, *self.python.check(whole)]

    @cached_property
    def parametrisations(self) -> dict[str, str]:
        """The 0/1 variables of the data block that select a parametrisation, by group.

        A variable called just ``centered`` applies to all groups; its key is ``centered``.
        """
        return {
            name.removeprefix("centered_"): name
            for name, variable in self.source.blocks.data.items()
            if re.fullmatch("centered(_.+)?", name) and variable.is_int and not variable.ndim
        }

    def parametrisation(self, centered: bool | Mapping[str, bool] | None) -> dict[str, int]:
        """Return the variables of the data block that select a parametrisation.

        Parameters
        ----------
        centered : bool, mapping of str to bool, or None
            Whether the group effects are sampled in the centred parametrisation; see :meth:`fill`.

        Returns
        -------
        dict of str to int
            0 or 1 for each variable, such as ``centered``; empty if `centered` is None.

        Raises
        ------
        ConfigError
            If the program does not offer this choice.
        """
        if centered is None:
            return {}
        choices, data = self.parametrisations, self.declaration.data
        groups = {str(d.index_of): choices[n] for n, d in data.items() if n in choices}
        if not choices:
            raise ConfigError(
                f"centered: {self.called} offers no choice of parametrisation; leave centered out, "
                "or declare int centered in the data block"
            )
        asked: Mapping[str, Any] = dict.fromkeys(choices, centered)
        if isinstance(centered, Mapping):
            asked = centered
        named = groups | choices
        for name, value in asked.items():
            if name not in named and [*choices] == ["centered"]:
                raise ConfigError(
                    f"centered {name}: {self.called} has one choice for all groups; give True or "
                    "False instead of a mapping"
                )
            if name not in named:
                shown = {variable: key for key, variable in (*choices.items(), *groups.items())}
                known = ", ".join(shown.values())
                raise ConfigError(
                    f"centered {name}: {self.called} offers no choice for {name}, only for {known}"
                )
            if not isinstance(value, bool | np.bool_):
                raise ConfigError(f"centered must be True or False, got {value!r}")
        return {named[name]: int(value) for name, value in asked.items()}

    def prior_values(self, priors: Mapping[str, float]) -> dict[str, Any]:
        """Return the variables of the data block that hold hyperparameters.

        Parameters
        ----------
        priors : mapping of str to float
            Hyperparameters as :meth:`resolve_priors` returns them, with a separate entry for each
            element of a vector.

        Returns
        -------
        dict of str to number or array
            The variables; a vector is an array of its elements.
        """
        found: dict[str, Any] = {}
        for name, elements in self.declaration.prior_elements.items():
            variable = self.source.blocks.data[name]
            values = np.array([priors[element] for element in elements])
            if variable.is_int:
                values = values.astype(np.int64)
            found[name] = values
            if not variable.ndim:
                found[name] = values.item()
        return found

    def stan_values(self, data: Data) -> dict[str, Any]:
        """Return the values of the variables that the program declares in its data block.

        Parameters
        ----------
        data : Data
            The whole data block, as :meth:`fill` returns it.

        Returns
        -------
        dict of str to array or number
            The variables by name.
        """
        return {name: data.values[name] for name in self.source.blocks.data}

    def log_lik(
        self, draws: Draws, data: Data, rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return the log likelihood of each observation in each draw.

        Parameters
        ----------
        draws : mapping of str to array, shape (chain, draw, …)
            Draws of the program's quantities.
        data : Data
            The whole data block, as :meth:`fill` returns it.
        rows : array of int, optional
            Positions of the observations to return, from 0, in this order. Default: all.

        Returns
        -------
        array, shape (chain, draw, N)
            log p(y[n] | draw).

        Raises
        ------
        ConfigError
            If the program has no ``log_lik``.
        """
        return Model(self, data).log_lik(draws, rows)

    def y_rep(
        self,
        draws: Draws,
        data: Data,
        rng: np.random.Generator,
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return replicated data, one data set for each draw.

        Parameters
        ----------
        draws, data, rows
            See :meth:`log_lik`.
        rng : numpy.random.Generator
            The generator for data that are replicated in NumPy; not used if the Stan program
            replicated them.

        Returns
        -------
        array, shape (chain, draw, N)
            Values in the unit of the observed data. If a row has a count for each category, these
            counts are consecutive, and the last axis has N × categories elements.

        Raises
        ------
        ConfigError
            If the program has no ``y_rep``.
        """
        return Model(self, data).y_rep(draws, rng, rows)

    def lprior(self, draws: Draws, data: Data) -> NDArray[np.float64]:
        """Return the log density of the priors in each draw.

        Parameters
        ----------
        draws : mapping of str to array, shape (chain, draw, …)
            Draws of the program's quantities.
        data : Data
            The whole data block, as :meth:`fill` returns it.

        Returns
        -------
        array, shape (chain, draw)
            The log density, possibly without its constant terms.

        Raises
        ------
        ConfigError
            If the program has no ``lprior``.
        """
        return Model(self, data).lprior(draws)

    def missing_moments(self, data: Data) -> Sequence[MissingMoment]:
        """Return the means and variances that the posterior does not have.

        Parameters
        ----------
        data : Data
            The whole data block, as :meth:`fill` returns it.

        Returns
        -------
        sequence of MissingMoment
            The missing moments, each with its parameter and the reason; empty if none are known.
        """
        return self.python.missing_moments(data)

    @property
    def counts(self) -> bool:
        """Whether the observed values are integers."""
        observed = self.source.blocks.data.get(self.declaration.roles.observed)
        return observed is not None and observed.is_int

    @property
    def internal(self) -> frozenset[str]:
        """Quantities of a draw that are not parameters: omitted ones, densities and predictions."""
        roles = self.declaration.roles
        predictions = (roles.y_rep, roles.y_new, roles.y_new_group)
        return frozenset((*self.declaration.omit, roles.log_lik, roles.lprior, *predictions))

    def kept(self) -> list[str]:
        """Return the names of the quantities that a fit keeps: all that are not omitted.

        They are in the program's order or, if ``[parameters]`` lists all of them except densities
        and predictions, in the order of that section.

        Returns
        -------
        list of str
            The names.
        """
        drawn = [n for n in self.source.blocks.draws if n not in self.declaration.omit]
        declared = [n for n in self.declaration.parameters if n in drawn]
        is_whole = self.internal.issuperset(set(drawn) - set(declared))
        if is_whole:
            return list(dict.fromkeys([*declared, *drawn]))
        return drawn

    def declares_prior(self, parameter: str) -> bool:
        """Return whether a parameter, or the vector that has this element, has a declared prior.

        Parameters
        ----------
        parameter : str
            The parameter, or an element such as ``mu_plant[2]``.

        Returns
        -------
        bool
            True if the prior is declared.
        """
        return bool(self._about(parameter).prior)

    def prior_of(self, parameter: str, values: Mapping[str, Any]) -> PriorDensity | None:
        """Return the declared prior of a parameter or of an element.

        Parameters
        ----------
        parameter : str
            The parameter, or an element such as ``b[age]``. If the elements of a vector have
            different priors, name an element; the whole vector has no single prior.
        values : mapping of str to array or number
            The data block, hyperparameters included.

        Returns
        -------
        PriorDensity or None
            The prior with its text, density, standard deviation and quantiles; None if no prior is
            declared, if `parameter` is fixed, or if `parameter` is a vector whose elements have
            different priors.

        Raises
        ------
        ConfigError
            If the declared expression cannot be read.
        """
        prior = self._about(parameter).prior
        if not prior or value_of(prior) is not None:
            return None
        _, _, label = parameter.partition("[")
        of_element, elements = dict(values), self.declaration.prior_elements
        for name in re.findall(r"\w+", prior):
            if np.ndim(values.get(name, 0.0)):
                # The levels of a factor share the hyperparameters of an effect: sd_g[a,x] and
                # sd_g[b,x].
                named = (f"{name}[{label}", f"{name}[{label.partition(',')[2]}")
                own = next((each for each in named if each in elements.get(name, ())), None)
                if own is None:
                    return None
                of_element[name] = np.ravel(values[name])[elements[name].index(own)]
        variable = self.source.blocks.draws.get(variable_of(parameter))
        return prior_density(prior, of_element, getattr(variable, "lowest", None))

    def improper_priors(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the parameters whose prior is improper, each with a remedy.

        Parameters
        ----------
        values : mapping of str to array or number
            The data block, hyperparameters included.

        Returns
        -------
        dict of str to str
            The remedy for each parameter; empty if no prior is known to be improper.
        """
        declared = {name: self.prior_of(name, values) for name in self.declaration.parameters}
        found = {}
        for name, prior in declared.items():
            if prior is not None and prior.density is None:
                names = self._hyperparameters(name)
                remedy = f"give a proper one, such as {' '.join(f'--prior {n}=1' for n in names)}"
                if not names:
                    expression = self._about(name).prior
                    remedy = (
                        f"correct {expression} in {self.declared_in}, or the data that it names"
                    )
                found[name] = f"its prior is {prior.text}; {remedy}"
        if self.python.prior is not None or self.states_prior:
            return found
        prior_only = self.declaration.roles.prior_only
        for name in self.source.flat_parameters(prior_only):
            if declared.get(name) is None:
                found[name] = (
                    "it has a flat prior on an unbounded support; add a proper one to the model, "
                    f"outside the condition on {prior_only}, such as {name} ~ normal(0, 1)"
                )
        return found

    def prior_on_scale(self, parameter: str, data: Data) -> Advice:
        """Return advice on how to choose another prior for a parameter.

        Parameters
        ----------
        parameter : str
            A parameter, or an element, whose prior is declared.
        data : Data
            The data, whose scale appears in the advice.

        Returns
        -------
        Advice
            A clause for the verdict, with the options that change the hyperparameters. A refit with
            these options has a prior on the scale of the data or, if the user chose another prior,
            the default prior.
        """
        y = data.y
        rule, advice = self.declaration.prediction, "choose a prior from what is known beforehand"
        if y.size and (rule is None or find_family(rule.family).link == "identity"):
            seen = f"have mean {y.mean():.4g} and sd {y.std():.3g}"
            advice = f"the values of {data.value_name} {seen}; {advice}"
        suggested, names = self.python.priors_on_scale(data), self._hyperparameters(parameter)
        is_open = data.has_table  # a data block contains the hyperparameters
        if suggested.keys() & names:
            options = " ".join(f"--prior {name}={value:g}" for name, value in suggested.items())
            text = f"{advice}, or a wide one on the scale of the data: {options}"
            if is_open:
                return Advice(text, priors=dict(suggested))
            return Advice(text)
        if not names and self.declaration.formula is not None and self.is_as_written:
            return Advice(f"{advice}, with --prior '{parameter} ~ …'")
        if not names:
            return Advice(f"{advice}: change it in {self.path.name} and in {self.declared_in}")
        text = f"{advice}, with {' and '.join(f'--prior {name}=…' for name in names)}"
        declared = {name: self.declaration.priors[name].value for name in names}
        changed = {n: v for n, v in declared.items() if self._value_of(n, data) != v}
        if changed and is_open:
            defaults = " and ".join(f"{name}={value:.3g}" for name, value in changed.items())
            return Advice(f"{text}; the default is {defaults}", priors=dict.fromkeys(changed))
        if self.declaration.formula:
            return Advice(text, "sensitivity")
        return Advice(text)

    def _value_of(self, hyperparameter: str, data: Data) -> float:
        """Return the value of a hyperparameter in a data block; NaN if it is not there."""
        name = hyperparameter.partition("[")[0]
        elements = self.declaration.prior_elements.get(name, [hyperparameter])
        values = np.ravel(data.values.get(name, np.nan))
        if values.size > 0:
            return float(values[elements.index(hyperparameter)])
        return np.nan

    def log_axis(self, parameter: str) -> bool | None:
        """Return whether figures show a parameter on a logarithmic axis.

        Parameters
        ----------
        parameter : str
            The parameter or an element of it.

        Returns
        -------
        bool or None
            The declared choice. None if none is declared; the draws then decide.
        """
        return self._about(parameter).log_axis

    def unit_of(self, parameter: str, data: Data) -> str:
        """Return the unit of a parameter in the words of the user's table.

        Parameters
        ----------
        parameter : str
            The parameter or an element of it.
        data : Data
            The data, which have the user's names for group, time and value.

        Returns
        -------
        str
            The unit, such as ``flowers per month``; empty if none is declared.
        """
        unit = self._about(parameter).unit
        if not data.time:
            unit = _PER_TIME.sub("", unit)
        names = (data.value_name, data.name_of(data.group), data.name_of(data.time))
        for role, name in zip(("value", "group", "time"), names, strict=True):
            unit = unit.replace(f"{{{role}}}", name)
        return re.sub(r"^\((\w+)\)²$", r"\1²", unit)

    def description_of(self, parameter: str) -> str:
        """Return the declared description of a parameter.

        Parameters
        ----------
        parameter : str
            The parameter or an element of it.

        Returns
        -------
        str
            The description; empty if none is declared.
        """
        return self._about(parameter).description

    def _about(self, parameter: str) -> Parameter:
        """Return the declaration of a parameter, or of the parameter that has this element."""
        declared, name = self.declaration.parameters, parameter.partition("[")[0]
        if parameter in declared:
            return declared[parameter]
        # In a posterior, parameters called `draw` or `chain` have an underscore appended.
        return declared.get(name) or declared.get(name.rstrip("_"), Parameter())

    def _hyperparameters(self, parameter: str) -> list[str]:
        """Return the hyperparameters in the prior of a parameter or of an element."""
        words, label = re.findall(r"\w+", self._about(parameter).prior), parameter.partition("[")[2]
        labels = (label, label.partition(",")[2])
        own = {*words, *(f"{word}[{each}" for word in words for each in labels)}
        return [name for name in self.declaration.priors if name in own]


def is_formula(reference: object) -> bool:
    """Return whether a reference to a program is a formula, that is, contains a tilde."""
    return isinstance(reference, str) and "~" in reference


def named_priors(priors: Any) -> Any:
    """Return priors that are given as a list, such as ``["sd ~ exponential(1)"]``, by name.

    Raises
    ------
    ConfigError
        If an element of the list is not such a text.
    """
    if not isinstance(priors, list | tuple):
        return priors
    found = dict[str, str]()
    for each in priors:
        name, tilde, density = each.rpartition("~") if isinstance(each, str) else ("", "", "")
        if not (tilde and name.strip() and density.strip()):
            raise ConfigError(
                f"prior {each!r}: write a name, ~ and a density, such as b ~ normal(0, 1)"
            )
        found[name.strip()] = density.strip()
    return found


def densities_of(priors: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the priors that are given as densities, not as numbers."""
    return {name: its for name, its in (priors or {}).items() if isinstance(its, str)}


def joined_formulas(reference: Any) -> Any:
    """Return a sequence of formulas as one text; return any other reference unchanged.

    Raises
    ------
    ConfigError
        If an element of the sequence is not a formula.
    """
    if not isinstance(reference, list | tuple):
        return reference
    for each in reference:
        if not is_formula(each):
            raise ConfigError(f"program {reference!r}: {each!r} is not a formula; write y ~ terms")
    return "; ".join(reference)


def write_new(files: Mapping[Path, str]) -> None:
    """Write files that do not exist yet.

    Raises
    ------
    ConfigError
        If one of them exists, in which case none is written, or if one cannot be written.
    """
    for path in files:
        if path.exists():
            raise ConfigError(f"{path} already exists; choose another name or move the file")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written ({error.strerror or error}); choose another place"
            ) from error


def _example(folder: Path, declared: Declaration, where: str) -> Path | None:
    """Return the table that a declaration names as its example; it must be in `folder`."""
    if not declared.example:
        return None
    path = folder / declared.example
    if not path.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(
            f"{where}: example {declared.example!r} is outside the program's folder; name a table "
            "in that folder"
        )
    return path
