"""Many designs at once come to what each comes to by itself."""

from __future__ import annotations

from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest

from dovetail.cost.area import silicon
from dovetail.cost.inventory import inventory
from dovetail.cost.price import price
from dovetail.cost.tdp import tdp
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.chip import load_chip
from dovetail.files.mining import MineOverrides, load_mining
from dovetail.hardware.catalog import chips
from dovetail.hardware.template import Design, design_of, template_chip
from dovetail.report.silicon import silicon_record
from dovetail.search.designs import Limits, Silicon, design_at, design_columns, design_space, silicon_at, silicon_of

BASE = chips["tpuv2-like"]()


TEMPLATES = tuple(name for name in chips.names() if chips[name]().tensor.tiling.is_array)
SPARES: tuple[dict[str, Any], ...] = (
    {},
    {"spare_core_frac": 0.25},
    {"num_fp64_lanes": 64},
    {"spare_core_frac": 0.1, "num_fp64_lanes": 3},
)


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("die", SPARES)
def test_a_table_of_designs_has_the_silicon_of_each(name, die):
    space, rng, base = design_space(), Random(5), chips[name]()
    base = replace(base, die=replace(base.die, **die))
    designs = [design_at(space, space.sample(rng)) for _ in range(20)]
    table = silicon_of(base, designs)
    for row, design in enumerate(designs):
        chip = template_chip(base, design)
        assert table.area_mm2[row] == pytest.approx(silicon(inventory(chip)).total_mm2, rel=1e-12)
        assert table.power_w[row] == pytest.approx(tdp(chip).total_w, rel=1e-12)
        assert table.price_usd[row] == pytest.approx(price(chip).total_usd, rel=1e-12)


@pytest.mark.parametrize("die", ["", "{spare_core_frac: 0.25}", "{fp64_lanes: 64}", "{spare_sram_frac: 0.2}"])
def test_a_base_file_has_the_silicon_that_it_is_shown_with(tmp_path, die):
    path = tmp_path / "base.yaml"
    path.write_text("base: tpuv2-like\nname: changed\n" + (f"die: {die}\n" if die else ""))
    base = load_chip(str(path))
    shown, table = silicon_record(base), silicon_of(base, [design_of(base)])
    assert table.area_mm2[0] == pytest.approx(shown["total_mm2"], rel=1e-12)
    assert table.power_w[0] == pytest.approx(shown["predicted_tdp_w"], rel=1e-12)
    assert table.price_usd[0] == pytest.approx(shown["total_usd"], rel=1e-12)


def test_a_base_with_an_area_model_that_designs_are_not_sized_by_is_refused(tmp_path):
    path = tmp_path / "base.yaml"
    path.write_text("base: tpuv2-like\ndie: {area_model: phaze-22nm}\n")
    with pytest.raises(NotModelled, match=r"sized by the area model dovetail, and .* by phaze-22nm; set area_model"):
        silicon_of(load_chip(str(path)), [design_of(BASE)])
    with pytest.raises(NotModelled, match="area model dovetail"):
        load_mining("bert-base", MineOverrides(base=str(path), batch=1))


def test_the_design_of_a_chip_gives_the_chip_again():
    again = template_chip(BASE, design_of(BASE))
    assert (again.tensor, again.vector, again.die, again.core_buffer_bytes) == (
        BASE.tensor,
        BASE.vector,
        BASE.die,
        BASE.core_buffer_bytes,
    )


def test_the_excess_is_that_of_the_limit_broken_most():
    table = silicon_of(BASE, [design_of(BASE)])
    area_mm2, power_w = float(table.area_mm2[0]), float(table.power_w[0])
    assert table.excess_frac(Limits(area_mm2=area_mm2, power_w=power_w))[0] == 0
    assert table.excess_frac(Limits(area_mm2=area_mm2 / 2, power_w=power_w / 1.5))[0] == pytest.approx(1.0)


def test_a_design_without_cores_is_refused():
    with pytest.raises(InvalidInput, match="num_vector must be at least 1; got 0"):
        Design(num_tensor=1, num_rows=4, num_cols=4, num_vector=0, num_lanes=4)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(InvalidInput, match="area_mm2 must be positive"):
        Limits(area_mm2=0, power_w=280)


def test_designs_as_columns_have_the_silicon_of_designs_as_objects():
    space, rng = design_space(), Random(5)
    points = [space.sample(rng) for _ in range(30)]
    columns = design_columns(space, points)
    designs = [design_at(space, point) for point in points]
    assert {name: column.tolist() for name, column in columns.items()} == {
        name: [getattr(design, name) for design in designs] for name in columns
    }
    by_columns, by_objects = silicon_at(BASE, columns), silicon_of(BASE, designs)
    for field in fields(Silicon):
        assert getattr(by_columns, field.name).tolist() == getattr(by_objects, field.name).tolist()
