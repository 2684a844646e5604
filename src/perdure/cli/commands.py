"""The table of all commands, and a group that imports one only when it runs."""

from __future__ import annotations

from importlib import import_module

import click

COMMANDS = {
    "cache": ("perdure.cli.cache", "Show how the provider's prompt cache served a session."),
    "chat": ("perdure.cli.chat.command", "Talk with a model in this terminal."),
    "context": ("perdure.cli.context", "Show what the model has been told, beside what holds now."),
    "demo": ("perdure.cli.demo", "Watch one session run, with no key and no network."),
    "doctor": ("perdure.cli.doctor", "Show what is in effect and what is broken."),
    "events": ("perdure.cli.log", "Print the event log of a session as JSON lines."),
    "inbox": ("perdure.cli.inbox", "Show the prompts that wait in a session, and change them."),
    "interrupt": ("perdure.cli.interrupt", "Stop what runs in a session."),
    "models": ("perdure.cli.models", "List the models that can be used, and why others cannot."),
    "prompt": ("perdure.cli.prompt", "Put a prompt into a session's inbox, and do not wait."),
    "request": ("perdure.cli.log", "Print the exact request body of a step."),
    "run": ("perdure.cli.run", "Send one prompt and print the answer."),
    "sessions": ("perdure.cli.sessions", "List, show, change and delete sessions."),
    "trust": ("perdure.cli.trust", "Trust a project's own configuration."),
}
"""By name: the module that holds a command of that name, and one line that says what it does."""


class CommandTable(click.Group):
    """The commands of the table. Listing them loads none, so that help is there at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Return the names in order."""
        return sorted(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - as click calls it
        cmd_name: str,
    ) -> click.Command | None:
        """Load one command."""
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; raise click.UsageError with the nearest for none."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            # Needed where something is wrong only. Click looks among commands that are loaded.
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])
