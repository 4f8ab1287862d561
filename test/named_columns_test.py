#!/usr/bin/env python3
"""Keys that name columns, without any word on the file: named_columns_test.py PENSTOCK [TEST...]. The separator and the header are
recognized, and all else is as with --csv -t SEPARATOR --header."""

import bz2
import csv
import gzip
import io
import lzma
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import end_to_end
from end_to_end import run

ORDERS = b"id,customer,price\n1,bob,30\n2,amy,5\n3,cyd,12.5\n"
NAMES = {",": "','", ";": "';'", "\t": "tab", "|": "'|'"}


def on_terminal(*words, **options):
    """Runs the program with a terminal as its stderr; returns the text there."""
    main, other = os.openpty()
    with subprocess.Popen([os.path.abspath(sys.argv[1]), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=other, **options) as process:
        os.close(other)
        text = b""
        try:
            while piece := os.read(main, 4096):
                text += piece
        except OSError:
            pass  # the terminal is closed
        os.close(main)
        process.wait(timeout=100)
    return text.decode().replace("\r", "").replace("  ", "")


class NamedColumns(end_to_end.Case):
    def table(self, separator, rows=200, end="\n", mark=""):
        """A table whose fields contain every separator, quotes and line ends."""
        rng = self.random
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
        writer.writerow(["id", "customer", "price", "net, of tax"])
        for number in range(rows):
            customer = rng.choice(["bob", "a,b;c\td|e", 'say "hi"', "two\nlines", "", "x" * rng.randrange(30)])
            writer.writerow([str(number), customer, str(rng.randrange(-99, 999)), str(rng.randrange(9))])
        return (mark + text.getvalue()).encode()

    def same(self, path, separator, command, *words):
        """The output, which has to be the same if the file is described."""
        got = run(*command, *words, path).stdout
        wanted = run(*command, *words, "--csv", "-t", separator, "--header", path).stdout
        self.assertEqual(got, wanted)
        return got

    def test_each_separator(self):
        for separator in NAMES:
            for end in ("\n", "\r\n"):
                for mark in ("", "\ufeff"):
                    data = self.table(separator, end=end, mark=mark)
                    path = self.write("orders.csv", data)
                    with self.subTest(separator=separator, end=end, mark=mark):
                        for keys in (["--key", "price:n"], ["--key", "price:n:desc"], ["--key", "customer", "--key", "id:nr"], ["-k", "price"],
                                     ["--key", "customer,price:n:desc"], ["--key", "net, of tax"], ["--key", "net, of tax:n,id:n:desc"],
                                     ["--key", "customer", "--key", "3:n"]):
                            got = self.same(path, separator, ["sort"], *keys)
                            self.assertEqual(len(got), len(data))
                            self.assertTrue(got.startswith(data[:len(mark.encode()) + 2]))

    def test_orders_are_right(self):
        path = self.write("orders.csv", ORDERS)
        head, bob, amy, cyd = ORDERS.splitlines(keepends=True)
        for key, order in (("price:n", [amy, cyd, bob]), ("price:n:desc", [bob, cyd, amy]), ("price:n:r", [bob, cyd, amy]),
                           ("customer", [amy, bob, cyd]), ("customer:desc", [cyd, bob, amy]), ("customer:asc", [amy, bob, cyd]),
                           ("3:n", [amy, cyd, bob]), ("3:n:desc", [bob, cyd, amy])):
            with self.subTest(key=key):
                self.assertEqual(run("sort", "--key", key, path).stdout, head + b"".join(order))
                self.assertEqual(run("sort", "--header", "--key", key, path).stdout, head + b"".join(order))
        self.assertEqual(run("sort", "-r", "--key", "customer:asc", path).stdout, head + amy + bob + cyd)
        self.assertEqual(run("sort", "-r", "--key", "customer", path).stdout, head + cyd + bob + amy)
        self.assertEqual(run("sort", "--csv", "--header", "--key", "price:n:desc,id", path).stdout, head + bob + cyd + amy)

    def test_an_order_of_the_command_applies_to_each_key_that_does_not_say_otherwise(self):
        rng = self.random
        head = "id,word,price\n"
        rows = [f"{number},{rng.choice(['ant', 'Bee', 'cat', 'Dog', 'ANT', 'bee'])},{rng.randrange(-20, 200)}\n" for number in range(60)]
        rng.shuffle(rows)

        def ordered(flags, keys):
            """The rows, sorted as the flags and the keys say by Python's sort, which is stable."""
            made = list(rows)
            for key in reversed([key for given in keys for key in given.split(",")]):
                name, *said = key.split(":")
                column = head.strip().split(",").index(name) if name.isalpha() else int(name) - 1
                folds = "f" in flags or "f" in said
                counts = "n" in said or ("n" in flags and "f" not in said)
                descends = "desc" in said or "r" in said or ("r" in flags and "asc" not in said)
                made.sort(key=lambda row, column=column, counts=counts, folds=folds:
                          int(row.split(",")[column]) if counts else row.split(",")[column].upper() if folds else row.split(",")[column],
                          reverse=descends)
            return made

        data = self.write("data.csv", (head + "".join(rows)).encode())
        all_keys = [["id"], ["id:n"], ["price:n:desc", "id"], ["price:n:asc", "id:n"], ["price:n,id:desc"], ["word:f", "id:n"], ["3:n", "1:asc"],
                    ["price:r", "id:n:asc"]]
        for flags in ("", "r", "n", "f", "nr", "rf"):
            for keys in all_keys + ([] if "n" in flags else [["word", "price:n"], ["word:asc", "3:n:desc", "id"]]):
                words = [*(["--desc"] if "r" in flags else []), *(f"-{flag}" for flag in flags if flag != "r"),
                         *(word for key in keys for word in ("--key", key))]
                wanted = ordered(flags, keys)
                text = (head + "".join(wanted)).encode()
                with self.subTest(words=words):
                    self.assertEqual(run("sort", "-s", *words, data).stdout, text)
                    self.assertEqual(run("sort", "-s", "--top", 5, *words, data).stdout, (head + "".join(wanted[:5])).encode())
                    sorted_file = self.write("sorted.csv", text)
                    reverse = self.write("reverse.csv", (head + "".join(reversed(wanted))).encode())
                    run("sort", "-c", "-s", *words, sorted_file)
                    run("sort", "-c", "-s", *words, reverse, code=1)
                    self.assertIn(b": sorted;", run("check", *words, sorted_file).stdout)
                    self.assertIn(b": not sorted:", run("check", *words, reverse, code=1).stdout)
                    halves = [self.write(f"half{half}.csv", (head + "".join(wanted[half::2])).encode()) for half in (0, 1)]
                    merged = run("merge", "-s", *words, *halves).stdout
                    self.assertEqual(merged, run("sort", "-m", "-s", *words, *halves).stdout)
                    self.assertEqual(sorted(merged), sorted(text))
                    run("sort", "-c", "-s", *words, self.write("merged.csv", merged))
        for flags, keys in (("f", ["word", "id:n"]), ("n", ["price", "id"]), ("n", ["price:desc"]), ("f", ["word:desc"])):
            words = [*(f"-{flag}" for flag in flags), *(word for key in keys for word in ("--key", key))]
            with self.subTest(words=words):
                wanted = ordered(flags, keys)
                run("partition", "--by", "range", "--parts", 2, *words, "-o", self.folder / "part-{}", data)
                first, second = [(self.folder / f"part-{i}").read_text().splitlines(keepends=True)[1:] for i in range(2)]
                self.assertEqual(sorted(first), sorted(wanted[:len(first)]))
                self.assertEqual(sorted(second), sorted(wanted[len(first):]))
                counted = run("group", "--sorted", *words, "--count", data).stdout.decode().splitlines()[1:]
                self.assertEqual(len({line.rsplit(",", 1)[0] for line in counted}), len(counted))
                names = [line.split(",")[0].upper() for line in counted]
                columns = [head.strip().split(",").index(key.split(":")[0]) for key in keys]
                self.assertEqual(names, list(dict.fromkeys(row.strip().split(",")[columns[0]].upper() for row in wanted)) if len(keys) == 1
                                 else [row.strip().split(",")[columns[0]].upper() for row in wanted])
        joined = run("join", "-r", "--key", "id:n", data, data).stdout.decode().splitlines()[1:]
        self.assertEqual([int(row.split(",")[0]) for row in joined], sorted(range(60), reverse=True))
        joined = run("join", "-r", "--key", "id:n:asc", data, data).stdout.decode().splitlines()[1:]
        self.assertEqual([int(row.split(",")[0]) for row in joined], list(range(60)))

        records = self.write("records", b"bBaAcC")
        for key, plain in (("0:1", b"aAbBcC"), ("0:1:u8", b"aAbBcC"), ("0:1:asc", b"aAbBcC"), ("0:1:desc", b"cCbBaA"), ("0:1:u8:r", b"cCbBaA")):
            for words in ([], ["-r"]):
                with self.subTest(key=key, words=words):
                    wanted = b"cCbBaA" if words and key in ("0:1", "0:1:u8") else plain
                    words = ["--format", "record", "--record", 2, "--key", key, *words]
                    self.assertEqual(run("sort", *words, records).stdout, wanted)
                    run("sort", "-c", *words, self.write("ordered", wanted))

    def test_gnu_sorts_rule_stays_for_fields_of_lines(self):
        path = self.write("lines", b"1 b\n10 A\n9 a\n")
        for spelling in ("-k", "--key"):
            self.assertEqual(run("sort", "-r", spelling, "1,1n", path).stdout, b"1 b\n9 a\n10 A\n")
            self.assertEqual(run("sort", "-r", spelling, "1,1", path).stdout, b"9 a\n10 A\n1 b\n")
        self.assertEqual(run("sort", "-r", "--csv", "-t", " ", "--key", "1:n", path).stdout, b"10 A\n9 a\n1 b\n")

    def test_all_commands(self):
        for separator in NAMES:
            path = self.write("orders.csv", self.table(separator))
            with self.subTest(separator=separator):
                whole = self.same(path, separator, ["sort"], "--key", "price:n", "-s")
                ordered = self.write("sorted.csv", whole)
                self.assertEqual(self.same(ordered, separator, ["merge"], "--key", "price:n", "-s"), whole)
                self.same(ordered, separator, ["check"], "--key", "price:n")
                run("sort", "-c", "--key", "price:n", "-s", ordered)
                run("sort", "-c", "--key", "price:n:desc", "-s", ordered, code=1)
                self.same(path, separator, ["group"], "--key", "customer", "--count", "--sorted")
                self.same(path, separator, ["group"], "--key", "customer", "--sum", "--value", "price", "--sorted")
                self.assertIn(b"of input without its header, 1 pass, ", run("plan", "--key", "price:n", path).stdout)
                self.same(path, separator, ["sort"], "--key", "customer,id:n", "--top", "5")
                self.same(path, separator, ["sort"], "-u", "--key", "customer")
                run("sort", "--key", "id:n", "-o", self.folder / "out.csv", "--verify", path)
                run("partition", "--key", "customer", "--parts", "3", "-o", self.folder / "part-{}", path)
                parts = [open(f"{self.folder}/part-{i}", "rb").read() for i in range(3)]
                run("partition", "--key", "customer", "--parts", "3", "-o", self.folder / "part-{}", "--csv", "-t", separator, "--header", path)
                self.assertEqual(parts, [open(f"{self.folder}/part-{i}", "rb").read() for i in range(3)])

    def test_join(self):
        for separator in NAMES:
            left = self.write("left.csv", "id;who;n\n1;bob;5\n2;amy;6\n2;cyd;7\n".replace(";", separator).encode())
            right = self.write("right.csv", "key;city;x;y\n2;Rome;1;2\n3;Oslo;3;4\n".replace(";", separator).encode())
            with self.subTest(separator=separator):
                wanted = "id;who;n;city;x;y\n2;amy;6;Rome;1;2\n2;cyd;7;Rome;1;2\n".replace(";", separator).encode()
                self.assertEqual(run("join", "-1", "id", "-2", "key", left, right).stdout, wanted)
                self.assertEqual(run("join", "-1", "1", "-2", "key", left, right).stdout, wanted)
                self.assertEqual(run("join", "-1", "id:n", "-2", "key:n", left, right).stdout, wanted)
                self.assertEqual(run("join", "-1", "id", "-2", "key", left, right, "-o", "2.city,1.who").stdout,
                                 "city;who\nRome;amy\nRome;cyd\n".replace(";", separator).encode())
        comma = self.write("comma.csv", b"id,z\n2,4\n")
        self.assertIn(b"whose separator is", run("join", "-j", "id", left, comma, code=2).stderr)
        empty = self.write("empty.csv", b"")
        self.assertEqual(run("join", "-j", "id", left, empty).stdout,
                         run("join", "--csv", "-t", "|", "--header", "-j", "id", left, empty).stdout)
        names = self.write("names.csv", b"id\n2\n")
        self.assertEqual(run("join", "-1", "id", left, names).stdout, b"id|who|n\n2|amy|6\n2|cyd|7\n")
        self.assertIn(b"as many keys", run("join", "-1", "id,n", "-2", "key", left, right, code=2).stderr)
        pairs = self.write("pairs.csv", b"n|id|w\n6|2|x\n6|9|y\n")
        self.assertEqual(run("join", "-j", "id,n", left, pairs).stdout, b"id|n|who|w\n2|6|amy|x\n")

    def test_pipes(self):
        for separator in NAMES:
            data = self.table(separator, rows=20000)
            wanted = run("sort", "--csv", "-t", separator, "--header", "--key", "price:n", stdin=data).stdout
            with self.subTest(separator=separator):
                self.assertEqual(run("sort", "--key", "price:n", stdin=data).stdout, wanted)
                path = self.write("data", data)
                program = os.path.abspath(sys.argv[1])
                for words in (f"cat {path} | {program} sort --key price:n /dev/stdin", f"{program} sort --key price:n <(cat {path})",
                              f"{program} sort --key price:n < {path}"):
                    self.assertEqual(subprocess.run(["bash", "-c", words], stdout=subprocess.PIPE, check=True).stdout, wanted)
                for packed in (gzip.compress(data), bz2.compress(data), lzma.compress(data)):
                    self.assertEqual(run("sort", "--key", "price:n", self.write("packed", packed)).stdout, wanted)
                self.assertEqual(run("sort", "--key", "price:n", stdin=gzip.compress(data)).stdout, wanted)

    def test_a_slow_pipe(self):
        process = subprocess.Popen([os.path.abspath(sys.argv[1]), "sort", "--key", "price:n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for piece in (ORDERS[:3], ORDERS[3:12], ORDERS[12:30], ORDERS[30:]):
            process.stdin.write(piece)
            process.stdin.flush()
            time.sleep(0.05)
        self.assertEqual(process.communicate(timeout=100)[0], run("sort", "--csv", "--header", "--key", "price:n", stdin=ORDERS).stdout)
        self.assertEqual(process.returncode, 0)

    def test_a_header_longer_than_a_pipe(self):
        names = [f"column_{number}" for number in range(12000)]
        data = (";".join(names) + "\n" + "\n".join(";".join([str(k)] * len(names)) for k in (2, 1)) + "\n").encode()
        self.assertGreater(len(data.split(b"\n")[0]), 1 << 17)
        wanted = run("sort", "--csv", "-t", ";", "--header", "--key", "column_7", stdin=data).stdout
        self.assertEqual(run("sort", "--key", "column_7", stdin=data).stdout, wanted)
        self.assertEqual(run("sort", "--key", "column_7", self.write("wide", data)).stdout, wanted)

    def test_a_first_line_without_an_end(self):
        path = self.write("endless", b"id;price;" + b"x" * (5 << 20))
        for key in ("price", "2:n"):
            self.assertIn(b"find the end of its first row in 4.00 MiB", run("sort", "--key", key, path, code=2).stderr)
        compressed = gzip.compress(path.read_bytes())
        self.assertIn(b"find the end of its first row in ", run("sort", "--key", "price", self.write("endless.gz", compressed), code=2).stderr)
        cut = gzip.compress(ORDERS * 100)[:30]
        self.assertEqual(run("sort", "--key", "price", self.write("cut.gz", cut), code=2).stderr,
                         run("sort", "--csv", "--header", "--key", "price", self.folder / "cut.gz", code=2).stderr)

    def test_a_socket(self):
        here, there = socket.socketpair()
        feeder = threading.Thread(target=lambda: (here.sendall(ORDERS), here.close()))
        feeder.start()
        done = subprocess.run([os.path.abspath(sys.argv[1]), "sort", "--key", "price:n"], stdin=there, stdout=subprocess.PIPE, timeout=100)
        feeder.join()
        there.close()
        self.assertEqual(done.stdout, run("sort", "--csv", "--header", "--key", "price:n", stdin=ORDERS).stdout)

    def test_a_stop_while_the_header_is_waited_for_is_told(self):
        for words in (["sort", "--key", "a:n"], ["group", "--key", "a", "--count"], ["merge", "--key", "a"], ["check", "--key", "a"]):
            for number in (signal.SIGTERM, signal.SIGINT):
                with self.subTest(words=words, number=number), subprocess.Popen([os.path.abspath(sys.argv[1]), *words], stdin=subprocess.PIPE,
                                                                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
                    end_to_end.wait_until_it_catches(child, number)
                    child.send_signal(number)
                    self.assertEqual(child.stderr.read().decode(),
                                     f"penstock {words[0]}: stopped by {number.name}; the input is untouched, no output was written\n")
                    self.assertEqual(child.wait(), -number)

    def test_without_a_header_numbers_alone_are_columns(self):
        path = self.write("plain.csv", b"7;30\n8;5\n")
        self.assertEqual(run("sort", "--no-header", "--key", "2", path).stdout, b"7;30\n8;5\n")
        self.assertEqual(run("sort", "--no-header", "-r", "--key", "2", path).stdout, b"8;5\n7;30\n")
        self.assertIn(b"none of the separators", run("sort", "--no-header", "--key", "2", self.write("lines", b"a b\n"), code=2).stderr)

    def test_a_named_pipe_is_not_looked_at(self):
        path = self.folder / "named"
        os.mkfifo(path)
        self.assertIn(b"cannot look for columns in a named pipe or a device before it is read (try: --csv --header or",
                      run("sort", "--key", "price", path, code=2).stderr)

    def test_little_data(self):
        for data in (b"", b"id,price\n", b"id,price", b"price\n", b"price\n5\n30\n", b"price\r\n5\r\n30"):
            with self.subTest(data=data):
                self.same(self.write("little", data), ",", ["sort"], "--key", "price:n")
                self.assertEqual(run("sort", "--key", "price:n", stdin=data).stdout,
                                 run("sort", "--csv", "--header", "--key", "price:n", stdin=data).stdout)
        self.same("/dev/null", ",", ["sort"], "--key", "price:n")
        with open("/dev/null", "rb") as null:
            program = os.path.abspath(sys.argv[1])
            self.assertEqual(subprocess.run([program, "sort", "--key", "price"], stdin=null, capture_output=True).returncode, 0)
        full = self.write("full", b"id;price\n2;1\n1;3\n")
        self.same(self.write("nothing", b""), ";", ["sort"], "--key", "id", full)

    def test_quoted_headers(self):
        path = self.write("quoted", b'"the ""id""";"net, price"\r\n3;7\r\n1;9\r\n')
        for key in ('the "id"', "net, price", "net, price:n:desc", 'the "id",net, price'):
            self.same(path, ";", ["sort"], "--key", key)
        path = self.write("lines", b'"id","two\nlines"\n3,7\n1,9\n')
        self.same(path, ",", ["sort"], "--key", "two\nlines")

    def test_numbers_with_letters(self):
        """A key such as 2:n names no column, but is none of GNU sort's: whether there is a header is seen in the rows, or asked."""
        path = self.write("plain.csv", b"7;30\n8;5\n")
        self.assertEqual(run("sort", "--key", "2:n", path).stdout, b"8;5\n7;30\n")
        self.assertEqual(run("sort", "--key", "2:n", "--header", path).stdout, b"7;30\n8;5\n")
        path = self.write("head.csv", b"id;price\n7;30\n8;5\n")
        self.assertEqual(run("sort", "--key", "2:n", path).stdout, b"id;price\n8;5\n7;30\n")
        self.assertEqual(run("sort", "--key", "2:n", "--no-header", path).stdout, b"id;price\n8;5\n7;30\n")
        self.assertIn(b"the first row of a pipe is a header (try: --header or --no-header)", run("sort", "--key", "2:n", stdin=b"id;price\n7;30\n", code=2).stderr)
        path = self.write("text.csv", b"b;x\na;y\nc;w\n")
        self.assertIn(b"--header or --no-header", run("sort", "--key", "2:desc", path, code=2).stderr)
        self.assertEqual(run("sort", "--key", "2:desc", "--no-header", path).stdout, b"a;y\nb;x\nc;w\n")
        self.assertEqual(run("sort", "--key", "2:desc", "--header", path).stdout, b"b;x\na;y\nc;w\n")

    def test_other_words_decide(self):
        path = self.write("orders.csv", ORDERS.replace(b",", b";"))
        for words in (["--format", "lines", "--key", "price"], ["-z", "--key", "price"], ["-t", ",", "--key", "price"],
                      ["--csv", "--header", "--key", "price"], ["--tsv", "--header", "--key", "price"], ["--csv", "--key", "price"]):
            with self.subTest(words=words):
                run("sort", *words, path, code=2)
        wanted = run("sort", "--csv", "-t", ";", "--header", "--key", "price:n", path).stdout
        for words in (["-t", ";"], ["--delimiter=;"], ["-t", ";", "--header"], ["--csv", "-t", ";"], ["--csv", "-t", ";", "--header"]):
            with self.subTest(words=words):
                self.assertEqual(run("sort", *words, "--key", "price:n", path).stdout, wanted)
        plus = self.write("plus.csv", ORDERS.replace(b",", b"+"))
        self.assertEqual(run("sort", "-t", "+", "--key", "price:n", plus).stdout, wanted.replace(b";", b"+"))
        self.assertEqual(run("join", "-t", ";", "-j", "id", path, path).stdout.splitlines()[0], b"id;customer;price;customer;price")
        self.assertIn(b"without a header", run("sort", "--no-header", "--key", "price", path, code=2).stderr)
        self.assertIn(b"--header --no-header", run("sort", "--no-header", "--header", path, code=2).stderr)
        self.assertIn(b"--no-header", run("sort", "--no-header", "--format", "u64", path, code=2).stderr)
        self.assertEqual(run("sort", "--csv", "--no-header", "-t", ";", "--key", "3:n", path).stdout,
                         b"id;customer;price\n2;amy;5\n3;cyd;12.5\n1;bob;30\n")

    def test_gnu_sort_stays(self):
        path = self.write("orders.csv", b"2,2n,price\n1,9,b\n10,30,a\n3,4,c\n")
        environment = {**os.environ, "LC_ALL": "C"}
        for words in ([], ["-n"], ["-k", "2"], ["-k", "2,2n"], ["-k2n"], ["-k", "1.2,1.3r"], ["-t,", "-k2,2n"], ["-r"], ["-t,", "-k3"]):
            with self.subTest(words=words):
                wanted = subprocess.run(["sort", *words, path], env=environment, stdout=subprocess.PIPE, check=True).stdout
                self.assertEqual(run("sort", *words, path).stdout, wanted)
        for words in (["-k", "0"], ["-k", "2.0"], ["-k", ""], ["-k", "1,"], ["--key", "4:8"]):
            with self.subTest(words=words):
                self.assertNotIn(b"cannot find", run("sort", *words, path, code=2).stderr)
        name = self.folder / "sort"
        os.symlink(os.path.abspath(sys.argv[1]), name)
        done = run("-k", "price", path, program=name, code=2, env=environment)
        self.assertIn(b"begins with no field", done.stderr)

    def test_wrong_names(self):
        path = self.write("orders.csv", ORDERS.replace(b",", b";"))
        for command in (["sort"], ["merge"], ["check"], ["plan"], ["group", "--count"], ["partition", "--parts", "2", "-o", self.folder / "{}"]):
            with self.subTest(command=command):
                message = run(*command, "--key", "pirce", path, code=2).stderr.decode()
                self.assertIn("cannot find this column (did you mean price?)", message)
                self.assertIn("id, customer, price", message)
        self.assertIn(b"did you mean customer?", run("sort", "--key", "price:n,custmer", path, code=2).stderr)
        self.assertIn(b"find column 9", run("sort", "--key", "price", "--key", "9", path, code=2).stderr)
        words = self.write("words", b"some words\nin lines\n")
        self.assertIn(b"has none of the separators", run("sort", "--key", "price", words, code=2).stderr)
        self.assertIn(b"--key COLUMN", run("sort", "--key", path, code=2).stderr)
        self.assertIn(b"No such file", run("sort", "--key", "price", self.folder / "none", code=2).stderr)
        self.assertIn(b"Is a directory", run("sort", "--key", "price", self.folder, code=2).stderr)
        self.assertIn(b"Parquet", run("sort", "--key", "price", self.write("p", b"PAR1\0\0\0\0PAR1"), code=2).stderr)
        self.assertIn(b"UTF-16", run("sort", "--key", "price", self.write("wide", "id,price\n1,2\n".encode("utf-16")), code=2).stderr)

    def test_columns_that_are_not_there(self):
        path = self.write("orders.csv", ORDERS)
        for words in (["sort"], ["group", "--count"], ["check"], ["sort", "-c"]):
            with self.subTest(words=words):
                self.assertIn(b"find column 9: the first row of ", run(*words, "--csv", "--key", "9", path, code=2).stderr)
                self.assertIn(b"find column 9: the header has 3", run(*words, "--csv", "--header", "--key", "9", path, code=2).stderr)
        self.assertIn(b"standard input has 3", run("sort", "--csv", "--key", "4", stdin=ORDERS, code=2).stderr)
        run("sort", "--csv", "--key", "3", path)
        run("sort", "--csv", "--key", "4", stdin=b"")

    def test_data_that_contradict_the_guess(self):
        """The guess holds for the first rows; a row far into the data has another number of columns."""
        rows = b"".join(b"%d;%d;x\n" % (i % 977, i) for i in range(60000))
        for bad in (b"7;8\n", b"7;8;9;10\n", b'7;"8"\n'):
            data = b"id;price;text\n" + rows + bad + rows
            path = self.write("data", data)
            out = self.write("out", b"as before")
            ordered = self.write("ordered", b"id;price;text\n1;2;3\n" + bad.replace(b"7", b"8") + b"9;2;3\n")
            for command in (["sort", "--key", "id:n"], ["sort", "--key", "id:n", "-S", "32M"], ["sort", "--key", "id", "--top", "3"],
                            ["sort", "-u", "--key", "id"], ["group", "--key", "id", "--count"], ["group", "--key", "id", "--sum", "--value", "price"],
                            ["merge", "--key", "id:n"]):
                with self.subTest(bad=bad, command=command):
                    done = run(*command, "-o", out, path, code=2)
                    if command[0] != "merge":  # its items are out of order before
                        self.assertIn(b", and the header has ", done.stderr)
                        self.assertIn(b"--csv --header -t ';' with --key, for rows of any", done.stderr)
                    self.assertEqual(open(out, "rb").read(), b"as before")
            run("sort", "--key", "id:n", "-o", out, stdin=data, code=2)
            self.assertEqual(open(out, "rb").read(), b"as before")
            self.assertIn(b"row 60002", run("sort", "--key", "id:n", path, code=2).stderr)
            run("check", "--key", "id:n", path, code=2)
            run("partition", "--key", "id", "--parts", "2", "-o", self.folder / "part{}", path, code=2)
            for words in ([], ["--check-order"]):
                self.assertIn(b", and the header has ", run("join", "-j", "id:n", *words, ordered, ordered, code=2).stderr)
            self.assertFalse(os.path.exists(self.folder / "part0"))
            self.assertEqual(len(run("sort", "--csv", "-t", ";", "--header", "--key", "id:n", path).stdout), len(data))

    def test_blank_lines_are_no_contradiction(self):
        path = self.write("blank", b"id,price\n2,1\n\n1,3\n\n")
        for command in (["sort"], ["sort", "--top", "2"], ["group", "--count"]):
            with self.subTest(command=command):
                self.same(path, ",", command, "--key", "id")
        self.assertEqual(run("sort", "--key", "id:n", path).stdout, b"id,price\n\n\n1,3\n2,1\n")

    def test_notices(self):
        for separator, name in NAMES.items():
            path = self.write("orders.csv", ORDERS.replace(b",", separator.encode()))
            text = on_terminal("sort", "--key", "customer", "orders.csv", cwd=self.folder)
            self.assertEqual(text, f"penstock sort: orders.csv: separator {name}, header: id, customer, price\n")
            for command in (["check"], ["group", "--count"], ["merge"], ["plan"], ["sort", "-c"], ["sort", "-m"]):
                self.assertIn(f"separator {name}, header: id, customer, price\n", on_terminal(*command, "--key", "customer", path))
        self.assertEqual(on_terminal("sort", "--quiet", "--key", "customer", path), "")
        self.assertEqual(run("sort", "--key", "customer", path).stderr, b"")
        one = self.write("one.csv", b"price\n5\n30\n")
        self.assertEqual(on_terminal("sort", "--key", "price:n", "one.csv", cwd=self.folder), "penstock sort: one.csv: one column, header: price\n")
        plain = self.write("plain.csv", b"7;30\n8;5\n")
        self.assertIn("separator ';', no header, 2 columns", on_terminal("sort", "--key", "2:n", plain))
        wide = self.write("wide.csv", b",".join(b"c%d" % i for i in range(50)) + b"\n")
        self.assertIn("c7, ... (50 columns)", on_terminal("sort", "--key", "c9", wide))
        del one

    def test_fields_that_blanks_do_not_separate(self):
        for separator in ",;|":
            path = self.write("orders.csv", ORDERS.replace(b",", separator.encode()))
            for words in (["sort", "-k", "3"], ["sort", "-k", "2,2n"], ["sort", "-k", "1,1"], ["group", "-k", "1", "--count"], ["merge", "-k", "3"]):
                with self.subTest(separator=separator, words=words):
                    told = run(*words, path, code=(0, 2)).stderr.decode()
                    self.assertIn("because blanks separate fields (try: -t '" + separator, told)
                    self.assertNotIn("because", run(*words, "-q", path, code=(0, 2)).stderr.decode())
        lines = self.write("lines", b"a, b\nc, d\n")
        for words in (["sort"], ["sort", "-k", "1"], ["sort", "-k", "2"], ["sort", "-k", "1,1"], ["sort", "-t", ",", "-k", "2"],
                      ["sort", "--csv", "--key", "2"]):
            with self.subTest(words=words):
                self.assertEqual(run(*words, lines).stderr, b"")
        self.assertEqual(run("sort", "-k", "1", path).stderr, b"")

    def test_a_number_alone_is_no_column_of_a_table_in_silence(self):
        commands = (["sort"], ["check"], ["merge"], ["plan"], ["group", "--count"], ["sort", "-c"], ["partition", "--parts", "2", "-o", self.folder / "part-{}"])
        for separator, words in ((",", "--csv --header"), (";", "--csv --header -t ';'"), ("\t", "--tsv --header")):
            table = ORDERS.replace(b",", separator.encode()).replace(b"bob", b"bob lee")
            for name in ("orders.csv", "orders.tsv", "orders.csv.gz", "orders"):
                path = self.write(name, gzip.compress(table) if name.endswith("gz") else table)
                for command in commands if name == "orders.csv" else commands[:1]:
                    with self.subTest(name=name, command=command, separator=separator):
                        if name == "orders" and separator == "\t":  # blanks separate its fields
                            run(*command, "--key", "2", path)
                            continue
                        told = run(*command, "--key", "2", path, code=2).stderr.decode()
                        self.assertIn(f"--key 2: cannot take a number alone for a column of {path} (try: {words} --key 2, or -k2 for a field", told)
                        self.assertNotIn(b"alone", run(*command, "-k", "2", path, code=(0, 1, 2)).stderr)
                        followed = [word.strip("'") for word in words.split()]
                        done = run(*command, *followed, "--key", "2", path, code=(0, 1, 2))
                        self.assertTrue(done.returncode < 2 or b"not in order" in done.stderr)
                if separator != "\t":
                    self.assertIn(b"number alone", run("join", "--key", "2", path, path, code=2).stderr)
                self.assertEqual(run("sort", "--csv", "--header", "-t", separator, "--key", "2", path).stdout[:2], b"id")
        numbers = self.write("numbers.csv", b"1,2\n3,4\n")
        self.assertIn(b"(try: --csv --key 2, or -k2", run("sort", "--key", "2", numbers, code=2).stderr)
        lines = self.write("lines", b"a b\nc d\n")
        self.assertEqual(run("sort", "--key", "2", lines).stdout, b"a b\nc d\n")
        self.assertEqual(run("sort", "+1", path).stdout, run("sort", "-k2", path).stdout)
        name = self.folder / "sort"
        os.symlink(os.path.abspath(sys.argv[1]), name)
        self.assertEqual(run("--key", "2", numbers, program=name).stdout, b"1,2\n3,4\n")

    def test_a_header_among_the_data_is_told(self):
        path = self.write("orders.csv", ORDERS)
        head = "orders.csv: row 1 looks like a header, but counts as data (try: --header)"
        for words in (["--csv"], ["--csv", "--key", "2"], ["-t", ",", "-k2"]):
            self.assertEqual(run("sort", *words, "orders.csv", cwd=self.folder).stderr.decode(), f"penstock sort: {head}\n")
            for more in (["--header"], ["--no-header"], ["-q"]):
                self.assertEqual(run("sort", *words, *more, path).stderr, b"")
        self.assertIn("but counts as data", run("check", "--csv", path, code=(0, 1)).stderr.decode())
        told = "penstock sort: orders.csv: row 1 looks like a header, but counts as data (try: --key id, or --csv --header)\n"
        self.assertEqual(run("sort", "orders.csv", cwd=self.folder).stderr.decode(), told)
        self.assertEqual(on_terminal("sort", "--progress=never", "orders.csv", cwd=self.folder), told)
        other = self.write("orders", ORDERS)
        self.assertEqual(run("sort", other).stderr, b"")
        self.assertIn("row 1 looks like a header", on_terminal("sort", "--progress=never", other))
        self.assertEqual(on_terminal("sort", "-q", path), "")
        self.write("text.csv", b"first name;city\nbob;Rome\n")
        self.assertIn("(try: --key 'first name', or --csv --header -t ';')\n", on_terminal("sort", "text.csv", cwd=self.folder))
        cut = self.write("cut.csv", b'1,"two\nlines"\n3,4\n')
        self.assertIn("read as lines, which cut rows with line ends in quotes (try: --csv)\n", on_terminal("sort", cut))
        for data in (b"1,2\n3,4\n", b"a b\nc d\n", b"word\n5\n", b"a,b,c\nx,y\n"):
            self.assertEqual(on_terminal("sort", "--progress=never", self.write("other", data)), "")

    def test_what_join_advises_works(self):
        orders = self.write("orders.csv", ORDERS)
        for data, words in ((b"customer,land\nbob,UK\namy,FR\n", ["--key", "customer"]), (b"number,land\n1,UK\n2,FR\n", ["-1", "id", "-2", "number"])):
            other = self.write("other.csv", data)
            told = run("join", orders, other).stderr.decode()
            self.assertEqual(told.count("\n"), 1)
            self.assertIn(f"orders.csv: its first line has one field, because blanks separate fields (try: {' '.join(words)}, ", told)
            self.assertEqual(len(run("join", *words, orders, other).stdout.splitlines()), 3)
        self.assertIn("(try: -t ',', or", run("join", orders, self.write("plain.csv", b"1,2\n")).stderr.decode())

    def test_numbers_as_text(self):
        path = self.write("orders.csv", ORDERS)
        for words, told in ((["--key", "price"], "price looks like numbers (try: --key price:n)"),
                            (["--key", "price:desc"], "price looks like numbers (try: --key price:n:desc)"),
                            (["--key", "customer,price"], "price looks like numbers (try: --key price:n)"),
                            (["--csv", "--header", "--key", "price"], "price looks like numbers (try: --key price:n)"),
                            (["--key", "price:n"], None), (["-n", "--key", "price"], None), (["--key", "customer"], None),
                            (["--key", "price:g"], None), (["--quiet", "--key", "price"], None)):
            with self.subTest(words=words):
                self.assertEqual(run("sort", *words, path).stderr.decode(), f"penstock sort: {told}\n" if told else "")
        plain = self.write("plain.csv", b"7,a\n30,b\n")
        self.assertIn(b"column 1 looks like numbers (try: --key 1:n)", run("sort", "--csv", "--key", "1", plain).stderr)
        self.assertEqual(run("sort", "--csv", "--key", "2", plain).stderr, b"")
        # Not numbers: codes with zeros in front, a broken row, a single row, no values.
        for rows in (b"007\n030\n", b'5\n"6\n', b'"5"x\n7\n', b"5\n", b"\n\n", b"5\nn/a\n", b"1e3\n7\n", b""):
            done = run("sort", "--csv", "--header", "--key", "price", self.write("some.csv", b"price\n" + rows), code=(0, 2))
            self.assertNotIn(b"looks like", done.stderr, rows)
        broken = self.write("broken.csv", b'"id",pri"ce\n1,2\n3,4\n')
        done = run("sort", "--key", "id", broken, code=2)
        self.assertNotIn(b"looks like", done.stderr)
        self.assertNotIn("separator", on_terminal("sort", "--key", "id", broken))


if __name__ == "__main__":
    end_to_end.main("named_columns")
