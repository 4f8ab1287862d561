#!/usr/bin/env python3
"""JSON lines beside Python's json and sorted(): jsonl_test.py PENSTOCK [TEST...]. Prints its seed; PENSTOCK_TEST_SEED repeats a run."""

import collections
import decimal
import json
import os
import sys

import end_to_end
from end_to_end import SEED, random_cases, run

SANITIZED = "ASAN_OPTIONS" in os.environ
SMALL_MEMORY = "1G" if SANITIZED else "40M"
CASES = 40 if SANITIZED else end_to_end.trials(160)
EXACT = decimal.Context(prec=1000, Emin=-decimal.MAX_EMAX, Emax=decimal.MAX_EMAX)

# The keys of a command line, and how Python finds the same values.
ORDERS = (
    ([".id"], [(("id",), "")]),
    (["id:desc"], [(("id",), "desc")]),
    ([".user.name", ".id:desc"], [(("user", "name"), ""), (("id",), "desc")]),
    (['."a.b",.user.id:n:desc'], [(("a.b",), ""), (("user", "id"), "n desc")]),
    (['"é":f', ".user.id"], [(("é",), "f"), (("user", "id"), "")]),
)


def read(line):
    """The object of a line, with exact numbers; the last member of a name counts. A blank line has no members."""
    if not line.strip(b" \t\r\n"):
        return {}
    number = EXACT.create_decimal
    return json.loads(line.decode("utf-8", "surrogatepass"), parse_float=number, parse_int=number)


MISSING = object()


def value_at(line, path):
    value = read(line)
    for name in path:
        value = value.get(name, MISSING) if isinstance(value, dict) else MISSING
    return value


def bytes_of(text):
    return text.encode("utf-8", "surrogatepass")


def rank(value, how):
    """A value as one that Python orders alike."""
    if "n" in how.split():
        if isinstance(value, decimal.Decimal):
            return value
        text = value.lstrip(" \t\n") if isinstance(value, str) else ""
        digits = text[text.startswith("-"):]
        end = 0
        while end < len(digits) and (digits[end] in "0123456789" or digits[end] == "." and "." not in digits[:end]):
            end += 1
        number = decimal.Decimal(digits[:end] if digits[:end].strip(".") else 0)
        return -number if text.startswith("-") else number
    for place, one in enumerate((MISSING, None, False, True)):
        if value is one:
            return (place,)
    if isinstance(value, decimal.Decimal):
        return (4, value)
    text = bytes_of(value)
    return (5, text.upper() if "f" in how.split() else text)  # ASCII letters alone, as in the locale C


def in_order(lines, keys, stable=False):
    lines = list(lines) if stable else sorted(lines, key=lambda line: line.removesuffix(b"\n"))
    for path, how in reversed(keys):
        lines.sort(key=lambda line: rank(value_at(line, path), how), reverse="desc" in how)
    return lines


class Jsonl(end_to_end.Case):
    def text(self):
        rng = self.random
        text = "".join(rng.choice(["a", "B", "b", " ", '"', "\\", "/", "\n", "\t", "\0", "ö", "\u20ac", "\U0001f600", "\ud83d", "x" * 9, "-12.5", "7"])
                       for _ in range(rng.randrange(4)))
        # Halves of pairs stay halves: Python joins a pair that is written as two escapes, as everyone does.
        written = json.dumps(text, ensure_ascii=rng.random() < 0.5 or "\ud83d" in text)
        return written.replace("/", "\\/") if rng.random() < 0.3 else written

    def number(self):
        rng = self.random
        digits = str(rng.choice([rng.randrange(100), rng.randrange(1 << 54), 10**30 + rng.randrange(3), 2**53 + rng.randrange(3)]))
        fraction = rng.choice(["", "", ".0", ".5", f".{rng.randrange(10**20):020}"])
        exponent = rng.choice(["", "", "", "e0", "E+2", "e-3", "e-80", "e300"])
        return rng.choice(["", "-"]) + digits + fraction + exponent

    def value(self, depth=0):
        rng = self.random
        kind = rng.randrange(9 if depth < 3 else 7)
        if kind < 3:
            return self.number()
        if kind < 5:
            return self.text()
        if kind < 7:
            return rng.choice(["true", "false", "null"])
        if kind == 7:
            return "[" + self.space() + ",".join(self.value(depth + 1) for _ in range(rng.randrange(3))) + "]"
        return self.members([(self.text(), self.value(depth + 1)) for _ in range(rng.randrange(3))])

    def scalar(self):
        return self.value(depth=3)

    def space(self):
        return self.random.choice(["", "", "", " ", "\t", "  "])

    def members(self, members):
        inside = ",".join(f"{self.space()}{name}{self.space()}:{self.space()}{value}{self.space()}" for name, value in members)
        return "{" + inside + "}"

    def line(self):
        rng = self.random
        if rng.random() < 0.04:
            return self.space()
        members = [(self.text(), self.value()) for _ in range(rng.randrange(3))]
        for name in ("id", "id", "a.b", "é"):
            if rng.random() < 0.6:
                members.append((rng.choice([json.dumps(name), json.dumps(name, ensure_ascii=False), '"\\u0069d"' if name == "id" else json.dumps(name)]),
                                self.scalar()))
        for _ in range(rng.choice([0, 1, 1, 2])):
            user = [(f'"{name}"', self.scalar()) for name in ("id", "name", "id") if rng.random() < 0.7]
            members.append(('"user"', rng.choice([self.members(user), self.members(user), self.scalar()])))
        rng.shuffle(members)
        return self.space() + self.members(members) + self.space()

    def lines(self, count):
        ends = self.random.choice([["\n"], ["\r\n"], ["\n", "\r\n"]])
        return [bytes_of(self.line() + self.random.choice(ends)) for _ in range(count)]

    @random_cases(CASES)
    def test_keys_are_members(self):
        words, keys = self.random.choice(ORDERS)
        lines = self.lines(self.random.choice([0, 1, 5, 200]))
        data = b"".join(lines)
        if lines and lines[-1] != b"\n" and self.random.random() < 0.3:
            data = data[:-1]  # the last line gets its end
        words = ["--jsonl", *(word for key in words for word in ("--key", key)), "-S", SMALL_MEMORY]
        with self.subTest(words=words):
            way = self.random.choice(["file", "pipe", "merge", "top", "unique", "stable", "partition", "group"])
            wanted = in_order(lines, keys)
            kinds = lambda line: [rank(value_at(line, path), how) for path, how in keys]
            stable = in_order(lines, keys, stable=True)
            firsts = [line for i, line in enumerate(stable) if i == 0 or kinds(line) != kinds(stable[i - 1])]
            if way == "pipe":
                got = run("sort", *words, stdin=data).stdout
            elif way == "merge":
                parts = [self.write(f"part{part}", run("sort", *words, stdin=b"".join(lines[part::2])).stdout) for part in range(2)]
                got = run(*self.random.choice([["merge"], ["sort", "-m"]]), *words, *parts).stdout
            elif way == "top":
                count = self.random.randrange(len(lines) + 2)
                wanted = wanted[:count]
                got = run("sort", *words, "--top", count, self.write("in", data)).stdout
            elif way == "unique":
                got = run("sort", *words, "-u", self.write("in", data)).stdout
                wanted = firsts
            elif way == "stable":
                got = run("sort", *words, "-s", self.write("in", data)).stdout
                wanted = stable
            elif way == "partition":
                run("partition", *words, "--by", "range", "--parts", 3, "-o", self.folder / "range-{}", self.write("in", data))
                parts = sorted(self.folder.glob("range-*"))
                got = b"".join(run("sort", *words, part).stdout for part in parts)
                for part in parts:
                    part.unlink()
            elif way == "group":
                got = run("group", *words, "--distinct", self.write("in", data)).stdout
                # One kind of line end: the first line's.
                self.assertEqual([line.rstrip(b"\r") for line in got.split(b"\n")[:-1]],
                                 [line.removesuffix(b"\n").removesuffix(b"\r") for line in firsts])
                return
            else:
                got = run("sort", *words, self.write("in", data)).stdout
            self.assertEqual(got, b"".join(wanted))
            out = self.write("out", got)
            run("sort", "-c", *words, *(["-s"] if way in ("stable", "unique") else []), out)
            if way not in ("stable", "unique"):
                run("check", *words[:-2], out)
            run("plan", *words, out)

    @random_cases(CASES // 4 + 1)
    def test_groups_are_objects(self):
        rng = self.random
        rows = []
        for _ in range(rng.choice([0, 3, 300])):
            row = {"user": {"id": rng.choice([1, "1", None, True, "é\n", 2.5])}, "price": rng.choice([None, "", rng.randrange(-99, 99), str(rng.randrange(99)), 0.25])}
            if rng.random() < 0.1:
                del row["user"]["id"]
            rows.append(row)
        data = "".join(json.dumps(row, ensure_ascii=rng.random() < 0.5) + "\n" for row in rows).encode()
        got = run("group", "--jsonl", "--key", ".user.id", "--count", "--sum", "--min", "--max", "--value", ".price", "-S", SMALL_MEMORY, stdin=data)
        groups = collections.defaultdict(list)
        for row in rows:
            groups[json.dumps(row["user"].get("id", "missing"))].append(row["price"])
        found = [json.loads(line) for line in got.stdout.splitlines()]
        self.assertEqual(len(found), len(groups))
        for one in found:
            prices = groups[json.dumps(one.get("user.id", "missing"))]
            numbers = [float(price) for price in prices if price not in (None, "")]
            self.assertEqual(one["count"], len(prices))
            self.assertEqual(one["sum_price"], sum(numbers) if numbers else None)
            self.assertEqual(one["min_price"], min(numbers, default=None))
            self.assertEqual(one["max_price"], max(numbers, default=None))

    def test_sums_are_exact(self):
        rows = b'{"k":1,"v":1e-2}\n{"k":1.0,"v":"12345678901234567890"}\n{"k":1e0,"v":1.5E+1}\n{"k":2,"v":[1]}\n'
        words = ["group", "--jsonl", "--key", "k", "--sum", "--value"]
        got = run(*words, ".v", stdin=b"".join(rows.splitlines(True)[:3]))
        self.assertEqual(got.stdout, b'{"k":1,"sum_v":12345678901234567905.01}\n')
        self.assertIn(b"in: line 4, member .v: '[1]' is no number", run(*words, ".v", "in", stdin=b"", code=2, cwd=self.write("in", rows).parent).stderr)

    @random_cases(CASES // 4 + 1)
    def test_pairs_are_objects_of_both(self):
        words, path, how = self.random.choice([(["--key", ".id"], ("id",), ""), (["-1", "user.id:desc", "-2", ".user.id:desc"], ("user", "id"), "desc")])
        sides = [self.lines(self.random.choice([0, 3, 60])) for _ in range(2)]
        groups = [collections.defaultdict(list) for _ in sides]
        for side, lines in zip(groups, sides):
            for line in lines:
                side[rank(value_at(line, path), how)].append(line.strip(b" \t\r\n") or b"{}")
        wanted = [b'{"left":%s,"right":%s}\n' % (left, right) for key, lines in groups[0].items() for left in lines for right in groups[1].get(key, [])]
        alone = self.random.choice([[], ["-a", 1], ["-v", 2], ["-a", 1, "-a", 2]])
        for number, name in ((1, b"left"), (2, b"right")):
            if number in alone:
                wanted += [b'{"%s":%s}\n' % (name, line) for key, lines in groups[number - 1].items() if key not in groups[2 - number] for line in lines]
        if "-v" in alone:
            wanted = [line for line in wanted if line.startswith(b'{"right":')]
        with self.subTest(words=words, alone=alone):
            files = [self.write(name, b"".join(lines)) for name, lines in zip(("a", "b"), sides)]
            got = run("join", "--jsonl", *words, *alone, *files, "-S", SMALL_MEMORY).stdout.splitlines(True)
            self.assertEqual(sorted(got), sorted(wanted))
            keys = [rank(value_at(line, (next(iter(read(line))), *path)), how) for line in got]
            self.assertEqual(keys, sorted(keys, reverse=how == "desc"))

    def test_more_lines_than_memory(self):
        rng = self.random
        count = 20000 if SANITIZED else 300000
        lines = [b'{"id":%d,"user":{"name":"%s"},"pad":"%s"}\n' % (rng.randrange(1 << 62), rng.randbytes(4).hex().encode(), b"x" * rng.randrange(200))
                 for _ in range(count)]
        lines.insert(count // 2, b'{"pad":"%s","id":5}\n' % (b"\\u00e9" * 40000))
        path = self.write("in", b"".join(lines))
        for key, of_line in (("id", lambda one: one["id"]), (".user.name:desc", lambda one: one.get("user", {}).get("name", ""))):
            decorated = sorted(((of_line(json.loads(line)), line) for line in sorted(lines)), key=lambda one: one[0], reverse="desc" in key)
            stats = self.folder / "stats"
            got = run("sort", "--jsonl", "--key", key, "-S", "1G" if SANITIZED else "32M", "-T", self.folder, "--stats", stats, path).stdout
            self.assertTrue(got == b"".join(line for _, line in decorated), key)
            if not SANITIZED:
                self.assertGreater(json.loads(stats.read_text())["temp_bytes"], 0)

    def test_damage_is_found_before_anything_is_published(self):
        good = b"".join(b'{"id":%d}\n' % self.random.randrange(10**6) for _ in range(20000))
        good = run("sort", "--jsonl", "--key", "id", stdin=good).stdout
        for bad, column, says in ((b'{"id":1,"x":tru}', 13, b"no value of JSON"), (b'{"id":1', 8, b"the end of the line"), (b"[1]", 1, b"no JSON object"),
                                  (b'{"id":[1]}', 7, b"a key that is an array"), (b'{"id":{}}', 7, b"a key that is an object"),
                                  (b'{"id":1}{}', 9, b"text after the object"), (b'{"id":1e999999999999999999}', 7, b"huge exponent")):
            lines = good.splitlines(True)
            at = self.random.choice([0, len(lines) // 2, len(lines)])
            lines.insert(at, bad + b"\n")
            path = self.write("in", b"".join(lines))
            for command in (["sort"], ["sort", "-m"], ["merge"], ["sort", "--top", 3], ["sort", "-u"], ["group", "--count"],
                            ["partition", "--parts", 2], ["partition", "--parts", 2, "--by", "range"], ["check"], ["sort", "-c"]):
                with self.subTest(bad=bad, at=at, command=command):
                    writes = command[0] != "check" and "-c" not in command
                    out = self.folder / ("out{}" if command[0] == "partition" else "out")
                    done = run(*command, "--jsonl", "--key", ".id", path, *(["-o", out] if writes else []), code=2)
                    self.assertIn(b"in: line %d, column %d: " % (at + 1, column), done.stderr)
                    self.assertIn(says, done.stderr)
                    self.assertEqual([one.name for one in self.folder.iterdir()], ["in"])

    def test_a_member_that_no_line_has_is_named(self):
        with_id, without = self.write("with", b'\xef\xbb\xbf{"b c":1}\n\n{"id":null}\n'), self.write("without", b'{"user":{"id":1},"b c":[2]}\n')
        no_words = self.write("empty", b"{}\n")
        wide = self.write("wide", b'{"x":"%s"}\n{"x":"%s"}\n{"id":1}\n' % (b"x" * 200_000, b"x" * 900_000))
        long = self.write("long", b'{"idx":1}\n' * 100_000 + b'{"id":1}\n')
        for command, inputs, notice in ((["sort", "--key", ".id"], [with_id, without], b""), (["sort", "--key", ".id"], [without, with_id], b""),
                                        (["sort", "--key", ".id,.it:n"], [without, with_id], b"--key .it: no line of %s has this member" % bytes(with_id)),
                                        (["sort", "--key", ".id"], [without], b"--key .id: no line of %s has this member (try: one of .user.id)" % bytes(without)),
                                        (["sort", "--key", ".id"], [with_id, "-"], b""), (["sort", "-q", "--key", ".id"], [without], b""),
                                        (["check", "--key", ".user.di"], [without], b"(did you mean .user.id?)"),
                                        (["group", "--count", "--key", ".id"], [no_words], b"(try: jq"),
                                        (["group", "--key", ".user.id", "--sum", "ID"], [without], b"--sum .ID: no line"),
                                        (["join", "-j", ".id"], [with_id, without], b"-j .id: no line of %s" % bytes(without)),
                                        (["check", "--key", ".\"b d\""], [with_id], b"(did you mean '.\"b c\"'?)"),
                                        (["sort", "--key", ".id"], [wide], b"--key .id: the first line of %s lacks this member" % bytes(wide)),
                                        (["sort", "--key", ".id"], [long], b"none of the first 26,")):
            with self.subTest(command=command, inputs=inputs):
                told = run(*command, "--jsonl", *inputs, code=(0, 1)).stderr
                self.assertEqual(told.count(b"\n"), 1 if notice else 0, told)
                self.assertIn(notice, told)

    def test_a_mark_stays_in_front_and_other_text_is_named(self):
        data = b'\xef\xbb\xbf{"a":2}\n{"a":1}\n'
        self.assertEqual(run("sort", "--jsonl", "--key", "a", stdin=data).stdout, b'\xef\xbb\xbf{"a":1}\n{"a":2}\n')
        self.assertIn(b"--encoding UTF-16", run("sort", "--jsonl", "--key", "a", stdin='{"a":2}\n'.encode("utf-16"), code=2).stderr)

    def test_lines_may_end_with_nul(self):
        self.assertEqual(run("sort", "--jsonl", "-z", "--key", "a", stdin=b'{"a":\n2}\0{"a":1}').stdout, b'{"a":1}\0{"a":\n2}\0')


if __name__ == "__main__":
    print(f"seed {SEED} (PENSTOCK_TEST_SEED)")
    end_to_end.main("jsonl_end_to_end")
