"""What a store holds: its studies, or one of them with its best rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from dovetail.api.answer import tables_html, write_answer
from dovetail.api.requests.entries import StudiesRequest
from dovetail.errors import InvalidInput
from dovetail.report.page import Page
from dovetail.report.pages.studies import studies_page, study_page
from dovetail.report.plain import Record, versioned
from dovetail.report.studies import Best, studies_table, studies_tables, study_record, study_tables, whole_record
from dovetail.report.table import Table, text_of
from dovetail.search.study import StudyRecord
from dovetail.store import reading

NUM_SHOWN = 10  # rows of a study


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Studies:
    """The studies of a store with their best rows; iterates over keys: `for key in dv.studies(store)`."""

    store: str
    found: tuple[tuple[StudyRecord, Best], ...]
    is_one: bool = False  # one study was asked for: all it was asked by, and its best rows
    call: str = "dovetail.studies()"

    @property
    def record(self) -> Record:
        """What the command prints with `--json`: under `studies` a list, or of one study its own record."""
        if self.is_one:
            return versioned(whole_record(*self.found[0]))
        return versioned({"studies": [study_record(*one) for one in self.found]})

    @property
    def tables(self) -> tuple[Table, ...]:
        """What the command prints, as values."""
        return study_tables(*self.found[0]) if self.is_one else studies_tables(self.found, self.store)

    @property
    def page(self) -> Page:
        """The same as a page has it."""
        return study_page(*self.found[0]) if self.is_one else studies_page(studies_table(self.found, self.store))

    @property
    def inputs(self) -> Record:
        """What was asked."""
        return {"store": self.store} | ({"study": self.found[0][0].key} if self.is_one else {})

    def to_html(self, path: str | PathLike[str]) -> None:
        """Writes one page that opens in any browser, with all that it takes to get it again."""
        write_answer(path, self.page, command=self.call, inputs=self.inputs, answer=self.record)

    def __iter__(self) -> Iterator[str]:
        return (study.key for study, _ in self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __str__(self) -> str:
        return text_of(self.tables)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.tables[0].title}>"

    def _repr_html_(self) -> str:
        return tables_html(self.tables)


def stored(request: StudiesRequest) -> Studies:
    """All studies of a store, each with its best row; or one, every row of it checked, and the best of them."""
    check_top(request)
    file, key, num_best = request.store, request.study, request.top or NUM_SHOWN
    with reading(Path(file)) as store:
        if not key:
            found = tuple((one, store.at(one.key).best(1)) for one in store.studies())
            return Studies(store=file, found=found, call=request.call)
        study = store.named(key)
        for _ in store.at(study.key).rows():
            pass
        call = request.changed(study=study.key, top=num_best).call
        return Studies(store=file, found=((study, store.at(study.key).best(num_best)),), is_one=True, call=call)


def check_top(request: StudiesRequest) -> None:
    if request.top and not request.study:
        raise InvalidInput("--top is of the rows of one study; name it by --study")
