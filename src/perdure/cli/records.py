"""Events as lines of JSON."""

from __future__ import annotations

import msgspec

from perdure.cli.times import iso
from perdure.history.events import LiveRecord, Record, encode


def json_line(record: Record | LiveRecord) -> bytes:
    """Return a record as one line: `{"seq","type","time","data"}`, without `seq` where it is live.

    `time` is UTC with milliseconds.
    """
    place = {} if record.seq is None else {"seq": record.seq}
    told = {"type": record.type, "time": iso(record.time), "data": msgspec.Raw(encode(record.data))}
    return msgspec.json.encode(place | told) + b"\n"
