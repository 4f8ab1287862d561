"""CPython with faulthandler before, above and after the library's handlers: guest_faulthandler.py GUEST CASE.

Ends with exit code 0, or, in some cases, with the crash that it provokes.
"""

import ctypes
import faulthandler
import signal
import sys
import threading
import time

guest = ctypes.CDLL(sys.argv[1])
for name in ("guest_open", "guest_reader", "guest_writer"):
    getattr(guest, name).restype = ctypes.c_void_p
for name in ("guest_stream", "guest_checksum", "guest_drain"):
    getattr(guest, name).restype = ctypes.c_uint64

NUMBERS = 3 << 20  # 24 MiB, through 1.25 MiB of memory
MECHANISMS = range(4)


def u64(number):
    return ctypes.c_uint64(number)


def stream():
    """Runs a whole stream on each mechanism of this kernel; opening it installs the library's handlers first."""
    expected = guest.guest_checksum(u64(NUMBERS))
    sums = [guest.guest_stream(u64(NUMBERS), mechanism) for mechanism in MECHANISMS]
    assert sums[0] == expected and all(found in (0, expected) for found in sums), sums


def check_installed(expected):
    assert guest.guest_installed() == expected, f"installed() is {guest.guest_installed()}"


def is_caught(number):
    with open("/proc/self/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1


def crash():
    ctypes.string_at(0)


def enabled_before():
    faulthandler.enable()
    check_installed(0)
    stream()
    check_installed(1)


def enabled_after():
    stream()
    check_installed(1)
    faulthandler.enable()
    check_installed(0)
    assert guest.guest_install()
    check_installed(1)
    stream()


def enabled_twice():
    enabled_before()
    faulthandler.disable()  # it restores the handler that it found: none, not ours
    check_installed(0)
    enabled_after()


def enabled_during():
    """A stream is half read when faulthandler is enabled; install() suffices to go on."""
    pipe = ctypes.c_void_p(guest.guest_open(u64(NUMBERS * 8), u64(1 << 16), 0))
    guest.guest_fill(pipe, u64(0), u64(1 << 13))
    faulthandler.enable()
    assert guest.guest_install()
    sums = []
    consumer = threading.Thread(target=lambda: sums.append(guest.guest_drain(pipe, u64(NUMBERS))))
    consumer.start()
    time.sleep(0.05)  # the consumer waits in a fault, in a call that has released the interpreter's lock
    guest.guest_fill(pipe, u64(1 << 13), u64(NUMBERS))
    assert guest.guest_finish(pipe, u64(NUMBERS))
    consumer.join()
    assert sums == [guest.guest_checksum(u64(NUMBERS))]
    guest.guest_close(pipe)


def enabled_after_without_install():
    """Without install(), faulthandler takes a stream's fault for a crash."""
    pipe = ctypes.c_void_p(guest.guest_open(u64(NUMBERS * 8), u64(1 << 16), 1))
    faulthandler.enable()
    guest.guest_fill(pipe, u64(0), u64(1))


def crash_before():
    enabled_before()
    crash()


def crash_after():
    enabled_after()
    crash()


def crash_without_faulthandler():
    stream()
    crash()


def crash_after_uninstall():
    enabled_before()
    assert guest.guest_uninstall()
    check_installed(0)
    crash()


def uninstall_gives_back_the_default():
    assert not is_caught(signal.SIGSEGV)
    stream()
    assert is_caught(signal.SIGSEGV) and is_caught(signal.SIGBUS)
    assert guest.guest_uninstall()
    assert not is_caught(signal.SIGSEGV) and not is_caught(signal.SIGBUS)
    stream()  # a new stream reinstalls the library's handlers
    check_installed(1)


globals()[sys.argv[2]]()
