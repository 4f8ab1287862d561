"""Checks the memory protection of programs and shared libraries: see check()."""

import re
import subprocess


def faults_of(headers, dynamic):
    """Missing protections, by the output of `readelf -lW` and `readelf -dW`."""
    segments = dict(re.findall(r"^\s+(GNU_RELRO|GNU_STACK)\s+(?:0x\w+\s+){5}([RWE ]+?)\s+\w+$", headers, re.MULTILINE))
    loaded = re.findall(r"^\s+LOAD\s+(?:0x\w+\s+){5}([RWE ]+?)\s+\w+$", headers, re.MULTILINE)
    faults = []
    if "GNU_RELRO" not in segments or not re.search(r"\(FLAGS(_1)?\).*\b(BIND_)?NOW\b", dynamic):
        faults.append("what the loader relocates stays writable (-z relro, -z now)")
    if "E" in segments.get("GNU_STACK", "E"):
        faults.append("its stack can be executed (-z noexecstack)")
    if "(TEXTREL)" in dynamic or re.search(r"\(FLAGS\).*\bTEXTREL\b", dynamic):
        faults.append("its code is changed when it is loaded (-z text)")
    if not loaded or any("W" in flags and "E" in flags for flags in loaded):
        faults.append("a segment of it can be written and executed")
    return faults


def check(readelf, file):
    """Asserts that no part of `file` can be written and then executed, its tables of addresses included."""
    headers, dynamic = (subprocess.run([readelf, flags, file], check=True, stdout=subprocess.PIPE, text=True, env={"LC_ALL": "C"}).stdout
                        for flags in ("-lW", "-dW"))
    # The check can fail.
    assert faults_of(headers.replace("GNU_RELRO", "OTHER"), dynamic), "no look at relocations"
    assert faults_of(re.sub(r"(GNU_STACK.*)RW ", r"\1RWE", headers), dynamic), "no look at the stack"
    faults = faults_of(headers, dynamic)
    assert not faults, f"{file}: {faults}"


def check_release(readelf, file):
    """Asserts that `file` was built with checked copies (_FORTIFY_SOURCE) and stack protectors."""
    symbols = subprocess.run([readelf, "-W", "--dyn-syms", file], check=True, stdout=subprocess.PIPE, text=True, env={"LC_ALL": "C"}).stdout
    assert "__stack_chk_fail" in symbols, f"{file}: no stack protector"
    assert re.search(r"__\w+_chk\b", symbols), f"{file}: no _FORTIFY_SOURCE"
