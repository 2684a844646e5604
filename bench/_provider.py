"""Providers in a process of their own, so that their CPU is not counted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def answering() -> Generator[dict[str, Any]]:
    """Run the provider of `_answering.py`; yield a configuration that uses it."""
    with running("_answering.py") as address:
        yield {
            "model": "bench/model",
            "providers": {"bench": {"protocol": "openai-chat", "base_url": f"{address}/v1"}},
        }


@contextmanager
def running(name: str) -> Generator[str]:
    """Run a provider of this directory; yield its address."""
    program = Path(__file__).with_name(name)
    with subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as provider:
        if provider.stdin is None or provider.stdout is None:
            raise RuntimeError("the provider has no pipes")
        yield f"http://127.0.0.1:{int(provider.stdout.readline())}"
        provider.stdin.close()
