"""The provider of `_answering.py` in a process of its own, so that its CPU is not counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def answering() -> Generator[dict[str, Any]]:
    """Run the provider; yield a configuration that uses it."""
    program = Path(__file__).with_name("_answering.py")
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as provider:
        if provider.stdin is None or provider.stdout is None:
            raise RuntimeError("the provider has no pipes")
        address = f"http://127.0.0.1:{int(provider.stdout.readline())}/v1"
        yield {
            "model": "bench/model",
            "providers": {"bench": {"protocol": "openai-chat", "base_url": address}},
        }
        provider.stdin.close()
