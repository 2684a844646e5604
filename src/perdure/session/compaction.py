"""Compaction: a summary takes the place of the older history, and a new epoch begins.

The summary request is no step. It observes and promotes nothing, begins with the exact prefix of
the last step, and adds one message. Whatever goes wrong, the history stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.errors import ContextOverflow, EmptyAnswer, PerdureError, UsageError
from perdure.history.content import Image, words_of
from perdure.history.events import (
    CompactionFailed,
    CompactionFinished,
    CompactionReason,
    CompactionStarted,
    Failure,
    StepStarted,
)
from perdure.history.items import AssistantItem, Item, NoteItem, ResultItem, UserItem, images_in
from perdure.history.state import Pending, SessionState
from perdure.models.pictures import LIMITS, tokens_of_image, too_many
from perdure.models.types import Answer
from perdure.session.attempts import failure_of
from perdure.session.log import SessionLog
from perdure.session.requests import Requests, whole_answer
from perdure.session.workplace import Target, Workplace
from perdure.telemetry import Conversation, Sent

SUMMARIZE = (
    "The conversation is about to be shortened. Write a summary of everything so far, for yourself:"
    " what the user wants, what was decided and why, what was done and found, the state of files"
    " and commands with their exact names, and what is left to do. Write only the summary, and call"
    " no tools."
)

_BYTES_PER_TOKEN = 4
_LONGEST_TAIL = 20_000
_MARGIN = 20
_CRASHES = 3
"""Summaries that may end their process before the next step goes without one."""


def tokens_of(items: Sequence[Item]) -> int:
    """Return about how many tokens items take: four bytes each, and pictures by their pixels."""
    images = _images(items)
    words = [
        msgspec.structs.replace(item, images=()) if images_in(item) else item for item in items
    ]
    return len(msgspec.json.encode(words)) // _BYTES_PER_TOKEN + sum(map(tokens_of_image, images))


def estimate(state: SessionState, waiting: Sequence[Pending] = ()) -> int:
    """Return about how many tokens the next request has, with the prompts that wait.

    It is what the provider counted last plus what is new since; where it has not counted the
    history as it is now, everything is estimated.
    """
    new = sum(len(prompt.text.encode()) for prompt in waiting) // _BYTES_PER_TOKEN
    new += sum(tokens_of_image(image) for prompt in waiting for image in prompt.images)
    usage = state.usage
    if usage is not None and usage.input:
        return usage.input + usage.output + tokens_of(_since_answer(state.items)) + new
    return fixed_tokens(state) + tokens_of(state.items) + new


def fixed_tokens(state: SessionState) -> int:
    """Return about how many tokens every request of the epoch has before its history."""
    epoch = state.epoch
    if epoch is None:
        return 0
    return len(epoch.baseline.encode() + msgspec.json.encode(epoch.tools)) // _BYTES_PER_TOKEN


def is_nearly_full(state: SessionState, target: Target, waiting: Sequence[Pending]) -> bool:
    """Say whether the next request would leave no room for an answer."""
    window = target.profile.context_window
    room = window - target.profile.max_output - window // _MARGIN
    return estimate(state, waiting) > max(room, window // 2) or _needs_room(state, target, waiting)


def _needs_room(state: SessionState, target: Target, waiting: Sequence[Pending]) -> bool:
    """Say whether images are new that the next request cannot hold, and could without the old."""
    new = [image for prompt in waiting for image in prompt.images]
    if not target.profile.images or not (new or _images(_since_answer(state.items))):
        return False
    limits = LIMITS[target.endpoint.protocol]
    if not too_many([*_images(state.items), *new], limits):
        return False
    tail = state.items[tail_start(state.items, target.profile.context_window) :]
    return not too_many([*_images(tail), *new], limits)


def _images(items: Sequence[Item]) -> list[Image]:
    return [image for item in items for image in images_in(item)]


def never_fits(state: SessionState, target: Target) -> ContextOverflow | None:
    """Return the error of a session whose Baseline and tools alone exceed the window."""
    fixed = fixed_tokens(state)
    if fixed <= target.profile.context_window:
        return None
    return ContextOverflow(
        f"session {state.session}: its instructions and tools alone take about {fixed} tokens, "
        f"more than the window of {target.name} ({target.profile.context_window}); shorten the "
        "instruction files or choose a model with a larger window",
        provider=target.profile.provider,
        model=target.profile.model,
    )


def tail_start(items: Sequence[Item], window: int) -> int:
    """Return the index of the first item that stays beside the summary.

    The tail is at most 20,000 tokens or a tenth of the window. It always holds what no answer has
    followed yet, and never begins between a call and its result.
    """
    left = min(_LONGEST_TAIL, window // 10)
    unanswered = _since_answer(items)
    start = len(items) - len(unanswered)
    if any(isinstance(item, ResultItem) for item in unanswered):
        start -= 1
    left -= tokens_of(items[start:])
    for at in range(start - 1, -1, -1):
        left -= tokens_of(items[at : at + 1])
        if left < 0:
            break
        if isinstance(items[at], UserItem):
            start = at
    return start


def kept_from(items: Sequence[Item], window: int, reason: CompactionReason) -> int:
    """Return the index of the first item that stays; 0 where there is nothing to summarize.

    Without a tail where there is no other way: a provider that says the request is too long knows
    its window better than we do, and who asks for a compaction wants one.
    """
    if reason == "overflow":
        return tail_start(items, 0)
    return tail_start(items, window) or tail_start(items, 0)


def interrupted() -> CompactionFailed:
    """Return the settlement of a compaction that was interrupted."""
    failure = Failure("Interrupted", "the compaction was interrupted; nothing was changed")
    return CompactionFailed(failure)


def crashed() -> CompactionFailed:
    """Return the settlement of a compaction that ended with its process."""
    failure = Failure("Crashed", "the process ended during the compaction; nothing was changed")
    return CompactionFailed(failure)


class Compactor:
    """Compacts the session of one drain."""

    def __init__(self, log: SessionLog, requests: Requests) -> None:
        self._log = log
        self._requests = requests

    async def when_due(self, workplace: Workplace, waiting: Sequence[Pending]) -> None:
        """Compact if somebody asked, or if the next step would leave no room for its answer."""
        state = self._log.state
        if state.asked_to_compact:
            await self.run(workplace, "asked")
        elif state.crashed_summaries >= _CRASHES:
            return
        elif state.last_step is not None and (waiting or state.unread):
            target = workplace.target(state.model)
            full = is_nearly_full(state, target, waiting)
            if full and _is_worthwhile(state.items, target.profile.context_window):
                await self.run(workplace, "automatic")

    async def run(self, workplace: Workplace, reason: CompactionReason) -> bool:
        """Make a summary; return whether the history was shortened.

        A failure is written to the log and is no exception. Cancelling settles the compaction.
        """
        state, last = self._log.state, self._log.state.last_step
        await self._log.write(CompactionStarted(reason))
        try:
            event = await self._finish(workplace, state, last, reason)
        except PerdureError as error:
            await self._log.write(CompactionFailed(failure_of(error)))
            return False
        await self._log.write(event)
        return True

    async def settle(self, settlement: CompactionFailed) -> None:
        """Settle the compaction that an interrupt or a crash left open, if there is one."""
        if self._log.state.compacting:
            await self._log.write(settlement)

    async def _finish(
        self,
        workplace: Workplace,
        state: SessionState,
        last: StepStarted | None,
        reason: CompactionReason,
    ) -> CompactionFinished:
        if last is None:
            raise UsageError(f"session {state.session} has nothing to compact yet")
        target = workplace.target(last.model)
        cut = kept_from(state.items, target.profile.context_window, reason)
        if cut == 0:
            raise UsageError(f"session {state.session} has nothing to compact yet")
        # A request that was too long as it was must be summed up without its end.
        shown = cut if reason == "overflow" else len(state.items)
        ask = NoteItem(0, SUMMARIZE)
        body = self._requests.side_request(state, last, target.protocol, [ask], shown)
        said = Conversation(state.frame(last.model).baseline, (*state.items[:shown], ask))
        sent = Sent(
            state.session, target.endpoint, target.profile, lambda: said, purpose="compaction"
        )
        answer = await whole_answer(target, body, workplace.telemetry.request(sent))
        kept = state.items[cut].seq if cut < len(state.items) else 0
        return CompactionFinished(_summary(state, answer), kept, answer.usage)


def _is_worthwhile(items: Sequence[Item], window: int) -> bool:
    """Say whether a summary would cover more than the summary before it."""
    covered = items[: tail_start(items, window)]
    return any(isinstance(item, UserItem | AssistantItem) for item in covered)


def _since_answer(items: Sequence[Item]) -> Sequence[Item]:
    for at in range(len(items) - 1, -1, -1):
        if isinstance(items[at], AssistantItem):
            return items[at + 1 :]
    return items


def _summary(state: SessionState, answer: Answer) -> str:
    text = words_of(answer.parts).strip()
    if not text or answer.stop == "length":
        what = "was cut off" if text else "is empty"
        raise EmptyAnswer(f"session {state.session}: the summary {what}; nothing was changed")
    return text
