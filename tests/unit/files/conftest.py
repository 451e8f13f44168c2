from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.job import load_spec

WORKLOAD = "workload: {model: llama3-8b, global_batch: 64, seq: 8192}\n"
CLUSTER = "cluster: {name: dgx-h100, devices: 64}\n"
PLAN = "plan: {tensor_parallel: 8, sequence_parallel: true, zero_stage: 1}\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a file into an empty folder that is the current one; says its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(text: str | bytes, name: str = "spec.yaml") -> Path:
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    return write_file


@pytest.fixture
def refusal(write) -> Callable[..., str]:
    """The one line that a spec is refused with. Sections not given are good ones."""

    def refused(text: str | bytes = "", name: str = "spec.yaml", **sections: str) -> str:
        if sections:
            good = {"workload": WORKLOAD, "cluster": CLUSTER, "plan": PLAN}
            given = {section: f"{section}: {value}\n" for section, value in sections.items()}
            text = "".join((good | given).values())
        file = write(text, name)
        with pytest.raises(InvalidInput) as error:
            load_spec(file)
        line = str(error.value)
        assert "\n" not in line
        assert line.isprintable()
        return line

    return refused
