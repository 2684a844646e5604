"""`perdure chat`: a session on a terminal, with a prompt line that stays usable while it works.

The `conversation` sends what is typed and follows the session's log; a `reporter` makes pages and
the `live` rows of it; the `screen` shows both, and alone knows prompt_toolkit beside its parts.
"""
