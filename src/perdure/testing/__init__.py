"""Test what you build on Perdure without a model, a key or the network.

`ScriptedProvider` serves scripted answers over real HTTP on loopback and refuses what a real
provider would refuse. `FakeClock` and `SequentialIds` make a run repeatable. `run_cli` runs the
command line in a process of its own. `CrashingStore` ends a program at a durable write, and
`check_history` finds what is wrong with a log. None of it needs a test framework.
"""

from perdure.testing.checking import check_history, check_store
from perdure.testing.cli import (
    Finished,
    home_of,
    isolated_environment,
    run_cli,
    start_cli,
    to_toml,
    write_config,
)
from perdure.testing.clock import FakeClock, SequentialIds
from perdure.testing.crashes import CRASHED, CrashingStore, CrashPoint, CrashPoints, end_process
from perdure.testing.prefix import Block, assert_prefix_kept, blocks, keeps_prefix
from perdure.testing.provider import (
    ProtocolName,
    Refused,
    Script,
    ScriptedProvider,
    asks_for_title,
    nobody_listens,
    serve_in_thread,
)
from perdure.testing.script import (
    Reply,
    call,
    calls,
    cut,
    disordered,
    empty,
    error,
    hold,
    html,
    malformed,
    raw,
    reset,
    say,
    stall,
    stream_error,
    think,
    trickle,
    unfinished,
)
from perdure.testing.wire import ReceivedRequest

__all__ = [
    "CRASHED",
    "Block",
    "CrashPoint",
    "CrashPoints",
    "CrashingStore",
    "FakeClock",
    "Finished",
    "ProtocolName",
    "ReceivedRequest",
    "Refused",
    "Reply",
    "Script",
    "ScriptedProvider",
    "SequentialIds",
    "asks_for_title",
    "assert_prefix_kept",
    "blocks",
    "call",
    "calls",
    "check_history",
    "check_store",
    "cut",
    "disordered",
    "empty",
    "end_process",
    "error",
    "hold",
    "home_of",
    "html",
    "isolated_environment",
    "keeps_prefix",
    "malformed",
    "nobody_listens",
    "raw",
    "reset",
    "run_cli",
    "say",
    "serve_in_thread",
    "stall",
    "start_cli",
    "stream_error",
    "think",
    "to_toml",
    "trickle",
    "unfinished",
    "write_config",
]
