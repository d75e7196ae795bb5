# SPDX-License-Identifier: BSD-3-Clause
"""Troupe trains models on a cluster of processes.

troupe.run(job) runs a job file, which Troupe computes. troupe.steps(model, ...) has your own loop compute the steps, in PyTorch or
NumPy. troupe.fit(troupe.from_torch(module, example), (x, y)) has Troupe compute a module of PyTorch's. Protocols and optimizers are
values: troupe.adacomm(initial_steps=20), troupe.adamw(3e-4); dir(troupe) lists them.
"""
from ._library import VERSION as __version__
from ._library import Error

__all__ = ["Error", "Result", "fit", "from_torch", "run", "steps"]  # but for Error, imported when they are first asked for, and NumPy with them


def __getattr__(name):
    found = None
    if name in ("run", "Result"):
        from . import _run  # pylint: disable=import-outside-toplevel
        found = getattr(_run, name)
    elif name in ("fit", "from_torch"):
        from . import _fit  # pylint: disable=import-outside-toplevel
        found = getattr(_fit, name)
    elif name == "steps":
        from . import _steps  # pylint: disable=import-outside-toplevel
        found = _steps.steps
    elif not name.startswith("_"):
        from . import _settings  # pylint: disable=import-outside-toplevel
        found = _settings.constructor(name)
    if found is None:
        raise AttributeError(f"module 'troupe' has no attribute {name!r}; dir(troupe) lists protocols and optimizers")
    globals()[name] = found
    return found


def __dir__():
    from . import _settings  # pylint: disable=import-outside-toplevel
    return sorted({*globals(), *__all__, *_settings.names()})
