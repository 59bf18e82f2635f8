"""mqlab show ID --parameters."""

from __future__ import annotations

import click

from mqlab.cli.options import print_json
from mqlab.model import Experiment
from mqlab.profiles import load_profile
from mqlab.progress import progress_bar
from mqlab.sensitivity import FACTOR, Move, Sensitivity, sensitivities

__all__ = ["show_parameters"]


def show_parameters(experiment: Experiment, profile_name: str, as_json: bool) -> None:
    """Prints each cost with its source and the rows that it moves."""
    profile = load_profile(profile_name)
    with progress_bar(True, "costs") as progress:
        found = sensitivities(experiment, profile, progress)
    if as_json:
        costs = [_document(item) for item in found]
        document = {"schema": "mqlab.parameters/1", "experiment": experiment.id, "profile": profile.name}
        print_json({**document, "factor": FACTOR, "costs": costs})
        return
    click.echo(f"{experiment.id}: rows that move when a cost of the profile {profile.name} rises by 10 %")
    for item in (item for item in found if item.moves):
        cost = item.cost
        fitted = f"; fitted on {', '.join(cost.fitted_on)}" if cost.fitted_on else ""
        mark = "  FUDGE: moves this measurement alone" if item.fudge else ""
        click.echo(f"\n{cost.name} = {cost.value:g} {cost.unit} ({cost.source}{fitted}){mark}")
        for move in item.moves:
            sides = (("before", move.before), ("after", move.after), ("ratio", move.ratio))
            shown = ", ".join(f"{name} {_percent(change)}" for name, change in sides if change is not None)
            click.echo(f"  {move.row:<36}{shown}")
    idle = [item.cost.name for item in found if not item.moves]
    if idle:
        click.echo(f"\n{len(idle)} other costs move no row of this thread.")


def _document(item: Sensitivity) -> dict[str, object]:
    def move(one: Move) -> dict[str, object]:
        return {"row": one.row, "before": one.before, "after": one.after, "ratio": one.ratio}

    cost = item.cost
    return {
        "name": cost.name,
        "value": cost.value,
        "unit": cost.unit,
        "source": cost.source,
        "fitted_on": list(cost.fitted_on),
        "moves": [move(m) for m in item.moves],
        "fudge": item.fudge,
    }


def _percent(change: float) -> str:
    return f"{change:+.2%}".replace("%", " %")
