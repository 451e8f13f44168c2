from __future__ import annotations

from dataclasses import replace

from dovetail.files.chip import load_chip
from dovetail.files.chip_text import calibrated_text
from dovetail.hardware.catalog import chips


def test_a_calibrated_chip_comes_back_from_its_file(tmp_path):
    base = chips["h200-sxm"]()
    fitted = replace(base.calibration, tensor_frac=0.5, launch_s=8e-6, fitted_on="it's mine: 3 rows")
    chip = replace(base, name="mine", calibration=fitted)
    file = tmp_path / "mine.yaml"
    names = ("tensor_frac", "launch_s")
    file.write_text(calibrated_text(chip, "h200-sxm", names, fitted.fitted_on, file), encoding="utf-8")
    found = load_chip(str(file))
    assert found.name == "mine"
    assert found.calibration == fitted
    assert found.hbm == base.hbm


def test_a_chip_on_a_chip_of_ones_own_names_its_file_from_where_it_lies(tmp_path):
    (tmp_path / "chips").mkdir()
    mine = tmp_path / "mine.yaml"
    mine.write_text("base: h100-sxm\nname: mine\nhbm: {capacity: 96 GiB}\n", encoding="utf-8")
    out = tmp_path / "chips" / "fitted.yaml"
    chip = load_chip(str(mine))
    chip = replace(chip, name="fitted", calibration=replace(chip.calibration, hbm_frac=0.7))
    out.write_text(calibrated_text(chip, str(mine), ("hbm_frac",), "x", out), encoding="utf-8")
    found = load_chip(str(out))
    assert found.calibration.hbm_frac == 0.7
    assert found.hbm.capacity_bytes == chip.hbm.capacity_bytes
