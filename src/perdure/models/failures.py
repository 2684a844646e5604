"""What providers say when they fail, as typed errors.

A Report is what a provider said; its status, its code and its words decide the class. Every
message is one line that ends with what to do.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from perdure.errors import (
    AuthenticationFailed,
    BrokenStream,
    ConnectionFailed,
    ContentRefused,
    ContextOverflow,
    EmptyAnswer,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    ProviderOverloaded,
    QuotaExceeded,
    RateLimited,
    Refused,
    SilentStream,
    SlowStream,
    Transient,
)
from perdure.models.encoding import as_array, as_object, as_text, mend, parse

WORDS = 300
"""How many characters of a provider's words a message quotes."""


class Peer(msgspec.Struct, frozen=True):
    """Whom an error is about, and what must never appear in it."""

    provider: str
    model: str
    address: str
    key_env: str = ""
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Peer({self.provider!r}, {self.model!r}, {self.address!r})"

    def quote(self, words: str) -> str:
        """Return words on one line, shortened, with secrets masked."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            words = words.replace(secret, "***")
        printable = "".join(char if char.isprintable() else " " for char in mend(words))
        line = " ".join(printable.split())
        return line if len(line) <= WORDS else line[: WORDS - 1] + "…"

    def refuse(self, kind: type[Refused], message: str, words: str = "") -> Refused:
        """Return an error that no HTTP status stands behind."""
        return kind(message, provider=self.provider, model=self.model, words=words)

    def broken(self, what: str) -> BrokenStream:
        """Return the error for a stream that is cut, malformed or out of order."""
        return BrokenStream(
            f"{self.provider} sent a broken stream: {what}; try again",
            provider=self.provider,
            model=self.model,
        )

    def cut(self) -> BrokenStream:
        """Return the error for a stream that ended too early."""
        return self.broken("it was cut before the answer was whole")

    def empty(self, why: str) -> EmptyAnswer:
        """Return the error for a whole stream that said nothing."""
        return EmptyAnswer(
            f"{self.provider} gave an empty answer{why}",
            provider=self.provider,
            model=self.model,
        )

    def silent(self, seconds: float) -> SilentStream:
        """Return the error for a provider that stopped talking."""
        return SilentStream(
            f"{self.provider} sent nothing for {seconds:g} s;"
            f" try again, or raise silence_timeout of the provider",
            provider=self.provider,
            model=self.model,
        )

    def slow(self, seconds: float) -> SlowStream:
        """Return the error for an answer that takes too long in all."""
        return SlowStream(
            f"{self.provider} did not end its answer within {seconds:g} s of waiting for it;"
            f" try again, or raise attempt_timeout of the provider",
            provider=self.provider,
            model=self.model,
        )

    def unreachable(self, reason: str, advice: str) -> ConnectionFailed:
        """Return the error for a connection that could not be made or kept."""
        return ConnectionFailed(
            f"no connection to {self.address} for {self.provider}: {self.quote(reason)}; {advice}",
            provider=self.provider,
            model=self.model,
        )


class Report(msgspec.Struct, frozen=True):
    """What a provider said when it failed: HTTP status or None, its code, its words.

    `page` tells that they stood on a page instead of an error of the protocol, so that they may be
    those of a proxy in between.
    """

    status: int | None
    code: str
    words: str
    retry_after: float | None = None
    page: bool = False


def report(status: int | None, body: object, text: str = "", after: float | None = None) -> Report:
    """Find code and words in an error body, in any of the shapes that servers use."""
    found = as_object(as_array(body)[0] if as_array(body) else body)
    inner = as_object(found.get("error")) or found
    details = list(map(as_object, as_array(inner.get("details"))))
    codes: list[Any] = [inner.get("code"), inner.get("type"), *_reasons(details)]
    codes.append(inner.get("status"))
    code = next((code for code in codes if isinstance(code, str) and code), "")
    number = next((code for code in codes if isinstance(code, int) and 400 <= code < 600), None)
    words = _words(inner) or _words(found.get("error")) or _words(found.get("detail")) or text
    wait = after if after is not None else _retry_delay(details)
    return Report(status or number, code.lower(), words, wait)


def _reasons(details: list[dict[str, Any]]) -> list[str]:
    """Return what Gemini says beside the status: which quota of a day is spent, a bad key."""
    violations = [each for detail in details for each in as_array(detail.get("violations"))]
    quotas = [as_text(as_object(violation).get("quotaId")) for violation in violations]
    daily = [quota for quota in quotas if "PerDay" in quota]
    keys = [detail.get("reason") for detail in details]
    return daily + [key for key in keys if key == "API_KEY_INVALID"]


def _retry_delay(details: list[dict[str, Any]]) -> float | None:
    """Return the seconds to wait that stand in the body, as Gemini writes them: `"34.07s"`."""
    for detail in details:
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", as_text(detail.get("retryDelay")))
        if found:
            return float(found[1])
    return None


def _words(value: object) -> str:
    if isinstance(value, str):
        return value
    if items := as_array(value):
        return "; ".join(words for item in items if (words := _words(item)))
    found = as_object(value)
    return as_text(found.get("message")) or as_text(found.get("msg"))


def page_words(body: bytes) -> str:
    """Return what an error body that is no JSON says to a reader; nothing where it is no text."""
    text = body.decode("utf-8", "replace")
    if "\0" in text or text.count("\ufffd") > len(text) // 8:
        return ""
    title = re.search(r"<title[^>]*>([^<]*)</title>", text, re.IGNORECASE)
    return title[1] if title else re.sub(r"<[^>]*>", " ", text)


def response_report(status: int, body: bytes, after: float | None) -> Report:
    """Return the report of an HTTP response."""
    value = parse(body)
    page = not isinstance(value, dict | list)
    said = report(status, value, page_words(body) if page else "", after)
    return msgspec.structs.replace(said, page=page)


_STATUS: dict[str, int] = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "conflict_error": 409,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "invalid_request_error": 400,
    "bad_request": 400,
    "invalid_prompt": 400,
    "invalid_encrypted_content": 400,
    "data_residency_mismatch": 400,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
    "invalid_argument": 400,
    "failed_precondition": 400,
    "api_key_invalid": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "resource_exhausted": 429,
    "deadline_exceeded": 504,
}
"""The status that an error inside a stream would have had."""


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_QUOTA = _any(
    r"insufficient[_ ](quota|credits?|balance|funds)",
    r"billing",
    r"credit balance is too low",
    r"exceeded your current quota",
    r"credits (are|were|have been) (depleted|exhausted|used up)",
    r"(api|key|monthly) (usage )?limits? exceeded|api usage limits",
    r"spend(ing)? (cap|limit)",
    r"perday",
)
_RATE = ("rate_limit_exceeded", "rate_limit_error")
_PLACE = _any(
    r"unsupported_country",
    r"(country|region|territory|location)\b.{0,40}\bnot (supported|available)",
)
_CONTENT = _any(
    r"content[_ ](policy|filter)",
    r"content management policy",
    r"(bio|cyber)_policy",
    r"policy_violation",
    r"responsibleai",
    r"usage polic",
    r"flagged",
)
_OVERFLOW = _any(
    r"context[_ ](length|size|window)",
    r"context limit",
    r"exceed_context_size",
    r"prompt is too (long|big)",
    r"input is too long",
    r"too many (input )?tokens",
    r"input (token count|length)",
    r"tokens to keep from the initial prompt",
    r"reduce the length",
)
_TEMPLATE = _any(
    r"system message must be at the beginning",
    r"system (role|messages?) (is |are )?not supported",
    r"role '?system'? (is )?not supported",
    r"(unexpected|invalid|unknown|unsupported) (message )?role",
    r"only user.{0,20}assistant.{0,20}roles",
    r"should be '(user|assistant|system)'",
    r"roles must alternate",
    r"\bjinja\b",
)
_SYSTEM = _any(r"system", r"role", r"should be 'user'")
_IMAGE = _any(r"\bimages?\b", r"image_(url|input)", r"invalid_image", r"inline_?data")
_NO_MODEL = _any(
    r"model_not_found",
    r"not a valid model",
    r"model.{0,80}(does not exist|not found|not exist)",
)


def failure(peer: Peer, said: Report) -> ProviderError:
    """Return the typed error for what a provider said."""
    kind = _classify(said)
    words = peer.quote(said.words or said.code)
    verb = f"answered {said.status}" if said.status else "broke off the stream"
    parts = [f"{peer.provider} {verb}" + (f": {words.rstrip('. ')}" if words else "")]
    parts.append(_advice(kind, peer, said))
    facts: dict[str, Any] = {
        "provider": peer.provider,
        "model": peer.model,
        "status": said.status,
        "words": words,
    }
    if issubclass(kind, Transient):
        return kind("; ".join(parts), retry_after=said.retry_after, **facts)
    return kind("; ".join(parts), **facts)


def _classify(said: Report) -> type[ProviderError]:
    text = f"{said.code} {said.words}"
    status = said.status or _STATUS.get(said.code, 500)
    if status == 401 or said.code == "api_key_invalid":
        return AuthenticationFailed
    if said.code == "resource_exhausted" and said.retry_after is not None:
        # Its words are those of a spent quota, also where only the minute's share is spent.
        return RateLimited
    if status == 429 and said.code in _RATE:
        # Its words often end with where to pay for more, which is no sign of a spent quota.
        return RateLimited
    if status == 402 or _QUOTA.search(text):
        return QuotaExceeded
    if _CONTENT.search(text):
        return ContentRefused
    if status == 413 or (status in (400, 422, 500) and _OVERFLOW.search(text)):
        return ContextOverflow
    if _TEMPLATE.search(text) or (status in (400, 403) and _PLACE.search(text)):
        return InvalidRequest
    return _by_status(status, text)


def _by_status(status: int, text: str) -> type[ProviderError]:
    if status == 403:
        return AuthenticationFailed
    if status == 404 or (status < 500 and _NO_MODEL.search(text)):
        return ModelNotFound
    if status in (408, 409, 425, 429):
        return RateLimited
    return ProviderOverloaded if status >= 500 else InvalidRequest


def _advice(kind: type[ProviderError], peer: Peer, said: Report) -> str:
    if kind is AuthenticationFailed:
        advice = f"set {peer.key_env or 'the api_key_env of the provider'} to a valid key"
        between = ", or ask who runs the proxy or firewall on the way"
        return advice + between if said.page and said.words.strip() else advice
    if kind is InvalidRequest:
        return _advice_on_request(said)
    if kind is ModelNotFound:
        return f"check the model {peer.model!r} and the base_url of the provider"
    if kind in (RateLimited, ProviderOverloaded) and said.retry_after:
        return f"try again in {said.retry_after:g} s"
    return _ADVICE[kind]


def _advice_on_request(said: Report) -> str:
    if said.status is not None and said.status < 400:
        return (
            "sign in to the network if it asks for that, or set base_url to the new address;"
            " redirects are not followed, so that the key stays here"
        )
    if said.status == 407:
        return "put the name and password that the proxy wants into HTTPS_PROXY"
    if _TEMPLATE.search(said.words) and _SYSTEM.search(said.words):
        return 'set system_messages = "wrapped" for this model'
    if _PLACE.search(f"{said.code} {said.words}"):
        return "use a provider that serves the country in which this machine is"
    if _IMAGE.search(said.words):
        # It stands in the history, and so in every later request too.
        return (
            "go on from before the image (/undo in a chat, or a fork), or set images = false for "
            "this model, which is then told their names alone"
        )
    return "check the parameters of the model"


_ADVICE: dict[type[ProviderError], str] = {
    QuotaExceeded: "add credit to the account or use another provider",
    ContentRefused: "change the prompt",
    ContextOverflow: "shorten the conversation or use a model with a larger window",
    RateLimited: "try again later",
    ProviderOverloaded: "try again later",
}
