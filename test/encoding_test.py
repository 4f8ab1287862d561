#!/usr/bin/env python3
"""Text in other encodings than UTF-8, beside Python's codecs: encoding_test.py PENSTOCK [TEST...]. Prints its seed; PENSTOCK_TEST_SEED
repeats a run."""

import gzip
import os
import subprocess
import sys
import threading

import end_to_end
from end_to_end import SEED, run

SANITIZED = "ASAN_OPTIONS" in os.environ
CASES = 20 if SANITIZED else end_to_end.trials(80)
MARKS = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
# Words of --encoding, the codec that Python has for each, and whether a mark stands in front.
ENCODINGS = [("UTF-16", "utf-16-le", True), ("utf-16", "utf-16-be", True), ("UTF-16LE", "utf-16-le", False), ("utf-16le", "utf-16-le", True),
             ("UTF-16BE", "utf-16-be", False), ("utf-16be", "utf-16-be", True), ("latin1", "latin-1", False), ("windows-1252", "cp1252", False)]


class Encodings(end_to_end.Case):
    def pick(self, *choices):
        return self.random.choice(choices)

    def characters(self, codec):
        letters = "abcxyz019,;' \téüß"
        return letters + {"latin-1": "\x80\x9fÿ", "cp1252": "€“”Žÿ"}.get(codec, "€日本ﬁ\U0001f600\U00010348\u2028\ufffd")

    def lines(self, codec, count):
        letters = self.characters(codec)
        return ["".join(self.random.choices(letters, k=self.pick(0, 1, 5, 60))) for _ in range(count)]

    def encoded(self, text, codec, has_mark):
        return (MARKS.get(codec, b"") if has_mark else b"") + text.encode(codec)

    def through_pipe(self, words, data):
        """The output of a run that gets its input in pieces of any size."""
        read, write = os.pipe()
        with subprocess.Popen([os.path.abspath(sys.argv[1]), *map(str, words)], stdin=read, stdout=subprocess.PIPE) as child:
            os.close(read)

            def feed():
                at = 0
                with os.fdopen(write, "wb", buffering=0) as pipe:
                    while at < len(data):
                        at += pipe.write(data[at:at + self.pick(1, 2, 3, 7, 4096, 100000)])

            feeder = threading.Thread(target=feed)
            feeder.start()
            out = child.stdout.read()
            feeder.join()
            self.assertEqual(child.wait(), 0)
        return out

    def test_lines_beside_the_codecs_of_python(self):
        for case in range(CASES):
            word, codec, has_mark = self.random.choice(ENCODINGS)
            lines = self.lines(codec, self.pick(0, 1, 3, 50, 3000))
            text = "".join(line + "\n" for line in lines)
            data = self.encoded(text, codec, has_mark) if lines else b""
            in_order = sorted(line.encode() for line in lines)
            joined = lambda ordered: b"".join(line + b"\n" for line in ordered)
            wanted = joined(in_order)
            way = self.pick("file", "gz", "pipe", "cat", "two", "group", "merge", "uniq", "head", "sample", "shuf")
            with self.subTest(case=case, word=word, has_mark=has_mark, way=way, lines=len(lines)):
                words = ["--encoding", word, "-q"] if way != "cat" else ["--encoding", word]
                if way == "file":
                    self.assertEqual(run("sort", *words, self.write("in", data)).stdout, wanted)
                elif way == "gz":
                    self.assertEqual(run("sort", *words, self.write("in.gz", gzip.compress(data))).stdout, wanted)
                elif way == "pipe":
                    self.assertEqual(self.through_pipe(["sort", *words], data), wanted)
                elif way == "cat":
                    self.assertEqual(run("cat", *words, self.write("in", data)).stdout, text.encode())
                elif way == "two":
                    path = self.write("in", data)
                    self.assertEqual(run("sort", *words, path, path).stdout, joined(sorted(in_order * 2)))
                elif way in ("head", "sample"):
                    self.assertEqual(run(way, "-n", len(lines), *words, self.write("in", data)).stdout, text.encode())
                elif way == "shuf":
                    self.assertEqual(joined(sorted(run(way, *words, self.write("in", data)).stdout.split(b"\n")[:-1])), wanted)
                elif way == "uniq":
                    self.assertEqual(run(way, *words, self.write("in", data)).stdout, joined(sorted(set(in_order))))
                elif way == "group":
                    self.assertEqual(run("group", "--distinct", "--sorted", *words, self.write("in", data)).stdout, joined(sorted(set(in_order))))
                else:
                    one = self.write("one", self.encoded(wanted.decode(), codec, has_mark) if lines else b"")
                    self.assertEqual(run("merge", *words, one, one).stdout, joined(sorted(in_order * 2)))

    def test_tables(self):
        rows = [(self.random.randrange(1000), self.pick("é", "€ß", 'a "quoted"\nvalue')) for _ in range(200)]
        field = lambda text: '"' + text.replace('"', '""') + '"'
        text = lambda rows: "numéro,v\n" + "".join(f"{number},{field(value)}\n" for number, value in rows)
        wanted = text(sorted(rows, key=lambda row: (row[0], f"{row[0]},{field(row[1])}".encode())))
        for codec, words in (("utf-16-le", []), ("cp1252", ["--bad-rows", "skip"])):
            word = "UTF-16" if codec.startswith("utf") else "windows-1252"
            path = self.write("in.csv", self.encoded(text(rows), codec, True))
            self.assertEqual(run("sort", "--csv", "--header", "--key", "numéro:n", "--encoding", word, *words, path).stdout.decode(), wanted)
            self.assertEqual(run("sort", "--key", "numéro:n", "--encoding", word, *words, path).stdout.decode(), wanted)
        one, two = "id,a\n2,é\n".encode("utf-16"), "a,id\nü,1\n".encode("utf-16")
        self.assertEqual(run("sort", "--csv", "--header", "--key", "id", "--columns", "same", "--encoding", "UTF-16", "-", self.write("two", two), stdin=one).stdout.decode(),
                         "id,a\n1,ü\n2,é\n")
        self.assertEqual(run("sort", "--jsonl", "--key", ".a", "--encoding", "UTF-16", stdin='{"a":2}\n{"a":1}\n'.encode("utf-16")).stdout, b'{"a":1}\n{"a":2}\n')

    def test_more_than_memory(self):
        lines = [f"{self.random.randrange(10**9)} é {'x' * 80}" for _ in range(20000 if SANITIZED else 400000)]
        path = self.write("in", ("\n".join(lines) + "\n").encode("utf-16"))
        got = run("sort", "--encoding", "UTF-16", "-S", "1G" if SANITIZED else "32M", "-T", self.folder, path).stdout
        self.assertTrue(got == b"".join(line + b"\n" for line in sorted(line.encode() for line in lines)))

    def test_bytes_that_are_no_characters_are_an_error_with_their_place(self):
        for case in range(CASES):
            before = "\n".join(self.lines("utf-16-le", self.pick(0, 3, 3000))) + "\n"
            word, codec, bad = self.pick(("UTF-16LE", "utf-16-le", b"\x00\xdcx\x00"), ("UTF-16BE", "utf-16-be", b"\xdc\x00\x00x"), ("windows-1252", "cp1252", b"\x81"))
            before = before if codec != "cp1252" else before.encode("cp1252", "ignore").decode("cp1252")
            data = before.encode(codec)
            with self.subTest(case=case, word=word, bytes=len(data)):
                done = run("sort", "--encoding", word, self.write("in", data + bad + before.encode(codec)), "-o", self.folder / "out", code=2)
                self.assertIn(f"in: cannot read the bytes at byte {len(data)} as {word.lower()}", done.stderr.decode())
                self.assertFalse((self.folder / "out").exists())
        done = run("sort", "--encoding", "UTF-16LE", self.write("in", "ab".encode("utf-16-le") + b"c"), code=2)
        self.assertIn(b"cannot read the character at byte 4 as utf-16le: the input ends in it", done.stderr)

    def test_words_that_are_refused(self):
        path = self.write("in", b"b\na\n")
        for words, said in ((["--encoding", "klingon"], "--encoding klingon: cannot read text in this encoding (try: UTF-16, "),
                            (["--encoding", "UTF-16"], "cannot find the byte order mark of UTF-16 (try: --encoding UTF-16LE or --encoding UTF-16BE)"),
                            (["--format", "u32", "--encoding", "latin1"], "--encoding latin1: cannot read items that are no text")):
            self.assertIn(said, run("sort", *words, path, code=2).stderr.decode())

    def test_text_in_another_encoding_is_named(self):
        for codec, word in (("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE")):
            path = self.write("in", "a line\nanother\n".encode(codec))
            self.assertIn(f"(try: --encoding {word})", run("sort", path).stderr.decode())
            self.assertIn(f"(try: --encoding {word})", run("sort", "--csv", path, code=2).stderr.decode())
            self.assertEqual(run("sort", "--encoding", word, path).stderr, b"")

    def test_lines_that_end_with_carriage_returns_alone_are_named(self):
        path = self.write("in", b"b\ra\r")
        self.assertIn(b"in: its lines end with carriage returns alone, and are read as one (try: tr '\\r' '\\n' <", run("sort", path).stderr)
        self.assertEqual(run("sort", "-q", path).stderr, b"")
        for data in (b"b\r\na\r\n", b"b\na\r", b"b\n", b"b", b""):
            self.assertNotIn(b"carriage", run("sort", self.write("in", data)).stderr, data)


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("encoding")
