"""Gemini's generateContent: how the scripted provider puts a reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from perdure.history.content import Usage
from perdure.testing.cache import Account, PromptCache, estimate, tokens_of
from perdure.testing.gemini_rules import (
    check_body,
    conversation,
    needs_signatures,
    remember,
    sealed,
)
from perdure.testing.prefix import blocks
from perdure.testing.script import Called, Failure, Part, Reply, Said, Thought
from perdure.testing.signature import Conversation
from perdure.testing.stream import Frame, Trouble, halves, with_faults, words
from perdure.testing.wire import ReceivedRequest, Rejection, Response, Rules, identifier, is_object

_STOPS = {"end": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}

_ERRORS = {
    400: ("INVALID_ARGUMENT", "Request contains an invalid argument."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission"),
    404: ("NOT_FOUND", "Requested entity was not found."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    500: ("INTERNAL", "An internal error has occurred. Please retry."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request timed out. Please try again."),
}
_TROUBLES = {"overloaded_error": 503, "rate_limit_error": 429, "invalid_request_error": 400}

Piece = dict[str, Any]


class GeminiContents:
    """Serve `streamGenerateContent` and `generateContent` as Gemini does."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cache = PromptCache()

    def authorize(self, request: ReceivedRequest) -> None:
        """Raise Rejection when no key comes, or another one than the provider has."""
        key = request.headers.get("x-goog-api-key")
        if not key:
            raise Rejection(
                403,
                "Method doesn't allow unregistered callers (callers without established "
                "identity). Please use API Key or other form of API consumer identity to call "
                "this API.",
            )
        if self._rules.api_key is not None and key != self._rules.api_key:
            words = "API key not valid. Please pass a valid API key."
            raise Rejection(400, words, code="API_KEY_INVALID")

    def check(self, request: ReceivedRequest) -> Sequence[str]:
        """Return remarks about a request; raise Rejection when it is not acceptable."""
        remarks = check_body(request, self._rules)
        window = self._rules.window
        if window is not None and (total := tokens_of(blocks(request))) > window:
            raise Rejection(
                400,
                f"The input token count ({total}) exceeds the maximum number of tokens allowed "
                f"({window}).",
            )
        return remarks

    def models(self, names: Sequence[str]) -> Any:
        """Return the body of the list of models."""
        methods = ["generateContent", "countTokens"]
        return {
            "models": [
                {"name": f"models/{name}", "supportedGenerationMethods": methods} for name in names
            ]
        }

    def error_body(self, failure: Failure, param: str | None = None) -> Any:  # noqa: ARG002 - Wire
        """Return the body of an error."""
        status, message = _ERRORS.get(failure.status, ("UNKNOWN", "Error"))
        kind = failure.type if failure.type.isupper() else status
        error: dict[str, Any] = {
            "code": failure.status,
            "message": failure.message or message,
            "status": kind,
        }
        if failure.code:
            info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": failure.code}
            error["details"] = [info]
        return {"error": error}

    def answer(self, request: ReceivedRequest, reply: Reply) -> Response:
        """Render a reply that has content."""
        found = blocks(request)
        usage = _usage(reply, self._cache.account(found, range(len(found))))
        pieces = list(_parts(request, reply))
        closing = [pieces.pop()] if pieces and pieces[-1].get("text") == "" else []
        ending = _ending(request, reply, closing, usage)
        if ":streamGenerateContent" not in request.target:
            data = msgspec.json.encode(_joined(pieces, ending))
            steps = with_faults(halves(data), reply.faults, _error_frame)
            return Response(200, (("content-type", "application/json; charset=UTF-8"),), steps)
        shared = {name: ending[name] for name in ("modelVersion", "responseId")}
        frames = [_frame({"candidates": [_candidate([part])], **shared}) for part in pieces]
        steps = with_faults([*frames, _frame(ending)], reply.faults, _error_frame)
        return Response(200, (("content-type", "text/event-stream"),), steps)


def _candidate(parts: Sequence[Piece], **members: Any) -> dict[str, Any]:
    return {"content": {"parts": list(parts), "role": "model"}, **members, "index": 0}


def _joined(pieces: Sequence[Piece], ending: dict[str, Any]) -> dict[str, Any]:
    """Return the whole answer as one document."""
    last = ending["candidates"][0]
    parts = [*pieces, *last["content"]["parts"]]
    return ending | {"candidates": [last | {"content": {"parts": parts, "role": "model"}}]}


def _ending(
    request: ReceivedRequest, reply: Reply, closing: list[Piece], usage: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the last chunk, which says why the answer ends."""
    stop = reply.stop or "STOP"
    candidate = _candidate(closing, finishReason=_STOPS.get(stop, stop))
    calls = [part for part in reply.parts if isinstance(part, Called)]
    if broken := [part for part in calls if _args(part) is None]:
        words = f"Malformed function call: {broken[0].name}({broken[0].arguments})"
        candidate |= {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": words}
    counted = {} if usage is None else {"usageMetadata": usage}
    return {
        "candidates": [candidate],
        **counted,
        "modelVersion": request.model,
        "responseId": identifier(request),
    }


def _parts(request: ReceivedRequest, reply: Reply) -> Iterator[Piece]:
    """Yield the parts of an answer as they are streamed: texts in fragments, calls whole.

    The first call is signed; without calls, thinking is signed in an empty text at the end.
    """
    before = conversation(request)
    for content in request.json["contents"]:
        for part in content["parts"]:
            remember(before, content.get("role", "user"), part)
    thought = any(isinstance(part, Thought) for part in reply.parts)
    signs = thought or needs_signatures(request.model)
    for number, part in enumerate(reply.parts):
        if not isinstance(part, Called):
            yield from _texts(before, part)
        elif piece := _call(request, part, number):
            if signs:
                piece["thoughtSignature"] = before.sign(sealed(piece))
            signs = thought = False
            remember(before, "model", piece)
            yield piece
    if thought:
        yield {"text": "", "thoughtSignature": before.sign(sealed({"text": ""}))}


def _texts(before: Conversation, part: Said | Thought) -> Iterator[Piece]:
    if isinstance(part, Said):
        remember(before, "model", {"text": part.text})
        yield from ({"text": each} for each in words(part.text))
    elif not part.redacted:
        yield from ({"text": each, "thought": True} for each in words(part.text))


def _call(request: ReceivedRequest, part: Called, number: int) -> Piece | None:
    """Return a call; None where the arguments are no object, which this protocol cannot say."""
    args = _args(part)
    if args is None:
        return None
    call: Piece = {"name": part.name, "args": args}
    # Models from before Gemini 3 give their calls no id.
    made = identifier(request, number) if needs_signatures(request.model) else None
    own = part.id or made
    return {"functionCall": {**call, "id": own} if own else call}


def _args(part: Called) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(part.arguments)
    except msgspec.DecodeError:
        return None
    return value if is_object(value) else None


def _usage(reply: Reply, account: Account) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    usage = reply.usage or Usage(
        input=account.total,
        output=sum(estimate(_text(part)) for part in reply.parts),
        cache_read=account.read,
        reasoning=sum(estimate(part.text) for part in reply.parts if isinstance(part, Thought)),
    )
    counted = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "totalTokenCount": usage.input + usage.output,
    }
    if usage.cache_read:
        counted["cachedContentTokenCount"] = usage.cache_read
    if usage.reasoning:
        counted["thoughtsTokenCount"] = usage.reasoning
    return counted


def _text(part: Part) -> str:
    return part.arguments if isinstance(part, Called) else part.text


def _frame(chunk: dict[str, Any]) -> Frame:
    data = b"data: " + msgspec.json.encode(chunk) + b"\r\n\r\n"
    ends = "finishReason" in chunk["candidates"][0]
    return Frame(data, not ends, ends)


def _error_frame(trouble: Trouble) -> bytes:
    code = _TROUBLES.get(trouble.type, 500)
    error = {"code": code, "message": trouble.message, "status": _ERRORS[code][0]}
    return b"data: " + msgspec.json.encode({"error": error}) + b"\r\n\r\n"
