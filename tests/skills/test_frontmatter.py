"""The frontmatter of a `SKILL.md`: what counts as one, and what is put up with."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.skills.frontmatter import LIMIT, Frontmatter, read, split


def head(*lines: str) -> str:
    return "\n".join(["---", *lines, "---", "", "# Body", ""])


def test_the_fields_of_the_format_are_read() -> None:
    written = head(
        "name: pdf-tools",
        "description: >",
        "  Works with",
        "  PDF files.",
        "license: MIT",
        "compatibility: Needs pdftotext",
        "metadata:",
        '  version: "1.0"',
        "allowed-tools: Read Bash(git:*)",
    )
    assert read(written) == Frontmatter("pdf-tools", "Works with PDF files.", "Needs pdftotext")


def test_a_field_that_is_missing_is_empty() -> None:
    assert read(head("license: MIT")) == Frontmatter()


@pytest.mark.parametrize("written", ["123", "on", "2024-01-01", "1e3", "~"])
def test_a_value_is_text_whatever_it_looks_like(written: str) -> None:
    assert read(head(f"name: {written}")) == Frontmatter(name=written)


def test_a_value_that_is_no_text_counts_as_missing() -> None:
    assert read(head("name: [a, b]", "description: {a: b}")) == Frontmatter()


def test_windows_line_ends_are_line_ends() -> None:
    written = head("name: pdf", "description: Works.").replace("\n", "\r\n")
    assert read(written) == Frontmatter("pdf", "Works.")
    assert split(written) == ("name: pdf\r\ndescription: Works.\r\n", "# Body\r\n")


def test_the_body_begins_after_the_frontmatter() -> None:
    assert split("---\na: b\n---\n\nOne.\n---\nTwo.\n") == ("a: b\n", "One.\n---\nTwo.\n")


@pytest.mark.parametrize("text", ["", "# Body", "\n---\na: b\n---\n", " ---\na: b\n---\n", "---"])
def test_a_text_that_does_not_begin_with_frontmatter_has_none(text: str) -> None:
    reason = read(text)
    assert isinstance(reason, str)
    assert "its first line must be three dashes" in reason
    assert split(text) is None


def test_frontmatter_has_to_end() -> None:
    assert read("---\nname: pdf\n") == "its frontmatter does not end within the first 8 KiB"
    assert read("---\n" + "a: b\n" * LIMIT) == "its frontmatter does not end within the first 8 KiB"


@pytest.mark.parametrize(
    "lines", [["- name"], ["pdf"], [], ["# nothing"]], ids=["list", "text", "empty", "comment"]
)
def test_frontmatter_has_to_be_a_mapping(lines: list[str]) -> None:
    assert read(head(*lines)) == "its frontmatter is no mapping of fields to values"


def test_broken_yaml_is_told_with_its_line() -> None:
    reason = read(head("name: pdf", "description: 'Works.", ""))
    assert isinstance(reason, str)
    assert reason.startswith("its frontmatter is no valid YAML: ")
    assert "(line " in reason


def test_a_colon_in_a_value_is_put_up_with() -> None:
    found = read(head("name: pdf", "description: Use it when: it's a PDF", "license: MIT"))
    assert isinstance(found, Frontmatter)
    assert found.description == "Use it when: it's a PDF"
    assert found.remark == (
        "its frontmatter is no valid YAML: mapping values are not allowed here (line 2);"
        " it is read as if its values were quoted"
    )


def test_aliases_are_refused() -> None:
    reason = read(head("name: &name pdf", "description: *name"))
    assert reason == "its frontmatter is no valid YAML: aliases are not supported (line 2)"


def test_a_bomb_of_aliases_is_refused() -> None:
    levels = [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    reason = read(head("a0: &a0 [x, x]", *levels))
    assert reason == "its frontmatter is no valid YAML: aliases are not supported (line 2)"


def test_a_bomb_of_brackets_is_refused_before_it_is_parsed() -> None:
    assert read(head("[" * 4000)) == "its frontmatter holds more than 100 opening brackets"


def test_a_deep_nest_is_refused() -> None:
    reason = read(head("- " * 3000))
    assert reason == "its frontmatter is no valid YAML: it is nested too deeply"


def test_a_tag_constructs_nothing() -> None:
    found = read(head("name: !!python/object/apply:os.getcwd []", "description: !!int ''"))
    assert found == Frontmatter()


def test_control_characters_are_refused() -> None:
    reason = read(head("name: a\x07b"))
    assert reason == (
        "its frontmatter is no valid YAML: it holds characters that YAML does not allow"
    )


def test_a_key_that_cannot_be_one_is_refused() -> None:
    assert str(read(head("? [a]", ": b"))).startswith("its frontmatter is no valid YAML: ")


PIECES = (
    "name|description|: |:|- |\n|  |'|\"|>|&a |*a|!!int |{|}|[|]|#|\\|? |---|...|%|@|\t|\r|\0|é"
)
fragments = st.lists(st.sampled_from(PIECES.split("|")), max_size=40)


@given(st.text(max_size=200) | fragments.map("".join))
def test_any_text_is_read_or_refused_on_one_line(text: str) -> None:
    found = read(f"---\n{text}\n---\n")
    reason = found if isinstance(found, str) else found.remark
    assert reason.isprintable()
    assert len(reason) < 300


def test_nothing_is_imported_for_yaml_before_there_is_some() -> None:
    program = (
        "import sys, perdure.skills, perdure.sources, perdure.tools; print('yaml' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert ended.stdout.strip() == "False"
