"""The items of a session's history, as a Step sees them and the lowering takes them."""

from __future__ import annotations

import msgspec

from perdure.history.content import Form, Image, Part, ToolDefinition
from perdure.history.events import CallOutcome


class UserItem(msgspec.Struct, frozen=True):
    """A promoted Prompt."""

    seq: int
    prompt: str
    text: str
    images: tuple[Image, ...] = ()


class SystemItem(msgspec.Struct, frozen=True):
    """A Mid-Conversation System Message, as plain text.

    `form` is the form that an answer has bound it to in this epoch and for this model, or None
    while it is still free.
    """

    seq: int
    text: str
    form: Form | None = None


class NoteItem(msgspec.Struct, frozen=True):
    """Words of the runtime about the conversation itself; they go out in the user role."""

    seq: int
    text: str


class SummaryItem(msgspec.Struct, frozen=True):
    """The summary of a compaction: history, not instructions."""

    seq: int
    text: str


class AssistantItem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer of the model.

    `epoch` and `model` (`provider/model`) say where opaque reasoning is at home; `epoch` is 0 where
    that is nowhere any more, since a compaction took away what stood before it. `response` is the
    provider's id of it, empty where no request names it.
    """

    seq: int
    step: int
    parts: tuple[Part, ...]
    epoch: int
    model: str
    response: str = ""


class ResultItem(msgspec.Struct, frozen=True):
    """The result of one tool call. The results of a step stand in the order of its calls."""

    seq: int
    call: str
    name: str
    output: str
    outcome: CallOutcome
    images: tuple[Image, ...] = ()


Item = UserItem | SystemItem | NoteItem | SummaryItem | AssistantItem | ResultItem


def images_in(item: Item) -> tuple[Image, ...]:
    """Return the pictures that an item carries."""
    return item.images if isinstance(item, UserItem | ResultItem) else ()


class Frame(msgspec.Struct, frozen=True):
    """The fixed part of an epoch's requests: what every request in it begins with.

    `model` is `provider/model`; `marker` names the wrapping element of System Messages;
    `session` keys the provider's cache where the protocol has such a key. `lowering` is the version
    of the lowering that the epoch began with, and stays with.
    """

    session: str
    epoch: int
    model: str
    marker: str
    baseline: str
    tools: tuple[ToolDefinition, ...]
    lowering: int = 1
