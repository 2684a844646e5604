"""The writer's thread: shared commits, and who is told what when one of them fails."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from perdure.errors import LeaseLost, StoreDamaged, StoreError
from perdure.store.database import Connection, Database
from perdure.store.lease import Holder
from perdure.store.schema import prepare
from perdure.store.writer import Job, Writer
from tests.store.store_support import SetClock, raw

pytestmark = pytest.mark.anyio


class Commits:
    """A writer that can be held until many operations wait."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.gate = threading.Event()
        self.outcomes: dict[str, Any] = {}

    async def together(self, **operations: Callable[[Connection], object]) -> dict[str, Any]:
        """Run operations in one commit; return each result or error by its name."""

        async def run(name: str, operation: Callable[[Connection], object]) -> None:
            try:
                self.outcomes[name] = await self.writer.run(operation)
            except Exception as error:  # noqa: BLE001 the test looks at it
                self.outcomes[name] = error

        async with anyio.create_task_group() as tasks:
            self.writer.put(Job(lambda _: self.gate.wait(60), awaited=False))
            for name, operation in operations.items():
                tasks.start_soon(run, name, operation)
            await anyio.sleep(0)
            self.gate.set()
        return self.outcomes


@pytest.fixture
async def commits(path: Path) -> AsyncGenerator[Commits]:
    database = Database(path, busy_timeout=1)
    database.create()
    writer = Writer(
        database, lambda it: prepare(it, database, 0), Holder(10.0, SetClock().monotonic)
    )
    await writer.start()
    await writer.run(lambda it: it.execute("CREATE TABLE t (x)"))
    yield Commits(writer)
    await writer.close()


def insert(value: object) -> Callable[[Connection], object]:
    return lambda it: it.execute("INSERT INTO t VALUES (?) RETURNING x", (value,)).get


def insert_and_raise(error: Exception) -> Callable[[Connection], object]:
    def operation(connection: Connection) -> None:
        connection.execute("INSERT INTO t VALUES ('never')")
        raise error

    return operation


def values(path: Path) -> list[object]:
    with raw(path) as connection:
        return [value for (value,) in connection.execute("SELECT x FROM t").fetchall()]


async def test_operations_run_in_the_order_in_which_they_came(commits: Commits, path: Path) -> None:
    assert await commits.together(a=insert(1), b=insert(2), c=insert(3)) == {"a": 1, "b": 2, "c": 3}
    assert values(path) == [1, 2, 3]


async def test_nobody_else_can_write_between_what_an_operation_reads_and_what_it_writes(
    commits: Commits, path: Path
) -> None:
    def write_elsewhere(_: Connection) -> str:
        with raw(path) as other:
            try:
                other.execute("INSERT INTO t VALUES (2)")
            except apsw.BusyError:
                return "refused"
        return "written"

    assert await commits.writer.run(write_elsewhere) == "refused"


async def test_an_operation_that_is_refused_fails_alone(commits: Commits, path: Path) -> None:
    error = LeaseLost("lost")
    outcomes = await commits.together(a=insert(1), b=insert_and_raise(error), c=insert(3))
    assert outcomes == {"a": 1, "b": error, "c": 3}
    assert values(path) == [1, 3]


async def test_a_mistake_in_one_operation_fails_alone(commits: Commits, path: Path) -> None:
    def wrong(connection: Connection) -> None:
        connection.execute("INSERT INTO nowhere VALUES (1)")

    outcomes = await commits.together(
        a=insert(1), b=insert_and_raise(KeyError("x")), c=wrong, d=insert(object())
    )
    assert outcomes.pop("a") == 1
    assert [type(error) for error in outcomes.values()] == [KeyError, StoreDamaged, TypeError]
    assert values(path) == [1]


async def test_damage_fails_only_the_operation_that_met_it(commits: Commits, path: Path) -> None:
    corrupt = insert_and_raise(apsw.CorruptError("malformed page"))
    outcomes = await commits.together(a=insert(1), b=corrupt, c=insert(3))
    assert isinstance(outcomes.pop("b"), StoreDamaged)
    assert outcomes == {"a": 1, "c": 3}
    assert values(path) == [1, 3]


async def test_a_fault_of_the_disk_fails_all_who_wait_and_no_one_after(
    commits: Commits, path: Path
) -> None:
    broken = insert_and_raise(apsw.IOError("disk I/O error"))
    outcomes = await commits.together(a=insert(1), b=broken, c=insert(3))
    assert {type(error) for error in outcomes.values()} == {StoreError}
    assert len({id(error) for error in outcomes.values()}) == 3
    assert values(path) == []
    assert await commits.writer.run(insert(4)) == 4
    assert values(path) == [4]


async def test_more_operations_than_one_commit_takes_are_all_done(
    commits: Commits, path: Path
) -> None:
    names = {f"o{number}": insert(number) for number in range(600)}
    assert await commits.together(**names) == {f"o{number}": number for number in range(600)}
    assert values(path) == list(range(600))
