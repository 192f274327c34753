"""What the shell sees of a run: streams that may be closed, signals, and their exit codes."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import NoReturn

BAD_OUTPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 2, 130, 141, 143


def guarded(run: Callable[[], int], *, last: bool = False) -> int:
    """Run a command; interrupted, terminated or without a reader, it ends without a traceback.

    Args:
        run: gives the exit code.
        last: whether the process ends with it: the first signal then decides the exit code.
    """
    with _closed_streams(), _signals(last=last) as signals:
        try:
            code = run()
            try:  # not when Python ends and knows no better exit code than 120
                sys.stdout.flush()
            except BrokenPipeError:
                raise
            except OSError as error:  # a full disk
                _ignore_output()
                if not code:
                    sys.stderr.write(f"foreclick: {error}\n")
                    code = BAD_OUTPUT
            if code and signals:  # a signal may be why it failed: in an import, for instance
                raise KeyboardInterrupt  # noqa: TRY301 - as the signal would
        except BrokenPipeError:
            _ignore_output()
            return BROKEN_PIPE
        except KeyboardInterrupt:
            terminated = signal.SIGTERM in signals
            if last:
                _ignore_signals()
            with suppress(OSError):
                sys.stderr.write(f"foreclick: {'terminated' if terminated else 'interrupted'}.\n")
            return TERMINATED if terminated else INTERRUPTED
        return code


def end(code: int) -> NoReturn:
    """End this process with an exit code.

    After `python -m`, Python kills itself with SIGINT in place of the exit code if a signal ever
    came while it executed a string, as it does for every dataclass that is imported.
    """
    if code in (INTERRUPTED, TERMINATED):
        atexit._run_exitfuncs()  # noqa: SLF001 - scratch files are removed there
        os._exit(code)
    sys.exit(code)


def _ignore_output() -> None:
    """Redirect stdout: Python flushes it once more at exit, and would fail on the pipe again."""
    with suppress(OSError, ValueError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _closed_streams() -> Iterator[None]:
    """Whoever closed stdout or stderr (`>&-`) does not want to read them; the exit code counts."""
    before = sys.stdout, sys.stderr
    with ExitStack() as stack:
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123
                setattr(sys, name, nowhere)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


@contextmanager
def _signals(*, last: bool) -> Iterator[list[int]]:
    """SIGTERM ends the work like Ctrl-C, so that nothing is left behind; gives the signals so far.

    Engines know Ctrl-C and stop their own work for it. Where Ctrl-C is ignored, it still is.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # Python handles signals in the main thread only
        return

    def stop(number: int, _: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    wanted = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        wanted.append(signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in wanted}
    try:
        yield received
    finally:
        if last and received:
            _ignore_signals()
        else:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore_signals() -> None:
    """A second Ctrl-C while Python ends would print a traceback and give another exit code."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
