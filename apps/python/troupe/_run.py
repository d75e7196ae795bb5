# SPDX-License-Identifier: BSD-3-Clause
"""Jobs that Troupe computes: troupe.run, and the result that every job has."""
import atexit
import ctypes
import json
import os
import weakref

import numpy

from . import _library, _progress, _settings

_open = weakref.WeakSet()  # what ends with the interpreter: runs, and loops that have views of their memory


class Handle:
    """An open run of the library. Closing it ends its threads and processes."""

    def __init__(self, *, job=None, sets=(), program=(), model=None, node=None, loud=False, cluster=None, certs=None, insecure=False,
                 wait_s=0):
        def text(value):
            return None if value is None else os.fspath(value).encode()
        self.pointer = None
        self._library = _library.library()
        why = ctypes.create_string_buffer(1 << 16)
        options = _library.Options(ctypes.sizeof(_library.Options), text(job), _library.texts(list(sets)), model and ctypes.pointer(model),
                                   _library.texts(list(program)), text(node), loud, text(cluster), text(certs), insecure, wait_s)
        self.pointer = self._library.troupe_open(ctypes.byref(options), why, len(why))
        if not self.pointer:
            raise _library.Error(why.value.decode(errors="replace"))
        _open.add(self)

    def call(self, name, *arguments):
        """Calls a function that may fail."""
        if not self.pointer:
            raise _library.Error("the run is closed")
        code = getattr(self._library, name)(self.pointer, *arguments)
        if code == _library.ERROR:
            raise _library.Error(self._library.troupe_error(self.pointer).decode(errors="replace"))
        return code

    def joined(self):
        """Whether another process has the job."""
        return bool(self.pointer and self._library.troupe_joined(self.pointer))

    def offset(self, index):
        """Where a parameter begins in the flat arrays."""
        return self._library.troupe_offset(self.pointer, index)

    def result(self):
        """What the job came to, and its parameters."""
        text = self._library.troupe_result(self.pointer)
        return Result(json.loads(text), self._weights())

    def _weights(self):
        found = {}
        for index in range(self._library.troupe_parameter_count(self.pointer)):
            its = _library.Parameter()
            self.call("troupe_parameter_at", index, ctypes.byref(its))
            if its.values:
                dims = its.extents[:its.rank]
                flat = (ctypes.c_float * int(numpy.prod(dims))).from_address(its.values)
                found[its.name.decode()] = numpy.array(flat, dtype=numpy.float32).reshape(dims)
        return found

    def close(self):
        """Ends the run; a second time nothing."""
        pointer, self.pointer = self.pointer, None
        if pointer:
            self._library.troupe_close(pointer)


@atexit.register
def _close_all():
    for each in sorted(_open, key=lambda its: isinstance(its, Handle)):  # loops first
        each.close()


def close_at_exit(loop):
    """Closes a loop before the run that it reads from."""
    _open.add(loop)


class Result:
    """How a job ended.

    `facts` is what `troupe run --json` prints. `history` has an evaluation each: a dict with step, seconds, train_loss, test_loss
    and test_accuracy. `digest` is the same for the same weights, bit for bit.
    """

    def __init__(self, facts, weights):
        self.facts, self._weights = facts, weights
        self.test_loss, self.train_loss = facts["test_loss"], facts["train_loss"]
        self.test_accuracy, self.steps, self.digest = facts["test_accuracy"], facts["steps"], facts["weights_digest"]
        self.history = facts.pop("history")

    @classmethod
    def unknown(cls):
        """Of a job that another process has."""
        nan = float("nan")
        return cls({"test_loss": nan, "train_loss": nan, "test_accuracy": nan, "steps": nan, "weights_digest": "", "history": []}, {})

    def accuracy_is_unknown(self):
        """Nobody counted what is predicted right."""
        for each in (self.facts, *self.history):
            each["test_accuracy"] = None
        self.test_accuracy = None

    def weights(self):
        """The parameters by name, as NumPy arrays."""
        return self._weights

    def __repr__(self):
        def said(value):
            return "none" if value is None else f"{value:.4f}"
        return f"<{self.steps} steps, test loss {said(self.test_loss)}, test accuracy {said(self.test_accuracy)}>"


def finished(handle):
    """The result of a run that is over. A job that failed is an exception."""
    result = handle.result()
    if result.facts["error"]:
        raise _library.Error(f"the job failed: {result.facts['error']}")
    return result


def run(job, *, nodes=None, set=None, protocol=None, optimizer=None, progress=None, on_line=None, cluster=None):  # pylint: disable=redefined-builtin
    """Runs a job file and returns its Result. Troupe computes.

    `nodes`: processes, this one included. `set`: keys of the job file and their values. `protocol` and `optimizer`: a name, or a
    value such as troupe.adacomm(). `progress`: whether to show it; None: on a terminal or in a notebook. `on_line` is called with
    each line of the log, as a dict. `cluster`: the file of a running cluster of `troupe node` processes, which does the work then.
    Ctrl-C ends the job.

    >>> import troupe
    >>> r = troupe.run("config/quickstart.toml", nodes=1, set={"stop.epochs": 0.1, "data.train_samples": 2000})
    >>> r.weights()["linear1.weight"].dtype
    dtype('float32')
    """
    keys = dict(set or {})
    if nodes is not None:
        keys["cluster.nodes"] = nodes
    sets = _settings.settings(("protocol", protocol), ("optimizer", optimizer), **keys)
    shown = _progress.Shown(progress)
    handle = Handle(job=job, sets=sets, program=[] if cluster else [_library.program()], loud=shown.by_library, cluster=cluster)
    try:
        line = ctypes.c_char_p()
        while True:
            code = handle.call("troupe_follow", ctypes.byref(line), _library.TICK_MS)
            if code == _library.OVER:
                return finished(handle)
            if code == _library.LINE:
                told = json.loads(line.value)
                shown.tell(told)
                if on_line is not None:
                    on_line(told)
    finally:
        handle.close()
