"""What keys do in a chat, beside what they do in every prompt line."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


def line_keys(send: Callable[[str], None]) -> KeyBindings:
    """Return the keys of the prompt line: Enter sends, Alt-Enter and Ctrl-J begin a line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # a completion was chosen; the next Enter sends
            return
        text = buffer.text
        buffer.append_to_history()
        buffer.reset()
        send(text)

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def answer_keys(answer: Callable[[str], None]) -> KeyBindings:
    """Return the keys of the line that answers a question."""
    keys = KeyBindings()

    @keys.add("enter")
    @keys.add("c-j")
    def _(event: KeyPressEvent) -> None:
        answer(event.current_buffer.text)

    return keys


def leaving_keys(stop: Callable[[], None], leave: Callable[[], None]) -> KeyBindings:
    """Return the keys that count wherever the cursor is: Ctrl-C, Ctrl-D and Ctrl-Z."""
    keys = KeyBindings()

    @keys.add("c-c", eager=True)
    def _(_: KeyPressEvent) -> None:
        stop()

    @keys.add("c-d", eager=True)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            leave()

    @keys.add("c-z", eager=True)
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys
