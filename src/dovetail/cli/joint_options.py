"""The options that every joint search has, `dovetail codesign` and `pareto`; importing them takes no time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dovetail.files.codesign import CodesignSaid

SPEC_HELP = "A model (name, file or config.json), or a spec with models, chip, devices, budget and plans."
PRESET_HELP = "The space of systems: chip (cores and memories), cores (WHAM's), phaze (its 29,360 chips)."
BASE_HELP = "The template chip that systems are built on; the space's own, if none."
NETWORK_HELP = "torus or flat; the space's own, if none."
DEVICES_HELP = "How many devices there are; as many as the space says, if left out."
ENDPOINT_HELP = "Who runs collectives, one or some to choose from, such as sm,dma,ace; the base's, if left out."
AREA_HELP = "Silicon of a chip at the most, such as '600 mm2'; a reticle, if left out, and no limit in space phaze."
POWER_HELP = "Power of a chip with everything busy at the most, such as '300 W'; no limit, if left out."
STORE_HELP = "Keep every system that was scored in this file, and go on from there another time."

Spec = Annotated[str, typer.Argument(metavar="[MODEL|SPEC]", help=SPEC_HELP)]
Preset = Annotated[str, typer.Option(metavar="NAME", help=PRESET_HELP)]
Base = Annotated[str, typer.Option(metavar="CHIP", help=BASE_HELP)]
Network = Annotated[str, typer.Option(metavar="NAME", help=NETWORK_HELP)]
Devices = Annotated[str | None, typer.Option(metavar="N", help=DEVICES_HELP)]
Endpoint = Annotated[str, typer.Option(metavar="NAMES", help=ENDPOINT_HELP)]
Area = Annotated[str, typer.Option(metavar="AREA", help=AREA_HELP)]
Power = Annotated[str, typer.Option(metavar="POWER", help=POWER_HELP)]
Batch = Annotated[str | None, typer.Option(metavar="N", help="Samples of one step.")]
Seq = Annotated[str | None, typer.Option(metavar="N", help="Positions of one sample.")]
Store = Annotated[str, typer.Option(metavar="FILE", help=STORE_HELP)]


def said_of(
    *,
    preset: str,
    base: str,
    network: str,
    devices: str | None,
    endpoint: str,
    area: str,
    power: str,
    batch: str | None,
    seq: str | None,
) -> CodesignSaid:
    """What was typed in place of a spec, with counts read."""
    from dovetail.api.arguments import count
    from dovetail.files.codesign import CodesignSaid

    return CodesignSaid(
        preset=preset,
        base=base,
        network=network,
        devices=count("--devices", devices),
        endpoint=endpoint,
        area=area,
        power=power,
        batch=count("--batch", batch),
        seq=count("--seq", seq),
    )
