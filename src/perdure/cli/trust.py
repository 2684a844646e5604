"""`perdure trust`: which projects may configure providers, permissions and tools."""

from __future__ import annotations

import os
import sys

import click
import msgspec

from perdure.cli.arguments import given_text
from perdure.cli.output import Output
from perdure.cli.page import line, show
from perdure.config.load import load
from perdure.config.location import shown
from perdure.config.trust import trust as trust_project
from perdure.config.trust import trusted_projects, untrust
from perdure.errors import UsageError


@click.command(short_help="Trust a project's own configuration.")
@click.argument("directory", metavar="DIR", required=False, callback=given_text)
@click.option("--list", "list_", is_flag=True, help="List the trusted projects.")
@click.option("--remove", is_flag=True, help="Take the trust of DIR back.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print a JSON array.")
def trust(directory: str | None, list_: bool, remove: bool, as_json: bool) -> None:
    """Let the perdure.toml of the project that DIR belongs to set everything.

    Without trust it may choose a model, a time zone and instruction options, and nothing that
    could redirect a key or run code. Whoever can change a trusted project can do both.

    \b
    Examples:
      perdure trust .
      perdure trust --remove ~/src/tool
      perdure trust --list
    """
    if list_ == (directory is not None) or (list_ and remove) or (as_json and not list_):
        raise UsageError("give a directory, or --list; see `perdure trust --help`")
    out = Output(sys.stdout)
    if directory is None:
        _list(out, as_json)
    elif remove:
        project = untrust(directory, os.environ)
        show(out, [line(f"{shown(project)} is not trusted")])
    else:
        _add(out, directory)


def _list(out: Output, as_json: bool) -> None:
    projects = trusted_projects(os.environ)
    if as_json:
        out.write_bytes(msgspec.json.encode(projects) + b"\n")
    else:
        show(out, [line(shown(project)) for project in projects])


def _add(out: Output, directory: str) -> None:
    ignored = load(directory, os.environ).ignored
    project = trust_project(directory, os.environ)
    counts = [
        line(f"what {each.file} says of {each.key} counts from now on", indent=2)
        for each in ignored
    ]
    show(out, [line(f"{shown(project)} is trusted"), *counts])
