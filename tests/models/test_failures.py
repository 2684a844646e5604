"""What providers say when they fail, and the error that it becomes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import errors
from perdure.models.failures import Peer, Report, failure, response_report
from tests.models.streams import PEER


def refused(status: int, body: Any, after: float | None = None) -> errors.ProviderError:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return failure(PEER, response_report(status, data, after))


def openai(message: str, code: str | None = None, kind: str = "invalid_request_error") -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error") -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


CASES: list[tuple[int, Any, type[errors.ProviderError]]] = [
    (401, anthropic("invalid x-api-key", "authentication_error"), errors.AuthenticationFailed),
    (401, openai("Incorrect API key", "invalid_api_key"), errors.AuthenticationFailed),
    (403, anthropic("not allowed", "permission_error"), errors.AuthenticationFailed),
    (403, b"<html><title>Forbidden</title></html>", errors.AuthenticationFailed),
    (403, openai("Your input was flagged by moderation"), errors.ContentRefused),
    (402, openai("Insufficient credits"), errors.QuotaExceeded),
    (429, openai("You exceeded your current quota", "insufficient_quota"), errors.QuotaExceeded),
    (400, anthropic("Your credit balance is too low to access the API"), errors.QuotaExceeded),
    (
        400,
        anthropic("You have reached your specified API usage limits. You regain access on Monday."),
        errors.QuotaExceeded,
    ),
    (
        429,
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Credits are depleted"}},
        errors.QuotaExceeded,
    ),
    (429, {"error": {"message": "You reached the monthly spending cap"}}, errors.QuotaExceeded),
    (403, {"error": {"message": "Key limit exceeded", "code": 403}}, errors.QuotaExceeded),
    (
        429,
        openai("Slow down. Add a card at example.org/billing", "rate_limit_exceeded", "tokens"),
        errors.RateLimited,
    ),
    (403, openai("no", "unsupported_country_region_territory"), errors.InvalidRequest),
    (400, openai("no", "content_policy_violation"), errors.ContentRefused),
    (400, openai("The response was filtered", "content_filter"), errors.ContentRefused),
    (404, anthropic("model: nope", "not_found_error"), errors.ModelNotFound),
    (404, {"error": 'model "nope" not found, try pulling it first'}, errors.ModelNotFound),
    (404, b"404 page not found", errors.ModelNotFound),
    (400, openai("nope is not a valid model ID"), errors.ModelNotFound),
    (400, openai("The model `nope` does not exist", "model_not_found"), errors.ModelNotFound),
    (400, openai("too long", "context_length_exceeded"), errors.ContextOverflow),
    (
        400,
        openai("This model's maximum context length is 4096 tokens. However, you requested 5000"),
        errors.ContextOverflow,
    ),
    (400, anthropic("prompt is too long: 210000 tokens > 200000 maximum"), errors.ContextOverflow),
    (
        400,
        anthropic("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"),
        errors.ContextOverflow,
    ),
    (
        400,
        openai("the request exceeds the available context size", kind="exceed_context_size_error"),
        errors.ContextOverflow,
    ),
    (500, openai("the context length of the model is exceeded"), errors.ContextOverflow),
    (
        400,
        {"error": "the prompt is too long; it exceeds the context length"},
        errors.ContextOverflow,
    ),
    (
        400,
        {"error": "Trying to keep the first 4821 tokens when the context length is only 4096"},
        errors.ContextOverflow,
    ),
    (
        413,
        anthropic("Request exceeds the maximum size", "request_too_large"),
        errors.ContextOverflow,
    ),
    (413, b"<html>Request Entity Too Large</html>", errors.ContextOverflow),
    (400, openai("Unknown parameter: 'x'"), errors.InvalidRequest),
    (405, b"", errors.InvalidRequest),
    (422, {"detail": [{"loc": ["body"], "msg": "Field required"}]}, errors.InvalidRequest),
    (500, openai("System message must be at the beginning."), errors.InvalidRequest),
    (400, anthropic("role 'system' is not supported on this model"), errors.InvalidRequest),
    (429, anthropic("slow down", "rate_limit_error"), errors.RateLimited),
    (408, b"", errors.RateLimited),
    (409, b"", errors.RateLimited),
    (425, b"", errors.RateLimited),
    (500, b"", errors.ProviderOverloaded),
    (503, b"<html><h1>Service Unavailable</h1></html>", errors.ProviderOverloaded),
    (529, anthropic("Overloaded", "overloaded_error"), errors.ProviderOverloaded),
]


@pytest.mark.parametrize(("status", "body", "kind"), CASES)
def test_status_and_body_decide_the_type(
    status: int, body: Any, kind: type[errors.ProviderError]
) -> None:
    error = refused(status, body)
    assert type(error) is kind
    assert error.status == status
    assert (error.provider, error.model) == ("acme", "m")


def test_the_message_quotes_the_provider_and_says_what_to_do() -> None:
    error = refused(401, anthropic("invalid x-api-key.", "authentication_error"))
    assert str(error) == "acme answered 401: invalid x-api-key; set ACME_KEY to a valid key"
    assert error.words == "invalid x-api-key."


@pytest.mark.parametrize(
    ("status", "body", "advice"),
    [
        (404, b"", "check the model 'm' and the base_url of the provider"),
        (402, b"", "add credit to the account or use another provider"),
        (413, b"", "shorten the conversation or use a model with a larger window"),
        (500, openai("System message must be at the beginning."), 'system_messages = "wrapped"'),
        (400, openai("Unknown parameter: 'x'"), "check the parameters of the model"),
        (400, anthropic("Could not process image"), "go on from before the image"),
        (400, openai("Invalid 'messages[1].content[0].image_url'."), "set images = false"),
        (400, openai("User location is not supported for this API"), "serves the country"),
        (429, b"", "try again later"),
        (301, b"", "set base_url to the new address"),
    ],
)
def test_each_kind_has_its_advice(status: int, body: Any, advice: str) -> None:
    assert advice in str(refused(status, body))


def test_the_seconds_to_wait_are_told_and_kept() -> None:
    error = refused(429, anthropic("slow down"), after=7.0)
    assert isinstance(error, errors.Transient)
    assert error.retry_after == 7.0
    assert str(error) == "acme answered 429: slow down; try again in 7 s"


def test_a_key_never_appears_even_where_the_provider_repeats_it() -> None:
    error = refused(401, openai("Incorrect API key provided: secret-key."))
    assert "secret-key" not in str(error) + error.words + repr(PEER)
    assert "Incorrect API key provided: ***" in str(error)


def test_words_are_one_short_line_without_control_characters() -> None:
    error = refused(400, openai("first\n\tsecond \x1b[31mred " + "x" * 1000))
    assert error.words.startswith("first second [31mred xxx")
    assert len(error.words) == 300
    assert error.words.endswith("…")


def test_a_page_gives_its_title() -> None:
    page = b"<html><head><title>502 Bad\nGateway</title></head><body>nginx</body></html>"
    assert "acme answered 502: 502 Bad Gateway;" in str(refused(502, page))


@pytest.mark.parametrize("body", [b"\x89PNG\r\n\0\0IHDR", bytes(range(128, 256)) * 3])
def test_a_body_that_is_no_text_is_not_quoted(body: bytes) -> None:
    assert str(refused(502, body)) == "acme answered 502; try again later"


def test_a_wait_of_no_time_is_no_time_to_name() -> None:
    assert str(refused(429, anthropic("slow down"), after=0.0)).endswith("; try again later")


def test_a_body_without_words_gives_none() -> None:
    assert str(refused(503, b"")) == "acme answered 503; try again later"


@given(st.integers(300, 599), st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_any_body_gives_one_printable_line(status: int, body: bytes) -> None:
    error = failure(PEER, response_report(status, body, None))
    assert str(error).isprintable()


@given(st.text(alphabet="ab-_", min_size=4, max_size=12), st.text(max_size=5))
def test_no_secret_survives_a_quote(secret: str, around: str) -> None:
    peer = Peer("acme", "m", "", "", (secret,))
    quoted = peer.quote(f"{around}{secret}{around}")
    assert secret not in quoted


def test_the_code_stands_in_for_missing_words() -> None:
    assert "broke off the stream: server_error;" in str(
        failure(PEER, Report(None, "server_error", ""))
    )


def test_an_empty_document_has_no_words() -> None:
    assert str(refused(503, {})) == "acme answered 503; try again later"


def test_a_page_that_refuses_may_be_that_of_a_proxy() -> None:
    page = b"<html><title>403 Forbidden</title></html>"
    assert "or ask who runs the proxy" in str(refused(403, page))
    assert "proxy" not in str(refused(403, anthropic("not allowed", "permission_error")))
    assert "HTTPS_PROXY" in str(refused(407, b"<html>Proxy Authentication Required</html>"))
