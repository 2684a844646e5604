"""Which prompts a drain promotes, told from the state alone."""

from __future__ import annotations

from perdure.clock import RandomIds
from perdure.history.state import Pending, SessionState
from perdure.session.inbox import choose, waiting
from perdure.session.owner import new_owner


def gone() -> str:
    """Return the name of an owner on this machine whose process does not run."""
    host, _pid, started, unique = new_owner(RandomIds()).split("|")
    return "|".join((host, str(2**22 + 1), started, unique))


def state_with(*prompts: Pending) -> SessionState:
    state = SessionState("s")
    state.pending = {prompt.prompt: prompt for prompt in prompts}
    return state


def queued(name: str, holder: str = "") -> Pending:
    return Pending(name, "text", "queue", holder, 1)


def test_a_queued_prompt_is_chosen_alone_and_in_order() -> None:
    state = state_with(queued("a"), queued("b"))
    assert [prompt.prompt for prompt in choose(state, "me", 100)] == ["a"]


def test_a_prompt_that_another_living_owner_holds_is_left_to_it() -> None:
    state = state_with(queued("a", holder="somebody"), queued("b", holder="me"))
    assert [prompt.prompt for prompt in waiting(state, "me")] == ["b"]


def test_a_steer_beats_a_queue() -> None:
    steer = Pending("b", "text", "steer", "", 2)
    assert choose(state_with(queued("a"), steer), "me", 100) == [steer]


def test_a_prompt_whose_holder_is_gone_goes_before_an_own_one_but_is_no_reason_to_begin() -> None:
    left, own = queued("left", holder=gone()), queued("own", holder="me")
    assert choose(state_with(left, own), "me", 100) == [left]
    assert waiting(state_with(left), "me") == []
