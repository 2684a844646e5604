"""The Safe Provider-Turn Boundary: the only place where prompts and facts enter the history."""

from __future__ import annotations

import msgspec

from perdure.history.events import (
    Event,
    Note,
    PromptPromoted,
    StepStarted,
)
from perdure.models.types import Request
from perdure.plugins import PluginView
from perdure.session.admission import admit
from perdure.session.inbox import choose, is_repeated, wants_step
from perdure.session.log import SessionLog
from perdure.session.requests import Requests
from perdure.session.workplace import Target, Workplace, Workplaces
from perdure.tools.registry import ToolSet

LAST_STEP = (
    "This is the last step that is allowed for this prompt. Tool calls will not be run any more: "
    "answer now with what you know, and say what is left to do."
)


class Crossed(msgspec.Struct, frozen=True):
    """A boundary that was crossed: the step is durable, and this is what it works with."""

    started: StepStarted
    request: Request
    target: Target
    workplace: Workplace
    tools: ToolSet
    last: bool


class Boundary:
    """Crosses boundaries for one drain; keeps the lowering of the epoch between them."""

    def __init__(
        self, log: SessionLog, workplaces: Workplaces, owner: str, requests: Requests
    ) -> None:
        self._log = log
        self._workplaces = workplaces
        self._owner = owner
        self._workplace: tuple[str, Workplace] | None = None
        self._requests = requests

    async def workplace(self) -> Workplace:
        """Return what holds at the session's present Location."""
        directory = self._log.state.directory
        if self._workplace is None or self._workplace[0] != directory:
            self._workplace = (directory, await self._workplaces.at(directory))
        return self._workplace[1]

    async def cross(self, workplace: Workplace, plugins: PluginView) -> Crossed | None:
        """Promote what waits, tell what changed and start the step, in one transaction.

        Returns None, having observed and written nothing, when there is nothing to do. Raises
        StaleBoundary, having written nothing, when a move, a switch or an entry landed after it
        sampled: it is to be done again then. A failure leaves prompts pending.
        """
        state, limit = self._log.state, workplace.config.step_limit
        prompts = choose(state, self._owner, limit)
        if not prompts and not wants_step(state, limit):
            return None
        target = workplace.target(state.model)
        servers = await workplace.start_servers(state)
        tools = workplace.tools(state, plugins, servers, target.name)
        last = (1 if prompts else state.steps_of_prompt + 1) >= limit
        events: list[Event] = [PromptPromoted(prompt.prompt) for prompt in prompts]
        if last and not is_repeated(state):
            events.append(Note(LAST_STEP))
        context = await workplace.facts(state, plugins, servers)
        observation = await context.observe()
        events += admit(
            state,
            observation,
            model=target.name,
            tools=tools.definitions(),
            lowering=target.protocol.version,
            on_move=workplace.config.on_move,
            images=target.profile.images,
        )
        started, request = self._requests.prepare(state.preview(events), target)
        await self._log.write_sampled([*events, started])
        self._requests.keep()
        return Crossed(started, request, target, workplace, tools, last)
