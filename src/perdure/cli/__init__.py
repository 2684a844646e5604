"""The command line: what a person types, and what they see."""

from perdure.cli.app import main

__all__ = ["main"]
