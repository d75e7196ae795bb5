# SPDX-License-Identifier: BSD-3-Clause
"""Steps that the caller computes: troupe.steps, for modules of PyTorch and for NumPy."""
import ctypes
import json
import os
import pathlib
import sys
import traceback
import zlib

import numpy

from . import _library, _progress, _run, _settings

_NODE = "TROUPE_NODE"  # the library's: of a process that it has started
_LOOP = "TROUPE_LOOP"  # which of the script's loops started it
_NAME = "TROUPE_NODE_NAME"  # the caller's: which node of a cluster file this process is
_MOST_CACHED = 16
_loops = 0  # of this process


def _threads(nodes):
    """Of each process, where nobody has said how many: more than cores would slow all of them."""
    return max(1, len(os.sched_getaffinity(0)) // nodes)


def _command(nodes):
    """How this script is started again, as a further process."""
    if not sys.argv or sys.argv[0] in ("", "-") or hasattr(sys, "ps1") or "ipykernel" in sys.modules:
        raise _library.Error("nodes > 1 starts this script again for each further process, and here is no script: take nodes=1, or "
                             "put the loop into a file")
    words = getattr(sys, "orig_argv", None)
    settings = [f"{_LOOP}={_loops}"]
    settings += [f"{name}={_threads(nodes)}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS") if name not in os.environ]
    return ["/usr/bin/env", *settings, sys.executable, *(words[1:] if words else sys.argv)]


def _array(address, count, dtype=ctypes.c_float):
    return numpy.ctypeslib.as_array((dtype * count).from_address(address))


def _leave_with_traceback(handle):
    """An exception that ends this process goes into the log of the first one. Its shards stay until the job ends."""
    print_it = sys.excepthook

    def hook(kind, value, trace):
        print_it(kind, value, trace)
        if handle.pointer and not issubclass(kind, KeyboardInterrupt):
            handle.call("troupe_fail", "".join(traceback.format_exception(kind, value, trace)).encode())
            line = ctypes.c_char_p()
            while handle.call("troupe_follow", ctypes.byref(line), _library.TICK_MS) != _library.OVER:
                pass

    sys.excepthook = hook


def _told_by_the_environment():
    """The scheduler that has started this process as one of several; None: none has."""
    found = os.environ
    if found.get("SLURM_PROCID") and found.get("SLURM_STEP_ID") and int(found.get("SLURM_STEP_NUM_TASKS") or 1) > 1:
        return "slurm"
    return "kubernetes" if found.get("JOB_COMPLETION_INDEX") and found.get("TROUPE_SERVICE") else None


def _script():
    """The name and the checksum of this script; None: it is none."""
    try:
        path = pathlib.Path(sys.argv[0])
        return f"{path.name} of checksum {zlib.crc32(path.read_bytes()):08x}"
    except (IndexError, OSError):
        return None


class _Slots:
    """Where each parameter lies in flat arrays, and the C description of all."""

    def __init__(self, values):
        """`values`: (name, kind, array) of each."""
        self.names = [name for name, _, _ in values]
        self.kinds = [kind for _, kind, _ in values]
        self.shapes = [array.shape for _, _, array in values]
        self.sizes = [array.size for _, _, array in values]
        self._kept = [numpy.ascontiguousarray(array) for _, _, array in values]
        described = []
        for name, kind, array in zip(self.names, self.kinds, self._kept):
            extents = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            self._kept.append(extents)
            described.append(_library.Parameter(name.encode(), extents, array.ndim, kind, array.ctypes.data))
        self.described = (_library.Parameter * len(described))(*described)
        self.offsets = []

    def views(self, address):
        """Each parameter in the flat array there."""
        return [_array(address + 4 * offset, size).reshape(shape)
                for offset, size, shape in zip(self.offsets, self.sizes, self.shapes)]


class Loop:
    """What troupe.steps gives: iterate over it. After the loop, `result` says how the job ended."""

    def __init__(self, binding, handle, slots, shown):
        self._binding, self._handle, self._slots, self._shown = binding, handle, slots, shown
        self._joined = handle.joined()
        self._step = None
        self._cached = {}
        self._counts_correct = False
        self.result = None
        _run.close_at_exit(self)

    def __iter__(self):
        return self

    def __next__(self):
        if self._handle is None:
            raise StopIteration
        try:
            if self._step is not None:
                self._binding.check_unchanged()
                raise _library.Error(f"a step ended without {self._binding.ending}; call it once for each step, in training and in "
                                     "evaluation")
            self._binding.check_unchanged()
            task = self._next_task()
        except BaseException:
            if not self._joined:  # else it has to say why it leaves, first
                self.close()
            raise
        if task is None:
            return self._end()
        self._step = self._binding.step(self, *task)
        return self._step

    def _next_task(self):
        task = _library.Task()
        while True:
            if self._shown.wants_lines:
                self._show()
            code = self._handle.call("troupe_next", ctypes.byref(task), _library.TICK_MS)
            if code == _library.OVER:
                return None
            if code != _library.TIMEOUT:
                rows = _array(ctypes.addressof(task.rows.contents), task.count, ctypes.c_uint32).astype(numpy.int64)
                gradients = self._views(task.gradients) if code == _library.STEP else None
                return task.worker, rows, self._views(task.parameters), gradients

    def _show(self):
        line = ctypes.c_char_p()
        while self._handle.call("troupe_follow", ctypes.byref(line), 0) == _library.LINE:
            self._shown.tell(json.loads(line.value))

    def _views(self, address):
        """Blocks recur, and so do their views."""
        views = self._cached.get(address)
        if views is None:
            if len(self._cached) == _MOST_CACHED:
                self._cached.clear()
            views = self._cached[address] = self._binding.wrap(self._slots.views(address))
        return views

    def _end(self):
        try:
            if not self._joined:
                self.result = _run.finished(self._handle)
                if not self._counts_correct:
                    self.result.accuracy_is_unknown()
        finally:
            self.close()
        if self._joined:
            sys.exit(0)  # what follows the loop is the first process's
        self._binding.take(self.result.weights())
        raise StopIteration

    def ready(self, index):
        """The gradient of this parameter is written."""
        self._handle.call("troupe_ready", index)

    def done(self, loss, rows, correct):
        """Ends the step, with its mean loss."""
        if self._step is None:
            raise _library.Error(f"{self._binding.ending} was called twice for one step")
        self._counts_correct = self._counts_correct or correct is not None
        self._step = None
        self._handle.call("troupe_done", float(loss) * rows, rows, int(correct or 0))

    def close(self):
        """Ends the job. The parameters keep their newest values."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._binding.release()
            self._cached.clear()
            handle.close()

    def __del__(self):
        self.close()


class _Skipped:
    """A loop before that which has started this process: it computes nothing here, and its results are no numbers."""

    result = _run.Result.unknown()

    def __iter__(self):
        return iter(())


class _Gradients:
    """Gradients by name: assign an array, or write into what is there. Those that are left out are zero."""

    def __init__(self, step, views):
        self._step, self._views = step, views

    def __getitem__(self, name):
        index = self._step.index(name)
        self._step.written.add(index)
        return self._views[index]

    def __setitem__(self, name, value):
        value = numpy.asarray(value)
        view = self[name]
        if value.shape != view.shape:
            raise _library.Error(f"the gradient of {name} has shape {value.shape}, and {name} has {view.shape}")
        view[...] = value


class ArrayStep:
    """One step of a model in NumPy.

    `rows`: the numbers of its samples. `training`: whether gradients are wanted. `worker`: whose step it is, by number; -1 in an
    evaluation. `parameters` and `gradients`: arrays by name, until the next step; the former cannot be written. `done(loss)` ends
    it, with the mean loss over the rows.
    """

    def __init__(self, loop, names, worker, rows, parameters, gradients):
        self._loop, self._names, self.worker, self.rows, self.training = loop, names, worker, rows, gradients is not None
        self.parameters = dict(zip(names, [array.view() for array in parameters]))
        for array in self.parameters.values():  # of a view of its own: the block may be one of gradients later
            array.flags.writeable = False
        self.written = set()
        self.gradients = None if gradients is None else _Gradients(self, gradients)

    def index(self, name):
        """Of the parameter of this name."""
        if name not in self.parameters:
            raise _library.Error(f"there is no parameter {name!r}; there are {', '.join(self._names)}")
        return self._names.index(name)

    def done(self, loss, correct=None):
        """Ends the step. `correct`: how many rows are predicted right, where that is counted."""
        for index in sorted(self.written):
            self._loop.ready(index)
        self._loop.done(loss, len(self.rows), correct)


class _Arrays:
    """The parameters of a dict of arrays, which are replaced by the final ones."""

    ending = "step.done(loss)"

    def __init__(self, arrays):
        for name, array in arrays.items():
            if not isinstance(array, numpy.ndarray):
                raise _library.Error(f"{name} is no array but {type(array).__name__}: write numpy.array({name}, 'float32')")
            if array.dtype != numpy.float32:
                raise _library.Error(f"{name} is {array.dtype}, and Troupe trains float32: write {name}.astype('float32')")
        self._arrays = arrays

    def slots(self):
        return _Slots([(name, _library.TRAINED, array) for name, array in self._arrays.items()])

    def step(self, loop, worker, rows, parameters, gradients):
        return ArrayStep(loop, list(self._arrays), worker, rows, parameters, gradients)

    def wrap(self, views):
        return views

    def check_unchanged(self):
        pass  # its views cannot be written

    def release(self):
        pass

    def take(self, weights):
        for name, array in self._arrays.items():
            self._arrays[name] = weights[name].reshape(array.shape)


def steps(model, *, samples, test, batch=64, nodes=None, workers=None, epochs=1, protocol="sync", optimizer=None, own_optimizer=None,
          seed=None, set=None, progress=None, cluster=None, node=None, certs=None, insecure=False, wait_s=600):  # pylint: disable=redefined-builtin
    """Has the caller compute a job's steps: iterate over what it returns.

    `model`: a torch.nn.Module, or a dict of float32 arrays. `samples`: rows 0 .. samples - 1 are trained on, and the `test` rows
    after them are for tests. `batch`: rows a worker and step. `nodes`: processes, this one included; each further one runs this
    script from its beginning, up to the end of this loop. `workers`: by default one a process. `epochs`: how long. `protocol`,
    `optimizer`: names, or values such as troupe.adacomm(), troupe.adamw(3e-4). `set`: further keys of a job file. `progress`:
    whether to show it; None: on a terminal or in a notebook.

    `own_optimizer`: an optimizer of torch.optim that takes workers' steps between two exchanges, under local, adacomm, easgd and
    gossip. Each worker has a state of its own, which stays in its process. Of a dict: True, and step.gradients["w"] is what w
    moved by, old minus new; what a worker keeps between steps goes by `step.worker`.

    `cluster`: start this script on each host, and the first node submits the job. It is a cluster file, with `node` (or
    TROUPE_NODE_NAME in the environment) for which of its nodes this process is; or "slurm", in a step of srun; or "kubernetes", in
    an indexed Job. The latter two, which are found without a word where neither `nodes` nor `cluster` is given, take `certs`, a
    folder of certificates, or `insecure`. Processes wait `wait_s` seconds for each other.

    A step of a module has `rows`, `training`, `worker`, and `backward(loss, correct=None)`, to be called once, with the mean loss
    over the rows, in evaluations too. Troupe takes the steps of the parameters, so there is no optimizer in the loop. After it, the
    model has the final parameters.

    >>> import numpy, troupe
    >>> x = numpy.linspace(-1, 1, 120, dtype="float32")
    >>> model = {"slope": numpy.zeros((), "float32")}
    >>> loop = troupe.steps(model, samples=100, test=20, batch=10, epochs=30, optimizer=troupe.sgd(0.5))
    >>> for step in loop:
    ...     error = step.parameters["slope"] * x[step.rows] - 3 * x[step.rows]
    ...     if step.training:
    ...         step.gradients["slope"] = (2 * error * x[step.rows]).mean()
    ...     step.done((error ** 2).mean())
    >>> print(round(float(model["slope"]), 2))
    3.0
    """
    global _loops  # pylint: disable=global-statement
    _loops += 1
    child = os.environ.get(_NODE)
    if child and int(os.environ.get(_LOOP, "1")) > _loops:
        return _Skipped()
    if child:
        cluster = None
    elif cluster is None and nodes is None:
        cluster = _told_by_the_environment()
    if cluster and nodes is not None:
        raise _library.Error("nodes counts processes of this machine, and with cluster= the cluster says which there are; leave it out")
    if cluster and _loops > 1:
        raise _library.Error("with cluster= every process but the first one ends with its loop, so a script has one; put the second "
                             "loop into a script of its own")
    nodes = nodes or 1
    if not isinstance(model, dict) and not hasattr(model, "named_parameters"):
        raise _library.Error(f"the model is {type(model).__name__}; give a torch.nn.Module, or a dict of float32 arrays")
    if isinstance(model, dict):
        binding = _Arrays(model)
    else:
        from . import _torch  # pylint: disable=import-outside-toplevel
        binding = _torch.Modules(model, own_optimizer or None, _threads(nodes) if nodes > 1 and "OMP_NUM_THREADS" not in os.environ else None)
    if own_optimizer and optimizer is not None:
        raise _library.Error("own_optimizer takes the steps, and optimizer is Troupe's; give one of them")
    slots = binding.slots()
    script = _script() if cluster else None
    described = _library.Model(slots.described, len(slots.names), samples, test, script and script.encode(), bool(own_optimizer))
    keys = {"name": "steps", "data.batch": batch, "stop.epochs": epochs, "cluster.shards": 1}
    if not cluster:
        keys.update({"cluster.nodes": nodes, "cluster.workers": workers or nodes})
    elif workers:
        keys["cluster.workers"] = workers
    if nodes > 1:
        keys["cluster.placement"] = "colocated"
    if seed is not None:
        keys["seed"] = seed
    keys.update(set or {})
    sets = _settings.settings(("protocol", protocol), ("optimizer", optimizer), **keys)
    shown = _progress.Shown(progress)
    handle = _run.Handle(sets=sets, program=_command(nodes) if nodes > 1 and not child else (), model=described,
                         node=child or (cluster and (node or os.environ.get(_NAME))), loud=shown.by_library, cluster=cluster, certs=certs,
                         insecure=insecure, wait_s=wait_s)
    if handle.joined():
        _leave_with_traceback(handle)
    slots.offsets = [handle.offset(index) for index in range(len(slots.names))]
    return Loop(binding, handle, slots, shown)
