"""What the scripted model of the demo says.

No model is called. The replies are fixed but for the date in CHANGES.md: that is read from the
request, as a model would, so it is right only if the model was told.
"""

from __future__ import annotations

import re

import anyio

from perdure.testing import ReceivedRequest, Reply, Script, call, hold, say

STEPS = 9
"""How many requests the script answers, one for each Step."""

_DATE = re.compile(rb"Today's date is [^.]*?(\d{4}-\d\d-\d\d)")


def scripted(thinking: anyio.Event) -> Script:
    """Return the script; its fourth reply waits for `thinking`, so that the world can change."""

    def reply(request: ReceivedRequest, number: int) -> Reply:
        match number + 1:
            case 1:
                return call("grep", {"pattern": "boils"})
            case 2:
                return call("read", {"path": "kettle.py", "offset": 4})
            case 3:
                return say("boils() compares with > where it needs >=.")
            case 4:
                edit = {"path": "kettle.py", "old": "celsius > 100", "new": "celsius >= 100"}
                return hold(thinking, call("edit", edit))
            case 5:
                return call("edit", _note(_date_told(request)))
            case 6:
                return say("Fixed, and noted in CHANGES.md under today's date.")
            case 7:
                return call("shell", {"command": "sh release.sh"})
            case 8:
                look = call("read", {"path": "releases.txt"})
                return say("That call may have run, so I look before I repeat it.") + look
            case _:
                return say("It is out: releases.txt has its line, so I leave it at that.")

    return reply


def _note(date: str) -> dict[str, str]:
    line = "- boils(100) is True."
    return {
        "path": "CHANGES.md",
        "old": "# Changes\n",
        "new": f"# Changes\n\n## {date}\n\n{line}\n",
    }


def _date_told(request: ReceivedRequest) -> str:
    told = _DATE.findall(request.body)
    return told[-1].decode() if told else "an unknown day"
