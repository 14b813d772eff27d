"""A progress bar on stderr, on a terminal only, while topics are read."""

from __future__ import annotations

from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from pulsar_doctor.wording.consoles import GatedConsole


class ProgressBar:
    """Called with how many are done, how many are planned, and of what."""

    def __init__(self, *, quiet: bool) -> None:
        console = GatedConsole(stderr=True)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if console.is_terminal and not quiet:
            self._bar = Bar(
                BarColumn(),
                TextColumn("{task.completed} of {task.total} {task.description}", markup=False),
                TimeRemainingColumn(),
                console=console,
                transient=True,
                redirect_stdout=False,  # or the report would go where the bar is: to stderr
            )

    def __call__(self, done: int, planned: int, what: str) -> None:
        """One step; the bar disappears with the last."""
        if self._bar is None:
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(what, total=planned)
        self._bar.update(self._task, completed=done, total=planned, description=what)
        if done >= planned:
            self.stop()

    def stop(self) -> None:
        """Takes the bar away; another step brings it back."""
        if self._bar is not None and self._task is not None:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = None
