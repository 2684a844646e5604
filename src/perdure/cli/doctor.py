"""`perdure doctor`: what is in effect, where it comes from, and what is broken."""

from __future__ import annotations

import os
import sys

import anyio
import click
import msgspec

from perdure.cli.arguments import look_from
from perdure.cli.examination import Examination, examine
from perdure.cli.output import Output
from perdure.cli.page import Block, Words, heading, line, show, table
from perdure.cli.terminal import waiting_for
from perdure.config.location import shown
from perdure.telemetry.standing import TelemetryStanding


@click.command(short_help="Show what is in effect and what is broken.")
@look_from
@click.option(
    "--repair", "mend", is_flag=True, help="Rebuild from the log what does not agree with it."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(directory: str, mend: bool, as_json: bool) -> int:
    """Show versions, configuration, store, providers and facts as they are from here.

    Keys are masked. The exit code is 1 where something is broken.

    \b
    Examples:
      perdure doctor
      perdure doctor -C ~/src/tool --json
      perdure doctor --repair
    """
    out = Output(sys.stdout)
    examination = anyio.run(_examine, directory, mend)
    for each in examination.mended:
        Output(sys.stderr).write(f"mended: {each}\n")
    if as_json:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(examination), indent=2) + b"\n")
    else:
        show(out, _page(examination))
    return 1 if examination.problems else 0


async def _examine(directory: str, mend: bool) -> Examination:
    async with waiting_for("examining the database"):
        return await examine(directory, dict(os.environ), mend=mend)


def _page(found: Examination) -> list[Block]:
    return [
        line(f"perdure {found.perdure}, Python {found.python}, SQLite {found.sqlite}"),
        *_place(found),
        *_settings(found),
        *_providers(found),
        *_facts(found),
        *_verdict(found),
    ]


def _place(found: Examination) -> list[Block]:
    trust = Words("trusted", "good") if found.trusted else Words("not trusted", "dim")
    size = f"{found.store_bytes:,} bytes" if found.store_bytes is not None else "not made yet"
    return [
        *heading("Here"),
        line(f"directory  {shown(found.directory)}", indent=2),
        line(f"project    {shown(found.project)}, ", trust, indent=2),
        line(f"store      {shown(found.store)}, {size}", indent=2),
        line(f"ripgrep    {found.ripgrep or 'not found; grep uses its own search'}", indent=2),
        line(f"telemetry  {_telemetry(found.telemetry)}", indent=2),
    ]


def _telemetry(standing: TelemetryStanding) -> str:
    """Return where spans and metrics go, and the variables that say so."""
    if standing.disabled:
        return f"off ({standing.disabled})"
    signals = {"spans": standing.spans, "metrics": standing.metrics}
    goes = [
        f"{what} to {' and '.join(signal.exporters)} ({signal.variable})"
        for what, signal in signals.items()
        if signal.exporters
    ]
    if goes and standing.content:
        goes.append(f"with content ({standing.content})")
    return ", ".join(goes) or "off"


def _settings(found: Examination) -> list[Block]:
    rows = [(each.key, shown(each.file)) for each in found.settings]
    ignored = [
        (Words(each.key, "warn"), Words(f"{shown(each.file)} (ignored: not trusted)", "warn"))
        for each in found.ignored
    ]
    if not rows and not ignored:
        words = "no file; the defaults hold" if found.configured else "see what is broken, below"
        return [*heading("Configuration"), line(words, indent=2)]
    return [*heading("Configuration"), table(("KEY", "FILE"), [*rows, *ignored])]


def _providers(found: Examination) -> list[Block]:
    rows = [(each.name, each.protocol, each.base_url, each.key) for each in found.providers]
    servers = [
        line(
            f"{each.name} answers at {each.base_url}: {', '.join(each.models) or 'no models'}",
            indent=2,
        )
        for each in found.servers
    ]
    used = found.model or Words("none", "bad")
    return [
        *heading("Models"),
        line("used here: ", used, f" ({found.model_reason})", indent=2),
        *servers,
        table(("PROVIDER", "PROTOCOL", "ADDRESS", "KEY"), rows),
        *heading("Permissions"),
        *(
            line(f"{tool}: {permission}", indent=2)
            for tool, permission in found.permissions.items()
        ),
        *(line(shown(rule), indent=2) for rule in found.rules),
    ]


def _facts(found: Examination) -> list[Block]:
    files = [line(shown(path), indent=2) for path in found.instructions]
    servers = [f"{each.name} ({each.status}, {len(each.tools)} tools)" for each in found.mcp]
    return [
        *heading("Instruction files"),
        *(files or [line("none", indent=2)]),
        *heading("Skills, plugins and MCP servers"),
        line(f"skills     {', '.join(found.skills) or 'none'}", indent=2),
        line(f"plugins    {', '.join(found.plugins) or 'none'}", indent=2),
        line(f"servers    {', '.join(servers) or 'none'}", indent=2),
        *(line(Words(each, "warn"), indent=2) for each in found.diagnostics),
    ]


def _verdict(found: Examination) -> list[Block]:
    if not found.problems:
        return [*heading("Nothing is broken")]
    return [
        *heading("Broken"),
        *(line(Words(problem, "bad"), indent=2) for problem in found.problems),
    ]
