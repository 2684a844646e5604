"""`perdure demo`: one session on a scripted model, with all that can happen to it."""
