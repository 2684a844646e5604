"""Every error that Perdure raises.

    PerdureError
    ├── UsageError                 the caller asked for something that cannot be
    │   ├── ConfigurationError     a file, key or value of the configuration is wrong
    │   ├── NoProvider             nothing is configured that could answer
    │   ├── UnknownProvider        no provider of that name
    │   ├── UnknownModel           a provider has no model of that name
    │   ├── SessionNotFound        no session has that id
    │   ├── AmbiguousId            a shortened id fits several
    │   ├── DirectoryNotFound      a Location must be an existing directory
    │   ├── ImageRefused           an image cannot be taken, or the model takes none
    │   └── ImportRefused          a file is not a whole, valid export
    ├── ContextError               a System Context cannot be composed
    │   ├── InvalidKey             a key is not `namespace/name`
    │   └── DuplicateKey           two sources have one key
    ├── PromptConflict             a prompt id is already used, or the prompt is gone
    ├── ConcurrencyError           a write was refused because another came first
    │   ├── LeaseLost              this process no longer owns the session's drain
    │   └── StaleBoundary          something landed after the boundary sampled
    ├── StoreError                 the database cannot serve
    │   ├── StoreLocked            another process holds it for too long
    │   ├── StoreFull              the disk is full
    │   ├── StoreReadOnly          it cannot be written
    │   ├── StoreDamaged           its content is not what was written
    │   └── StoreTooNew            a newer Perdure wrote it
    ├── ProviderError              an Attempt failed
    │   ├── Refused                401, 403, 404, 400 …: repeating it cannot help
    │   │   ├── AuthenticationFailed
    │   │   ├── ModelNotFound
    │   │   ├── InvalidRequest
    │   │   ├── QuotaExceeded
    │   │   ├── ContentRefused
    │   │   └── ContextOverflow    the request is longer than the model's window
    │   └── Transient              it may help to try again
    │       ├── RateLimited
    │       ├── ProviderOverloaded
    │       ├── ConnectionFailed
    │       ├── SilentStream       nothing came for too long
    │       ├── SlowStream         it came, but was not whole in time
    │       ├── BrokenStream       cut, malformed or out of order
    │       └── EmptyAnswer        a whole stream that said nothing
    ├── ToolError                  a tool tells the model that it failed
    └── CrashLoop                  the session ended its process again and again

Each message is one line that says what happened, with its ids, and what to do next.
"""

from __future__ import annotations


class PerdureError(Exception):
    """Base of every error that Perdure raises on purpose."""


class UsageError(PerdureError):
    """The caller asked for something that cannot be. The command line exits with 2."""


class ConfigurationError(UsageError):
    """A file, key or value of the configuration is wrong; the message names all three."""


class NoProvider(UsageError):
    """Nothing is configured that could answer."""


class UnknownProvider(UsageError):
    """No provider of that name is configured."""


class UnknownModel(UsageError):
    """A model name is missing or cannot be used."""


class SessionNotFound(UsageError):
    """No session has that id."""


class AmbiguousId(UsageError):
    """A shortened id fits several sessions."""


class DirectoryNotFound(UsageError):
    """A Location must be an existing directory."""


class ImageRefused(UsageError):
    """An image file is broken, too large or no image, or the model takes none; says which."""


class ImportRefused(UsageError):
    """A file is not a whole, valid export; nothing was imported."""


class ContextError(PerdureError):
    """A System Context cannot be composed."""


class InvalidKey(ContextError):
    """A Context Source key is not `namespace/name`."""


class DuplicateKey(ContextError):
    """Two Context Sources of one composition have the same key."""


class PromptConflict(PerdureError):
    """A prompt id belongs to another session, or the prompt can no longer be changed."""


class ConcurrencyError(PerdureError):
    """A write was refused because another one came first; nothing was written."""


class LeaseLost(ConcurrencyError):
    """This process no longer owns the session's drain."""


class StaleBoundary(ConcurrencyError):
    """A move, a switch, an entry or a change of the inbox landed after the boundary sampled."""


class StoreError(PerdureError):
    """The database cannot serve. What was acknowledged before is safe."""


class StoreLocked(StoreError):
    """Another process holds the database for longer than the busy timeout."""


class StoreFull(StoreError):
    """The disk is full; nothing of this write was stored."""


class StoreReadOnly(StoreError):
    """The database or its directory cannot be written."""


class StoreDamaged(StoreError):
    """The content of the database is not what was written."""


class StoreTooNew(StoreError):
    """A newer version of Perdure wrote the database."""


class ProviderError(PerdureError):
    """An Attempt failed.

    `provider` and `model` name the addressee, `status` is the HTTP status where there was one,
    `words` is the provider's own text, shortened and with credentials removed.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        words: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.status = status
        self.words = words


class Refused(ProviderError):
    """The provider said no; repeating the same request cannot help."""


class AuthenticationFailed(Refused):
    """The key is missing, wrong, expired or not allowed."""


class ModelNotFound(Refused):
    """The provider does not know the model, or there is nothing at that address."""


class InvalidRequest(Refused):
    """The provider cannot accept the request as it is."""


class QuotaExceeded(Refused):
    """The account has no credit left."""


class ContentRefused(Refused):
    """The provider's content policy refused the request or the answer."""


class ContextOverflow(Refused):
    """The request is longer than the model's window."""


class Transient(ProviderError):
    """The Attempt may succeed when it is repeated.

    `retry_after` is the number of seconds that the provider asked to wait, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        status: int | None = None,
        words: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, provider=provider, model=model, status=status, words=words)
        self.retry_after = retry_after


class RateLimited(Transient):
    """429: too many requests."""


class ProviderOverloaded(Transient):
    """5xx or 529: the provider cannot serve now."""


class ConnectionFailed(Transient):
    """No connection could be made, or it broke before an answer began."""


class SilentStream(Transient):
    """Nothing came from the provider for longer than the silence timeout."""


class SlowStream(Transient):
    """An answer came, but was not whole when the time of its Attempt was up."""


class BrokenStream(Transient):
    """A stream was cut, malformed or out of order."""


class EmptyAnswer(Transient):
    """A stream ended well but said nothing and called nothing."""


class ToolError(PerdureError):
    """A tool tells the model that it failed; the message is the result the model reads."""


class CrashLoop(PerdureError):
    """Each of many steps in a row ended with the process that ran it; the last one has failed."""
