"""Logs as a runtime writes them, made without a provider: every event, digest and prefix is right.

A Log plays one session in memory. `restore` puts it into a store in one transaction.
"""

from __future__ import annotations

from typing import Literal

from perdure.config.schema import ProtocolName
from perdure.history import events as ev
from perdure.history.content import Part, Text, ToolCall, ToolDefinition, Usage
from perdure.history.state import SessionState
from perdure.models.protocols import wire_protocols
from perdure.models.transport import Transport
from perdure.models.types import Endpoint, ModelProfile
from perdure.session.memory import Remembered
from perdure.session.requests import Requests
from perdure.session.workplace import Target
from perdure.tools import builtin_tools

Kind = Literal["text", "tools"]
PROTOCOLS: tuple[ProtocolName, ...] = ("openai-chat", "anthropic")

QUESTION = "Why does the third test of the parser fail since this morning?"
ANSWER = "The parser takes the first brace for a comment, so the rest of the file is skipped. " * 5
OUTPUT = "src/parser.py:118: if char == '{': return self.comment()\n" * 8
BASELINE = "You work in /home/user/project. Today is 2026-12-01. Write short sentences.\n" * 40
DIRECTORY = "/home/user/project"
TIME = 1_790_000_000_000


def target(protocol: ProtocolName, transport: Transport) -> Target:
    """Return where the requests of these histories go; nothing is ever sent."""
    endpoint = Endpoint("bench", protocol, "http://127.0.0.1:9/v1")
    profile = ModelProfile("bench", "model", 10_000_000, 8192, "wrapped")
    return Target("bench/model", endpoint, profile, wire_protocols(transport)[protocol])


class Log:
    """One session that grows step by step."""

    def __init__(self, session: str, where: Target, directory: str = DIRECTORY) -> None:
        self.state = SessionState(session)
        self.records: list[ev.Record] = []
        self._where = where
        self._requests = Requests(Remembered(self.state))
        tools: tuple[ToolDefinition, ...] = tuple(builtin_tools().definitions())
        self.add(
            ev.SessionCreated(directory, directory, where.name, "word"),
            ev.EpochStarted(1, ("session started",), where.name, BASELINE, {}, tools, 1),
        )

    def add(self, *events: ev.Event) -> None:
        """Append events."""
        for event in events:
            record = ev.Record(self.state.last_seq + 1, TIME + self.state.last_seq, event)
            self.state.apply(record)
            self.records.append(record)

    def prompt(self, text: str = QUESTION) -> None:
        """Admit and promote a prompt."""
        number = self.state.last_seq
        prompt = f"{self.state.session}{number:010}"
        self.add(ev.PromptAdmitted(prompt, f"{number}: {text}"), ev.PromptPromoted(prompt))

    def answer(self, text: str = ANSWER) -> None:
        """Do a step that answers in words."""
        self._step((Text(text),), "end")

    def call(self) -> None:
        """Do a step that calls one tool."""
        number = self.state.steps + 1
        call = ToolCall(f"call_{number:024}", "read", f'{{"path": "src/parser_{number}.py"}}')
        self._step((Text("I look at the file."), call), "tool_calls", call)

    def _step(
        self, parts: tuple[Part, ...], stop: ev.StopReason, call: ToolCall | None = None
    ) -> None:
        started, _ = self._requests.prepare(self.state, self._where)
        self._requests.keep()
        usage = Usage(input=1000, output=100, cache_read=900)
        step = started.step
        self.add(started, ev.AssistantMessage(step, parts, stop, usage))
        if call is not None:
            self.add(
                ev.ToolStarted(step, call.id, call.name),
                ev.ToolSettled(step, call.id, "completed", f"{step}\n{OUTPUT}"),
            )
        self.add(ev.StepFinished(step, "completed"))


def history(
    session: str, where: Target, kind: Kind, messages: int, directory: str = DIRECTORY
) -> Log:
    """Return a log of so many messages: prompts, answers and tool results.

    In a history with tools, a prompt is followed by nine steps that call a tool and one that
    answers; in one of text, by its answer.
    """
    log = Log(session, where, directory)
    while len(log.state.items) < messages:
        log.prompt()
        for _ in range(9 if kind == "tools" else 0):
            log.call()
        log.answer()
    return log
