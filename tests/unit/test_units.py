from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail import units
from dovetail.errors import InvalidInput
from dovetail.units import (
    count_of,
    format_bytes,
    format_count,
    format_duration,
    format_energy_j,
    format_rate,
    format_rounded_s,
    format_s,
    quantity,
)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("80 GiB", "bytes", 80 * 2**30),
        ("80 GB", "bytes", 80_000_000_000),
        ("64KiB", "bytes", 65536),
        ("900 GB/s", "bytes_per_s", 900_000_000_000),
        ("400 Gb/s", "bytes_per_s", 50_000_000_000),
        ("400 Gbps", "bytes_per_s", 50_000_000_000),
        ("1.98 GHz", "hz", 1_980_000_000),
        ("1.5 us", "s", 0.0000015),
        ("1.5 µs", "s", 0.0000015),
        ("989 TFLOP/s", "flop_per_s", 989_000_000_000_000),
        ("1,979 TFLOPS", "flop_per_s", 1_979_000_000_000_000),
        ("700 W", "w", 700),
        ("814 mm2", "mm2", 814),
        ("2e3 B", "bytes", 2000),
        ("1,234,567.5 B", "bytes", 1_234_567.5),
        ("1_000_000 B", "bytes", 1_000_000),
        (".5 GB", "bytes", 500_000_000),
        ("2. PiB", "bytes", 2 * 2**50),
    ],
)
def test_quantities_are_read_as_people_write_them(text: str, unit: str, value: float) -> None:
    assert quantity(text, unit) == pytest.approx(value)


@pytest.mark.parametrize(
    "given_value", ["80", 80, 80.0, True, None, "", "GiB", "80 Gib/s/s", "80 gib", "nan GB", "inf GB", "1e999 GB"]
)
def test_a_quantity_without_its_unit_or_sense_is_refused(given_value: object) -> None:
    with pytest.raises(InvalidInput, match=r"80 GiB|finite"):
        quantity(given_value, "bytes")


def test_a_rate_is_not_a_size() -> None:
    with pytest.raises(InvalidInput, match="'GB/s' is not a unit of this quantity; write it as in '80 GiB'"):
        quantity("80 GB/s", "bytes")


@pytest.mark.parametrize(
    ("text", "way_out"),
    [("1,5 TiB", "'1.5 TiB'"), ("0,75 TiB", "'0.75 TiB'"), (",5 TiB", "'.5 TiB'"), ("1,5e3 GiB", "'1.5e3 GiB'")],
)
def test_a_comma_is_not_read_as_a_decimal_point_nor_passed_over(text: str, way_out: str) -> None:
    with pytest.raises(InvalidInput, match="a comma sets thousands apart, so write") as error:
        quantity(text, "bytes")
    assert str(error.value).endswith(way_out)


@pytest.mark.parametrize("text", ["1,2345 GB", "12,34,567 B", "1,,000 B", "1_,000 B", "1234,567 B", "٣ GB", "1__0 B"])
def test_digits_are_grouped_by_three_or_not_at_all_and_are_ascii(text: str) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        quantity(text, "bytes")


def test_milli_and_mega_are_told_apart() -> None:
    assert quantity("1 mW", "w") * 1_000_000_000 == pytest.approx(quantity("1 MW", "w"))


@given(value=st.floats(1, 1e15))
def test_what_is_formatted_reads_back(value: float) -> None:
    assert quantity(format_bytes(value, 9), "bytes") == pytest.approx(value, rel=1e-6)
    assert quantity(format_rate(value, "FLOP/s", 9), "flop_per_s") == pytest.approx(value, rel=1e-6)


def test_figures_are_said_as_people_say_them() -> None:
    assert format_bytes(85.9e9) == "80.0 GiB"
    assert format_s(0.0000123) == "12.300 us"
    assert format_rounded_s(13.987, 2) == "14 s"
    assert format_rounded_s(13.987, 3) == "14.0 s"
    assert format_rounded_s(1.02, 2) == "1.0 s"
    assert format_rounded_s(105.877, 2) == "110 s"
    assert format_rounded_s(0.99961, 3) == "1.00 s"
    assert format_rounded_s(0.0616972, 3) == "61.7 ms"
    assert format_rounded_s(17332537547.0, 2) == "1.7e+10 s"
    assert format_count(70_553_706_496) == "70.6 B"
    assert format_energy_j(0.5) == "500.00 mJ"
    assert format_bytes(3e18) == "2664.5 PiB"


def test_beyond_any_prefix_a_power_of_ten_says_it() -> None:
    assert format_bytes(1e30) == "8.9e+14 PiB"
    assert format_s(17332537547.0) == "1.733e+10 s"
    assert format_count(1e20) == "1.0e+08 T"


@pytest.mark.parametrize(
    ("text", "count"), [("15T", 15e12), ("300 B", 3e11), ("15.6 T", 15.6e12), ("2e12", 2e12), ("1,000", 1000.0)]
)
def test_large_counts_are_read_as_people_say_them(text: str, count: float) -> None:
    assert count_of(text) == pytest.approx(count)


@pytest.mark.parametrize("text", ["", "T", "15 X", "-1", "0.5", "1e30", "nan", "1,5T"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="a count"):
        count_of(text)


def test_long_times_are_said_in_minutes_hours_and_days() -> None:
    assert [format_duration(value) for value in (0.5, 59.0, 90.0, 7200.0, 864000.0)] == [
        "500.0 ms",
        "59.0 s",
        "1.5 min",
        "2.0 h",
        "10.0 days",
    ]
    assert quantity("2 d", "s") == quantity("2 days", "s") == quantity("48 h", "s")
    assert quantity("4 y", "s") == quantity("4 years", "s") == quantity("1461 d", "s")


@pytest.mark.parametrize(
    ("text", "per_hour"),
    [("2.5 $/h", 2.5), ("$2.5/h", 2.5), ("60 USD/day", 2.5), ("2.50 $/gpu-hour", 2.5), ("1,200 dollars per day", 50.0)],
)
def test_a_price_is_dollars_for_an_hour_or_a_day(text, per_hour):
    assert units.price_usd_per_s(text) * units.SECONDS_PER_HOUR == pytest.approx(per_hour)


@pytest.mark.parametrize("text", ["2.5", ".5/h", "2,5 $/h", "-1 $/h", "0 $/h", "2.5 $/week", ""])
def test_what_is_no_price_is_refused_with_an_example(text):
    with pytest.raises(InvalidInput, match="price"):
        units.price_usd_per_s(text)


@pytest.mark.parametrize(
    ("usd", "said"),
    [(0.0031, "$0.0031"), (12.4, "$12.40"), (1234.5, "$1,234"), (10_800_000, "$10.80 M"), (2e9, "$2.00 B")],
)
def test_dollars_are_said_as_people_say_them(usd, said):
    assert units.format_usd(usd) == said
