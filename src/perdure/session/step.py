"""One Step behind its boundary: the answer, the tool calls, and the settlement."""

from __future__ import annotations

from perdure.errors import ContextOverflow, ProviderError
from perdure.history.content import ToolCall
from perdure.history.events import AssistantMessage, StepFinished, StepOutcome
from perdure.models.diagnosis import asks
from perdure.models.types import Answer
from perdure.session.attempts import Attempts, failure_of
from perdure.session.boundary import Crossed
from perdure.session.calls import STEP_LIMIT, Calls, given_up
from perdure.session.compaction import Compactor, never_fits
from perdure.session.delegation import Delegation
from perdure.session.inbox import waiting
from perdure.session.log import SessionLog
from perdure.tools.settle import INTERRUPTED


class Step:
    """Runs one step to its one settlement."""

    def __init__(
        self,
        log: SessionLog,
        crossed: Crossed,
        attempts: Attempts,
        compactor: Compactor,
        owner: str,
        delegation: Delegation,
    ) -> None:
        self._log = log
        self._crossed = crossed
        self._owner = owner
        self._delegation = delegation
        self._number = crossed.started.step
        self._attempts = attempts
        self._compactor = compactor

    async def run(self) -> bool:
        """Run the step; return whether the lease was given up with the settlement.

        A ProviderError is the step's settlement, not an exception. Cancelling leaves the step
        open: `interrupt` settles it.
        """
        try:
            answer = await self._attempts.answer()
        except ContextOverflow as error:
            return await self._overflow(error)
        except ProviderError as error:
            return await self._log.write_last(self._attempts.failed(error), self._failed(error))
        calls = [part for part in answer.parts if isinstance(part, ToolCall)]
        if calls:
            await self._run_calls(answer, calls)
            return False
        return await self._conclude(self._message(answer), StepFinished(self._number, "completed"))

    async def interrupt(self) -> None:
        """Settle the step as interrupted: the partial answer is kept, open calls get a result."""
        open_step = self._log.state.step
        if open_step is None or open_step.started.step != self._number:
            return
        events = [*given_up(open_step, INTERRUPTED), StepFinished(self._number, "interrupted")]
        if not open_step.answered and self._attempts.partial:
            await self._log.write(self._attempts.interrupted(), *events)
        else:
            await self._log.write(*events)

    async def _overflow(self, error: ContextOverflow) -> bool:
        """Compact and leave the step to be done once more; fail where that was done already."""
        state, target = self._log.state, self._crossed.target
        again = state.outcome == "overflowed"
        await self._log.write(self._attempts.failed(error))
        if not again and await self._compactor.run(self._crossed.workplace, "overflow"):
            failure = failure_of(error)
            await self._log.write(StepFinished(self._number, "overflowed", failure))
            return False
        return await self._log.write_last(self._failed(never_fits(state, target) or error))

    def _failed(self, error: ProviderError) -> StepFinished:
        return StepFinished(self._number, "failed", failure_of(error))

    async def _run_calls(self, answer: Answer, calls: list[ToolCall]) -> None:
        await self._log.write(self._message(answer))
        workplace, tools = self._crossed.workplace, self._crossed.tools
        runner = Calls(
            self._log,
            workplace,
            tools,
            self._number,
            self._delegation,
            images=self._crossed.started.request.images,
        )
        if self._crossed.last:
            await runner.refuse(calls, STEP_LIMIT)
        else:
            await runner.run(calls)
        await self._log.write(StepFinished(self._number, self._outcome()))

    def _outcome(self) -> StepOutcome:
        step = self._log.state.step
        results = [call.result for call in step.calls.values()] if step else []
        declined = any(result and result.outcome == "declined" for result in results)
        return "declined" if declined else "completed"

    async def _conclude(self, *events: AssistantMessage | StepFinished) -> bool:
        # With nothing waiting, the settlement and the end of the drain are one write.
        if waiting(self._log.state, self._owner):
            await self._log.write(*events)
            return False
        return await self._log.write_last(*events)

    def _message(self, answer: Answer) -> AssistantMessage:
        return AssistantMessage(
            self._number,
            answer.parts,
            answer.stop,
            answer.usage,
            self._attempts.number,
            answer.cache_miss,
            answer.response if asks(self._crossed.started.request) else "",
            answer.stopped,
        )
