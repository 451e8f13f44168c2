"""One row of a table of published runs, read by word: numbers, degrees, flags, and the seconds of its step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from dovetail.accuracy.measurements import LEAST, MAX_COUNT, MOST, shown
from dovetail.errors import NotModelled

# What must be given for a step to be timed; everything else has a convention (see `stacks`).
NEEDED = ("layers", "hidden", "heads", "seq", "global_batch", "micro_batch", "n_gpus", "TP", "PP")
# How sources are called here, by a word in them.
PUBLISHERS = {
    "ground_truth_multi": "vTrain, many nodes",
    "ground_truth_single": "vTrain, one node",
    "BigScience": "BLOOM's tuning",
    "NeMo performance summary": "NeMo 24.07",
    "Megatron-Bridge": "Megatron-Bridge",
    "llm-foundry": "llm-foundry (FSDP)",
    "torchtitan": "TorchTitan (FSDP)",
    "SimuMax": "SimuMax",
    "Megatron-LM README": "Megatron-Core README",
    "MLPerf Training v3.1": "MLPerf 3.1",
    "MLPerf Training v4.0": "MLPerf 4.0",
    "MLPerf Training v5.1": "MLPerf 5.1",
    "MT-NLG": "Smith et al. 2022 (MT-NLG)",
}
MAX_NAME = 30  # letters that a table has room for
# The year of a run's software, as its framework or source says it: a release, a month, a preprint; else as known.
YEARS = {
    "framework": re.compile(r"Release (\d\d)\.\d\d"),
    "source": re.compile(r"20(\d\d)-?\d\d(?!\d)|performance summary (\d\d)\.\d\d|arXiv:(\d\d)\d\d"),
    "source_location": re.compile(r"(\d\d)\.\d\d(?:\.\d+)? container"),
}
KNOWN_YEARS = {
    "llm-foundry": 2023,  # its H100 tables came with the releases of that year
    "Megatron-Core r0.8.0": 2024,
}


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one run by column name, in lower case."""

    cells: Mapping[str, str]

    def word(self, column: str) -> str:
        return self.cells.get(column.lower(), "").strip()

    def count(self, column: str, default: int = 0) -> int:
        """A whole number from 1 on; `default` where the cell is blank."""
        if not self.word(column):
            return default
        value = self.number(column)
        if not 1 <= value <= MAX_COUNT or value != int(value):
            raise NotModelled(f"{column} is {shown(self.word(column))}, not a count")
        return int(value)

    def number(self, column: str) -> float:
        """A finite number that is not below 0; 0 where the cell is blank."""
        word = self.word(column)
        try:
            value = float(word or 0)
        except ValueError:
            value = math.nan
        if not (value == 0 or LEAST <= value <= MOST):
            raise NotModelled(f"{column} is {shown(word)}, not a number of 0 or more")
        return value

    def says(self, column: str, *words: str) -> bool:
        """Whether a cell holds one of `words`, whatever their case."""
        cell = self.word(column).lower()
        return any(word.lower() in cell for word in words)

    @property
    def publisher(self) -> str:
        """Who published it, in a few words; a source of another name by its own, up to where details begin."""
        source = self.word("source")
        known = next((name for word, name in PUBLISHERS.items() if word in source), "")
        return known or re.split(r",| \(", source)[0][:MAX_NAME]

    @property
    def lacking(self) -> tuple[str, ...]:
        """Columns without which the run is not complete."""
        return tuple(column for column in NEEDED if not self.word(column))

    @property
    def tells_memory(self) -> bool:
        """Whether it says what is recomputed and which device there was: what a decision on memory rests on."""
        return bool(self.word("recompute")) and not self.says("gpu", "not stated", "inferred")

    @property
    def container(self) -> tuple[int, int]:
        """Year and month of the software, where the row says from which container it is."""
        found = re.search(r"(\d\d)\.(\d\d)(?:\.\d+)? container", self.word("source_location"))
        return (int(found[1]), int(found[2])) if found else (0, 0)

    @property
    def software_year(self) -> int:
        """The year that the software of a run is from; 0 where nothing says so."""
        for column, pattern in YEARS.items():
            found = pattern.search(self.word(column))
            if found:
                return 2000 + int(next(group for group in found.groups() if group))
        return next((year for word, year in KNOWN_YEARS.items() if self.says("source", word)), 0)

    @property
    def num_tokens(self) -> float:
        return float(self.count("global_batch") * self.count("seq"))

    @property
    def measured_s(self) -> float:
        """Seconds of a step: as timed, from its rate of tokens, or as its publisher's count of FLOP gives it."""
        if self.number("iter_time_s"):
            return self.number("iter_time_s")
        if self.number("iter_time_s_derived"):
            return self.number("iter_time_s_derived")
        if self.number("tokens_per_s_per_gpu"):
            return self.num_tokens / (self.number("tokens_per_s_per_gpu") * self.count("n_gpus"))
        if self.number("tokens_per_s"):
            return self.num_tokens / self.number("tokens_per_s")
        raise NotModelled("no time, rate of tokens or counted FLOP/s is given")
