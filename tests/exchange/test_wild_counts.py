"""Tokens that a provider counts wildly: what is kept of them can be carried like all the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.history import events as ev
from perdure.models.encoding import MOST
from perdure.testing import raw
from perdure.testing.provider import ProtocolName
from tests.session.support import ask, bench, log_of, of_type

pytestmark = pytest.mark.anyio

_ANTHROPIC = (
    '{"type":"message","id":"m","role":"assistant","content":[{"type":"text","text":"Hello."}],'
    '"stop_reason":"end_turn","usage":{"input_tokens":%s,"cache_read_input_tokens":%s,'
    '"cache_creation_input_tokens":%s,"output_tokens":%s}}'
)
_GEMINI = (
    '{"candidates":[{"content":{"role":"model","parts":[{"text":"Hello."}]},"finishReason":"STOP"}]'
    ',"usageMetadata":{"promptTokenCount":%s,"toolUsePromptTokenCount":%s,'
    '"candidatesTokenCount":%s,"thoughtsTokenCount":%s}}'
)


@pytest.mark.parametrize(("protocol", "body"), [("anthropic", _ANTHROPIC), ("gemini", _GEMINI)])
async def test_counts_whose_sum_is_too_large_are_cut_so_that_an_export_can_be_imported(
    tmp_path: Path, protocol: ProtocolName, body: str
) -> None:
    body = body.replace("%s", str(2**70))
    answer = raw(body.encode(), content_type="application/json")
    async with bench(tmp_path, [answer], protocol) as b, b.runtime() as runtime:
        session = await b.session(runtime)
        await ask(session, "Hello?")
        file = await session.export(tmp_path / "session.jsonl")
        await runtime.delete_session(session.id)
        imported = await runtime.import_session(file)
        (told,) = of_type(await log_of(imported), ev.AssistantMessage)
    assert told.usage.input == told.usage.output == MOST
