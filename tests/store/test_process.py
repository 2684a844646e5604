"""Whether a process is known to be gone."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from perdure.store.process import Process, in_words, is_gone, this_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_this_process_is_not_gone() -> None:
    here = this_process()
    assert here.pid == os.getpid()
    assert not is_gone(here, here)
    assert not is_gone(this_process(), msgspec.structs.replace(here, pid=1))


def test_an_ended_process_is_gone() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    here = this_process()
    assert is_gone(Process(here.host, ended.pid, here.started), here)


def test_a_process_that_started_at_another_time_is_another() -> None:
    here = this_process()
    parent = Process(here.host, os.getppid(), -1)
    assert is_gone(parent, here)


def test_nothing_is_known_of_another_host() -> None:
    here = this_process()
    assert not is_gone(Process("elsewhere", 2**22 + 1, 1), here)
    assert not is_gone(Process("", 2**22 + 1, 1), msgspec.structs.replace(here, host=""))


def test_a_process_is_named_as_people_on_its_host_know_it() -> None:
    here = this_process()
    assert in_words(here, here) == "this process"
    assert in_words(Process(here.host, 12, 1), here) == "process 12"
    elsewhere = Process("elsewhere", 12, 1)
    assert in_words(elsewhere, here) == "a process of another machine or container"
