"""A process is killed while images are on their way: none is lost, and the bytes stay the same."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import pytest

from perdure.history import events as ev
from perdure.testing import Reply, calls, hold, say
from perdure.testing.provider import PROTOCOLS, ProtocolName
from tests.pictures import png
from tests.session.support import KEY, of_type
from tests.session.test_recovery import NEVER, Scene, read_until, scene

SHOT = b64encode(png(30, 20))

ALL = pytest.mark.parametrize("protocol", PROTOCOLS)


def seeing(s: Scene, protocol: ProtocolName) -> Scene:
    s.job.config = s.provider.config(protocol, api_key_env=KEY, images=True)
    (Path(s.job.directory) / "shot.png").write_bytes(png(30, 20))
    return s


@ALL
def test_an_image_of_a_pending_prompt_outlives_its_process_and_its_file(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    with scene(tmp_path, [say("Here."), say("There.")], protocol) as s:
        session = seeing(s, protocol).kill_at("prompt.admitted", images=("shot.png",))
        (Path(s.job.directory) / "shot.png").unlink()
        s.job.images = ()
        s.finish(session, "Second.")
        assert len(of_type(s.log(session), ev.PromptPromoted)) == 2
        assert s.provider.requests[-1].body.count(SHOT) == 1


@ALL
def test_a_request_with_images_is_repeated_byte_for_byte(
    tmp_path: Path, protocol: ProtocolName
) -> None:
    script: list[Reply] = [
        calls(("read", {"path": "shot.png"})),
        hold(NEVER, say("never heard")),
        say("Here it is."),
        say("Fine."),
    ]
    with scene(tmp_path, script, protocol) as s:
        with seeing(s, protocol).process(images=("shot.png",)) as worker:
            session = read_until(worker.stdout, None)
            s.provider.wait_until_received(2)
            worker.kill()
        s.job.delivery, s.job.images = "queue", ()
        s.finish(session, "Go on.")
        _, cut, again, _ = s.provider.requests
        assert again.body == cut.body
        assert cut.body.count(SHOT) == 2
