"""Histories as a session makes them, generated and played step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from perdure.history.content import Form, Image, Part, Reasoning, Text, ToolCall, ToolDefinition
from perdure.history.events import RequestShape
from perdure.history.items import (
    AssistantItem,
    Frame,
    Item,
    NoteItem,
    ResultItem,
    SummaryItem,
    SystemItem,
    UserItem,
)
from perdure.images import make_image
from perdure.models.protocols import wire_protocols
from perdure.models.transport import Transport
from perdure.models.types import Lowering, Request, WireProtocol
from perdure.testing import gemini_rules
from perdure.testing.openai_responses_rules import led_to, remember
from perdure.testing.prefix import input_items
from perdure.testing.signature import conversation
from perdure.testing.wire import ReceivedRequest
from tests.pictures import gif, jpeg, png

ProtocolName = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]

PROTOCOLS = wire_protocols(Transport())
TOOLS = (
    ToolDefinition("write", "Write a file.", {"type": "object", "properties": {"path": {}}}),
    ToolDefinition("read", "Read a file.", {"type": "object"}),
)
OWN_CHAT = {
    "wire": {
        "output_limit": "max_completion_tokens",
        "system_role": "developer",
        "cache_key": True,
    }
}

pictures = st.sampled_from(
    [make_image(png(), "a.png"), make_image(jpeg(), "b.jpg"), make_image(gif(), "c.gif")]
)
texts = st.text(min_size=1, max_size=12).filter(str.strip)
any_texts = st.text(max_size=8)


class Move(msgspec.Struct, frozen=True):
    """One step: what came before it, and how the model answered; None where it failed."""

    prompts: tuple[str, ...]
    images: tuple[Image, ...]
    note: str | None
    system: str | None
    outputs: tuple[str, ...]
    failed_calls: bool
    parts: tuple[Part, ...] | None

    def images_of(self, at: int) -> tuple[Image, ...]:
        """Return the images of a prompt or result: each one goes to another."""
        return self.images[at : at + 1]


class Story(msgspec.Struct, frozen=True):
    """An epoch: where it goes, what older items it begins with, and its steps."""

    protocol: ProtocolName
    form: Form
    images: bool
    baseline: str
    tools: tuple[ToolDefinition, ...]
    older: tuple[Item, ...]
    moves: tuple[Move, ...]


arguments = st.sampled_from(
    ['{"path": "a"}', "{}", "", "{broken", '["list"]', '{"n": 1e2}', "null"]
)
call_ids = st.sampled_from(["call_0", "call_1", "toolu_1", "functions.read:0", "x" * 60, "é"])
tool_names = st.sampled_from(["read", "write", "made up", "", "ns.tool"])


@st.composite
def answers(draw: st.DrawFn) -> tuple[Part, ...]:
    """Parts in any order; the decoders promise ids that are unique within one answer."""
    parts: list[Part] = []
    ids = draw(st.lists(call_ids, unique=True, max_size=2))
    for _ in range(draw(st.integers(0, 2))):
        text = draw(texts)
        parts.append(draw(st.sampled_from([Text(text), Reasoning(text), Text(" \n")])))
    parts += [ToolCall(call, draw(tool_names), draw(arguments)) for call in ids]
    if draw(st.booleans()):
        parts.append(Reasoning(draw(any_texts)))
    return tuple(parts) or (Text("fine"),)


@st.composite
def moves(draw: st.DrawFn) -> Move:
    return Move(
        prompts=tuple(draw(st.lists(texts, max_size=2))),
        images=tuple(draw(st.lists(pictures, max_size=2))),
        note=draw(st.none() | texts),
        system=draw(st.none() | texts),
        outputs=(draw(any_texts), draw(any_texts)),
        failed_calls=draw(st.booleans()),
        parts=draw(st.one_of(answers(), answers(), st.none())),
    )


@st.composite
def older_items(draw: st.DrawFn) -> tuple[Item, ...]:
    """Return what an epoch may find: a summary, then turns of another model and epoch."""
    items: list[Item] = []
    if draw(st.booleans()):
        items.append(SummaryItem(1, draw(texts)))
    for turn in range(draw(st.integers(0, 2))):
        items.append(UserItem(10 + turn, f"old{turn}", draw(texts)))
        parts = draw(answers())
        parts += (Reasoning("seen", {"type": "thinking", "thinking": "seen", "signature": "old"}),)
        items.append(AssistantItem(20 + turn, turn, parts, 1, "elsewhere/m"))
        items += [
            ResultItem(30 + turn, part.id, part.name, draw(any_texts), "completed")
            for part in parts
            if isinstance(part, ToolCall)
        ]
    return tuple(items)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    return Story(
        protocol=draw(st.sampled_from(get_args(ProtocolName))),
        form=draw(st.sampled_from(["native", "wrapped"])),
        images=draw(st.booleans()),
        baseline=draw(st.sampled_from(["", "You are here."])),
        tools=draw(st.sampled_from([(), TOOLS])),
        older=draw(older_items()),
        moves=tuple(draw(st.lists(moves(), min_size=3, max_size=7))),
    )


class Sent(msgspec.Struct, frozen=True):
    """One request, the same one lowered from nothing, and the items that it was made of."""

    items: tuple[Item, ...]
    request: Request
    afresh: Request


class Player:
    """Plays a story as the runtime does: boundary, request, answer or failure."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.frame = Frame("s1", 2, "here/m", "k7q", story.baseline, story.tools)
        own = story.protocol == "openai-chat" and story.form == "native"
        self.shape = RequestShape(
            protocol=story.protocol,
            model="claude-opus-5" if story.protocol == "anthropic" else "m",
            form=story.form,
            max_output=100,
            parameters=OWN_CHAT if own else {},
            images=story.images,
        )
        self._items: list[Item] = list(story.older)
        self._seq = 100

    @property
    def wire(self) -> WireProtocol:
        return PROTOCOLS[self.story.protocol]

    def lowering(self) -> Lowering:
        return self.wire.lowering(self.frame, self.shape)

    def play(self) -> Iterator[Sent]:
        """Yield the request of every step of the story that takes place."""
        kept = self.lowering()
        previous: tuple[int, str] | None = None
        for number, move in enumerate(self.story.moves):
            if not self._cross(move):
                continue
            request = kept.request(self._items, previous=previous)
            afresh = self.lowering().request(self._items, previous=previous)
            yield Sent(tuple(self._items), request, afresh)
            previous = (request.blocks, request.digest)
            if move.parts is not None:
                self._answer(move.parts, request, number)

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _cross(self, move: Move) -> bool:
        """Append what a boundary admits; return whether there is anything new."""
        calls = self._open_calls()
        outcome = "failed" if move.failed_calls else "completed"
        for at, (call, output) in enumerate(zip(calls, move.outputs, strict=False)):
            images = () if move.failed_calls else move.images_of(at)
            result = ResultItem(self._next(), call.id, call.name, output, outcome, images)
            self._items.append(result)
        for at, text in enumerate(move.prompts):
            self._items.append(UserItem(self._next(), f"p{self._seq}", text, move.images_of(at)))
        if move.note is not None:
            self._items.append(NoteItem(self._next(), move.note))
        if not calls and not move.prompts and move.note is None:
            return False
        if move.system is not None:
            self._items.append(SystemItem(self._next(), move.system))
        return True

    def _open_calls(self) -> list[ToolCall]:
        last = self._items[-1] if self._items else None
        parts = last.parts if isinstance(last, AssistantItem) else ()
        return [part for part in parts if isinstance(part, ToolCall)]

    def _answer(self, parts: tuple[Part, ...], request: Request, step: int) -> None:
        """Append an answer and bind the forms that its request took."""
        forms = iter(request.forms)
        for at, item in enumerate(self._items):
            if isinstance(item, SystemItem) and item.form is None:
                self._items[at] = replace(item, form=next(forms))
        assert next(forms, None) is None
        sealed = tuple(self._sealed(parts, request.body))
        self._items.append(AssistantItem(self._next(), step, sealed, 2, "here/m"))

    def _sealed(self, parts: Sequence[Part], body: bytes) -> Iterator[Part]:
        """Bind each piece of reasoning to what stands before it, as the real provider does."""
        if self.story.protocol == "openai-responses":
            yield from self._items_of(parts, body)
            return
        if self.story.protocol == "gemini":
            yield from self._signed(parts, body)
            return
        if self.story.protocol == "openai-chat":
            member = {"member": "reasoning_content"}
            for part in parts:
                yield Reasoning(part.text, member) if isinstance(part, Reasoning) else part
            return
        received = as_received(body)
        before = conversation(received)
        for message in received.json["messages"]:
            for block in message["content"]:
                before.add(message["role"], unmarked(block))
        for part in parts:
            if isinstance(part, Reasoning):
                signature = before.sign(part.text)
                block = {"type": "thinking", "thinking": part.text, "signature": signature}
                yield Reasoning(part.text, block)
            else:
                yield part
                # What comes later in this answer is signed as the lowering will write it.
                for block in self._written(part):
                    before.add("assistant", block)

    def _items_of(self, parts: Sequence[Part], body: bytes) -> Iterator[Part]:
        """Give each part what its item in the Responses protocol has beside it."""
        received = as_received(body)
        before = conversation(received)
        for item in input_items(received.json):
            remember(before, item)
        reasoning = ""
        for part in parts:
            own = f"{self._next():016}"
            match part:
                case Reasoning(text):
                    reasoning = f"rs_{own}"
                    summary = [{"type": "summary_text", "text": text}]
                    sealed = {"encrypted_content": before.sign(reasoning), "summary": summary}
                    yield Reasoning(text, {"type": "reasoning", "id": reasoning, **sealed})
                    continue
                case Text(text):
                    said = {"type": "message", "role": "assistant", "status": "completed"}
                    remember(before, {**said, "content": text})
                    yield Text(text, {**said, "id": led_to("msg", own, reasoning)})
                case ToolCall():
                    call = {"type": "function_call", "id": led_to("fc", own, reasoning)}
                    yield replace(part, opaque=call)
            reasoning = ""

    def _signed(self, parts: Sequence[Part], body: bytes) -> Iterator[Part]:
        """Sign the first call for what stands before it, or an empty text at the end."""
        received = as_received(body)
        before = gemini_rules.conversation(received)
        for content in received.json["contents"]:
            for written in content["parts"]:
                gemini_rules.remember(before, content["role"], written)
        signed = False
        for part in parts:
            if isinstance(part, Reasoning):
                yield Reasoning(part.text, {"thought": True})
                continue
            for written in self._written(part):
                if isinstance(part, ToolCall) and not signed:
                    signature = before.sign(gemini_rules.sealed(written))
                    part, signed = replace(part, opaque={"thoughtSignature": signature}), True
                gemini_rules.remember(before, "model", written)
            yield part
        if not signed:
            signature = before.sign(gemini_rules.sealed({"text": ""}))
            yield Text("", {"thoughtSignature": signature})

    def _written(self, part: Part) -> list[dict[str, Any]]:
        if isinstance(part, Text) and not part.text.strip():
            return []
        answer = AssistantItem(9, 9, (part,), 2, "here/m")
        body = self.lowering().request([UserItem(1, "p", "x"), answer]).body
        found = msgspec.json.decode(body)
        if self.story.protocol == "gemini":
            return found["contents"][-1]["parts"]
        return [unmarked(block) for block in found["messages"][-1]["content"]]


def as_received(body: bytes) -> ReceivedRequest:
    """Return a body as the strict provider sees it."""
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    return ReceivedRequest(0, "POST", path, {}, body, msgspec.json.decode(body))


def unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}
