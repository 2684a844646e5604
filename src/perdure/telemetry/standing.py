"""What telemetry of a command would do: where its spans and metrics go, and what is in the way."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from perdure.clock import Clock
from perdure.telemetry.environment import CONTENT, DISABLED, deciding, is_disabled, wanted


class Signal(msgspec.Struct, frozen=True):
    """The exporters of spans, or of metrics, and the variable that decided; empty for none."""

    exporters: tuple[str, ...] = ()
    variable: str = ""


class TelemetryStanding(msgspec.Struct, frozen=True):
    """What OpenTelemetry's variables ask for. `content` is the variable that asks for content.

    `disabled` is the variable that turns everything off; both are empty where none does.
    `problems` are lines that say why something of it cannot be had.
    """

    spans: Signal = Signal()
    metrics: Signal = Signal()
    content: str = ""
    disabled: str = ""
    problems: tuple[str, ...] = ()


async def telemetry_standing(clock: Clock, env: Mapping[str, str]) -> TelemetryStanding:
    """Set up what the process's environment asks for, end it again, and return how it stands.

    Nothing is sent, so a collector that does not answer is not noticed.
    """
    if is_disabled(env):
        return TelemetryStanding(disabled=DISABLED)
    asked, problems = wanted(env), list[str]()
    if asked.anything:
        # Imported only here: it costs what a command without telemetry should not pay.
        from perdure.telemetry.exporting import Exported

        exported = Exported(asked, clock, env, problems.append)
        exported.open()
        await exported.close()
    return TelemetryStanding(
        spans=Signal(asked.traces, deciding(env, "TRACES")),
        metrics=Signal(asked.metrics, deciding(env, "METRICS")),
        content=CONTENT if asked.content else "",
        problems=tuple(dict.fromkeys(problems)),
    )
