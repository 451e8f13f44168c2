"""`dovetail` for somebody at a shell, answered by forks of one process that has imported the package.

Run as a script with a socket and words it is the tool: it hands its folder, environment and streams over, and ends as
the command did. Run with `--serve` it is the process that forks. Pipes, `&&` and files of a shell are as ever.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

WAITED_S = 900  # for what has hung


def ask(address: str, words: list[str]) -> int:
    """The tool: it needs nothing but the standard library, and starts in a hundredth of a second."""
    asked = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        socket.send_fds(line, [json.dumps(asked).encode() + b"\n"], [0, 1, 2])
        code = line.recv(16)
    return int(code) if code else 1  # nothing is said by one that was killed


def serve(address: str) -> None:
    from pathlib import Path

    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]
    from tests.e2e.warm import freeze_imports, import_late

    freeze_imports()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
        print("ready", flush=True)
        while True:
            line, _ = door.accept()
            data, streams, _, _ = socket.recv_fds(line, 2**20, 3)
            while not data.endswith(b"\n"):
                data += line.recv(2**20)
            asked = json.loads(data)
            import_late(asked["words"])
            if not os.fork():
                _run(line, asked, streams)
            for one in streams:
                os.close(one)
            line.close()


def _run(line: socket.socket, asked: dict[str, object], streams: list[int]) -> None:
    """The command, in the child."""
    from tests.e2e.warm import ended_code

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.alarm(WAITED_S)
    words, folder, environment = asked["words"], asked["folder"], asked["environment"]
    assert isinstance(words, list)
    assert isinstance(folder, str)
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv[:] = ["dovetail", *words]
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    if words[:2] == ["reproduce", "ace"]:
        _share_ace()
    code = ended_code()
    line.sendall(str(code).encode())
    os._exit(code)


def _share_ace() -> None:
    """The study itself takes twenty seconds, and `tests/validation/test_ace.py` asks for it too."""
    from dovetail.api import reproduced
    from dovetail.papers.ace import AceStudy, ace_study
    from tests.once import computed_once

    def shared(*, refits: bool = False) -> AceStudy:
        return ace_study(refits=True) if refits else computed_once("ace-study", ace_study)

    vars(reproduced)["ace_study"] = shared


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
