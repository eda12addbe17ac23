"""InferenceData: groups, dimensions and the user's labels, for any program."""

import numpy as np
import pandas as pd
import pytest
from arviz_calls import IS_1, names_of_groups
from own_programs import DECLARATION, TRIAL, visits
from synthetic_fits import synthetic_fit, table

from pyflowers.errors import DataError
from pyflowers.fits import idata
from pyflowers.fits.posterior import dataset, element_names, flat, stacked
from pyflowers.programs import Data
from pyflowers.programs.data import to_frame
from pyflowers.resources import arviz

DIMS = {"chain": 4, "draw": 1000}


def test_the_groups_carry_the_users_labels(lecture_fits):
    found = lecture_fits["multilevel_normal"].idata
    assert names_of_groups(found) == {
        *("posterior", "posterior_predictive", "log_likelihood", "sample_stats"),
        *("observed_data", "constant_data"),
    }
    assert dict(found.posterior.sizes) == {**DIMS, "plant": 3}
    assert list(found.posterior) == ["mu", "sigma2", "mu_plant", "sigma2_plant"]
    assert found.posterior["plant"].values.tolist() == ["1", "2", "3"]
    observed = found.observed_data["y"]
    assert observed["plant"].values.tolist() == list("111122223333")
    assert observed["month"].values.tolist() == list("123412341234")
    assert found.log_likelihood["y"].dims == ("chain", "draw", "obs")
    assert found.posterior_predictive["y"]["plant"].values.tolist() == list("111122223333")
    assert found.sample_stats["diverging"].dtype == bool
    assert found.sample_stats["tree_depth"].dtype == np.int64
    assert {"lp", "acceptance_rate", "step_size", "n_steps", "energy"} <= set(found.sample_stats)


def trial_groups(own_program):
    """Return the groups of a user program with invented draws."""
    program = own_program("trial", TRIAL, DECLARATION)
    whole, _ = program.fill(program.read(visits()), program.resolve_priors())
    rng, shape = np.random.default_rng(1), (2, 3)
    draws = {
        "alpha": rng.normal(size=(*shape, 2)),
        "beta": rng.normal(size=(*shape, 2)),
        "tau": rng.gamma(2, size=shape),
        "lprior": rng.normal(size=shape),
        "log_lik": rng.normal(size=(*shape, 5)),
        "y_sim": rng.poisson(3, size=(*shape, 5)),
    }
    stats = {"lp__": rng.normal(size=shape), "divergent__": np.zeros(shape)}
    return program, whole, draws, stats


def test_a_declared_program_has_the_groups_of_its_roles(own_program):
    program, whole, draws, stats = trial_groups(own_program)
    groups = idata.to_groups(program, whole, draws, stats)
    assert set(groups) == {
        *("posterior", "sample_stats", "observed_data", "constant_data"),
        *("log_likelihood", "posterior_predictive", "log_prior"),
    }
    assert list(groups["posterior"]) == ["alpha", "beta", "tau"]
    assert groups["posterior"]["x"].values.tolist() == ["treated", "base"]
    assert groups["posterior"]["alpha"].sel(patient="Bob").values.tolist() == (
        draws["alpha"][..., 1].tolist()
    )
    predicted = groups["posterior_predictive"]["y"]
    assert predicted.dims == ("chain", "draw", "obs")
    assert predicted.dtype == np.int64
    assert predicted["visit"].values.tolist() == ["2", "1", "1", "2", "10"]
    assert groups["log_prior"]["lprior"].dims == ("chain", "draw")
    assert groups["observed_data"]["y"].values.tolist() == [5, 2, 3, 0, 4]
    constant = groups["constant_data"]
    assert constant["age"].dims == ("patient",)
    assert constant["x_data"].dims == ("obs", "x")
    assert constant["tau_scale"].item() == 1.0


def test_groups_come_back_from_bytes(own_program, tmp_path):
    program, whole, draws, stats = trial_groups(own_program)
    path = tmp_path / "draws.nc"
    path.write_bytes(idata.to_bytes(idata.to_groups(program, whole, draws, stats)))
    fit = synthetic_fit("multilevel_poisson", table(["a"], 2), draws=3, chains=2)
    about = fit.record.data.model_copy(update={"columns": dict(whole.columns)})
    record = fit.record.model_copy(update={"data": about})
    with path.open("rb") as file, idata.opened(file, path) as groups:
        again, again_stats = idata.draws_of(groups, program, record, path)
        data = idata.data_of(groups, program, record, path)
    assert again.keys() == draws.keys()
    for name, values in draws.items():
        assert np.array_equal(again[name], values)
    assert np.array_equal(again_stats["lp__"], stats["lp__"])
    assert set(data.values) == set(whole.values)
    for name, value in whole.values.items():
        assert np.array_equal(data.values[name], value), name
    assert data.by_group.names == whole.by_group.names
    assert data.by_time.codes.tolist() == whole.by_time.codes.tolist()
    assert data.coords == whole.coords
    pd.testing.assert_frame_equal(to_frame(data), to_frame(whole), check_dtype=False)
    with pytest.raises(DataError, match="the data cannot be read"):
        idata.data_of({}, program, record, path)


def test_arviz_reads_what_is_written(own_program, tmp_path):
    program, whole, draws, stats = trial_groups(own_program)
    path = tmp_path / "draws.nc"
    groups = idata.to_groups(program, whole, draws, stats)
    path.write_bytes(idata.to_bytes(groups))
    read = arviz().from_netcdf(path)
    assert names_of_groups(read) == set(groups)
    assert (
        read["posterior"].to_dataset().equals(groups["posterior"])
        if IS_1
        else read.posterior.equals(groups["posterior"])
    )


@pytest.mark.quick
def test_the_file_is_as_if_xarray_had_written_it(own_program, tmp_path):
    import h5py
    import xarray as xr

    program, whole, draws, stats = trial_groups(own_program)
    draws["empty"] = np.empty((2, 3, 0))
    groups = idata.to_groups(program, whole, draws, stats)
    (tmp_path / "ours.nc").write_bytes(idata.to_bytes(groups))
    datasets = {f"/{name}": each for name, each in groups.items()}
    xr.DataTree.from_dict(datasets).to_netcdf(tmp_path / "theirs.nc", engine="h5netcdf")
    computed, reference = (
        xr.load_datatree(tmp_path / f"{name}.nc", engine="h5netcdf") for name in ("ours", "theirs")
    )
    assert computed.children.keys() == reference.children.keys()
    for name, each in reference.children.items():
        xr.testing.assert_identical(computed[name].to_dataset(), each.to_dataset())
        for variable in each.variables:
            assert computed[name][variable].dtype == each[variable].dtype
    for name in ("ours", "theirs"):
        path = tmp_path / f"{name}.nc"
        with path.open("rb") as file, idata.opened(file, path) as read:
            for group, its in read.items():
                assert its.keys() == groups[group].variables.keys()
                for variable, values in its.items():
                    assert values.dtype == groups[group][variable].dtype
                    np.testing.assert_array_equal(values, groups[group][variable].values)
    with (
        h5py.File(tmp_path / "ours.nc") as computed,
        h5py.File(tmp_path / "theirs.nc") as reference,
    ):
        for group in reference:
            assert set(computed[group]) == set(reference[group])
            for name, variable in reference[group].items():
                assert computed[group][name].dtype == variable.dtype
                fills = [each.attrs.get("_FillValue") for each in (computed[group][name], variable)]
                assert np.array_equal(*fills, equal_nan=True) if fills[1] is not None else True
                about = [
                    each.attrs.get("coordinates") for each in (computed[group][name], variable)
                ]
                assert about[0] == about[1]


def test_elements_are_named_in_row_major_order():
    data = Data({}, dims={"m": ("row", "x")}, coords={"x": ("a", "b")})
    values = np.arange(2 * 3 * 2 * 2.0).reshape(2, 3, 2, 2)
    both = dataset({"s": values[..., 0, 0], "m": values}, data)
    elements = ["m[1,a]", "m[1,b]", "m[2,a]", "m[2,b]"]
    assert element_names(both["m"]) == elements
    assert np.array_equal(flat(both["m"])[..., 2], values[..., 1, 0])
    assert element_names(both) == ["s", *elements]
    assert stacked(both).shape == (2, 3, 5)
    assert np.array_equal(stacked(both)[..., 3], values[..., 1, 0])


def test_a_dimension_of_another_size_is_numbered():
    """Labels that do not fit are not used: a wrong name is worse than a number."""
    data = Data({}, dims={"v": ("x",)}, coords={"x": ("a", "b")})
    found = dataset({"v": np.zeros((1, 1, 3))}, data)["v"]
    assert (found.dims[2:], element_names(found)) == (("v_dim_0",), ["v[1]", "v[2]", "v[3]"])
    deeper = dataset({"v": np.zeros((1, 1, 2, 2))}, data)["v"]
    assert deeper.dims[2:] == ("v_dim_0", "v_dim_1")


def test_groups_that_are_too_large_for_idata_are_named_in_the_log(monkeypatch, caplog):
    fit = synthetic_fit("multilevel_poisson", table(["a", "b"], 3))
    with caplog.at_level("WARNING", logger="pyflowers"):
        assert fit.idata is not None
        assert not caplog.messages
    monkeypatch.setattr("pyflowers.fits.fit.LARGEST_GROUP", 10)
    again = synthetic_fit("multilevel_poisson", table(["a", "b"], 3))
    with caplog.at_level("WARNING", logger="pyflowers"):
        assert again.idata is not None
    (message,) = caplog.messages
    assert "idata has no log_likelihood and no posterior_predictive, as each would" in message
