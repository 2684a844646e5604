"""Skills: folders with a `SKILL.md`, which ones there are and what each is for."""

from perdure.skills.discovery import find_skills
from perdure.skills.index import Skill, SkillIndex
from perdure.skills.places import user_skills

__all__ = ["Skill", "SkillIndex", "find_skills", "user_skills"]
