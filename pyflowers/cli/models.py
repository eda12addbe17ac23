"""``pyflowers models``: what there is to fit."""

from __future__ import annotations

import click


@click.command("models")
def command() -> None:
    """List the models, their priors and their programs."""
    from pyflowers.models import MODELS

    for model in MODELS.values():
        click.echo(click.style(model.name, bold=True) + f"  {model.equation}")
        click.echo(f"  {model.story}")
        for name, prior in model.priors.items():
            click.echo(f"    --prior {name}={prior.default:g}  {prior.description}")
        click.echo(f"  {model.program}\n")
