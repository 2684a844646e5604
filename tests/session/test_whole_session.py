"""A whole session under arbitrary changes, outages, switches, moves, compactions and restarts.

The world is three facts of the program, one session entry and one instruction file. An independent
reader takes the text of the last request and works out what the model has been told; after every
step that must be what could be observed.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from perdure import ABSENT, UNAVAILABLE, PerdureError, Runtime, Session, Source
from perdure.history import events as ev
from perdure.history.items import Item
from perdure.plugins import Scope
from perdure.session.attempts import RetryPolicy
from perdure.testing import (
    ReceivedRequest,
    Reply,
    ScriptedProvider,
    call,
    error,
    isolated_environment,
    keeps_prefix,
    say,
    think,
)
from perdure.testing.provider import ProtocolName
from tests.session.support import KEY, log_of, of_type

FACTS = ("alpha", "beta", "gamma")
KEEPS_REMOVAL = {"alpha", "beta"}
STATEMENT = re.compile(
    r"FACT (?P<key>\w+) = (?P<value>\w+)\."
    r"|FACT (?P<gone>\w+) is gone\."
    r"|# Entry (?P<entry>\w+)\n\n(?P<said>[^\n]*)"
    r"|# Instructions from \S*/(?P<file>\w+)/AGENTS\.md\n\n[^\n]*no longer appl"
)
VALUES = st.integers(0, 3).map(lambda number: f"v{number}")


def texts(value: Any) -> list[str]:
    """Return every text in a request, in order."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key in value for text in texts(value[key])]  # pyright: ignore
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]  # pyright: ignore
    return []


def told_by(request: ReceivedRequest) -> dict[str, str]:
    """Work out what a model that reads the request from the start to the end knows."""
    body = request.json
    knows: dict[str, str] = {}
    system = body.get("system") or body.get("systemInstruction")
    for text in texts([system, body.get("messages") or body.get("contents") or body["input"]]):
        for match in STATEMENT.finditer(text):
            if match["key"]:
                knows[match["key"]] = match["value"]
            elif match["entry"]:
                knows["entry"] = match["said"].rpartition(" ")[2].strip('"')
                if "no longer" in match["said"]:
                    del knows["entry"]
            else:
                knows.pop(match["gone"] or match["file"], None)
    return knows


class WholeSession(RuleBasedStateMachine):
    """One session in one runtime after another, over one store."""

    protocol: ProtocolName = "openai-chat"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.world: dict[str, Any] = {**dict.fromkeys(FACTS, ABSENT), "delta": "v0"}
        self.loads = 0
        self.told: dict[str, str] = {}
        self.history: list[Item] = []
        self.replies: list[Reply] = []
        self.last: tuple[ReceivedRequest, ev.StepStarted] | None = None
        self.compacted = False

    @initialize()
    def begin(self) -> None:
        self.root = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.places = [self.root / "one", self.root / "two"]
        for place in self.places:
            place.mkdir()
        self.place = self.places[0]
        self.portal = self.stack.enter_context(start_blocking_portal())
        provider = ScriptedProvider(lambda request, number: self.replies.pop(0))
        self.provider = self.stack.enter_context(self.portal.wrap_async_context_manager(provider))
        self.open()
        self.session: Session = self.portal.call(self._create)

    async def _create(self) -> Session:
        return await self.runtime.create_session(directory=self.place)

    def open(self) -> None:
        self.life = ExitStack()
        opened = Runtime.open(
            self.root / "sessions.db",
            config=self.provider.config(self.protocol, api_key_env=KEY),
            environ=isolated_environment(self.root) | {KEY: "scripted-key"},
            sources=[self.source(name) for name in FACTS],
            plugins=[self.delta],
            retry=RetryPolicy(attempts=1),
        )
        self.runtime: Runtime = self.life.enter_context(
            self.portal.wrap_async_context_manager(opened)
        )

    def delta(self, scope: Scope) -> None:
        """A plugin with one fact, fixed when it is loaded; it fails while the fact is unknown."""
        value = self.world["delta"]
        if value is UNAVAILABLE:
            raise RuntimeError("the plugin cannot be loaded")

        async def load() -> str:
            return value

        scope.source(
            Source(
                key="delta/fact",
                type=str,
                load=load,
                baseline=lambda value: f"FACT delta = {value}.",
                update=lambda _, current: f"FACT delta = {current}.",
            )
        )

    @rule(value=VALUES | st.just(UNAVAILABLE))
    def reload_the_plugin(self, value: Any) -> None:
        self.world["delta"] = value
        self.portal.call(self.runtime.plugins.prepare)
        self.portal.call(self.runtime.plugins.reload, "delta")

    def source(self, name: str) -> Source[str]:
        async def load() -> Any:
            self.loads += 1
            return self.world[name]

        def removed(_: str) -> str:
            return f"FACT {name} is gone."

        return Source(
            key=f"world/{name}",
            type=str,
            load=load,
            baseline=lambda value: f"FACT {name} = {value}.",
            update=lambda _, current: f"FACT {name} = {current}.",
            removed=removed if name in KEEPS_REMOVAL else None,
        )

    @rule(name=st.sampled_from(FACTS), value=VALUES | st.just(ABSENT) | st.just(UNAVAILABLE))
    def change(self, name: str, value: Any) -> None:
        self.world[name] = value

    @rule(value=VALUES)
    def write_the_file(self, value: str) -> None:
        (self.place / "AGENTS.md").write_text(f"FACT {self.place.name} = {value}.")

    @rule()
    def delete_the_file(self) -> None:
        (self.place / "AGENTS.md").unlink(missing_ok=True)

    @rule(value=VALUES)
    def set_the_entry(self, value: str) -> None:
        self.portal.call(self.session.set_entry, "note", value)
        self.world["entry"] = value

    @precondition(lambda self: "entry" in self.world)
    @rule()
    def remove_the_entry(self) -> None:
        self.portal.call(self.session.remove_entry, "note")
        del self.world["entry"]

    @rule(model=st.sampled_from(["scripted/model-1", "scripted/model-2"]))
    def switch(self, model: str) -> None:
        self.portal.call(self.session.switch_model, model)

    @rule(to=st.integers(0, 1))
    def move(self, to: int) -> None:
        self.place = self.places[to]
        self.portal.call(self.session.move, self.place)

    @rule()
    def restart(self) -> None:
        before = self.portal.call(self.body)
        self.life.close()
        self.open()
        self.session = self.portal.call(self.runtime.session, self.session.id)
        assert self.portal.call(self.body) == before

    async def body(self) -> bytes:
        return await self.session.request() if self.last else b""

    @precondition(lambda self: self.last is not None)
    @rule(works=st.booleans())
    def compact(self, works: bool) -> None:
        self.replies = [say("We did things." if works else " ")]
        try:
            self.compacted |= self.portal.call(self.session.compact)
        except PerdureError:
            assert not works or self.replies
        self.replies = []

    @rule()
    def prompt(self) -> None:
        self.step([think("Hm.") + say("Yes.")])

    @rule()
    def prompt_with_a_call(self) -> None:
        self.step([think("Where?") + call("list", {"path": "."}), say("Nothing.")])

    @rule()
    def prompt_that_fails(self) -> None:
        self.step([error(401)])

    def step(self, replies: list[Reply]) -> None:
        self.replies = list(replies)
        seen = len(self.provider.requests)
        started = self.portal.call(self.ask)
        requests = self.provider.requests[seen:]
        assert len(requests) == len(started) == len(replies)
        for request, step in zip(requests, started, strict=True):
            self.check(request, step)
        self.compacted = False

    async def ask(self) -> list[ev.StepStarted]:
        admission = await self.session.prompt("Go on.")
        records = [
            record async for record in self.session.events(after=admission.seq, until_idle=True)
        ]
        return of_type(records, ev.StepStarted)

    def check(self, request: ReceivedRequest, step: ev.StepStarted) -> None:
        told = told_by(request)
        assert told == self.expected(), (told, self.expected())
        self.told = told
        if self.last is not None and not self.compacted:
            before, earlier = self.last
            if (earlier.epoch, earlier.model) == (step.epoch, step.model):
                assert keeps_prefix(before, request)
                assert step.prefix is True
        self.last = (request, step)

    def expected(self) -> dict[str, str]:
        """Return what the model must know: what can be observed, else what it was told last."""
        expected: dict[str, str] = {}
        for name in (*FACTS, "delta"):
            if self.world[name] is UNAVAILABLE:
                if name in self.told:
                    expected[name] = self.told[name]
            elif self.world[name] is not ABSENT:
                expected[name] = self.world[name]
            elif name in self.told and self.blocked(name):
                expected[name] = self.told[name]
        if "entry" in self.world:
            expected["entry"] = self.world["entry"]
        file = self.place / "AGENTS.md"
        if file.exists():
            expected[self.place.name] = file.read_text().rpartition(" ")[2].rstrip(".")
        return expected

    def blocked(self, name: str) -> bool:
        """Say whether a removal without a text cannot be told yet: a new epoch would lose facts."""
        others = (other for other in (*FACTS, "delta") if self.world[other] is UNAVAILABLE)
        return name not in KEEPS_REMOVAL and any(other in self.told for other in others)

    @invariant()
    def the_history_only_grows(self) -> None:
        if not hasattr(self, "session"):
            return
        loads = self.loads
        history = self.portal.call(self.messages)
        assert history[: len(self.history)] == self.history
        self.history = history
        assert self.loads == loads

    async def messages(self) -> list[Item]:
        return await self.session.messages(system=True)

    def teardown(self) -> None:
        if hasattr(self, "session"):
            records = self.portal.call(log_of, self.session)
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
            assert not [each for each in self.provider.refused if each.status != 401]
            msgspec.json.encode([record.data for record in records])
            self.life.close()
        self.stack.close()


class WholeSessionOverAnthropic(WholeSession):
    """The same over Anthropic Messages."""

    protocol: ProtocolName = "anthropic"


class WholeSessionOverResponses(WholeSession):
    """The same over OpenAI Responses."""

    protocol: ProtocolName = "openai-responses"


class WholeSessionOverGemini(WholeSession):
    """The same over Gemini's contents."""

    protocol: ProtocolName = "gemini"


QUICK = settings(
    max_examples=15,
    stateful_step_count=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestWholeSession = WholeSession.TestCase
TestWholeSession.settings = QUICK
TestWholeSessionOverAnthropic = WholeSessionOverAnthropic.TestCase
TestWholeSessionOverAnthropic.settings = QUICK
TestWholeSessionOverResponses = WholeSessionOverResponses.TestCase
TestWholeSessionOverResponses.settings = QUICK
TestWholeSessionOverGemini = WholeSessionOverGemini.TestCase
TestWholeSessionOverGemini.settings = QUICK
