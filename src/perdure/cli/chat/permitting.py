"""Permission questions in a chat."""

from __future__ import annotations

from perdure.cli.asking import CHOICES, Sight, answer_of, asked, details
from perdure.cli.chat.screen import Screen
from perdure.cli.page import Words, line
from perdure.tools.permissions import PermissionAnswer, PermissionRequest


class ChatAsker:
    """Asks in the prompt line, with the words that `perdure run` uses."""

    def __init__(self, screen: Screen, sight: Sight) -> None:
        self._screen = screen
        self._sight = sight

    async def __call__(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question and wait for the answer; cancelling it leaves it unanswered."""
        seen = await self._sight.of(request.call)
        about = [line(each, indent=2) for each in details(request)]
        question = line(Words(asked(request, seen=seen), "strong"))
        return answer_of(await self._screen.ask([line(), *about, question], CHOICES))
