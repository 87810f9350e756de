"""Writes what the reason of each row says into `reasons.txt`, and the outputs into `printed.txt`."""

from tests.explain.fleet import answer, facts
from tests.explain.table import printed
from tests.explain.table.recorded import in_full, write
from tests.explain.test_reasons import ROWS, start

if __name__ == "__main__":
    write(
        {
            (f"{row.id}: {row.name}", dialect): in_full(
                answer(facts(**{**start(dialect), **row.hit})).reasons, row
            )
            for row in ROWS
            for dialect in row.dialects
        }
    )
    printed.write()
