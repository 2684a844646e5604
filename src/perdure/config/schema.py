"""What can be configured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from perdure.history.content import Form

ProtocolName = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
"""The wire protocols that a provider may speak."""

Permission = Literal["allow", "ask", "deny"]
"""Whether a tool may run: always, after a question, never. Where nobody can answer, ask denies."""


class Rule(msgspec.Struct, frozen=True):
    """What holds for calls of the tools that `tool` fits, on the resources that `resource` fits.

    In both, `*` stands for any text and `?` for one character; a backslash takes a character as it
    is. Of all rules that fit a call, the last one counts. `file` is where it stands, empty where
    that is no file.
    """

    tool: str
    resource: str
    permission: Permission
    file: str = ""

    def __str__(self) -> str:
        about = self.tool if self.resource == "*" else f"{self.tool}({self.resource})"
        return f"{about}: {self.permission}"


OnMove = Literal["epoch", "update"]
"""What a move does to the System Context: a new Context Epoch, or a System Message."""


class Price(msgspec.Struct, frozen=True):
    """What tokens cost, in US dollars per million of them.

    `input` holds for input that was neither read from the provider's prompt cache nor written to
    it, `cache_read` and `cache_write` for what was. `output` holds for reasoning too.
    """

    input: float
    output: float
    cache_read: float
    cache_write: float


class ModelConfig(msgspec.Struct, frozen=True):
    """One model behind one provider; None leaves a value to the catalog.

    `context_window` and `max_output` are tokens. `system_messages` is the form in which System
    Messages go out. `images` says whether it takes pictures. `parameters` are further members of
    the request body, as JSON data. `price` is what its tokens cost.
    """

    context_window: int | None = None
    max_output: int | None = None
    system_messages: Form | None = None
    parameters: Mapping[str, Any] = {}
    price: Price | None = None
    images: bool | None = None


class ProviderConfig(msgspec.Struct, frozen=True):
    """Where a provider answers and how it is spoken to.

    `api_key_env` names the environment variable that holds the key; None sends no key. Timeouts
    are seconds: to connect, without a word of the answer, and for one Attempt in all. `models` are
    settings by model name; a model that is not listed can still be used. `cache_diagnostics` asks
    Anthropic's own API why it missed its prompt cache; no other protocol knows that.
    """

    protocol: ProtocolName
    base_url: str
    api_key_env: str | None = None
    headers: Mapping[str, str] = {}
    connect_timeout: float = 10.0
    silence_timeout: float = 120.0
    attempt_timeout: float = 3600.0
    models: Mapping[str, ModelConfig] = {}
    cache_diagnostics: bool = False

    def __repr__(self) -> str:
        # Headers may carry credentials, so only the address is shown.
        return f"ProviderConfig({self.protocol!r}, {self.base_url!r})"


class InstructionOptions(msgspec.Struct, frozen=True):
    """Which instruction files are read.

    `project` reads those of the project. `claude_md` reads CLAUDE.md in a directory that has no
    AGENTS.md. The user's own global file is always read.
    """

    project: bool = True
    claude_md: bool = True


class ToolOptions(msgspec.Struct, frozen=True):
    """What tools may touch.

    `allowed_paths` are directories opened beside the project, absolute. `allowed_hosts` are hosts,
    with a port or without, that are fetched from although they are in a private network.
    """

    allowed_paths: tuple[Path, ...] = ()
    allowed_hosts: tuple[str, ...] = ()


class PluginOptions(msgspec.Struct, frozen=True):
    """Which plugins are loaded.

    `paths` are Python files, absolute. `disabled` are the names of plugins that are left out,
    wherever they come from.
    """

    paths: tuple[Path, ...] = ()
    disabled: tuple[str, ...] = ()


class McpServer(msgspec.Struct, frozen=True):
    """An MCP server whose tools are offered: a program on this machine, or an address.

    `command` with `args` is run in the project root; `env` names the environment variables that it
    gets. `url` is where it answers over HTTP, `token_env` the variable with its bearer token.
    `timeout` is the seconds that one call may take. `tools` are the names of those that are
    offered, None for all.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    url: str = ""
    token_env: str | None = None
    timeout: float = 300.0
    disabled: bool = False
    tools: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        # Arguments may carry what should not be shown.
        return f"McpServer({self.command or self.url!r})"


class Ignored(msgspec.Struct, frozen=True):
    """A key that does not count because its file belongs to a project that is not trusted."""

    file: str
    key: str


class Config(msgspec.Struct, frozen=True):
    """The configuration in effect for one Location.

    `model` is `provider/model`, None where nobody chose. `timezone` is an IANA name, None for the
    host's own. `permissions` are in order: of those that fit, the last counts. `step_limit` bounds
    the Steps of one Prompt. `titles` tells whether models write titles for sessions, None where
    nobody chose. `origins` tells the file that each key came from, by dotted key;
    `ignored` what did not count.
    """

    model: str | None = None
    timezone: str | None = None
    step_limit: int = 100
    on_move: OnMove = "epoch"
    titles: bool | None = None
    providers: Mapping[str, ProviderConfig] = {}
    permissions: tuple[Rule, ...] = ()
    instructions: InstructionOptions = InstructionOptions()
    tools: ToolOptions = ToolOptions()
    plugins: PluginOptions = PluginOptions()
    mcp: Mapping[str, McpServer] = {}
    origins: Mapping[str, str] = {}
    ignored: tuple[Ignored, ...] = ()
