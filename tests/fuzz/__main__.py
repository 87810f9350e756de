"""`./scripts/fuzz`: coverage-guided fuzzing of targets, one after the other, with a line for each.

Each target runs in a process of its own, because libFuzzer ends the process. An input that is
handled wrongly is kept as `crash-*` in the corpus folder; `--input` runs it once more, with all
logs.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random

HUNG_SECONDS = 20
MOST_MIB = 1024
"""Of one input, and of the process."""

_DONE = re.compile(r"#(\d+)\s+(?:DONE|REDUCE|NEW|pulse)\s+cov: (\d+) ft: \d+ corp: (\d+)")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fuzz", description="Fuzzes targets: all of them, if none is given."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="from tests/fuzz/targets.py")
    parser.add_argument(
        "--seconds", type=int, default=600, metavar="N", help="for each target (default: 600)"
    )
    parser.add_argument(
        "--corpus", type=Path, metavar="DIR", help="where inputs are kept (default: a new folder)"
    )
    parser.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="run one input through the target, and nothing else",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        _fuzz(arguments.targets[0], arguments.corpus, arguments.seconds)
    from tests.fuzz.targets import TARGETS

    unknown = set(arguments.targets) - set(TARGETS)
    if unknown or (arguments.input and len(arguments.targets) != 1):
        parser.error(f"the targets are {', '.join(TARGETS)}; --input takes one")
    if arguments.input:
        TARGETS[arguments.targets[0]].run(arguments.input.read_bytes())
        return 0
    folder = arguments.corpus or Path(tempfile.mkdtemp(prefix="grove-admission-fuzz-"))
    return max(
        _run(name, folder / name, arguments.seconds) for name in arguments.targets or TARGETS
    )


def _run(name: str, folder: Path, seconds: int) -> int:
    """Fuzzes one target in a process of its own; 1 if there is a finding."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        name,
        "--inside",
        "--corpus",
        str(folder),
        "--seconds",
        str(seconds),
    ]
    log = folder.with_suffix(".log")
    with log.open("wb") as file:
        code = subprocess.run(command, stdout=file, stderr=file, check=False).returncode
    counts = _DONE.findall(log.read_text(errors="replace"))
    executions, edges, inputs = counts[-1] if counts else ("0", "0", "0")
    print(
        f"{name:14} {int(executions):12,} executions, {edges:>6} edges, {inputs:>5} inputs",
        end="; ",
        flush=True,
    )
    print("no finding" if code == 0 else f"a finding, see {log}", flush=True)
    return int(code != 0)


def _fuzz(name: str, folder: Path, seconds: int) -> None:
    """Ends the process."""
    import atheris

    with atheris.instrument_imports(include=["app"]):
        from tests.fuzz.targets import TARGETS
    import logging

    logging.disable(logging.CRITICAL)
    target = TARGETS[name]
    for number, data in enumerate(target.corpus()):
        (folder / f"corpus-{number}").write_bytes(data)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.1:
            return bytes(atheris.Mutate(data, most))
        changed = target.mutate(data, random)
        return changed if len(changed) <= most else data

    flags = [f"-max_total_time={seconds}", f"-timeout={HUNG_SECONDS}", f"-rss_limit_mb={MOST_MIB}"]
    flags += [f"-max_len={target.most}", "-len_control=0", f"-artifact_prefix={folder}/"]
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    atheris.Setup([sys.argv[0], *flags, str(folder)], target.run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
