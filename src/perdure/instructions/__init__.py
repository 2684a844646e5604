"""Instruction files: which there are, what each is called, what each says."""

from perdure.instructions.files import InstructionFile
from perdure.instructions.service import InstructionService

__all__ = ["InstructionFile", "InstructionService"]
