"""YAML that is nothing but text: a loader that makes no values and follows no aliases.

Imported only where frontmatter is parsed, because yaml is slow to import.
"""

from __future__ import annotations

from typing import Any

import yaml
import yaml.composer


class PlainLoader(yaml.BaseLoader):
    """Takes every scalar as text, whatever it looks like and whatever its tag says.

    So a name may be `123` or `on`, and no tag constructs anything. A document with aliases, which
    could stand for far more than was written, is refused.
    """

    def compose_node(self, parent: Any, index: int) -> Any:
        """Compose the next node as ever, unless it is an alias."""
        parser: Any = self  # its methods have no types
        if parser.check_event(yaml.AliasEvent):
            mark = parser.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", mark)
        return super().compose_node(parent, index)


def load_plain(text: str) -> object:
    """Return a document as dictionaries, lists and text.

    Raise ValueError with the reason, on one line, where it cannot be one.
    """
    try:
        return yaml.load(text, Loader=PlainLoader)  # noqa: S506 - it constructs text only
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f" (line {error.problem_mark.line + 1})"
        raise ValueError(f"{error.problem or error.context}{line}") from error
    except yaml.YAMLError as error:
        raise ValueError("it holds characters that YAML does not allow") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
