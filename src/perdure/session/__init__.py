"""The runtime of a session: boundary, step, settlement, recovery, and who may drain.

A Prompt goes into the inbox (`inbox`), is promoted at a boundary (`boundary`), answered by a Step
(`step`, `attempts`, `calls`), and everything on the way is an event in the log (`log`). A `drain`
repeats this until nothing is left to do; the `coordinator` starts at most one drain a session.
A `fork` copies a session, and a `revert` takes one back, at a sound `cut`.
"""
