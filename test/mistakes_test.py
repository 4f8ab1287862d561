#!/usr/bin/env python3
"""The table of mistakes that people make on a command line: mistakes_test.py PENSTOCK [TEST...].

A row of mistakes.txt is a command, after "$ ", followed by everything that it prints on standard error, and "[exit code N]" if that is not
0. "..." stands for anything within a line; a line "# ..." is a heading. `PENSTOCK_WRITE_MISTAKES=FILE` writes the table with what the
program prints now, to be read before it replaces the old one."""

import os
import pathlib
import re
import subprocess
import sys

import end_to_end

PROGRAM = os.path.abspath(sys.argv[1])
TABLE = pathlib.Path(__file__).resolve().parent / "mistakes.txt"
ROWS_MIN = 60

ORDERS = b"id,customer,price\n1,ann,30\n2,bob,5\n3,cid,12.5\n"
FILES = {
    "orders.csv": ORDERS,
    "orders.utf16": ORDERS.decode().encode("utf-16"),
    "semicolons.csv": ORDERS.replace(b",", b";"),
    "tabs.csv": ORDERS.replace(b",", b"\t"),
    "money.csv": b"id,price\n1,30\n2,$30\n3,n/a\n4,\n",
    "exponents.csv": b"id,price\n1,30\n2,1e3\n",
    "quote.csv": b'id,name\n1,"an\nn"\n2,"bob"x\n',
    "twice.csv": b"id,name,name\n1,a,b\n",
    "ragged.csv": b"id,name\n1,b\n2\n",
    "names.csv": b'id,"unit price, EUR"\n1,2\n',
    "comment.csv": b"# made by a program\nid,name\n1,b\n",
    "lines.jsonl": b'{"id":1,"name":"b"}\n{"id":2,"name":"a"}\n',
    "open.csv": b'id,name\n1,b\n2,"c\n3,d\n4,e\n',
    "log.iolog": b"fio version 2 iolog\n/data add\n/data open\n/data read 0 4096\n/data close\n",
    "events.jsonl": b'{"id":1,"tags":["a"]}\n{"id":"x"}\n',
    "damaged.jsonl": b'{"id":1}\n{"id":nul}\n',
    "unsorted.csv": b"id,name\n2,b\n1,a\n",
    "unsorted.txt": b"b\na\n",
    "sorted.txt": b"a\nb\n",
    "nul.txt": b"b\0\na\n",
    "long.txt": b"a\n" + b"x" * 20_000_000 + b"\n",
    "table.parquet": b"PAR1\x15\x04" + bytes(16) + b"PAR1",
    "book.zip": b"PK\x03\x04\x14\0" + bytes(20),
    "base.sqlite": b"SQLite format 3\0" + bytes(20),
    "page.pdf": b"%PDF-1.7\n\x01\x02",
    "array.npy": b"\x93NUMPY\1\0v\0" + bytes(20),
    "cut.gz": b"\x1f\x8b\x08\0\0\0\0\0\0\3K\xcc",
}


def rows_of(table):
    """Pairs of a command and what it prints, and the headings as (heading, None)."""
    command, printed = None, []
    for line in [*table.splitlines(), "# "]:
        if not line.startswith(("$ ", "# ")):
            printed.append(line)
            continue
        if command is not None:
            yield command, "\n".join(printed).strip("\n")
        command, printed = (line[2:], []) if line[0] == "$" else (None, [])
        if line[0] == "#":
            yield line.strip("# "), None


class Mistakes(end_to_end.Case):
    def setUp(self):
        super().setUp()
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "penstock").symlink_to(PROGRAM)
        self.work = self.folder / "work"
        (self.work / "folder").mkdir(parents=True)
        for name, data in FILES.items():
            (self.work / name).write_bytes(data)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK")}
        self.environment.update(PATH=f"{programs}:{os.environ['PATH']}", LC_ALL="C")

    def answer_to(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.work, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        told = done.stderr.decode(errors="replace").strip("\n")
        return told + (f"\n[exit code {done.returncode}]" if done.returncode != 0 else "")

    def test_every_mistake_has_its_whole_message(self):
        rows = list(rows_of(TABLE.read_text()))
        self.assertGreaterEqual(sum(printed is not None for _, printed in rows), ROWS_MIN)
        wrong, written = [], []
        for command, printed in rows:
            if printed is None:
                written.extend([f"# {command}\n"] if command else [])
                continue
            told = self.answer_to(command)
            written.append(f"$ {command}\n{told}\n")
            pattern = ".*".join(re.escape(part) for part in printed.split("..."))
            if "this build has no " not in told and not re.fullmatch(pattern, told):
                wrong.append(f"$ {command}\n{told}\nwanted:\n{printed}\n")
        if "PENSTOCK_WRITE_MISTAKES" in os.environ:
            pathlib.Path(os.environ["PENSTOCK_WRITE_MISTAKES"]).write_text("\n".join(written))
        self.assertFalse(wrong, f"{len(wrong)} of {len(rows)} rows differ\n" + "\n".join(wrong))

    def test_every_message_says_what_to_do(self):
        """An error or notice ends with a hint: what to try, the word that may be meant, or where the help is."""
        for command, printed in rows_of(TABLE.read_text()):
            if printed is not None and "disorder: " not in printed:
                with self.subTest(command):
                    self.assertRegex(printed, r"(?m)\((try: |did you mean )|^Try '|not sorted: ")

    def test_a_mistake_leaves_no_output(self):
        """A command that ends with an error leaves the folder as it was."""
        for command, printed in rows_of(TABLE.read_text()):
            if printed is None or "[exit code 2]" not in printed:
                continue
            with self.subTest(command):
                self.answer_to(command)
                left = {path.name for path in self.work.iterdir()} - set(FILES) - {"folder"}
                self.assertFalse(left)


if __name__ == "__main__":
    end_to_end.main("mistakes_end_to_end")
