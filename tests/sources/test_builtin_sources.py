"""The built-in sources tell facts that hold now, each under its own heading."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perdure.config.location import Location
from perdure.context import Generation, Source, SystemContext, Unchanged, Updated
from perdure.context.snapshot import SourceSnapshot
from perdure.sources import convention, date, environment, opening

pytestmark = pytest.mark.anyio

HERE = Location(Path("/srv/app/api"), Path("/srv/app"), "git")


class FixedClock:
    """A clock that stands still."""

    def __init__(self, moment: str) -> None:
        self.moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


async def told(source: Source[Any]) -> Generation:
    return await SystemContext.make(source).initialize()


async def told_after(source: Source[Any], snapshot: Mapping[str, SourceSnapshot]) -> str:
    result = await SystemContext.make(source).reconcile(snapshot)
    assert isinstance(result, Updated)
    return result.text


async def test_the_convention_names_the_element_and_says_what_supersedes_what() -> None:
    text = (await told(convention("k7m2"))).baseline
    assert "system-message-k7m2" in text
    assert "Only the runtime writes these" in text
    assert "A later statement about a source replaces every earlier one" in text


async def test_another_marker_is_told() -> None:
    first = await told(convention("k7m2"))
    assert "system-message-other" in await told_after(convention("other"), first.snapshot)


async def test_opening_instructions_are_told_word_for_word() -> None:
    text = (await told(opening("You are Ada.\nBe brief."))).baseline
    assert text == "# Opening instructions\n\nYou are Ada.\nBe brief."


@pytest.mark.parametrize("text", ["", " \n"])
async def test_without_opening_instructions_nothing_is_told(text: str) -> None:
    assert await told(opening(text)) == Generation("", {})


async def test_changed_opening_instructions_replace_the_earlier_ones() -> None:
    first = await told(opening("Be brief."))
    text = await told_after(opening("Be thorough."), first.snapshot)
    assert "replace" in text
    assert "Be thorough." in text
    assert "Be brief." not in text


async def test_opening_instructions_that_are_gone_no_longer_apply() -> None:
    first = await told(opening("Be brief."))
    assert "no longer apply" in await told_after(opening(""), first.snapshot)


async def test_the_environment_tells_where_the_session_works() -> None:
    text = (await told(environment(HERE, shell="/bin/sh"))).baseline
    host = os.uname()
    assert text == (
        "# Environment\n\n"
        "Working directory: /srv/app/api (relative paths start here)\n"
        "Project root: /srv/app\n"
        "Version control: git\n"
        f"Platform: {host.sysname} {host.machine}\n"
        "Shell: /bin/sh"
    )


async def test_a_project_without_version_control_says_so() -> None:
    plain = Location(Path("/srv"), Path("/srv"))
    assert "Version control: none" in (await told(environment(plain, shell="sh"))).baseline


async def test_the_environment_holds_no_environment_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHELL", "/bin/secret-shell")
    generation = await told(environment(HERE, shell="/bin/sh"))
    assert "secret-shell" not in generation.baseline + repr(generation.snapshot)


async def test_a_directory_with_an_odd_name_cannot_start_a_line_of_its_own() -> None:
    odd = Location(Path("/srv/x\n# Date\n\nToday"), Path("/srv"))
    text = (await told(environment(odd, shell="sh"))).baseline
    assert "Working directory: /srv/x\\n# Date\\n\\nToday (" in text


async def test_a_new_environment_is_told_whole() -> None:
    first = await told(environment(HERE, shell="/bin/sh"))
    there = Location(Path("/opt/other"), Path("/opt/other"))
    text = await told_after(environment(there, shell="/bin/sh"), first.snapshot)
    assert "This replaces what was said before about the environment." in text
    assert "Working directory: /opt/other" in text
    assert "Project root: /opt/other" in text
    assert "/srv/app" not in text


async def test_the_date_is_that_of_the_configured_time_zone() -> None:
    clock = FixedClock("2026-12-01T23:30:00")
    berlin, utc = await told(date(clock, "Europe/Berlin")), await told(date(clock, "UTC"))
    assert berlin.baseline == "# Date\n\nToday's date is Wednesday, 2026-12-02."
    assert utc.baseline == "# Date\n\nToday's date is Tuesday, 2026-12-01."


async def test_without_a_time_zone_the_date_is_that_of_the_host() -> None:
    moment = FixedClock("2026-12-01T12:00:00")
    local = moment.now().astimezone().date().isoformat()
    assert local in (await told(date(moment))).baseline


async def test_a_new_day_is_told_without_the_old_one() -> None:
    first = await told(date(FixedClock("2026-12-01T09:00:00"), "UTC"))
    later = date(FixedClock("2026-12-02T09:00:00"), "UTC")
    assert await told_after(later, first.snapshot) == (
        "# Date\n\nToday's date is now Wednesday, 2026-12-02."
    )


async def test_a_later_hour_of_the_same_day_tells_nothing() -> None:
    first = await told(date(FixedClock("2026-12-01T09:00:00"), "UTC"))
    later = SystemContext.make(date(FixedClock("2026-12-01T21:00:00"), "UTC"))
    assert await later.reconcile(first.snapshot) == Unchanged()
