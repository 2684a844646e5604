"""Servers that misbehave, one way at a time: real programs on real pipes."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, ImageContent

from perdure.clock import SystemClock
from perdure.errors import ToolError
from perdure.images import LARGEST, LARGEST_SUM, MOST
from perdure.mcp.results import output
from tests.mcp.wild import Held, Wild, held, until
from tests.mcp.wild_server import tool
from tests.pictures import png
from tests.tools.processes import wait_until_gone

pytestmark = pytest.mark.anyio

ENV = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "sk-provider", "WILD_TOKEN": "tok-12345"}


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image", "data": b64encode(data).decode(), "mimeType": "image/png"}


async def test_a_call_is_answered(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        assert await servers.call("echo", words="hello") == "hello"


async def test_what_the_tool_reports_as_an_error_is_one(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        with pytest.raises(ToolError, match="it cannot be done"):
            await servers.call("fail")


async def test_a_server_that_dies_in_a_call_is_started_anew(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        with pytest.raises(ToolError, match="ended during this call; it may have run"):
            await servers.call("die")
        assert await servers.call("echo", words="again") == "again"
    assert len(wild.lines("pids")) == 2


@pytest.mark.parametrize("code", [-32000, -32001, -32603])
async def test_an_error_of_a_server_is_passed_on_and_ends_nothing(
    wild: Wild, tmp_path: Path, code: int
) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        with pytest.raises(ToolError, match="answered with an error: the disk is full"):
            await servers.call("refuse", code=code)
        assert await servers.call("echo", words="on") == "on"
    assert len(wild.lines("pids")) == 1


@pytest.mark.parametrize(
    "given",
    [{"result": "no object"}, {"result": {"isError": "perhaps"}}, {}],
    ids=["text", "wrong member", "nothing"],
)
async def test_an_answer_that_is_wrong_is_an_error_of_one_line(
    wild: Wild, tmp_path: Path, given: dict[str, Any]
) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        with pytest.raises(ToolError) as raised:
            await servers.call("answered", **{"with": given})
        assert "MCP server wild" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert await servers.call("echo", words="on") == "on"


async def test_half_a_character_costs_no_answer_and_no_list(wild: Wild, tmp_path: Path) -> None:
    wild.write("tools", [tool("echo"), tool("half", description="cut \ud83d")])
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        view = await servers.prepare()
        assert view.standing()[0].tools == ("mcp_wild_echo", "mcp_wild_half")
        assert await servers.call("half") == "cut ?"


async def test_a_part_that_is_not_known_leaves_the_others(wild: Wild, tmp_path: Path) -> None:
    parts = [{"type": "smell", "of": "tea"}, {"type": "image"}, 7, {"type": "text", "text": "kept"}]
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        said = await servers.call("parts", parts=parts)
    assert said.splitlines() == [
        "[a part of type smell, which is wrong or not known]",
        "[a part of type image, which is wrong or not known]",
        "[a part of no type, which is wrong or not known]",
        "kept",
    ]


class Pausing(SystemClock):
    """A clock by which no pause is over before the test is."""

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep_forever()


async def test_a_server_that_dies_again_and_again_is_given_longer_and_longer_pauses(
    wild: Wild, tmp_path: Path
) -> None:
    async with held(wild.wanted(), tmp_path, ENV, Pausing()) as servers:
        await servers.prepare()
        for _ in range(2):
            with pytest.raises(ToolError, match="may have run"):
                await servers.call("die")
        with pytest.raises(ToolError, match="not run: the MCP server wild cannot be reached now"):
            await servers.call("echo", words="too soon")


async def test_a_call_that_takes_too_long_is_cancelled(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(timeout=0.2), tmp_path, ENV) as servers:
        await servers.prepare()
        with pytest.raises(ToolError, match=r"did not answer in 0\.2 s and was told to stop"):
            await servers.call("hang")
        await until(lambda: wild.lines("cancelled"))
        assert await answered_in_time(servers, "still there") == "still there"
    assert len(wild.lines("pids")) == 1


async def answered_in_time(servers: Held, words: str) -> str:
    """Call until an answer comes in time, which a busy machine may not bring at once."""
    with anyio.fail_after(60):
        while True:
            try:
                return await servers.call("echo", words=words)
            except ToolError as error:
                if "did not answer in" not in str(error):
                    raise


async def test_an_interrupted_call_is_cancelled_at_the_server(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        async with anyio.create_task_group() as group:
            group.start_soon(servers.call, "hang")
            await until(lambda: wild.lines("calls"))
            group.cancel_scope.cancel()
        await until(lambda: wild.lines("cancelled"))


async def test_a_server_that_never_answers_at_the_start_is_given_up(
    wild: Wild, tmp_path: Path
) -> None:
    wild.write("late")
    async with held(wild.wanted(), tmp_path, ENV, connect=0.3) as servers:
        view = await servers.prepare()
        (standing,) = view.standing()
        assert standing.status == "lost"
        assert standing.problems == ("it did not answer in 0.3 s",)


async def test_a_slow_server_is_waited_for_only_shortly(wild: Wild, tmp_path: Path) -> None:
    wild.write("late")
    async with held(wild.wanted(), tmp_path, ENV, join=0.1) as servers:
        view = await servers.prepare()
        assert view.standing()[0].status == "starting"
        wild.lift("late")
        await until(lambda: servers.view().standing()[0].status == "ready")


async def test_a_program_that_cannot_start_says_why_without_its_secret(
    wild: Wild, tmp_path: Path
) -> None:
    wild.write("broken")
    async with held(wild.wanted(env=["WILD_TOKEN"]), tmp_path, ENV) as servers:
        (standing,) = (await servers.prepare()).standing()
    assert "it cannot start with [secret]" in standing.problems[0]
    assert "tok-12345" not in standing.problems[0]


async def test_a_program_that_is_not_there_is_named(tmp_path: Path, wild: Wild) -> None:
    async with held(wild.wanted(command="no-such-program"), tmp_path, ENV) as servers:
        (standing,) = (await servers.prepare()).standing()
    assert standing.problems == ("the program no-such-program was not found",)


async def test_a_missing_variable_is_named(tmp_path: Path, wild: Wild) -> None:
    async with held(wild.wanted(env=["NOT_THERE"]), tmp_path, ENV) as servers:
        (standing,) = (await servers.prepare()).standing()
    assert standing.problems == ("the environment variable NOT_THERE is not set",)
    assert wild.lines("pids") == []


async def test_a_program_gets_only_what_is_harmless_and_what_is_named(
    wild: Wild, tmp_path: Path
) -> None:
    async with held(wild.wanted(env=["WILD_TOKEN"]), tmp_path, ENV) as servers:
        await servers.prepare()
        seen = json.loads(await servers.call("env"))
    assert seen["WILD_TOKEN"] == "tok-12345"
    assert seen["PWD"] == str(tmp_path)
    assert "OPENAI_API_KEY" not in seen


async def test_what_is_no_message_is_passed_over(
    wild: Wild, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        assert await servers.call("nonsense") == "said"
    assert capfd.readouterr() == ("", "")


async def test_an_endless_line_ends_the_connection(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        with pytest.raises(ToolError, match="may have run"):
            await servers.call("flood")
        assert await servers.call("echo", words="new") == "new"


async def test_progress_is_shown(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        assert await servers.call("steps") == "done"
        await until(lambda: len(servers.shown) == 2)
    assert servers.shown == ["1 of 2\n", "2 of 2\n"]


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "text", "text": "a"}, "a"),
    (
        {"type": "image", "data": "aGVsbG8h", "mimeType": "image/png"},
        (
            "[an image (image/png, 6 bytes), which is not shown: image 1 is no image that a model "
            "takes (PNG, JPEG, GIF or WebP)]"
        ),
    ),
    (
        {"type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav"},
        "[a sound (audio/wav, 6 bytes), which is not played]",
    ),
    (
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        "[a link to the resource a: file:///a]",
    ),
    (
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        "[the resource file:///a:]\ninside",
    ),
    (
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbG8h"}},
        "[the resource file:///b (6 bytes), which is no text]",
    ),
]


async def test_every_kind_of_part_is_shown_or_named(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        said = await servers.call("parts", parts=[part for part, _ in PARTS])
    assert said == "\n".join(words for _, words in PARTS)


async def test_images_go_to_the_model_with_a_word_where_they_stood(
    wild: Wild, tmp_path: Path
) -> None:
    parts = [image(png()), {"type": "text", "text": "and"}, image(png(5, 4))]
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        said = await servers.output("parts", parts=parts)
    assert [(each.data, each.name) for each in said.images] == [
        (png(), "image 1"),
        (png(5, 4), "image 2"),
    ]
    first, second = (f"[{each.described}]" for each in said.images)
    assert said.text == f"{first}\nand\n{second}"


async def test_an_image_that_no_model_takes_is_named_with_the_reason(
    wild: Wild, tmp_path: Path
) -> None:
    parts = [image(png()[:-3]), {"type": "image", "data": "?", "mimeType": "image/png"}]
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        said = await servers.output("parts", parts=parts)
    assert said.images == ()
    cut, wrong = said.text.splitlines()
    assert cut.endswith("which is not shown: image 1 is a broken image: it is cut off]")
    assert wrong.endswith("which is not shown: its data are no base64]")


async def test_of_very_many_images_the_first_go_to_the_model(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        said = await servers.output("parts", parts=[image(png())] * (MOST + 2))
    assert len(said.images) == MOST
    assert said.text.count("which is not shown") == 2


def test_large_images_beyond_what_one_result_takes_are_named() -> None:
    large = b64encode(png(padding=LARGEST - 1_000)).decode()
    block = ImageContent(type="image", data=large, mime_type="image/png")
    said = output(CallToolResult(content=[block] * 4))
    assert len(said.images) == LARGEST_SUM // LARGEST
    assert said.text.endswith("which is not shown: the images before it are large]")


async def test_a_tool_with_a_broken_schema_hides_no_other(wild: Wild, tmp_path: Path) -> None:
    wild.write(
        "tools",
        [
            tool("echo"),
            tool("array", inputSchema=["no"]),
            tool("odd", inputSchema={"type": "object", "properties": {"a": {"type": "strin"}}}),
            tool("union", inputSchema={"type": "object", "anyOf": []}),
            {"description": "no name"},
            "no tool at all",
        ],
    )
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        (seen,) = (await servers.prepare()).seen
        assert seen.offer is not None
        assert [each.remote for each in seen.offer.tools] == ["echo"]
        assert len(seen.offer.problems) == 5
        assert await servers.call("echo", words="ok") == "ok"


async def test_only_the_listed_tools_are_offered(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(tools=["echo"]), tmp_path, ENV) as servers:
        (seen,) = (await servers.prepare()).seen
        assert seen.offer is not None
        assert [each.remote for each in seen.offer.tools] == ["echo"]
        with pytest.raises(ToolError, match="does not offer mcp_wild_die any more"):
            await servers.call("die")


async def test_a_changed_list_is_fetched_again(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        await servers.call("change", tools=[tool("other")])
        await until(lambda: servers.view().standing()[0].tools == ("mcp_wild_other",))


async def test_an_unused_server_is_ended_and_started_when_it_is_called(
    wild: Wild, tmp_path: Path
) -> None:
    async with held(wild.wanted(), tmp_path, ENV, unused=0.2) as servers:
        await servers.prepare()
        await until(lambda: servers.view().standing()[0].status == "idle")
        wait_until_gone([int(wild.lines("pids")[0])])
        assert servers.view().standing()[0].tools
        assert await servers.call("echo", words="back") == "back"


async def test_nothing_of_a_server_outlives_the_runtime(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        await servers.call("spawn")
    wait_until_gone([int(pid) for pid in wild.lines("pids")])
    assert len(wild.lines("pids")) == 2


async def test_one_server_serves_a_project_and_each_project_has_its_own(
    wild: Wild, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with held(wild.wanted(), tmp_path, ENV) as servers:
        await servers.prepare()
        await servers.prepare()
        assert len(wild.lines("pids")) == 1
        await servers.servers.prepare(wild.wanted(), other)
        assert len(wild.lines("pids")) == 2


async def test_a_disabled_server_is_not_started(wild: Wild, tmp_path: Path) -> None:
    async with held(wild.wanted(disabled=True), tmp_path, ENV) as servers:
        assert (await servers.prepare()).standing() == []
    assert wild.lines("pids") == []
