# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's models, computed by Troupe: troupe.from_torch, troupe.fit. torch is imported when a module is given."""
import copy
import inspect
import io
import pathlib
import tempfile
import warnings

import numpy

from . import _library, _run, _settings

OPSET = 17  # the newest that is read


class Net:
    """A model as an ONNX file in memory.

    `onnx`: its bytes. `save(path)` writes them, for `model.onnx` of a job file.
    """

    def __init__(self, onnx):
        self.onnx = onnx

    def save(self, path):
        """Writes the file."""
        pathlib.Path(path).write_bytes(self.onnx)

    def __repr__(self):
        return f"<a model of {len(self.onnx)} bytes of ONNX>"


def _keep_buffers(module):
    """Has a module end its forward with the buffers that it began with: a norm that is traced in training moves its statistics."""
    first = [(owner, name, buffer.clone()) for owner in module.modules() for name, buffer in owner.named_buffers(recurse=False)]

    def put_back(*_):
        for owner, name, buffer in first:
            setattr(owner, name, buffer)
    module.register_forward_hook(put_back)


def from_torch(module, example):
    """A PyTorch module as a Net, from its weights. `example`: a batch of samples, as the module takes them; of any number of rows.

    The module is exported as ONNX: it has one input and one output, whose first axes are the rows.
    """
    import torch  # pylint: disable=import-outside-toplevel
    if not isinstance(module, torch.nn.Module) or not isinstance(example, torch.Tensor) or example.dim() < 1:
        raise _library.Error("from_torch takes a torch.nn.Module and a batch of samples for it, as a tensor")
    traced, file = copy.deepcopy(module).cpu(), io.BytesIO()
    _keep_buffers(traced)
    options = {"opset_version": OPSET, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False,
               "input_names": ["input"], "output_names": ["output"], "dynamic_axes": {"input": {0: "rows"}, "output": {0: "rows"}}}
    if "dynamo" in inspect.signature(torch.onnx.export).parameters:
        options["dynamo"] = False  # the other exporter needs packages
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it does for its own norms, too
            torch.onnx.export(traced, (example.detach().cpu(),), file, **options)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        raise _library.Error(f"PyTorch cannot export this module as ONNX: {error}; troupe.steps trains it as it is") from error
    return Net(file.getvalue())


class Fitted(_run.Result):
    """The Result of a fit."""

    def __init__(self, result):  # pylint: disable=super-init-not-called
        self.__dict__.update(result.__dict__)

    def to_torch(self, module):
        """Copies the weights into a module, by their names, and returns it."""
        import torch  # pylint: disable=import-outside-toplevel
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in self.weights().items():
            if name not in state:
                raise _library.Error(f"the module has no {name}; give the one that from_torch was given, or one like it")
            if tuple(state[name].shape) != value.shape:
                raise _library.Error(f"{name} is {tuple(state[name].shape)} in the module and {value.shape} in the result; "
                                     "give the module that from_torch was given, or one like it")
        with torch.no_grad():
            for name, value in self.weights().items():
                state[name].copy_(torch.from_numpy(value))
        return module


def _array(values, what):
    """Samples or labels as they are stored: float32, or int32 where they are whole numbers."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    values = numpy.asarray(values)
    if values.dtype.kind not in "fiub" or values.ndim < 1:
        raise _library.Error(f"{what} are numbers in an array, got {values.dtype} of {values.ndim} axes")
    return numpy.ascontiguousarray(values, dtype="<f4" if values.dtype.kind == "f" else "<i4")


def _store(pair, folder, name):
    """Writes samples and their labels; returns the paths."""
    try:
        x, y = pair
    except (TypeError, ValueError):
        raise _library.Error("data is a pair: samples and their labels") from None
    paths = folder / f"{name}.npy", folder / f"{name}-labels.npy"
    for path, values, what in zip(paths, (x, y), ("samples", "labels")):
        numpy.save(path, _array(values, what))
    return [str(path) for path in paths]


def fit(net, data, *, test=None, batch=64, epochs=1, loss="cross-entropy", nodes=None, protocol=None, optimizer=None,  # pylint: disable=too-many-arguments
        set=None, progress=None, on_line=None):  # pylint: disable=redefined-builtin
    """Trains a Net on arrays and returns the Result, which has `to_torch(module)`, too. Troupe computes.

    `data`: samples and labels, arrays or tensors. `test`: the same to test with; None: the last tenth. `loss`: "cross-entropy",
    "mse" or "bce". `nodes`, `protocol`, `optimizer`, `set`, `progress` and `on_line` are those of troupe.run.

    >>> import torch, troupe
    >>> module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> x = torch.randn(100, 4)
    >>> r = troupe.fit(troupe.from_torch(module, x[:2]), (x, (x[:, 0] > 0).long()), batch=10, nodes=1)
    >>> r.to_torch(module) is module
    True
    """
    if not isinstance(net, Net):
        raise _library.Error("fit takes a net of troupe.from_torch, and a pair of samples and labels")
    with tempfile.TemporaryDirectory(prefix="troupe-fit-") as name:
        folder = pathlib.Path(name)
        net.save(folder / "net.onnx")
        keys = {"data.source": "npy", "data.scale": "unit", "data.batch": batch, "model.onnx": str(folder / "net.onnx"), "model.loss": loss,
                "stop.epochs": epochs}
        keys["data.path"], keys["data.labels_path"] = _store(data, folder, "train")
        if test is not None:
            keys["data.test_path"], keys["data.test_labels_path"] = _store(test, folder, "test")
        tables = {}
        for key, value in keys.items():
            section, own = key.split(".")
            tables.setdefault(section, []).append(f"{own} = {_settings.toml(value)}\n")
        job = folder / "fit.toml"
        job.write_text("".join(f"[{section}]\n{''.join(lines)}" for section, lines in tables.items()), encoding="utf-8")
        return Fitted(_run.run(job, nodes=nodes, set=set, protocol=protocol, optimizer=optimizer, progress=progress, on_line=on_line))
