"""Whether the calls of a step may run: the rules, what the user allowed before, and questions."""

from __future__ import annotations

import logging
from typing import cast

import anyio
import anyio.to_thread

from perdure.errors import ConfigurationError
from perdure.history.content import ToolCall
from perdure.session.workplace import Workplace
from perdure.tools.base import Subject, ToolContext
from perdure.tools.permissions import (
    NOTHING,
    Ask,
    PermissionAnswer,
    decide,
    declined,
    denied,
    is_about_resources,
    lasting,
    question,
    unanswered,
)
from perdure.tools.settle import Prepared, Settled

_logger = logging.getLogger("perdure.session")


class Gate:
    """Lets the calls of one step through, or says why not."""

    def __init__(self, session: str, workplace: Workplace) -> None:
        self._session = session
        self._workplace = workplace
        # Two questions at once would get each other's answers.
        self._asking = anyio.Lock()

    async def refusal(
        self, call: ToolCall, prepared: Prepared, context: ToolContext, *, again: bool = False
    ) -> Settled | None:
        """Return the settlement of a call that may not run, None where it may.

        One that runs `again` was let through before, so nobody is asked about it a second time.
        """
        if self._workplace.allows_all:
            return None
        rules = self._workplace.config.permissions
        subject = (
            await _subject(prepared, context) if is_about_resources(call.name, rules) else None
        )
        default = await prepared.tool.permission()
        ruling = decide(call.name, rules, subject or NOTHING, default)
        if ruling.permission == "allow":
            return None
        if ruling.permission == "deny":
            return denied(call.name, ruling.rule)
        if again:
            return None
        async with self._asking:
            return await self._asked(call, subject or await _subject(prepared, context))

    async def _asked(self, call: ToolCall, subject: Subject) -> Settled | None:
        if await self._is_remembered(call, subject):
            return None
        ask = self._workplace.ask
        answer = None if ask is None else await self._answer(ask, call)
        if answer is None:
            return unanswered(call.name)
        if not answer.allowed:
            return declined(call.name, answer)
        await self._remember(call, answer, subject)
        return None

    async def _is_remembered(self, call: ToolCall, subject: Subject) -> bool:
        try:
            rules = await anyio.to_thread.run_sync(self._workplace.remembered)
        except ConfigurationError as error:
            _logger.warning("session %s: %s", self._session, error)
            return False
        # It is a question already: only what was answered for this call counts.
        return decide(call.name, rules, subject, "ask").permission == "allow"

    async def _remember(self, call: ToolCall, answer: PermissionAnswer, subject: Subject) -> None:
        rules = lasting(call.name, answer, subject)
        if not rules:
            return
        try:
            await anyio.to_thread.run_sync(self._workplace.remember, rules)
        except ConfigurationError as error:
            _logger.warning("session %s: the answer is not remembered: %s", self._session, error)

    async def _answer(self, ask: Ask, call: ToolCall) -> PermissionAnswer | None:
        """Return what was answered, or None where the asker, which is not ours, gave no answer."""
        try:
            answer = cast("object", await ask(question(self._session, call)))
        except Exception:
            _logger.exception("session %s: call %s could not be asked for", self._session, call.id)
            return None
        if isinstance(answer, PermissionAnswer):
            always = answer.always if answer.always in {"call", "tool"} else ""
            return PermissionAnswer(answer.allowed is True, str(answer.reason or ""), always)
        kind = type(answer).__name__
        _logger.error(
            "session %s: call %s: %s is no PermissionAnswer", self._session, call.id, kind
        )
        return None


async def _subject(prepared: Prepared, context: ToolContext) -> Subject:
    """Return what a call is about; nothing known allows it where its tool cannot say."""
    subject = prepared.tool.subject
    if subject is None:
        return NOTHING
    try:
        return await anyio.to_thread.run_sync(subject, prepared.arguments, context)
    except Exception:
        _logger.exception("tool %s could not say what its call is about", prepared.tool.name)
        return Subject(("",), exact=False)
