# SPDX-License-Identifier: BSD-3-Clause
"""Threads of other processes that stand still, as in a device driver or on a hung disk."""
import contextlib
import ctypes
import os
import threading

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ALL_THREADS = 0x40000000  # __WALL
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def threads_called(name, pids):
    """A role's thread carries its name: "shard 0"."""
    found = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ends
            for tid in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8") as comm:
                    if comm.read() == f"{name}\n":
                        found.append(int(tid))
    return found


class HeldThread(threading.Thread):
    """Holds a thread until it is let go or its process ends. `errno`: why it cannot. A tracer is a thread, and has to hear of the end."""

    def __init__(self, tid):
        super().__init__(daemon=True)
        self.tid, self.errno = tid, 0
        self.holds, self.freed = threading.Event(), threading.Event()
        self.start()
        self.holds.wait()

    def run(self):
        for request in (SEIZE, INTERRUPT):
            if LIBC.ptrace(request, self.tid, None, None) != 0:
                self.errno = ctypes.get_errno()
                return self.holds.set()
        os.waitpid(self.tid, ALL_THREADS)
        self.holds.set()
        while not self.freed.wait(0.05):
            which, status = os.waitpid(self.tid, ALL_THREADS | os.WNOHANG)
            if which != 0 and (os.WIFSIGNALED(status) or os.WIFEXITED(status)):
                return None
        LIBC.ptrace(DETACH, self.tid, None, None)
        return None

    def let_go(self):
        self.freed.set()
        self.join()
