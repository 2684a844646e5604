"""Whatever a provider answers: a typed error in plain words or an outcome, and the session goes on.

Each case is one answer to a prompt. Behind it the history must be valid, and the next prompt must
be answered by a provider that is as strict as the real one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.history import events as ev
from perdure.history.content import Text, ToolCall
from perdure.session.attempts import RetryPolicy
from perdure.testing import Reply, check_history, say
from perdure.testing.provider import ProtocolName
from tests.session.bad_answers import CASES, Answered, Failed
from tests.session.support import ask, bench, log_of, of_type

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("protocol", "reply", "expected"), CASES)
async def test_a_bad_answer_has_a_plain_outcome_and_the_session_goes_on(
    tmp_path: Path, protocol: ProtocolName, reply: Reply, expected: Failed | Answered
) -> None:
    after = [say("Done.")] if isinstance(expected, Answered) and expected.calls else []
    async with bench(tmp_path, [say("Ready."), reply, *after, say("Next.")], protocol) as b:
        async with b.runtime(retry=RetryPolicy(attempts=1)) as runtime:
            session = await b.session(runtime)
            await ask(session, "Begin.")
            records = await ask(session, "Look.")
            check_outcome(records, expected)
            (last,) = of_type(await ask(session, "Go on."), ev.AssistantMessage)
            assert [part.text for part in last.parts] == ["Next."]
            assert check_history(await log_of(session)) == []
        assert b.provider.refused == b.provider.unexpected == []


def check_outcome(records: Any, expected: Failed | Answered) -> None:
    finished = of_type(records, ev.StepFinished)
    if isinstance(expected, Failed):
        assert of_type(records, (ev.AssistantMessage, ev.ToolStarted)) == []
        check_failure(finished[0].failure, expected)
        return
    assert {step.outcome for step in finished} == {"completed"}
    answer = of_type(records, ev.AssistantMessage)[0]
    assert (answer.stop, answer.stopped) == (expected.stop, expected.stopped)
    text = "".join(part.text for part in answer.parts if isinstance(part, Text))
    assert text == expected.text or (expected.text == "" and "\ufffd" in text)
    ids = [part.id for part in answer.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == len(expected.calls)
    settled = {event.call: event.outcome for event in of_type(records, ev.ToolSettled)}
    assert tuple(settled[each] for each in ids) == expected.calls


def check_failure(failure: ev.Failure, expected: Failed) -> None:
    assert failure.error == expected.kind.__name__
    for words in expected.words:
        assert words in failure.message
    assert failure.message.isprintable()
    assert "<" not in failure.message
    assert "scripted-key" not in failure.message
