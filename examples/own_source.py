"""A Context Source of your own: who is on call, kept in a file that others write.

    python examples/own_source.py

The model is played by a script, so no key is needed; everything else is what you would ship. The
program prints what the model is told before each prompt, and what it is not told again.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

from perdure import ABSENT, UNAVAILABLE, Absent, Runtime, Session, Source, Unavailable
from perdure.testing import ScriptedProvider, assert_prefix_kept, say


@dataclass(frozen=True)
class OnCall:
    """Who answers the telephone, and under which number."""

    name: str
    phone: str


def on_call(file: Path) -> Source[OnCall]:
    """Tell the model who is on call, as the file says at the moment of each step."""

    def load() -> OnCall | Absent | Unavailable:
        try:
            return OnCall(**json.loads(file.read_text()))
        except FileNotFoundError:
            return ABSENT  # we looked, and nobody is: the model is told
        except ValueError:
            return UNAVAILABLE  # somebody is writing it just now: what was told stands

    return Source(
        key="ops/on-call",
        type=OnCall,
        load=load,
        baseline=lambda now: f"# On call\n\n{now.name} is on call, telephone {now.phone}.",
        update=lambda _, now: f"# On call\n\nNow {now.name} is on call, telephone {now.phone}.",
        removed=lambda _: "# On call\n\nNobody is on call any more.",
    )


async def step(session: Session, provider: ScriptedProvider, happened: str) -> None:
    """Ask the same question again; print what was added to the request before."""
    known = len(provider.requests[-1].json["messages"]) if provider.requests else 0
    await session.prompt("Whom do I call?")
    await session.wait()
    print(f"\n== {happened}")
    for message in provider.requests[-1].json["messages"][known:]:
        content = message["content"]
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        for text in texts:
            # The Baseline is long; its last fact is ours.
            shown = text[text.index("# On call") :] if message["role"] == "system" else text
            print(f"{message['role']:>9} | " + shown.replace("\n", "\n          | "))


async def main() -> None:
    """Let the file change in every way that it can, with a prompt after each."""
    answers = ["Ada, 411.", "Grace, 412.", "Still Grace, 412.", "Grace, 412.", "Nobody."]
    with tempfile.TemporaryDirectory() as root:
        file = Path(root) / "on-call.json"
        file.write_text('{"name": "Ada", "phone": "411"}')
        async with (
            ScriptedProvider([say(answer) for answer in answers]) as provider,
            Runtime.open(
                Path(root) / "sessions.db", config=provider.config(), sources=[on_call(file)]
            ) as runtime,
        ):
            session = await runtime.create_session(directory=root)
            await step(session, provider, "the first step: the fact stands in the Baseline")
            file.write_text('{"name": "Grace", "phone": "412"}')
            await step(session, provider, "the file changed: told once, behind the prompt")
            await step(session, provider, "nothing changed: nothing is told")
            file.write_text('{"name": "Gra')
            await step(session, provider, "half a file, Unavailable: nothing is told")
            file.unlink()
            await step(session, provider, "the file is gone, Absent: that is told")
            assert_prefix_kept(provider.requests)
            print("\nEach of these requests is the one before it plus what is shown here.")


if __name__ == "__main__":
    asyncio.run(main())
