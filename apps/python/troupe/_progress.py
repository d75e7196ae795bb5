# SPDX-License-Identifier: BSD-3-Clause
"""How far a job is, where somebody looks: a terminal, by the library, or a notebook."""
import sys


def _notebook():
    """IPython's display module, where a kernel of a notebook runs this; it is never imported for that."""
    shell = sys.modules.get("IPython")
    display = sys.modules.get("IPython.display")
    if shell is None or display is None or "ipykernel" not in sys.modules or shell.get_ipython() is None:
        return None
    return display


class Shown:
    """What is shown of a job. `progress`: None: where somebody looks; True: in any case; False: nothing."""

    def __init__(self, progress):
        self._notebook = None if progress is False else _notebook()
        self.by_library = self._notebook is None and (sys.stderr.isatty() if progress is None else bool(progress))
        self._place, self._evaluated = None, ""

    @property
    def wants_lines(self):
        """Whether `tell` does anything."""
        return self._notebook is not None

    def tell(self, line):
        """A line of the log: the newest one of its kind replaces what is shown."""
        if self._notebook is None:
            return
        number = "{:.4f}".format
        if line["kind"] == "evaluation":
            self._evaluated = f"  evaluated: test loss {_said(line['test_loss'], number)}"
        elif line["kind"] == "progress":
            self._show(f"step {line['step']}  epoch {line['epoch']:.2f}  loss {_said(line['train_loss'], number)}"
                       f"  {line['seconds']:.1f} s{self._evaluated}")
        elif line["kind"] == "event":
            print(f"troupe: {line['text']}", file=sys.stderr)

    def _show(self, text):
        data = {"text/plain": text}
        if self._place is None:
            self._place = self._notebook.display(data, raw=True, display_id=True)
        else:
            self._place.update(data, raw=True)


def _said(value, form):
    return "-" if value is None else form(value)
