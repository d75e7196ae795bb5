# SPDX-License-Identifier: BSD-3-Clause
"""Threads of other processes that stand still, as in a device driver or on a hung disk."""
import contextlib
import ctypes
import os
import threading
import time

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ALL_THREADS = 0x40000000  # __WALL
FUTEX = {"x86_64": 202, "aarch64": 98}.get(os.uname().machine)
WAIT_BITSET, OPERATION = 9, 0x7F  # of a condition; who waits for a lock has another
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


def waits_for_a_message(tid):
    """Of a thread that is held: at a condition, as between two messages. Elsewhere it may have a lock, or half woken another actor."""
    with open(f"/proc/{tid}/syscall", encoding="utf-8") as syscall:
        number, *arguments = syscall.read().split()
    return int(number) == FUTEX and int(arguments[1], 16) & OPERATION == WAIT_BITSET


class HeldThread(threading.Thread):
    """Holds a thread until it is let go or its process ends. `errno`: why it cannot. A tracer is a thread, and has to hear of the end.

    Whoever computes all the time is held in the middle of it, after ten seconds."""

    def __init__(self, tid):
        super().__init__(daemon=True)
        self.tid, self.errno = tid, 0
        self.holds, self.freed = threading.Event(), threading.Event()
        self.start()
        self.holds.wait()

    def run(self):
        try:
            self.hold()
        finally:
            self.holds.set()

    def hold(self):
        until = time.monotonic() + 10
        while self.stop() and not waits_for_a_message(self.tid) and time.monotonic() < until:
            LIBC.ptrace(DETACH, self.tid, None, None)
            time.sleep(0.0007)  # of no step's length
        if self.errno != 0:
            return
        self.holds.set()
        while not self.freed.wait(0.05):
            which, status = os.waitpid(self.tid, ALL_THREADS | os.WNOHANG)
            if which != 0 and (os.WIFSIGNALED(status) or os.WIFEXITED(status)):
                return
        LIBC.ptrace(DETACH, self.tid, None, None)

    def stop(self):
        for request in (SEIZE, INTERRUPT):
            if LIBC.ptrace(request, self.tid, None, None) != 0:
                self.errno = ctypes.get_errno()
                return False
        os.waitpid(self.tid, ALL_THREADS)
        return True

    def let_go(self):
        self.freed.set()
        self.join()
