"""Skills in a running session: listed, loaded, changed and removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from perdure.testing import call, say
from tests.session.support import ask, bench, told

pytestmark = pytest.mark.anyio


def _write(project: Path, name: str, description: str) -> Path:
    folder = project / ".agents" / "skills" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: {description}\n---\nDo it like this."
    )
    return folder


async def test_a_skill_is_listed_in_the_baseline_and_loaded_by_its_tool(tmp_path: Path) -> None:
    async with bench(tmp_path, [call("skill", {"name": "release"}), say("Done.")]) as b:
        _write(b.project, "release", "How to release.")
        async with b.runtime() as runtime:
            await ask(await b.session(runtime), "Release it")
        assert "How to release." in b.provider.requests[0].json["messages"][0]["content"]
        assert b"Do it like this." in b.provider.requests[1].body


async def test_a_skill_added_changed_and_removed_is_told_like_any_change(tmp_path: Path) -> None:
    async with bench(tmp_path, [say(str(number)) for number in range(4)]) as b:
        async with b.runtime() as runtime:
            session = await b.session(runtime)
            await ask(session, "first")
            folder = _write(b.project, "release", "How to release.")
            (text,) = told(await ask(session, "second"))
            assert "How to release." in text
            _write(b.project, "release", "How to release well.")
            (text,) = told(await ask(session, "third"))
            assert "How to release well." in text
            shutil.rmtree(folder)
            (text,) = told(await ask(session, "fourth"))
            assert "no skills any more" in text
        tools = [request.json["tools"] for request in b.provider.requests]
        assert tools == tools[:1] * 4
