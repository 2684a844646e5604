"""Commands in processes of their own, against the strict scripted provider."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perdure.testing import Finished, ScriptedProvider, run_cli, serve_in_thread, write_config
from perdure.testing.provider import ProtocolName

KEY = "SCRIPTED_API_KEY"


class Shell:
    """One directory in which commands are typed."""

    def __init__(self, directory: Path, provider: ScriptedProvider) -> None:
        self.directory = directory
        self.provider = provider

    def run(self, *arguments: str, **options: Any) -> Finished:
        """Run a command to its end."""
        env = {KEY: "scripted-key", **options.pop("env", {})}
        return run_cli(arguments, cwd=self.directory, env=env, **options)

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions as `sessions list --json` has them."""
        return json.loads(self.run("sessions", "list", "--json").out)

    def the_session(self) -> str:
        """Return the id of the only session."""
        (row,) = self.sessions()
        return row["id"]


@contextmanager
def shell(
    root: Path,
    script: Sequence[Any] = (),
    protocol: ProtocolName = "openai-chat",
    config: Mapping[str, Any] | None = None,
) -> Generator[Shell]:
    """Open a directory with a configured provider."""
    directory = root / "project"
    directory.mkdir()
    with serve_in_thread(script) as provider:
        settings = provider.config(protocol, api_key_env=KEY)
        write_config(directory, {**settings, **(config or {})})
        yield Shell(directory, provider)


def one_line(finished: Finished, code: int) -> str:
    """Return the one line of the error, having checked the exit code and that it is one line."""
    assert finished.code == code, finished
    assert "Traceback" not in finished.err
    lines = [line for line in finished.err.splitlines() if line.startswith("perdure: ")]
    assert len(lines) == 1, finished.err
    return lines[0]
