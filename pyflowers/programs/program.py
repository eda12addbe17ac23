"""A program: a ``.stan`` file, how a table becomes its data, and its capabilities.

A shipped program and one of the user's own are the same type and are used in the same way; they
differ in the capabilities that they have.

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

from pyflowers.display import Line, Shown, heading
from pyflowers.errors import ConfigError, DataError
from pyflowers.programs.capabilities import Capabilities, Capability, Draws, MissingMoment
from pyflowers.programs.data import Data, as_table, check_shapes, read_data
from pyflowers.programs.declaration import Declaration, Parameter, variable_of
from pyflowers.programs.densities import PriorDensity, prior_density
from pyflowers.programs.source import Source, read_source
from pyflowers.records import read_toml

_PER_TIME = re.compile(r" per (\{group\} and )?\{time\}( and \{group\})?")


@dataclass(frozen=True, eq=False, repr=False)
class Program(Shown):
    """A Stan program and its declaration.

    Attributes
    ----------
    source : Source
        The ``.stan`` file and what it includes.
    declaration : Declaration
        What it says of data, dimensions, priors and roles.
    declared_in : str
        The declaration's file, for messages.
    reference : str
        What opens it again: the name of a shipped program, or a path.
    include_paths : tuple of Path
        Where included files are looked for.
    python : Capabilities
        What is written in Python for it.
    example : Path or None
        Data to use when none are given.
    withheld : mapping of Capability to str
        Capabilities that are withheld, each with the reason and what to do about it.
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
        formula = self.declaration.formula
        if formula is not None and self.python == Capabilities():
            from pyflowers.programs.formulas import digest_of
            from pyflowers.programs.formulas.predictions import capabilities_of

            rule = self.declaration.prediction
            if digest_of(self.source.text, rule) == formula.sha256:  # not edited since
                object.__setattr__(self, "python", capabilities_of(self.declaration))

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        include_paths: Sequence[str | Path] = (),
        declaration: Mapping[str, Any] | None = None,
        python: Capabilities | None = None,
    ) -> Program:
        """Open a ``.stan`` file with the declaration beside it.

        Parameters
        ----------
        path : str or Path
            The program.
        include_paths : sequence of path
            Where to look for included files after the program's own folder.
        declaration : mapping, optional
            Instead of ``NAME.toml``, the same as nested mappings.
        python : Capabilities, optional
            Likelihoods, closed forms and checks in Python.

        Raises
        ------
        ConfigError
            If the program or its declaration cannot be used.
        CompileError
            If an included file is missing.
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
            file.parent / declared.example if declared.example else None,
        )

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: Any,
        *,
        family: str = "gaussian",
        drop_missing: bool = False,
        centered: bool | Mapping[str, bool] | None = None,
        **reading: Any,
    ) -> Program:
        """Write the program of a formula for a table.

        Parameters
        ----------
        formula : str
            Such as ``"reaction ~ days + (days | subject)"``, see the guide to formulas.
        data : path, DataFrame or Table
            The table, on whose scales the priors are.
        family : str
            ``gaussian``, ``student``, ``lognormal``, ``gamma``, ``beta``, ``bernoulli``,
            ``binomial``, ``poisson``, ``negbinomial``, ``zero_inflated_poisson``,
            ``zero_inflated_negbinomial`` or ``cumulative``.
        drop_missing : bool
            Whether rows with missing values are left out; they are refused by default.
        centered : bool or mapping of str to bool, optional
            The parametrisation of the groups' effects, of all or by the group; chosen by the data
            by default.
        **reading
            ``sep``, ``decimal`` and ``encoding``, see :func:`pyflowers.data.read_table`.

        Raises
        ------
        ConfigError
            For a formula that cannot be read.
        DataError
            For a table that it cannot be fitted to.

        Examples
        --------
        >>> program = Program.from_formula(
        ...     "flowers ~ 1 + (1 | plant)", "data/flowers.csv", family="poisson"
        ... )
        >>> program.name
        'flowers_1_1_plant_poisson'
        """
        from pyflowers.programs.formulas import write_formula

        how = {name: value for name, value in reading.items() if value is not None}
        table = as_table(data, how)
        if table is None:
            raise DataError(f"formula {formula!r}: it needs a table; name one with --data")
        name, text, declaration = write_formula(
            formula, table, family, drop_missing=drop_missing, centered=centered
        )
        source = Source(Path(f"{name}.stan"), {f"{name}.stan": text.encode()})
        where = f"the declaration of {formula!r}"
        return cls(source, Declaration.parse(declaration, where), where, formula)

    def write(self, path: str | Path) -> Path:
        """Write the program and its declaration, to be edited.

        Parameters
        ----------
        path : str or Path
            A name that ends in ``.stan``; the declaration goes beside it, into ``.toml``.

        Returns
        -------
        Path
            The program.

        Raises
        ------
        ConfigError
            If it cannot be written, or a file of that name is there.
        """
        from pyflowers.programs.formulas import to_toml

        target = Path(path)
        if target.suffix != ".stan":
            raise ConfigError(f"{target}: a Stan program's name must end in .stan; rename it")
        declared = self.declaration.model_dump(mode="json", exclude_defaults=True)
        write_new({target: self.source.text, target.with_suffix(".toml"): to_toml(declared)})
        return target

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what a shipped program has in Python: functions without names do not pickle."""
        from pyflowers.programs.shipped import python_of

        is_shipped = self.python is python_of(self.reference)
        return {**self.__dict__, "python": None if is_shipped else self.python}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Find it again by the program's name."""
        from pyflowers.programs.shipped import python_of

        python = state["python"] or python_of(state["reference"])
        self.__dict__.update({**state, "python": python})

    @property
    def name(self) -> str:
        """The program's name: that of its file."""
        return self.source.name

    @property
    def path(self) -> Path:
        """The ``.stan`` file."""
        return self.source.path

    def contents(self) -> list[Line]:
        """Return the model, its hyperparameters, and what the program can do."""
        declared = self.declaration
        rows = {
            name: {"default": prior.value, "meaning": prior.description}
            for name, prior in declared.priors.items()
        }
        return [
            heading(self.name, self.about),
            *([declared.story] if declared.story else []),
            *([pd.DataFrame.from_dict(rows, orient="index").rename_axis("prior")] if rows else []),
            f"can: {', '.join(sorted(self.capabilities))}",
        ]

    @property
    def title(self) -> str:
        """A heading for it."""
        return self.declaration.title or f"The program {self.path.name}"

    @property
    def about(self) -> str:
        """One line for a terminal: the model's equation, or where the program is."""
        return self.declaration.equation or str(self.path)

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do."""
        has = {capability for capability in Capability if capability.is_had(self)}
        return frozenset(has - self.withheld.keys())

    def can(self, capability: Capability) -> bool:
        """Whether it has a capability."""
        return capability in self.capabilities

    def require(self, capability: Capability) -> None:
        """Refuse what the program lacks, naming what to add.

        Raises
        ------
        ConfigError
            If it lacks the capability.
        """
        if capability in self.withheld:
            raise ConfigError(
                f"{self.name} cannot be used for {capability.purpose}: {self.withheld[capability]}"
            )
        if not self.can(capability):
            raise ConfigError(
                f"{self.name} has no {capability}, needed for {capability.purpose}: "
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
        """Take data in any form, priors left out.

        Parameters
        ----------
        data : path, DataFrame, Table, Data, mapping or None
            A tidy table, or the data block as a mapping or CmdStan JSON; without, the example that
            comes with the program.
        columns : mapping of str to str, optional
            The table's names of the declaration's columns, where they differ; ``group``, ``time``
            and ``value`` stand for the columns in these roles.
        time_order : str
            ``value`` or ``appearance``.
        design_only : bool
            Whether to leave the observed values alone: their column is neither read nor needed,
            and their variable holds the smallest value allowed.
        **reading
            ``group``, ``time`` and ``value``, as in `columns`; ``drop_missing``, to leave out the
            rows that lack a value of a column that is used; ``sep``, ``decimal`` and
            ``encoding``, see :func:`pyflowers.data.read_table`.

        Raises
        ------
        DataError
            With one sentence, for anything wrong in the data.
        ConfigError
            If the declaration does not fit program and table.
        """
        return read_data(self, data, columns, time_order, design_only, reading)

    def resolve_priors(
        self, given: Mapping[str, float] | None = None, data: Data | None = None
    ) -> dict[str, float]:
        """Fill in the defaults and check what was given.

        Parameters
        ----------
        given : mapping of str to float, optional
            Hyperparameters to change.
        data : Data, optional
            Plain data, which may hold hyperparameters as well.

        Raises
        ------
        ConfigError
            For a name that the program does not have or a value out of its range.
        """
        if not isinstance(given, Mapping | None):
            raise ConfigError(
                f"priors: a {type(given).__name__} is not a mapping of names to numbers, such as "
                '{"mu_sd": 10}'
            )
        priors = self.declaration.priors
        values = {name: prior.value for name, prior in priors.items()}
        block, asked = {} if data is None or data.has_table else data.values, dict[str, Any]()
        for name, elements in self.declaration.prior_elements.items():
            if name in block and elements == [name]:
                asked[name] = block[name]
            elif name in block:
                asked |= dict(zip(elements, np.ravel(block[name]), strict=False))
        for name, value in (given or {}).items():
            is_vector = name not in priors and name in self.declaration.prior_elements
            elements = self.declaration.prior_elements[name] if is_vector else [name]
            asked |= dict.fromkeys(elements, value)
        for name, value in asked.items():
            if name not in priors:
                has = f"has no such prior; it has {', '.join(priors)}"
                none = (
                    "declares no priors; list those of its data block under [priors] in "
                    f"{self.declared_in}"
                )
                raise ConfigError(f"prior {name}: {self.name} {has if priors else none}")
            values[name] = self._checked_prior(name, value)
        self.python.check_priors(values)
        return values

    def _checked_prior(self, name: str, value: Any) -> float:
        """Return a hyperparameter; refuse what is no number or out of its range."""
        prior = self.declaration.priors[name]
        variable = self.source.blocks.data[variable_of(name)]
        lower = variable.lowest if prior.lower is None and prior.above is None else prior.lower
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value.item()
        is_finite = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if is_finite and variable.is_int and value != int(value):
            raise ConfigError(f"prior {name}: it must be a whole number, was {value!r}")
        limit = "" if lower is None else f" and at least {lower:g}"
        limit = limit if prior.above is None else f" and above {prior.above:g}"
        is_low = is_finite and lower is not None and value < lower
        if not is_finite or is_low or (prior.above is not None and value <= prior.above):
            raise ConfigError(f"prior {name}: it must be a finite number{limit}, was {value!r}")
        return float(value)

    def fill(
        self,
        data: Data,
        priors: Mapping[str, float],
        *,
        centered: bool | Mapping[str, bool] | None = None,
    ) -> tuple[Data, list[str]]:
        """Complete the data block with priors and choices, and check it as a whole.

        Parameters
        ----------
        data : Data
            As :meth:`read` returns it.
        priors : mapping
            As :meth:`resolve_priors` returns them.
        centered : bool or mapping of str to bool, optional
            The parametrisation, for programs with ``int centered`` in their data, or with one
            ``int centered_g`` for each group ``g``; by default the data choose.

        Returns
        -------
        data : Data
            The whole data block.
        notes : list of str
            What qualifies it.

        Raises
        ------
        ConfigError
            If the program has no choice that was made.
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
            is_table = not data.has_table and len(shapes) == 1 and () not in shapes
            of_table = "; if they are a table, give pandas.DataFrame(...)" if is_table else ""
            raise DataError(
                f"{source}: the data variable {missing[0]} is missing, which {self.path.name} "
                f"declares; add it{of_table}"
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
        """The variables of the data block that choose one, 0 or 1, by the group's name in it."""
        return {
            name.removeprefix("centered_"): name
            for name, variable in self.source.blocks.data.items()
            if re.fullmatch("centered(_.+)?", name) and variable.is_int and not variable.ndim
        }

    def parametrisation(self, centered: bool | Mapping[str, bool] | None) -> dict[str, int]:
        """Return the variables of the data block that choose a parametrisation.

        Parameters
        ----------
        centered : bool, mapping of str to bool, or None
            As :meth:`fill` takes it.

        Raises
        ------
        ConfigError
            If the program has no such choice.
        """
        if centered is None:
            return {}
        choices, data = self.parametrisations, self.declaration.data
        named = {str(d.index_of): choices[n] for n, d in data.items() if n in choices}
        if not choices:
            raise ConfigError(
                f"centered: {self.name} has no such choice; it would be int centered in its data "
                "block"
            )
        asked = centered if isinstance(centered, Mapping) else dict.fromkeys(choices, centered)
        named |= choices
        for name, value in asked.items():
            if name not in named:
                known = ", ".join(choices)
                raise ConfigError(f"centered {name}: the groups that have a choice are {known}")
            if not isinstance(value, bool | np.bool_):
                raise ConfigError(f"centered must be True or False, was {value!r}")
        return {named[name]: int(value) for name, value in asked.items()}

    def prior_values(self, priors: Mapping[str, float]) -> dict[str, Any]:
        """Return the variables of the data block that priors give.

        Parameters
        ----------
        priors : mapping
            As :meth:`resolve_priors` returns them: the elements of a vector apart.
        """
        found: dict[str, Any] = {}
        for name, elements in self.declaration.prior_elements.items():
            variable = self.source.blocks.data[name]
            values = np.array([priors[element] for element in elements])
            typed = values.astype(np.int64) if variable.is_int else values
            found[name] = typed if variable.ndim else typed.item()
        return found

    def stan_values(self, data: Data) -> dict[str, Any]:
        """Return the data block alone, without other columns of the table."""
        return {name: data.values[name] for name in self.source.blocks.data}

    def log_lik(
        self, draws: Draws, data: Data, rows: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return log p(y[n] | draw), shape (chain, draw, N).

        Parameters
        ----------
        draws : mapping of str to array, shape (chain, draw, …)
            Draws of the program's quantities.
        data : Data
            The filled data block.
        rows : array of int, optional
            Positions of observations; only theirs are returned, in this order.

        Raises
        ------
        ConfigError
            If the program has no ``log_lik``.
        """
        self.require(Capability.LOG_LIK)
        if self.python.pointwise is not None:
            return self.python.pointwise.log_lik(draws, data if rows is None else data.at(rows))
        return _by_observation(draws[self.declaration.roles.log_lik], rows)

    def y_rep(
        self,
        draws: Draws,
        data: Data,
        rng: np.random.Generator,
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return replicated data, shape (chain, draw, N).

        Parameters
        ----------
        draws, data, rows
            See :meth:`log_lik`.
        rng : Generator
            Where the program is written in NumPy; what Stan has drawn is taken as it is.

        Raises
        ------
        ConfigError
            If the program has no ``y_rep``.
        """
        self.require(Capability.Y_REP)
        if self.python.pointwise is not None:
            return self.python.pointwise.y_rep(draws, data if rows is None else data.at(rows), rng)
        return _by_observation(draws[self.declaration.roles.y_rep], rows)

    def lprior(self, draws: Draws, data: Data) -> NDArray[np.float64]:
        """Return the log density of the priors, shape (chain, draw).

        Raises
        ------
        ConfigError
            If the program has no ``lprior``.
        """
        self.require(Capability.LPRIOR)
        prior = self.python.prior
        if prior is not None and prior.log_density is not None:
            return prior.log_density(draws, data)
        # A vector holds the terms of the sum.
        terms = _by_observation(draws[self.declaration.roles.lprior])
        return np.asarray(terms.sum(axis=-1))

    def missing_moments(self, data: Data) -> Sequence[MissingMoment]:
        """Say which moments of the posterior do not exist."""
        return self.python.missing_moments(data)

    @property
    def counts(self) -> bool:
        """Whether what is observed is whole numbers."""
        observed = self.source.blocks.data.get(self.declaration.roles.observed)
        return observed is not None and observed.is_int

    @property
    def internal(self) -> frozenset[str]:
        """Quantities of a draw that are not the posterior's: omitted ones and predictions."""
        roles = self.declaration.roles
        predictions = (roles.y_rep, roles.y_new, roles.y_new_group)
        return frozenset((*self.declaration.omit, roles.log_lik, roles.lprior, *predictions))

    def kept(self) -> list[str]:
        """Return the quantities of a draw that are read: all that are not omitted.

        They are in the program's order, or, if all are under ``[parameters]``, in the order there.
        """
        drawn = [n for n in self.source.blocks.draws if n not in self.declaration.omit]
        declared = [n for n in self.declaration.parameters if n in drawn]
        is_whole = self.internal.issuperset(set(drawn) - set(declared))
        return list(dict.fromkeys([*declared, *drawn])) if is_whole else drawn

    def declares_prior(self, parameter: str) -> bool:
        """Whether a parameter, or each element of it, has a declared prior."""
        return bool(self._about(parameter).prior)

    def prior_of(self, parameter: str, values: Mapping[str, Any]) -> PriorDensity | None:
        """Return the declared prior of a parameter or of an element; None if there is none.

        Of a vector whose elements have priors of their own there is one for each element only.
        """
        prior = self._about(parameter).prior
        if not prior:
            return None
        _, _, label = parameter.partition("[")
        of_element, elements = dict(values), self.declaration.prior_elements
        for name in re.findall(r"\w+", prior):
            if np.ndim(values.get(name, 0.0)):
                own = f"{name}[{label}"
                if own not in elements.get(name, ()):
                    return None
                of_element[name] = np.ravel(values[name])[elements[name].index(own)]
        variable = self.source.blocks.draws.get(variable_of(parameter))
        return prior_density(prior, of_element, variable.lowest if variable else None)

    def improper_priors(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Return the parameters whose prior is improper, each with a remedy.

        Parameters
        ----------
        values : mapping
            The data block, hyperparameters included.
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
        if self.python.prior is not None:
            return found
        prior_only = self.declaration.roles.prior_only
        for name in self.source.flat_parameters(prior_only):
            if declared.get(name) is None:
                found[name] = (
                    "it has a flat prior on an unbounded support; add one to the model, "
                    f"outside the guard of {prior_only}, such as {name} ~ normal(0, 1)"
                )
        return found

    def prior_on_scale(self, parameter: str, data: Data) -> str:
        """Say how to give a parameter, which declares its prior, one on the scale of the data."""
        y = data.y
        seen = f"the values of {data.value_name} have mean {y.mean():.4g} and sd {y.std():.3g}; "
        advice = (seen if y.size else "") + "choose a prior by what is known beforehand"
        suggested, names = self.python.priors_on_scale(data), self._hyperparameters(parameter)
        if suggested.keys() & names:
            options = " ".join(f"--prior {name}={value:g}" for name, value in suggested.items())
            return f"{advice}, or a wide one on the scale of the data: {options}"
        if not names:
            return f"{advice}: change it in {self.path.name} and in {self.declared_in}"
        return f"{advice}, with {' and '.join(f'--prior {name}=…' for name in names)}"

    def log_axis(self, parameter: str) -> bool | None:
        """Whether a parameter belongs on a logarithmic axis; None if the draws are to say."""
        return self._about(parameter).log_axis

    def unit_of(self, parameter: str, data: Data) -> str:
        """Return the unit of a parameter in the user's words; empty if none is declared."""
        unit = self._about(parameter).unit
        if not data.time:
            unit = _PER_TIME.sub("", unit)
        names = (data.value_name, data.name_of(data.group), data.name_of(data.time))
        for role, name in zip(("value", "group", "time"), names, strict=True):
            unit = unit.replace(f"{{{role}}}", name)
        return re.sub(r"^\((\w+)\)²$", r"\1²", unit)

    def description_of(self, parameter: str) -> str:
        """Return what a parameter means; empty if nothing is declared."""
        return self._about(parameter).description

    def _about(self, parameter: str) -> Parameter:
        """Return what is declared of a parameter or of the one that it is an element of."""
        declared, name = self.declaration.parameters, parameter.partition("[")[0]
        # A posterior calls `draw` and `chain` by these names and an underline.
        return declared.get(name) or declared.get(name.rstrip("_"), Parameter())

    def _hyperparameters(self, parameter: str) -> list[str]:
        """Return the hyperparameters in the prior of a parameter or of an element."""
        words, label = re.findall(r"\w+", self._about(parameter).prior), parameter.partition("[")[2]
        own = {*words, *(f"{word}[{label}" for word in words)}
        return [name for name in self.declaration.priors if name in own]


def is_formula(reference: object) -> bool:
    """Whether what names a program is a formula: a text with a tilde in it."""
    return isinstance(reference, str) and "~" in reference


def write_new(files: Mapping[Path, str]) -> None:
    """Write files that do not exist yet.

    Raises
    ------
    ConfigError
        If one does; then none is written.
    """
    for path in files:
        if path.exists():
            raise ConfigError(f"{path}: it already exists; choose another name or move the file")
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(
                f"{path}: it cannot be written ({error.strerror or error}); choose another place"
            ) from error


def _by_observation(
    values: NDArray[Any], rows: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return values shaped (chain, draw, N), whatever the shape of the observed data."""
    flat = values.reshape(*values.shape[:2], -1)
    return np.asarray(flat if rows is None else flat[..., rows], dtype=np.float64)
