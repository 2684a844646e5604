"""A tool of your own: it asks before it acts, and says what went wrong in words a model can use.

    python examples/own_tool.py

The model is played by a script, so no key is needed; everything else is what you would ship. The
program prints each call and what the model read as its result.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec

from perdure import (
    PermissionAnswer,
    PermissionRequest,
    Runtime,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
)
from perdure.history.content import ToolCall
from perdure.history.events import AssistantMessage, ToolProgress, ToolSettled
from perdure.testing import ScriptedProvider, call, say

# A warehouse, which remembers orders by the key that came with them.
STOCK = {"tea": 40, "coffee": 5}
ORDERS: dict[str, str] = {}


class Order(msgspec.Struct, forbid_unknown_fields=True):
    """What to order; the model sees a JSON Schema made from this."""

    article: Annotated[str, msgspec.Meta(description="The name of the article.")]
    pieces: Annotated[int, msgspec.Meta(ge=1, le=100, description="How many.")] = 1


async def order(arguments: Order, context: ToolContext) -> ToolOutput:
    """Place an order; raise ToolError where the model should try something else."""
    left = STOCK.get(arguments.article)
    if left is None:
        raise ToolError(f"there is no {arguments.article!r}; there is {', '.join(STOCK)}")
    # The key is the same whenever this call is repeated, so ordering twice orders once. That is
    # what allows `idempotent=True` below: after a crash the call is simply run again.
    if context.idempotency_key not in ORDERS:
        context.progress(f"ordering {arguments.pieces} of {arguments.article} ...\n")
        STOCK[arguments.article] = left - arguments.pieces
        ORDERS[context.idempotency_key] = arguments.article
    return ToolOutput(f"ordered {arguments.pieces} of {arguments.article}", note="arrives tomorrow")


async def ask(request: PermissionRequest) -> PermissionAnswer:
    """Answer for the person who would be asked; the summary is safe to show on a terminal."""
    pieces = request.arguments.get("pieces", 1)
    allowed = not isinstance(pieces, int) or pieces <= 10
    print(f"  may it run?  {request.summary}  {'yes' if allowed else 'no'}")
    # A refusal with a reason goes to the model; one without would end the run.
    return PermissionAnswer(allowed, "" if allowed else "we never order more than ten")


async def main() -> None:
    """Let a model try one call after the other, most of them wrong."""
    tool = Tool(
        name="order",
        description="Order an article from the warehouse.",
        arguments=Order,
        run=order,
        idempotent=True,
    )
    script = [
        call("order", {"article": "tea", "pieces": "many"}),
        call("order", {"article": "milk"}),
        call("order", {"article": "tea", "pieces": 50}),
        call("order", {"article": "tea", "pieces": 10}),
        say("Ten pieces of tea arrive tomorrow."),
    ]
    with tempfile.TemporaryDirectory() as root:
        async with ScriptedProvider(script) as provider:
            config = {**provider.config(), "permissions": {"order": "ask"}}
            async with Runtime.open(
                Path(root) / "sessions.db", config=config, tools=[tool], ask=ask
            ) as runtime:
                session = await runtime.create_session(directory=root)
                prompt = await session.prompt("We need tea, about fifty.")
                async for record in session.events(prompt=prompt.id):
                    show(record.data)
    print(f"\nStock: {STOCK}")


def show(event: object) -> None:
    """Print what the model says and calls, and what it reads as a result."""
    match event:
        case AssistantMessage(parts=parts):
            for part in parts:
                if isinstance(part, ToolCall):
                    print(f"{part.name}({part.arguments})")
                else:
                    print(part.text)
        case ToolProgress(text=text):
            print(f"  progress     {text.strip()}")
        case ToolSettled(outcome=outcome, output=output):
            print(f"  {outcome:<11}  {' / '.join(output.splitlines())}")
        case _:
            pass


if __name__ == "__main__":
    asyncio.run(main())
