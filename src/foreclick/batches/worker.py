"""What a worker process of `batches.pool` runs: it is sent the work, then parts, and answers each.

It starts from this module and never runs the caller's script.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from foreclick.threads import one_blas_thread

START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from foreclick.batches.worker import serve; serve()"
)
"""The program of a worker, to which the import path is sent first."""


def serve() -> None:
    """Answer parts from standard input until it is closed, as it is when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is heard by the parent, who decides
    source, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the work prints is no answer
    work = _said(answers, lambda: pickle.load(source))  # noqa: S301 - of the parent process
    parts: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_receive, args=(source, parts), daemon=True).start()
    with one_blas_thread():
        while True:
            part = parts.get()
            _said(answers, partial(work, part), answered=True)


def _said(answers: BinaryIO, do: Callable[[], Any], *, answered: bool = False) -> Any:  # noqa: ANN401
    """What `do` gives; the parent is told that it was done, with the answer, or the error."""
    result = None
    try:
        result = do()
        message = pickle.dumps((True, result if answered else None))
    except Exception as error:  # noqa: BLE001 - raised by the parent
        message = pickle.dumps((False, error))
    answers.write(message)
    answers.flush()
    return result


def _receive(source: BinaryIO, parts: SimpleQueue[Any]) -> None:
    """Take parts while others are worked on; at the end of the input, end the process at once."""
    while True:
        try:
            parts.put(pickle.load(source))  # noqa: S301 - of the parent process
        except EOFError:
            os._exit(0)
