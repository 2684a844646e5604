"""A process is killed while it works on a task; the next one goes on with both sessions."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio

from perdure import Runtime
from perdure.history import events as ev
from perdure.testing import call, hold, say, serve_in_thread
from tests.session.support import log_of, of_type
from tests.session.tasks import Cast, gives, results
from tests.session.test_recovery import Scene, read_until


async def logs(s: Scene, session: str) -> tuple[list[ev.Record], list[ev.Record]]:
    """Return the log of the session and that of its one task."""
    async with Runtime.open(s.job.store, config=s.job.config, environ=s.job.environ) as runtime:
        giver = await runtime.session(session)
        (row,) = await giver.children()
        return await log_of(giver), await log_of(await runtime.session(row.id))


def killed_and_gone_on(s: Scene, requests: int, effects: int) -> str:
    """Kill a process after so many requests and effects, let another one go on to the end."""
    with s.process(prompt="main.", prompt_id="first") as worker:
        session = read_until(worker.stdout, None)
        s.provider.wait_until_received(requests)
        for _ in range(2000):
            if len(s.written()) >= effects:
                break
            threading.Event().wait(0.005)
        worker.kill()
    s.job.prompt_id = None
    s.finish(session, "Go on.")
    return session


def test_a_task_whose_process_is_killed_goes_on_and_its_result_comes_once(
    tmp_path: Path,
) -> None:
    effect = call("effect", {"name": "once", "seconds": 600})
    cast = Cast(main=[gives("part"), say("I see.")], part=[effect, say("It may have run.")])
    with serve_in_thread(cast) as provider:
        s = Scene(tmp_path, provider, "openai-chat")
        session = killed_and_gone_on(s, requests=2, effects=1)
        giver, task = anyio.run(logs, s, session)
        assert anyio.run(_left, s) == []
        assert anyio.run(logs, s, session) == (giver, task)
        assert not provider.refused
    assert s.written() == ["once"]
    assert [outcome for outcome, _ in results(task)] == ["unknown"]
    ((outcome, output),) = results(giver)
    assert (outcome, output.partition("\n")[0]) == ("completed", "It may have run.")
    assert len(of_type(task, ev.PromptPromoted)) == 1
    cast.require_kept_prefixes()


async def _left(s: Scene) -> list[str]:
    async with Runtime.open(s.job.store, config=s.job.config, environ=s.job.environ) as runtime:
        return [*await runtime.recover()]


def test_a_task_that_was_answering_asks_again_with_the_same_bytes(tmp_path: Path) -> None:
    answer = hold(threading.Event(), say("never heard"))
    cast = Cast(main=[gives("part"), say("I see.")], part=[answer, say("Here it is.")])
    with serve_in_thread(cast) as provider:
        s = Scene(tmp_path, provider, "openai-chat")
        session = killed_and_gone_on(s, requests=2, effects=0)
        giver, task = anyio.run(logs, s, session)
    first, second = cast.asked["part"]
    assert first.body == second.body
    ends = [event.outcome for event in of_type(task, ev.StepFinished)]
    assert ends == ["crashed", "completed"]
    assert [outcome for outcome, _ in results(giver)] == ["completed"]
