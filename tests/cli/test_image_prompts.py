"""Images that go with a prompt on the command line: named in it, or given by --image."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.testing import ReceivedRequest, call, say, write_config
from tests.cli.conftest import Here
from tests.cli.support import KEY, Shell, one_line, shell
from tests.cli.terminal import at_terminal
from tests.pictures import png

SHOT, OTHER = png(30, 20), png(7, 5)


@contextmanager
def looking(tmp_path: Path, *, images: bool) -> Generator[Shell]:
    """Open a directory with two images, and a model that takes them or not."""
    with shell(tmp_path, [say("Seen.")] * 3) as s:
        write_config(s.directory, s.provider.config(api_key_env=KEY, images=images))
        (s.directory / "shot.png").write_bytes(SHOT)
        (tmp_path / "an other.png").write_bytes(OTHER)
        yield s


def pictures(request: ReceivedRequest) -> list[bytes]:
    return [each for each in (SHOT, OTHER) if b64encode(each) in request.body]


@pytest.mark.parametrize("prompt", ["Look at @shot.png.", "What is wrong in shot.png?"])
def test_an_image_that_the_prompt_names_goes_with_it(
    tmp_path: Path, here: Here, prompt: str
) -> None:
    with looking(tmp_path, images=True) as s:
        ended = here("run", prompt)
        assert (ended.code, ended.out) == (0, "Seen.\n")
        assert "1 image goes with the prompt: shot.png" in ended.err.splitlines()
        assert pictures(s.provider.requests[0]) == [SHOT]
        assert prompt.encode() in s.provider.requests[0].body


def test_an_image_given_by_option_goes_with_the_prompt(tmp_path: Path, here: Here) -> None:
    with looking(tmp_path, images=True) as s:
        ended = here("run", "Look.", "--image", "shot.png", "--image", "../an other.png")
        assert ended.code == 0
        assert "2 images go with the prompt: shot.png, an other.png" in ended.err.splitlines()
        assert pictures(s.provider.requests[0]) == [SHOT, OTHER]


def test_json_has_nothing_but_events_and_the_images_are_named_beside_it(
    tmp_path: Path, here: Here
) -> None:
    with looking(tmp_path, images=True):
        ended = here("run", "--format", "json", "Look at @shot.png.")
    assert "1 image goes with the prompt: shot.png" in ended.err.splitlines()
    assert all("type" in json.loads(line) for line in ended.out.splitlines())


def test_a_person_is_told_which_images_go_along(tmp_path: Path) -> None:
    with looking(tmp_path, images=True) as s:
        with at_terminal(("run", "Look at shot.png."), s.directory, {KEY: "scripted-key"}) as t:
            t.until("1 image goes with the prompt: shot.png")
            t.until("Seen.")
            assert t.end() == 0


def test_a_text_model_gets_a_prompt_that_only_names_an_image(tmp_path: Path, here: Here) -> None:
    with looking(tmp_path, images=False) as s:
        ended = here("run", "convert shot.png")
        assert (ended.code, ended.out) == (0, "Seen.\n")
        (warning,) = [line for line in ended.err.splitlines() if "shot.png" in line]
        assert "only named, not sent; the model scripted/model-1 takes no images" in warning
        assert "the prompt:" not in ended.err
        assert pictures(s.provider.requests[0]) == []


@pytest.mark.parametrize("arguments", [("Look at @shot.png",), ("Look.", "--image", "shot.png")])
def test_an_image_that_was_asked_for_is_refused_where_the_model_takes_none(
    tmp_path: Path, here: Here, arguments: tuple[str, ...]
) -> None:
    with looking(tmp_path, images=False) as s:
        line = one_line(here("run", *arguments), 2)
        assert "the model scripted/model-1 takes no images" in line
        assert 'images = true in [providers.scripted.models."model-1"]' in line
        assert json.loads(here("sessions", "list", "--json").out) == []
        assert s.provider.requests == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Look at @gone.png",), "gone.png cannot be read: No such file"),
        (("Look at @cut.png",), "cut.png is a broken image"),
        (("Look.", "--image", "cut.png"), "cut.png is a broken image"),
        (("Look.", "--image", "."), "is no regular file"),
        (("Look.", "--image", ""), "empty"),
    ],
)
def test_a_file_that_was_asked_for_and_is_no_image_is_refused(
    tmp_path: Path, here: Here, arguments: tuple[str, ...], words: str
) -> None:
    with looking(tmp_path, images=True) as s:
        (s.directory / "cut.png").write_bytes(SHOT[:-9])
        assert words in one_line(here("run", *arguments), 2)
        assert json.loads(here("sessions", "list", "--json").out) == []


def test_a_broken_image_that_is_only_named_does_not_stop_the_prompt(
    tmp_path: Path, here: Here
) -> None:
    with looking(tmp_path, images=True) as s:
        (s.directory / "cut.png").write_bytes(SHOT[:-9])
        ended = here("run", "repair cut.png")
        assert (ended.code, ended.out) == (0, "Seen.\n")
        assert "not sent as an image: cut.png is a broken image" in ended.err


def test_of_a_long_list_of_images_only_those_are_sent_that_were_asked_for(
    tmp_path: Path, here: Here
) -> None:
    with looking(tmp_path, images=True) as s:
        names = [f"{number}.png" for number in range(21)]
        for name in names:
            (s.directory / name).write_bytes(OTHER)
        ended = here("run", f"Which of {' '.join(names)} is like @shot.png?")
        assert (ended.code, ended.out) == (0, "Seen.\n")
        assert "names 22 images and 20 are the most" in ended.err
        assert pictures(s.provider.requests[0]) == [SHOT]
        line = one_line(here("run", " ".join(f"@{name}" for name in names)), 2)
        assert "asks for 21 images; 20 are the most" in line


def test_images_that_are_too_large_together_are_left_out_where_they_are_only_named(
    tmp_path: Path, here: Here
) -> None:
    with looking(tmp_path, images=True) as s:
        names = [f"{number}.png" for number in range(4)]
        for name in names:
            (s.directory / name).write_bytes(png(7, 5, padding=3_500_000))
        ended = here("run", f"Compare {' '.join(names)} and shot.png")
        assert (ended.code, ended.out) == (0, "Seen.\n")
        assert ended.err.count("not sent as an image: ") == 1
        assert s.provider.requests[0].body.count(b"data:image/png") == 4


def test_a_prompt_from_standard_input_names_no_images(tmp_path: Path) -> None:
    with looking(tmp_path, images=True) as s:
        assert s.run("run", "-", input="diff of shot.png and @shot.png").code == 0
        assert pictures(s.provider.requests[0]) == []


def test_an_image_waits_in_the_inbox_and_is_shown_as_one_line(tmp_path: Path, here: Here) -> None:
    with looking(tmp_path, images=True) as s:
        assert here("run", "Hello.").code == 0
        session = s.the_session()
        for text in ("Look at @shot.png", "Look again."):
            sent = here("prompt", session, text, "--id", "mail-1")
            assert sent.out == "mail-1\n"
            assert "1 image goes with the prompt: shot.png" in sent.err.splitlines()
        (listed,) = json.loads(here("inbox", session, "--json").out)
        assert listed["images"] == ["shot.png: PNG image, 30 x 20 pixels, 1 KiB"]
        assert "(images: 1)" in here("inbox", session).out
        assert here("run", "-s", session, "Go on.").code == 0
        assert pictures(s.provider.requests[-1]) == [SHOT]
        shown = here("sessions", "show", session).out
        assert "shot.png: PNG image, 30 x 20 pixels, 1 KiB" in shown
        assert b64encode(SHOT).decode() not in shown
        events = [json.loads(line) for line in here("events", session).out.splitlines()]
    (admitted,) = [each for each in events if each["data"].get("images")]
    assert admitted["type"] == "prompt.admitted"
    assert admitted["data"]["images"][0]["data"] == b64encode(SHOT).decode()


def test_an_image_that_a_tool_gave_is_shown_once(tmp_path: Path, here: Here) -> None:
    with shell(tmp_path, [call("read", {"path": "shot.png"}), say("Seen.")]) as s:
        write_config(s.directory, s.provider.config(api_key_env=KEY, images=True))
        (s.directory / "shot.png").write_bytes(SHOT)
        assert here("run", "Look at it.").code == 0
        assert pictures(s.provider.requests[1]) == [SHOT]
        shown = here("sessions", "show", s.the_session()).out
        assert shown.count("shot.png: PNG image, 30 x 20 pixels, 1 KiB") == 1
