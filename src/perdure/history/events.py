"""The durable events of a session: the only things that are ever written to its log.

Each class is one kind of event; `type` is its name in the log. The fields are its data. An event
says what happened, never how the database should look: `projection` derives that.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import StoreDamaged
from perdure.history.content import Form, Image, Part, StopReason, ToolDefinition, Usage

Delivery = Literal["steer", "queue"]
"""How a Prompt is promoted: at the next boundary, or when the session would otherwise be idle."""

CallOutcome = Literal["completed", "failed", "declined", "interrupted", "unknown", "not_run"]
"""The settlement of a tool call. `unknown`: started before a crash; it may have run."""

StepOutcome = Literal["completed", "failed", "interrupted", "declined", "crashed", "overflowed"]
"""The settlement of a Step. `overflowed`: too long for the model; done again after a compaction."""

CompactionReason = Literal["automatic", "overflow", "asked"]
"""Why a compaction began: the window is nearly full, the provider said so, or somebody asked."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all durable events."""

    type: ClassVar[str] = ""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it is stored: the class name in the error tree and its message."""

    error: str
    message: str
    status: int | None = None


class SessionCreated(Event, frozen=True):
    """A session began. `marker` is the random word of its wrapped System Messages.

    `cache` is the key under which providers cache its prefix, empty where that is its own id; a
    fork keeps that of the session it was copied from. `parent` is the session that gave it a task
    and `call` the id of the tool call that did; both are empty for what a person or a program
    began. A fork belongs to nobody: it keeps `call` alone.
    """

    type: ClassVar[str] = "session.created"
    directory: str
    project: str
    model: str
    marker: str
    title: str = ""
    instructions: str = ""
    cache: str = ""
    parent: str = ""
    call: str = ""


class SessionRenamed(Event, frozen=True):
    """The session got another title.

    `model` is the `provider/model` that wrote it, empty where a user gave it; `usage` is what that
    took.
    """

    type: ClassVar[str] = "session.renamed"
    title: str
    model: str = ""
    usage: Usage = Usage()


class ModelSwitched(Event, frozen=True):
    """Steps from now on use another model, written `provider/model`."""

    type: ClassVar[str] = "session.model_switched"
    model: str


class SessionMoved(Event, frozen=True):
    """The session works in another Location from now on."""

    type: ClassVar[str] = "session.moved"
    directory: str
    project: str


class SessionForked(Event, frozen=True):
    """All before this was copied from session `origin`, as it stood at its seq `at`."""

    type: ClassVar[str] = "session.forked"
    origin: str
    at: int


class SessionReverted(Event, frozen=True):
    """The history after seq `to` is cut off from what the model sees; the log keeps it.

    `snapshot` is the whole Context Snapshot as it stood at `to`.
    """

    type: ClassVar[str] = "session.reverted"
    to: int
    snapshot: dict[str, SourceSnapshot]


class InterruptAsked(Event, frozen=True):
    """Somebody asked the drain with the fencing token `drain` to stop; no other one is meant."""

    type: ClassVar[str] = "interrupt.asked"
    drain: int


class DrainInterrupted(Event, frozen=True):
    """A drain was interrupted between two Steps.

    What stands unanswered in the history calls for no Step any more; the next Prompt goes on from
    there.
    """

    type: ClassVar[str] = "drain.interrupted"


class EntrySet(Event, frozen=True):
    """A session entry has a new JSON value (null is a value)."""

    type: ClassVar[str] = "entry.set"
    name: str
    value: Any


class EntryRemoved(Event, frozen=True):
    """A session entry is gone."""

    type: ClassVar[str] = "entry.removed"
    name: str


class InstructionsDiscovered(Event, frozen=True):
    """Nested instruction files came into view of a session that works in `directory`.

    `paths` are canonical. What a call of an earlier Location finds after a move does not count.
    """

    type: ClassVar[str] = "instructions.discovered"
    directory: str
    paths: tuple[str, ...]


class CompactionAsked(Event, frozen=True):
    """Somebody asked for a compaction; it runs before the next step, or at once when idle."""

    type: ClassVar[str] = "compaction.asked"


class CompactionStarted(Event, frozen=True):
    """A summary of the history is being made."""

    type: ClassVar[str] = "compaction.started"
    reason: CompactionReason


class CompactionFinished(Event, frozen=True):
    """A summary takes the place of the items before `kept_from`, the seq of the first that stays.

    `kept_from` is 0 where nothing stays. The Context Epoch ends at the next boundary.
    """

    type: ClassVar[str] = "compaction.finished"
    summary: str
    kept_from: int
    usage: Usage = Usage()


class CompactionFailed(Event, frozen=True):
    """No summary came of it; the history is as it was."""

    type: ClassVar[str] = "compaction.failed"
    failure: Failure


class PromptAdmitted(Event, frozen=True):
    """A Prompt is durable in the inbox, with its images. `holder` will drain it itself."""

    type: ClassVar[str] = "prompt.admitted"
    prompt: str
    text: str
    delivery: Delivery = "steer"
    holder: str = ""
    images: tuple[Image, ...] = ()


class PromptDeliveryChanged(Event, frozen=True):
    """A pending Prompt will be delivered in another way, or by another runtime.

    `left` says that the one which held it was closed, and leaves it to others.
    """

    type: ClassVar[str] = "prompt.delivery_changed"
    prompt: str
    delivery: Delivery
    left: bool = False


class PromptWithdrawn(Event, frozen=True):
    """A pending Prompt was taken back and will never be promoted."""

    type: ClassVar[str] = "prompt.withdrawn"
    prompt: str


class PromptPromoted(Event, frozen=True):
    """A Prompt moved from the inbox into the history."""

    type: ClassVar[str] = "prompt.promoted"
    prompt: str


class EpochStarted(Event, frozen=True):
    """A Context Epoch began: all that stays fixed until it ends.

    `baseline` is the exact text sent, `snapshot` the whole Context Snapshot, `tools` the frozen
    definitions, `lowering` the version of the lowering, `reasons` every event that made it due.
    """

    type: ClassVar[str] = "epoch.started"
    epoch: int
    reasons: tuple[str, ...]
    model: str
    baseline: str
    snapshot: dict[str, SourceSnapshot]
    tools: tuple[ToolDefinition, ...]
    lowering: int


class SystemMessage(Event, frozen=True):
    """A Mid-Conversation System Message: the newly effective state of changed Context Sources.

    `text` is what the model reads, without any wrapping. `changed` holds the entries of the
    Context Snapshot that this message advances; None where the entry is gone.
    """

    type: ClassVar[str] = "system.message"
    text: str
    changed: dict[str, SourceSnapshot | None]


class Note(Event, frozen=True):
    """The runtime tells the model something about the conversation itself, such as a step limit."""

    type: ClassVar[str] = "note"
    text: str


class RequestShape(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that decides a request's bytes beside the history: sampled once per Step.

    `protocol` is its wire protocol, `form` how System Messages go out that no answer has bound
    yet, `max_output` the output limit in tokens, `parameters` further body members, `images`
    whether pictures go out or are only named.
    """

    protocol: str
    model: str
    form: Form
    max_output: int
    parameters: dict[str, Any] = {}
    images: bool = False


class StepStarted(Event, frozen=True):
    """A Step crossed its boundary; its request is fixed.

    `blocks` and `digest` are the length and the head of the digest chain over the request's
    blocks. `prefix` says whether the last request of this epoch is wholly a prefix of this one,
    None where there is none; `cause` says why it is not. `forms` are the forms of the System
    Messages that no answer has bound yet, in order.
    """

    type: ClassVar[str] = "step.started"
    step: int
    epoch: int
    model: str
    request: RequestShape
    blocks: int
    digest: str
    prefix: bool | None = None
    cause: str = ""
    forms: tuple[Form, ...] = ()


class AttemptFailed(Event, frozen=True):
    """One request on the wire failed. `partial` is what had come; it never reaches the model.

    `wait` is the number of seconds until the next Attempt, None when there is none.
    """

    type: ClassVar[str] = "attempt.failed"
    step: int
    attempt: int
    failure: Failure
    partial: tuple[Part, ...] = ()
    wait: float | None = None


class AssistantMessage(Event, frozen=True):
    """The model answered; its tool calls may start only after this is durable.

    `cache_miss` is the provider's own reason for a missed prompt cache. `response` is its id of
    the answer, kept only where the next request names it to be told such a reason. `stopped` is
    its word for a stop that is not known here.
    """

    type: ClassVar[str] = "assistant.message"
    step: int
    parts: tuple[Part, ...]
    stop: StopReason
    usage: Usage = Usage()
    attempt: int = 1
    cache_miss: str = ""
    response: str = ""
    stopped: str = ""


class ToolStarted(Event, frozen=True):
    """A tool call is about to have its side effect."""

    type: ClassVar[str] = "tool.started"
    step: int
    call: str
    name: str


class ToolSettled(Event, frozen=True):
    """A tool call has its one result. `file` is the path of the complete output, if it was cut."""

    type: ClassVar[str] = "tool.settled"
    step: int
    call: str
    outcome: CallOutcome
    output: str
    file: str = ""
    images: tuple[Image, ...] = ()


class RecoveryStarted(Event, frozen=True):
    """A Step that an earlier drain left open is about to be settled, for the `attempt`-th time."""

    type: ClassVar[str] = "recovery.started"
    step: int
    attempt: int


class StepFinished(Event, frozen=True):
    """A Step has its one settlement."""

    type: ClassVar[str] = "step.finished"
    step: int
    outcome: StepOutcome
    failure: Failure | None = None


EVENTS: dict[str, type[Event]] = {
    kind.type: kind
    for kind in (
        SessionCreated,
        SessionRenamed,
        ModelSwitched,
        SessionMoved,
        SessionForked,
        SessionReverted,
        InterruptAsked,
        DrainInterrupted,
        EntrySet,
        EntryRemoved,
        InstructionsDiscovered,
        CompactionAsked,
        CompactionStarted,
        CompactionFinished,
        CompactionFailed,
        PromptAdmitted,
        PromptDeliveryChanged,
        PromptWithdrawn,
        PromptPromoted,
        EpochStarted,
        SystemMessage,
        Note,
        StepStarted,
        AttemptFailed,
        AssistantMessage,
        ToolStarted,
        ToolSettled,
        RecoveryStarted,
        StepFinished,
    )
}
"""Every durable event by its name in the log."""


class TextDelta(msgspec.Struct, frozen=True):
    """Live only: more words of an answer that is not durable yet."""

    type: ClassVar[str] = "text.delta"
    step: int
    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """Live only: more visible thinking."""

    type: ClassVar[str] = "reasoning.delta"
    step: int
    text: str


class ToolProgress(msgspec.Struct, frozen=True):
    """Live only: output of a tool that still runs."""

    type: ClassVar[str] = "tool.progress"
    call: str
    text: str


Live = TextDelta | ReasoningDelta | ToolProgress
"""A fragment that carries no `seq`, is never stored, and never advances a cursor."""

AnyEvent = TypeVar("AnyEvent", bound=Event)


class Record(msgspec.Struct, frozen=True):
    """One durable event as a reader sees it.

    `seq` counts the session's durable events from 1 without a gap. `time` is milliseconds since
    1970.
    """

    seq: int
    time: int
    data: Event

    @property
    def type(self) -> str:
        """The event's name in the log."""
        return self.data.type


class LiveRecord(msgspec.Struct, frozen=True):
    """One live fragment as a reader sees it; it has no place in the log, so `seq` is None."""

    time: int
    data: Live

    @property
    def seq(self) -> None:
        """None: a live fragment never advances a cursor."""
        return

    @property
    def type(self) -> str:
        """The fragment's name."""
        return self.data.type


_encoder = msgspec.json.Encoder()
_decoders: dict[str, msgspec.json.Decoder[Event]] = {
    name: msgspec.json.Decoder(kind) for name, kind in EVENTS.items()
}


def encode(event: Event | Live) -> bytes:
    """Return an event's data as JSON, without its type."""
    return _encoder.encode(event)


def decode(type_: str, data: bytes | str) -> Event:
    """Return the event of that type; raise StoreDamaged where type or data are not its own."""
    decoder = _decoders.get(type_)
    if decoder is None:
        raise StoreDamaged(f"the log holds an event of unknown type {type_!r}")
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise StoreDamaged(f"the log holds a damaged {type_} event: {error}") from error
