# SPDX-License-Identifier: BSD-3-Clause
"""Modules of PyTorch under troupe.steps."""
import collections
import copy

import torch

from . import _library, _steps


class Step:
    """One step of a module.

    `rows`: the numbers of its samples, as a tensor. `training`: whether a gradient is wanted; the module is in that mode already.
    `worker`: whose step it is, by number; -1 in an evaluation. `backward(loss)` ends it.
    """

    def __init__(self, modules, loop, worker, rows, training):
        self._modules, self._loop, self.worker, self.rows, self.training = modules, loop, worker, rows, training

    def backward(self, loss, correct=None):
        """Ends the step: computes gradients where it trains. `loss`: the mean over the rows. `correct`: how many rows are predicted
        right, where that is counted."""
        self._modules.backward(loss)
        self._loop.done(loss.detach(), len(self.rows), None if correct is None else int(correct))


class Modules:
    """A module's parameters and buffers: while a step is computed, those of a version of Troupe's."""

    ending = "step.backward(loss)"

    def __init__(self, module, optimizer=None, threads=None):
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            raise _library.Error(f"own_optimizer is {optimizer!r}, and no optimizer of torch.optim, such as "
                                 "torch.optim.AdamW(module.parameters())")
        self._module, self._optimizer, self._threads = module, optimizer, torch.get_num_threads()
        self._parameters = [p for _, p in module.named_parameters()]
        self._buffers = [(name, b) for name, b in module.named_buffers() if b.is_floating_point()]
        for name, tensor in [*module.named_parameters(), *self._buffers]:
            if tensor.dtype != torch.float32:
                raise _library.Error(f"{name} is {str(tensor.dtype).split('.')[-1]}, and Troupe trains float32: write module.float()")
            if tensor.device.type != "cpu":
                raise _library.Error(f"{name} is on {tensor.device}, and steps are computed on the CPU: write module.cpu()")
        self._was_training, self._had_grad = module.training, torch.is_grad_enabled()
        self._loop = self._gradients = self._before = None
        self._versions = []
        if threads is not None:
            torch.set_num_threads(threads)
        self._hooks = [] if optimizer else [p.register_hook(self._hook_of(i)) for i, p in enumerate(self._parameters) if p.requires_grad]
        self._own = [p.detach().clone() for p in self._parameters] if optimizer else None  # that the optimizer may write
        self._states = {}  # of the optimizer, by worker
        self._first_state = optimizer.state if optimizer else None

    def slots(self):
        """Parameters, then statistics."""
        kinds = [_library.TRAINED if p.requires_grad else _library.FROZEN for p in self._parameters]
        names = [name for name, _ in self._module.named_parameters()]
        return _steps._Slots([(name, kind, p.detach().numpy()) for name, kind, p in zip(names, kinds, self._parameters)]  # pylint: disable=protected-access
                             + [(name, _library.STATISTIC, b.detach().numpy()) for name, b in self._buffers])

    def wrap(self, views):
        """Arrays as tensors of the same memory."""
        return [torch.from_numpy(view) for view in views]

    def _hook_of(self, index):
        def arrived(gradient):
            if self._gradients is not None:
                self._gradients[index].copy_(gradient)
                self._loop.ready(index)
        return arrived

    def _state_of(self, worker):
        """Each begins with what the optimizer had."""
        if worker not in self._states:
            self._states[worker] = collections.defaultdict(dict, {p: copy.deepcopy(kept) for p, kept in self._first_state.items()})
        return self._states[worker]

    def step(self, loop, worker, rows, parameters, gradients):
        """Gives the module this version's parameters."""
        self._loop, self._gradients, self._before = loop, gradients, parameters
        for i, (p, values) in enumerate(zip(self._parameters, parameters)):
            p.data = values if self._own is None else self._own[i].copy_(values)
            p.grad = None
        for (_, buffer), values in zip(self._buffers, parameters[len(self._parameters):]):
            buffer.copy_(values)
        self._note_versions()
        training = gradients is not None
        if training and self._optimizer is not None:
            self._optimizer.state = self._state_of(worker)
        self._module.train(training)
        torch.set_grad_enabled(training)
        return Step(self, loop, worker, torch.from_numpy(rows), training)

    def backward(self, loss):
        """Gradients, those of statistics too: what they moved by."""
        if loss.numel() != 1:
            raise _library.Error(f"the loss has shape {tuple(loss.shape)}; give its mean over the rows")
        self.check_unchanged()
        if self._gradients is None:
            return
        if not loss.requires_grad:
            raise _library.Error("the loss does not depend on the module's parameters; compute it from the module's output")
        loss.backward()
        moved = [(index, buffer) for index, (_, buffer) in enumerate(self._buffers, start=len(self._parameters))]
        if self._optimizer is not None:
            self._optimizer.step()
            self._note_versions()
            moved += [(index, p.data) for index, p in enumerate(self._parameters) if p.requires_grad]
        with torch.no_grad():
            for index, now in moved:
                torch.sub(self._before[index], now, out=self._gradients[index])
                self._loop.ready(index)
        self._gradients = None

    def _note_versions(self):
        self._versions = [(p._version, p.data_ptr()) for p in self._parameters]  # pylint: disable=protected-access

    def check_unchanged(self):
        """Versions are shared: other workers read them."""
        for (name, p), (version, place) in zip(self._module.named_parameters(), self._versions):
            if p._version != version or p.data_ptr() != place:  # pylint: disable=protected-access
                how = "replaced" if p.data_ptr() != place else "changed in place"
                raise _library.Error(f"{name} was {how} during a step; Troupe takes the steps, so leave the optimizer out of the loop, "
                                     "or give it as own_optimizer")

    def release(self):
        """The module has memory of its own again, with the same values."""
        for p in self._parameters:
            p.data = p.data.clone()
            p.grad = None
        for hook in self._hooks:
            hook.remove()
        self._gradients = self._before = self._loop = self._own = None
        self._versions = []
        self._module.train(self._was_training)
        torch.set_grad_enabled(self._had_grad)
        torch.set_num_threads(self._threads)

    def take(self, weights):
        """The final parameters."""
        with torch.no_grad():
            for name, tensor in [*self._module.named_parameters(), *self._buffers]:
                tensor.copy_(torch.from_numpy(weights[name]).reshape(tensor.shape))
