"""The tool `shell`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from perdure.tools import Limits, builtin_tools, supervised
from tests.tools import shell_runner
from tests.tools.calling import Bench
from tests.tools.processes import is_alive, numbers_in, wait_until_gone

pytestmark = pytest.mark.anyio

LINUX = sys.platform == "linux"


async def test_output_errors_and_exit_code_come_back(bench: Bench) -> None:
    settled = await bench.call("shell", command="echo out; echo err >&2; echo again; exit 3")
    assert settled.outcome == "completed"
    assert settled.output == "out\nerr\nagain\nexit code 3"


async def test_a_silent_success_says_so(bench: Bench) -> None:
    assert (await bench.call("shell", command="true")).output == "exit code 0"


async def test_output_without_a_line_end_does_not_run_into_the_exit_code(bench: Bench) -> None:
    assert (await bench.call("shell", command="printf x")).output == "x\nexit code 0"


async def test_the_command_runs_in_the_location(bench: Bench) -> None:
    bench.directory = bench.project / "sub"
    bench.directory.mkdir()
    settled = await bench.call("shell", command="pwd; echo $PWD")
    assert settled.output == f"{bench.directory}\n{bench.directory}\nexit code 0"


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is used only where it is found")
async def test_bash_is_the_shell_where_it_is_found(bench: Bench) -> None:
    settled = await bench.call("shell", command="[[ x == x ]] && echo ${BASH_VERSION:0:0}ok")
    assert settled.output == "ok\nexit code 0"


async def test_there_is_no_input_to_wait_for(bench: Bench) -> None:
    settled = await bench.call("shell", command="cat; read line; echo done")
    assert settled.output == "done\nexit code 0"


async def test_output_is_shown_while_the_command_runs(bench: Bench) -> None:
    fifo = bench.project / "go"
    command = f"mkfifo {fifo}; echo first; cat {fifo}; echo last"
    async with anyio.create_task_group() as group:
        group.start_soon(_call, bench, command)
        with anyio.fail_after(60):
            while "first\n" not in "".join(bench.progress):
                await anyio.sleep(0.01)
        assert "last" not in "".join(bench.progress)
        await anyio.to_thread.run_sync(fifo.write_text, "go\n")
    assert "".join(bench.progress) == "first\ngo\nlast\n"


async def _call(bench: Bench, command: str) -> None:
    await bench.call("shell", command=command)


async def test_a_character_cut_between_pieces_arrives_whole(bench: Bench) -> None:
    settled = await bench.call("shell", command=r"printf '\303'; sleep 0.1; printf '\274\377'")
    assert settled.output == "ü\ufffd\nexit code 0"
    assert "".join(bench.progress) == "ü\ufffd"


async def test_long_output_is_bounded_and_kept_whole(bench: Bench) -> None:
    settled = await bench.call("shell", command="seq 100000; exit 7")
    assert Path(settled.file).read_text() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert settled.output.startswith("1\n2\n3\n")
    assert settled.output.endswith("99999\n100000\nexit code 7")
    assert f"the complete text is in {settled.file}" in settled.output
    assert len(settled.output) < 52_000
    read = await bench.call("read", path=settled.file, offset=50_000, limit=1)
    assert read.output.startswith("50000\t50000\n")


async def test_output_without_end_takes_no_more_than_is_kept(bench: Bench) -> None:
    bench.tools = builtin_tools(limits=Limits(size=4000, kept=100_000))
    settled = await bench.call("shell", command="yes | head -c 5000000")
    assert Path(settled.file).stat().st_size == 100_000
    assert "the first 100000 bytes of the complete text are in" in settled.output


async def test_the_variables_with_keys_are_hidden(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("OTHER", "seen")
    bench.tools = builtin_tools(hidden=["SOME_API_KEY"])
    settled = await bench.call("shell", command='echo "[$SOME_API_KEY] [$OTHER]"')
    assert settled.output == "[] [seen]\nexit code 0"


async def test_a_signal_that_ended_the_command_is_named(bench: Bench) -> None:
    settled = await bench.call("shell", command="kill -SEGV $$")
    assert settled.output.endswith("exit code 139 (ended by SIGSEGV)")


async def test_a_broken_pipe_ends_the_writer_as_usual(bench: Bench) -> None:
    settled = await bench.call("shell", command="yes | head -1")
    assert settled.output == "y\nexit code 0"


async def test_a_timeout_ends_the_whole_group(bench: Bench) -> None:
    pids = bench.project / "pids"
    command = f"echo $$ >> {pids}; sleep 300 & echo $! >> {pids}; echo begun; wait"
    settled = await bench.call("shell", command=command, timeout=0.5)
    assert settled.outcome == "completed"
    assert settled.output.endswith(
        "Timed out after 0.5 seconds; the command and all it started were ended."
    )
    if pids.exists():  # a busy machine may not have come that far
        assert [pid for pid in numbers_in(pids, 0) if is_alive(pid)] == []


async def test_a_command_that_ignores_the_request_to_end_is_killed(bench: Bench) -> None:
    command = "trap 'echo no' TERM; echo begun; while :; do sleep 0.05; done"
    with anyio.fail_after(60):
        settled = await bench.call("shell", command=command, timeout=1)
    assert "Timed out" in settled.output


async def test_what_a_command_says_on_its_way_out_is_kept(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_GRACE", 60.0)
    monkeypatch.setattr(supervised, "ENDING", 60.0)
    command = "trap 'echo cleaned; exit 1' TERM; echo begun; while :; do :; done"
    for seconds in (1, 10, 60):  # a busy machine may need long to start the command at all
        output = (await bench.call("shell", command=command, timeout=seconds)).output
        if "begun" in output:
            break
    assert "begun\ncleaned\n" in output


async def test_cancelling_ends_the_whole_group(bench: Bench) -> None:
    pids = bench.project / "pids"
    command = f"echo $$ >> {pids}; sleep 300 & echo $! >> {pids}; wait"
    async with anyio.create_task_group() as group:
        group.start_soon(_call, bench, command)
        await anyio.to_thread.run_sync(numbers_in, pids, 2)
        group.cancel_scope.cancel()
    assert [pid for pid in numbers_in(pids, 2) if is_alive(pid)] == []


async def test_cancelling_leaves_no_half_output_file(bench: Bench) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(_call, bench, "seq 100000; sleep 300")
        with anyio.fail_after(60):
            while not bench.progress or not bench.progress[-1].endswith("100000\n"):
                await anyio.sleep(0.01)
        assert [path.name for path in bench.outputs.iterdir()] == ["call1.txt"]
        group.cancel_scope.cancel()
    assert list(bench.outputs.iterdir()) == []


@pytest.mark.parametrize("start", ["sleep 300 &", "(sleep 300; sleep 300) &"])
async def test_a_background_process_does_not_hold_the_call(bench: Bench, start: str) -> None:
    with anyio.fail_after(60):
        settled = await bench.call("shell", command=f"{start} echo $!")
    pid, code, note = settled.output.split("\n")
    assert code == "exit code 0"
    assert note == "Processes that the command left in the background were ended."
    wait_until_gone([int(pid)])


async def test_a_pipeline_may_end_a_little_after_its_shell(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "_LINGER", 60.0)  # how little it is depends on the machine
    settled = await bench.call("shell", command="(sleep 0.05; echo late) &")
    assert settled.output == "late\nexit code 0"


@pytest.mark.skipif(not LINUX, reason="only Linux lets a process adopt its descendants")
async def test_a_process_that_left_the_group_is_ended_too(bench: Bench) -> None:
    pids = bench.project / "pids"
    command = f"setsid sh -c 'echo $$ >> {pids}; sleep 300' & while [ ! -s {pids} ]; do :; done"
    await bench.call("shell", command=command)
    assert [pid for pid in numbers_in(pids, 1) if is_alive(pid)] == []


@pytest.mark.skipif(not LINUX, reason="only Linux ends a command with its guard")
async def test_a_command_that_kills_its_guard_does_not_hold_the_call(bench: Bench) -> None:
    with anyio.fail_after(60):
        settled = await bench.call("shell", command="kill -9 $PPID; sleep 300")
    assert settled.output == "exit code 137 (ended by SIGKILL)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"command": "echo\0x"}, "NUL character"),
        ({"command": ": " + "x" * 3_000_000}, "the command is too long"),
        ({"command": "true", "timeout": 601}, "<= 600"),
        ({"command": "true", "timeout": 0}, "> 0"),
    ],
)
async def test_a_command_that_cannot_run_is_told(
    bench: Bench, arguments: dict[str, object], words: str
) -> None:
    settled = await bench.call("shell", **arguments)
    assert settled.outcome == "failed"
    assert words in settled.output


async def test_a_location_that_is_gone_is_told(bench: Bench) -> None:
    bench.directory = bench.project / "gone"
    settled = await bench.call("shell", command="true")
    assert settled.outcome == "failed"
    assert settled.output == f"cannot run a command in {bench.directory}: No such file or directory"


async def test_many_commands_run_at_once(bench: Bench) -> None:
    outputs: list[str] = []

    async def run(number: int) -> None:
        outputs.append((await bench.call("shell", command=f"echo {number}")).output)

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(run, number)
    assert sorted(outputs) == sorted(f"{number}\nexit code 0" for number in range(12))


def test_nothing_outlives_a_runtime_that_is_killed(bench: Bench) -> None:
    pids = bench.project / "pids"
    written = bench.project / "written"
    command = (
        f"echo $$ >> {pids}; trap '' TERM HUP;"
        f"(while :; do echo x >> {written}; done) & echo $! >> {pids};"
        f"while :; do echo y >> {written}; sleep 0.01; done"
    )
    runner = subprocess.Popen(
        [sys.executable, shell_runner.__file__, str(bench.project), command],
        stdout=subprocess.DEVNULL,
    )
    try:
        started = numbers_in(pids, 2)
        assert all(is_alive(pid) for pid in started)
    finally:
        runner.kill()
        runner.wait()
    wait_until_gone(started)
    size = written.stat().st_size
    assert size > 0
    assert not any(is_alive(pid) for pid in started)
    assert written.stat().st_size == size
