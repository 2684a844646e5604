"""`perdure models`: what can be used, what is known of it, and why others cannot be used."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from perdure.testing import run_cli, serve_in_thread, write_config
from tests.cli.conftest import Here
from tests.cli.terminal import at_terminal

KEY = "a-key-that-nobody-may-see"
REMOTE = {"protocol": "openai-chat", "base_url": "https://models.example.com/v1"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The directory in which `here` runs."""
    return tmp_path / "project"


def listed(here: Here) -> list[dict[str, Any]]:
    ended = here("models", "--json")
    assert (ended.code, ended.err) == (0, "")
    return json.loads(ended.out)


def of(entries: list[dict[str, Any]], provider: str) -> list[dict[str, Any]]:
    return [each for each in entries if each["provider"] == provider]


def test_without_anything_every_provider_says_what_it_lacks(here: Here) -> None:
    ended = here("models")
    assert (ended.code, ended.err) == (0, "")
    for vendor in ("ANTHROPIC", "OPENAI", "GEMINI"):
        assert f"{vendor}_API_KEY is not set" in ended.out
    entries = listed(here)
    (anthropic,) = of(entries, "anthropic")
    assert (anthropic["usable"], anthropic["model"]) == (False, None)
    assert anthropic["reason"] == "ANTHROPIC_API_KEY is not set"


def test_a_key_makes_the_vendors_models_usable_and_one_the_default(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    entries = of(listed(here), "anthropic")
    assert len(entries) > 5
    assert all(each["usable"] and each["facts"] == "table" for each in entries)
    (default,) = [each for each in entries if each["default"]]
    assert default["name"] == "anthropic/claude-opus-5-5"
    assert (default["context_window"], default["max_output"]) == (1_000_000, 128_000)
    assert default["system_messages"] == "native"
    assert default["price"] == {"input": 4, "output": 20, "cache_read": 0.2, "cache_write": 5}
    page = here("models").out
    assert "default: anthropic/claude-opus-5-5 (ANTHROPIC_API_KEY is set)" in page
    assert re.search(r"^\* claude-opus-5-5 +1M +128K +native .*4/20/0.2 +table$", page, re.M)


def test_a_price_that_rises_with_the_prompt_has_its_tiers(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (model,) = [each for each in listed(here) if each["name"] == "openai/gpt-6.1-sol"]
    (tier,) = model["tiers"]
    assert tier["above"] == 272_000
    assert tier["price"]["input"] > model["price"]["input"]


def test_no_key_is_ever_shown(here: Here, monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OWN_KEY", KEY)
    write_config(project, {"providers": {"own": REMOTE | {"api_key_env": "OWN_KEY"}}})
    assert KEY not in here("models").out + here("models", "--json").out


def test_a_configured_model_has_the_configured_facts_and_price(here: Here, project: Path) -> None:
    models = {
        "big": {"context_window": 65_536, "max_output": 8_000, "price": {"input": 1, "output": 2}}
    }
    write_config(project, {"model": "own/big", "providers": {"own": REMOTE | {"models": models}}})
    (model,) = of(listed(here), "own")
    assert (model["context_window"], model["max_output"]) == (65_536, 8_000)
    assert (model["facts"], model["default"], model["usable"]) == ("configured", True, True)
    assert model["price"] == {"input": 1, "output": 2, "cache_read": 1, "cache_write": 1}
    assert model["price_source"] == "configured"


def test_what_is_assumed_of_an_unknown_model_says_so(here: Here, project: Path) -> None:
    models: dict[str, Any] = {"gpt-6.1-sol": {}}
    write_config(project, {"providers": {"own": REMOTE | {"models": models}}})
    (model,) = of(listed(here), "own")
    assert model["facts"] == "assumed"
    assert model["price"] is None
    page = here("models").out
    assert re.search(r"gpt-6\.1-sol +32K +4096 +wrapped .*not known +assumed$", page, re.M)
    assert "assumed: nobody has described" in page


def test_a_window_that_the_vendor_names_is_shown_beside_the_assumed_one(
    here: Here, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_config(project, {"model": "openai/gpt-5.2-pro"})
    (model,) = [each for each in listed(here) if each["default"]]
    assert (model["facts"], model["context_window"]) == ("assumed", 128_000)
    assert model["published_window"] == 400_000
    assert "assumed; published: 400K" in here("models").out


def test_a_provider_without_configured_models_says_how_to_name_one(
    here: Here, project: Path
) -> None:
    write_config(project, {"providers": {"own": REMOTE}})
    (entry,) = of(listed(here), "own")
    assert (entry["usable"], entry["model"]) == (True, None)
    assert "name one with `-m PROVIDER/MODEL`" in entry["reason"]


def test_a_server_on_this_machine_is_listed_with_its_models(here: Here, project: Path) -> None:
    with serve_in_thread([], models=["qwen3", "gemma3"]) as server:
        write_config(project, {"providers": {"ollama": {"base_url": server.openai_url}}})
        entries = of(listed(here), "ollama")
    assert [each["name"] for each in entries] == ["ollama/qwen3", "ollama/gemma3"]
    assert all(each["usable"] and each["facts"] == "assumed" for each in entries)


@contextmanager
def without_models() -> Generator[str]:
    """Serve an empty list of models; give the address."""

    class Empty(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"object": "list", "data": []}')

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Empty) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def test_a_server_without_a_model_says_so(here: Here, project: Path) -> None:
    with without_models() as url:
        write_config(project, {"providers": {"ollama": {"base_url": url}}})
        (entry,) = of(listed(here), "ollama")
    assert (entry["usable"], entry["model"]) == (False, None)
    assert entry["reason"] == f"the server at {url} has no model yet"


def test_a_server_that_hangs_holds_nothing_up(here: Here, project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        write_config(project, {"providers": {"ollama": {"base_url": url}}})
        (entry,) = of(listed(here), "ollama")
    assert entry["reason"] == f"no model server answers at {url}"


def test_a_server_that_wants_a_key_is_not_asked_without_it(here: Here, project: Path) -> None:
    with serve_in_thread([]) as server:
        own = {"protocol": "openai-chat", "base_url": server.openai_url, "api_key_env": "OWN_KEY"}
        write_config(project, {"providers": {"own": own | {"models": {"m": {}}}}})
        (entry,) = of(listed(here), "own")
    assert (entry["name"], entry["usable"]) == ("own/m", True)


def test_a_default_that_cannot_be_used_says_why(here: Here, project: Path) -> None:
    write_config(project, {"model": "openai/gpt-6.1-sol"})
    page = here("models")
    assert page.code == 0
    assert "default: none, provider openai needs its key" in page.out
    assert not any(each["default"] for each in listed(here))


def test_providers_of_a_project_that_is_not_trusted_are_left_out_and_named(
    here: Here, project: Path
) -> None:
    (project / "perdure.toml").write_text(
        '[providers.own]\nprotocol = "openai-chat"\nbase_url = "https://models.example.com/v1"\n'
    )
    assert "perdure.toml: providers left out; `perdure trust" in here("models").out
    assert of(listed(here), "own") == []


def test_a_broken_configuration_is_one_line_and_exit_2(here: Here, project: Path) -> None:
    models = {"m": {"price": {"input": -1, "output": 2}}}
    write_config(project, {"providers": {"own": REMOTE | {"models": models}}})
    ended = here("models")
    assert (ended.code, ended.out) == (2, "")
    assert "providers.own.models.m.price.input must be a number of US dollars" in ended.err
    assert ended.err.count("\n") == 1


def test_the_directory_to_look_from_can_be_named(here: Here, project: Path) -> None:
    assert here("models", "-C", str(project / "nowhere")).code == 2
    assert here("models", "-C", str(project)).code == 0


def test_nothing_is_printed_wider_than_the_terminal(tmp_path: Path) -> None:
    models: dict[str, Any] = {
        "a-model-with-a-name-that-is-much-too-long-for-a-column-of-its-own": {}
    }
    write_config(tmp_path, {"providers": {"own": REMOTE | {"models": models}}})
    env = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "NO_COLOR": "1"}
    with at_terminal(["models"], tmp_path, env, columns=60) as terminal:
        assert terminal.end() == 0
    lines = terminal.seen.replace("\r\n", "\n").split("\n")
    assert max(map(len, lines)) <= 60
    assert any("claude-opus-5-5" in each for each in lines)


def test_the_list_needs_no_store(tmp_path: Path) -> None:
    ended = run_cli(["models"], tmp_path, {"PERDURE_STORE": "/dev/null/nowhere.db"})
    assert ended.code == 0
