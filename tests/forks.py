"""Start processes of `grove-admission` as forks of one that has imported everything.

Tests that start many processes use this, because imports take two thirds of the processor time of a
start. Except for the imports, a fork does the same as the command. The tests of the commands and of
`server/test_serving.py` start the command itself.
"""

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from app.cli import main

ROOT = Path(__file__).parents[1]


class Fork:
    """A forked process. Its exit code is not available."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ended = asyncio.Event()
        try:
            self._handle = os.pidfd_open(pid)
        except ProcessLookupError:
            self._ended.set()
        else:
            asyncio.get_running_loop().add_reader(self._handle, self._end)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if not self.has_ended:
            signal.pidfd_send_signal(self._handle, number)

    async def wait(self) -> None:
        await self._ended.wait()

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)
        self._ended.set()


class Forks:
    """The process that forks. It runs from the first fork until `end`."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: Path
    ) -> Fork:
        """Run `grove-admission` with these arguments. Its output goes to `log`."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", __name__),
                cwd=ROOT,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None
        assert answers is not None
        request = {"arguments": arguments, "environment": dict(environment), "log": str(log)}
        requests.write(json.dumps(request).encode() + b"\n")
        return Fork(int(await answers.readline()))

    async def end(self) -> None:
        """End the process that forks. Its forks keep running."""
        if self._process is not None:
            await self._process.communicate(b"")


def serve() -> int:
    """Fork for each line of the standard input, and print the process id of each fork."""
    import app.commands.serve  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            return become(**json.loads(line))
        print(pid, flush=True)
        forget_ended()

    forget_ended()
    return 0


def forget_ended() -> None:
    """Reap the forks that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def become(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> int:
    """Run the command in this process, and return its exit code."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, file in enumerate((nothing, printed, printed)):
        os.dup2(file, descriptor)

    os.environ.clear()
    os.environ.update(environment)
    return main(arguments)


if __name__ == "__main__":
    raise SystemExit(serve())
