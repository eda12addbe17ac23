"""Which examples need a compiler."""

from pyflowers.lectures import Settings, measures


def test_nuts_without_advi_asks_for_no_engine(monkeypatch):
    asked = []
    monkeypatch.setattr(measures, "fit", lambda *_, **options: asked.append(options))
    measures.nuts("normal_mixture_density", {}, Settings(seed=1), draws=10)
    measures.nuts("gaussian_mixture", {}, Settings(seed=1), engine=measures.OF_ADVI)
    assert [options.get("engine") for options in asked] == [None, "cmdstan"]
