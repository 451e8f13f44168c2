from __future__ import annotations

import pytest

from dovetail.accuracy.prepared import StepFigures, TableContext
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.sets.forward_backward import passes_of
from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.catalog import chips
from tests.unit.accuracy.tables import table

H100 = "NVIDIA_H100_80GB_HBM3"


def rows(*lines: str):
    return table("\n".join(("device,model,batch,seq,parallel,fwd_bwd_ms", *lines)), "passes")


def recorder(asked):
    """Records nothing: a sample of a batch takes a tenth of a second."""

    def recorded(cases, chip):
        asked.extend((case.model, case.batch, chip.name) for case in cases)
        assert all(case.is_fp32 and not case.has_update and case.config for case in cases)
        return [
            NotModelled("no") if case.model == "opt_13" else StepFigures(step_s=case.batch / 10, peak_bytes=1.0)
            for case in cases
        ]

    return recorded


def test_rows_are_of_the_chip_that_drivers_call_so_and_others_are_counted():
    asked: list[tuple[str, int, str]] = []
    [found] = prepared(
        rows(
            f"{H100},gpt2_large,4,1024,,400",
            "AMD_Instinct_MI100,bert_large,8,512,,400",
            f"{H100},switchxl4,1,512,,400",
            f"{H100},opt_13,1,2048,,400",
        ),
        TableContext(record_steps=recorder(asked)),
    )
    assert ("gpt2_large", 4, "h100-sxm") in asked
    assert found.measured.tolist() == [0.4]
    assert found.predicted(found.chip).tolist() == [0.4]
    assert found.kinds == ("h100-sxm",)
    assert [words.split(",")[0].split(":")[0] for words, _ in found.skipped] == [
        "opt_13 b1 s2048",
        "rows of AMD_Instinct_MI100",
        "rows of switchxl4",
    ]


def test_replicas_share_the_batch_and_wait_for_the_last_gradients():
    row = passes_of("gpt2_large", 16, 1024, "dp4")
    assert row is not None
    assert row.case.batch == 4
    chip = chips["h100-sxm"]()
    table_bytes = 4 * 50257 * 1280
    assert row.whole_s(1.0, chip) == pytest.approx(1 + 1.5 * table_bytes / (450e9 * 0.8))


def test_stages_follow_each_other_microbatch_by_microbatch():
    one, four = passes_of("gpt2_large", 16, 1024, "pp4_1"), passes_of("gpt2_large", 16, 1024, "pp4_4")
    assert one is not None
    assert four is not None
    chip = chips["h100-sxm"]()
    sent_s = 6 * 4 * 1024 * 1280 / (450e9 * 0.8)
    assert (one.case.batch, four.case.batch) == (16, 4)
    assert one.whole_s(1.0, chip) == pytest.approx(1 + 16 * sent_s)
    assert four.whole_s(1.0, chip) == pytest.approx(7 / 4 + 4 * sent_s)


@pytest.mark.parametrize("parallel", ["tp4", "dp3", "pp4_0", "4"])
def test_what_is_not_known_of_a_row_leaves_it_out(parallel):
    assert passes_of("gpt2_large", 16, 1024, parallel) is None


def test_a_chip_that_is_given_is_that_of_every_row():
    asked: list[tuple[str, int, str]] = []
    given = TableContext(record_steps=recorder(asked), chip=chips["l40s"]())
    prepared(rows("AMD_Instinct_MI100,bert_large,8,512,,400"), given)
    assert asked == [("bert_large", 8, "l40s")]


def test_the_format_is_known_by_its_columns_and_needs_a_recorder():
    measured = rows(f"{H100},gpt2_large,4,1024,,400")
    assert format_of(measured) == "forward-backward"
    with pytest.raises(InvalidInput, match="recorded by dovetail validate"):
        prepared(measured, TableContext())
