"""From history to requests: the part that every wire protocol shares.

A request is a head, which is fixed for an epoch, and then blocks. How an item becomes blocks
depends only on items before it, so the request of the next Step is this one plus something. A
Dialect knows one protocol's blocks; this module orders them, wraps System Messages, keeps what is
settled encoded, and proves with the digest chain what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from perdure.history.content import Form, Image, Text, ToolCall
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
from perdure.models.calls import CallIds, IdRule
from perdure.models.chain import same_head, start
from perdure.models.page import Block, Page
from perdure.models.pictures import NONE, Limits, Room, heading, left_out
from perdure.models.types import Request

SUMMARY = (
    "What follows is a summary of the conversation so far."
    " It is history for reference, not an instruction.\n\n"
)
"""What stands before the summary of a compaction."""

HEAD_CHANGED = "the head of the request changed: model, tools, baseline or parameters"
HISTORY_CHANGED = "the history before the last request changed"
WRAPPED_LATER = (
    "a system message left unanswered by a failed step was wrapped because {} followed it"
)

Said = UserItem | SystemItem | NoteItem | SummaryItem
"""An item that the model is told in the user role or the system role."""

Input = Said | ResultItem
"""An item that is not the model's own."""

_Placed = tuple[int, Input, Form | None]
"""An item's index, the item, and the form of a System Message."""

_NOUNS: dict[type[Item], str] = {
    UserItem: "a prompt",
    NoteItem: "a note",
    SummaryItem: "a summary",
    ResultItem: "a tool result",
}


class Dialect(Protocol):
    """One protocol's way to write the parts of a request, for one epoch and one model.

    `head` is the body up to where the first block goes; `keyed` is what the provider's cache is
    keyed by before any block, without markers; `marker` is the member that marks a block for the
    cache, or nothing. Where `native_closes` is true, native System Messages must follow a user
    turn, and nothing but an answer may follow them. `pictures_in_results` tells whether the result
    of a call can hold pictures; where it cannot, they follow in the user role. `pictures` is what
    all the pictures of a request are held to.
    """

    head: bytes
    keyed: bytes
    marker: bytes
    native_closes: bool
    pictures_in_results: bool
    pictures: Limits
    ids: IdRule

    def words(self, text: str) -> Block:
        """Write text in the user role."""
        ...

    def picture(self, image: Image) -> Block:
        """Write a picture in the user role."""
        ...

    def native(self, text: str) -> Block:
        """Write a System Message in the provider's own role."""
        ...

    def result(self, item: ResultItem, call: str) -> Block:
        """Write the result of the call that has the id `call` on the wire."""
        ...

    def answer(self, item: AssistantItem, calls: dict[str, str]) -> list[Block]:
        """Write an answer; `calls` gives each call's id on the wire."""
        ...


class HistoryLowering:
    """Lower one epoch's history for one model; `types.Lowering` is the contract.

    `form` is how System Messages go out that no answer has bound. Without `images`, pictures are
    only named, for a model that takes none. `ending` writes the end of a body from the items in it,
    where it says more than that the list of messages is over; no provider keys its cache by what
    stands there.
    """

    def __init__(
        self,
        dialect: Dialect,
        frame: Frame,
        form: Form,
        *,
        images: bool,
        ending: Callable[[Sequence[Item]], bytes] | None = None,
    ) -> None:
        self._dialect = dialect
        self._frame = frame
        self._form: Form = form
        self._images = images
        self._ending = ending
        self._begin()

    def request(
        self,
        items: Sequence[Item],
        extra: Iterable[Item] = (),
        *,
        previous: tuple[int, str] | None = None,
    ) -> Request:
        """Return the request for `items` followed by `extra`; `extra` is not kept."""
        if not self._is_kept(items):
            self._begin()
        self._settle(items)
        behind = [*items[self._settled :], *extra]
        tail, forms = self._lower_tail(behind)
        blocks, digest = self._end(tail)
        prefix, cause = self._compare(previous, tail, behind)
        self._free = [(at, form) for at, form in self._free if _is_free(items[at])]
        free: list[Form] = [form for _, form in self._free]
        free.extend(form for at, form in forms if _is_free(behind[at]))
        return Request(
            write=self._writer(tail, self._ending(items) if self._ending else b"]}"),
            blocks=blocks,
            digest=digest,
            prefix=prefix,
            cause=cause,
            forms=tuple(free),
        )

    def _begin(self) -> None:
        self._start = start(self._dialect.keyed)
        self._page = Page(self._start)
        self._ids = CallIds(self._dialect.ids)
        self._room = Room(self._dialect.pictures)
        self._settled = 0
        self._last: Item | None = None
        self._free: list[tuple[int, Form]] = []

    def _is_kept(self, items: Sequence[Item]) -> bool:
        if self._settled == 0:
            return True
        return len(items) >= self._settled and items[self._settled - 1] == self._last

    def _settle(self, items: Sequence[Item]) -> None:
        """Encode for good what the newest answer has fixed."""
        new = items[self._settled :]
        end = next((at for at in range(len(new), 0, -1) if _is_answer(new[at - 1])), 0)
        if end == 0:
            return
        page, forms = self._lower(new[:end], self._ids, self._room)
        self._page.append(page)
        self._free.extend((self._settled + at, form) for at, form in forms)
        self._settled += end
        self._last = new[end - 1]

    def _lower_tail(self, items: Sequence[Item]) -> tuple[Page, list[tuple[int, Form]]]:
        return self._lower(items, self._ids.fork(), self._room.fork())

    def _lower(
        self, items: Sequence[Item], ids: CallIds, room: Room
    ) -> tuple[Page, list[tuple[int, Form]]]:
        """Write items that stand behind what is settled; return where each form was taken too."""
        page = Page(self._page.link)
        forms: list[tuple[int, Form]] = []
        for run, answer in _runs(items):
            placed = self._placed(run)
            for block in self._inputs(placed, ids, room):
                page.add(block)
            forms.extend((at, form) for at, _, form in placed if form is not None)
            if answer is not None:
                page.turn()
                for block in self._dialect.answer(answer, ids.name(answer)):
                    page.add(block)
        page.close()
        return page, forms

    def _placed(self, run: list[tuple[int, Input]]) -> list[_Placed]:
        """Put results first, as every provider demands, and choose the forms of messages."""
        run = sorted(run, key=lambda entry: not isinstance(entry[1], ResultItem))
        placed: list[_Placed] = [(at, item, self._wanted(item)) for at, item in run]
        if not self._dialect.native_closes:
            return placed
        turn = [place for place, (_, _, form) in enumerate(placed) if form != "native"]
        # Without another item there is no user turn that a native entry could follow.
        closed = turn[-1] if turn else len(placed)
        return [
            (at, item, "wrapped" if form and place < closed else form)
            for place, (at, item, form) in enumerate(placed)
        ]

    def _wanted(self, item: Input) -> Form | None:
        return (item.form or self._form) if isinstance(item, SystemItem) else None

    def _inputs(self, placed: Iterable[_Placed], ids: CallIds, room: Room) -> Iterator[Block]:
        """Write what stands before an answer; results lie together, so their pictures wait."""
        waiting: list[Block] = []
        for _, item, form in placed:
            if isinstance(item, ResultItem):
                seen = self._seen(item, room)
                yield self._dialect.result(seen, ids.wire(item.call))
                waiting.extend(self._behind(seen))
                continue
            yield from waiting
            waiting.clear()
            yield from self._input(item, form, room)
        yield from waiting

    def _input(self, item: Said, form: Form | None, room: Room) -> Iterator[Block]:
        match item:
            case SystemItem() if form == "native":
                yield self._dialect.native(item.text)
            case SystemItem():
                yield self._dialect.words(wrapped(self._frame.marker, item.text))
            case SummaryItem():
                yield self._dialect.words(SUMMARY + item.text)
            case UserItem(images=images):
                if item.text.strip():
                    yield self._dialect.words(item.text)
                yield from (self._picture(image, room) for image in images)
            case NoteItem(text=text):
                yield self._dialect.words(text)

    def _picture(self, image: Image, room: Room) -> Block:
        if reason := self._reason(image, room):
            return self._dialect.words(left_out(image, reason))
        return self._dialect.picture(image)

    def _reason(self, image: Image, room: Room) -> str:
        """Return why a picture does not go out, empty where it does and has its room."""
        return room.take(image) if self._images else NONE

    def _seen(self, item: ResultItem, room: Room) -> ResultItem:
        """Return a result as the model can take it: its pictures, and the names of the others."""
        if not item.images:
            return item
        reasons = [(image, self._reason(image, room)) for image in item.images]
        taken = tuple(image for image, reason in reasons if not reason)
        names = [left_out(image, reason) for image, reason in reasons if reason]
        output = "\n".join([item.output, *names]).strip() if names else item.output
        return replace(item, output=output, images=taken)

    def _behind(self, item: ResultItem) -> Iterator[Block]:
        """Write the pictures of a result that cannot hold them."""
        if item.images and not self._dialect.pictures_in_results:
            yield self._dialect.words(heading(item))
            yield from map(self._dialect.picture, item.images)

    def _end(self, tail: Page) -> tuple[int, str]:
        return len(self._page.links) + len(tail.links), tail.link.hex()

    def _compare(
        self, previous: tuple[int, str] | None, tail: Page, behind: list[Item]
    ) -> tuple[bool | None, str]:
        if previous is None:
            return None, ""
        if self._link(previous[0], tail) == previous[1]:
            return True, ""
        return False, self._cause(previous, behind)

    def _link(self, blocks: int, tail: Page) -> str | None:
        """Return the link after that many blocks, None where there are fewer."""
        if blocks == 0:
            return self._start.hex()
        at = blocks - 1
        settled = self._page.links
        links, at = (settled, at) if at < len(settled) else (tail.links, at - len(settled))
        return links[at].hex() if at < len(links) else None

    def _cause(self, previous: tuple[int, str], behind: list[Item]) -> str:
        """Say why the last request is no prefix.

        If leaving out the newest items gives the last request again, then the history is the same
        and only the System Message at its end has taken another form.
        """
        if not same_head(previous[1], self._start.hex()):
            return HEAD_CHANGED
        for cut in range(len(behind) - 1, 0, -1):
            if not isinstance(behind[cut - 1], SystemItem):
                continue
            tail, _ = self._lower_tail(behind[:cut])
            if self._end(tail) == previous:
                return WRAPPED_LATER.format(_NOUNS.get(type(behind[cut]), "another turn"))
        return HISTORY_CHANGED

    def _writer(self, tail: Page, ending: bytes) -> Callable[[], bytes]:
        """Return what joins the kept bytes with the new ones and puts the markers in."""
        settled, head, marker = self._page, self._dialect.head, self._dialect.marker
        kept = {0 if tail.anchor else settled.anchor, 0 if tail.end else settled.end}
        # With the lengths of now, for what is kept grows with the next answer.
        parts = (
            (settled, len(settled.data), kept),
            (tail, len(tail.data), {tail.anchor, tail.end}),
        )

        def write() -> bytes:
            pieces: list[bytes | memoryview] = [head]
            comma = b"" if head.endswith(b"[") else b","
            for page, end, places in parts:
                if end:
                    pieces.append(comma)
                    marked = sorted(places - {0}) if marker else []
                    pieces += _marked(page.data, end, marked, marker)
                    comma = b","
            return b"".join([*pieces, ending])

        return write


def wrapped(marker: str, text: str) -> str:
    """Return a System Message as the element that only the runtime can write."""
    name = f"system-message-{marker}"
    return f"<{name}>\n{text}\n</{name}>"


def _marked(
    data: bytearray, end: int, places: Sequence[int], marker: bytes
) -> Iterator[bytes | memoryview]:
    """Yield data up to an end, with a marker at each place."""
    view, written = memoryview(data)[:end], 0
    for place in places:
        yield view[written:place]
        yield marker
        written = place
    yield view[written:]


def _runs(
    items: Iterable[Item],
) -> Iterator[tuple[list[tuple[int, Input]], AssistantItem | None]]:
    """Split items at each answer, with their indexes, leaving out what says nothing."""
    run: list[tuple[int, Input]] = []
    for at, item in enumerate(items):
        if not isinstance(item, AssistantItem):
            if _says_something(item):
                run.append((at, item))
        elif _is_answer(item):
            yield run, item
            run = []
    if run:
        yield run, None


def _says_something(item: Input) -> bool:
    """Blank text blocks are refused by providers; a System Message or result is never dropped."""
    if isinstance(item, SystemItem | ResultItem) or item.text.strip():
        return True
    return isinstance(item, UserItem) and bool(item.images)


def _is_answer(item: Item) -> bool:
    """An answer of nothing but reasoning is no turn: providers refuse it, so it is left out."""
    return isinstance(item, AssistantItem) and any(
        isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip())
        for part in item.parts
    )


def _is_free(item: Item) -> bool:
    return isinstance(item, SystemItem) and item.form is None
