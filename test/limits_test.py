"""The limits of docs/limits.md, each at its edge and one beyond: limits_test.py PENSTOCK ROOT [TEST...]."""

import contextlib
import gzip
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import cgroup
import end_to_end
import named_tests
from end_to_end import run

ROOT = pathlib.Path(sys.argv.pop(2)).resolve()
MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
# The tests do not depend on the disk. (A container may have only 64 MiB there.)
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free >= 512 * MIB:
    tempfile.tempdir = "/dev/shm"
SANITIZED = "ASAN_OPTIONS" in os.environ


def descriptors(count):
    return dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)))


class Case(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.out = self.folder / "out"

    def refused(self, *words, says, **options):
        """Runs the program, which must fail with a message that contains `says`, and leave no output."""
        self.out.unlink(missing_ok=True)
        self.assertIn(says, run(*words, code=2, **options).stderr.decode())
        self.assertFalse(self.out.exists())


class Table(Case):
    def test_named_tests_exist(self):
        named_tests.check(self, ROOT, "docs/limits.md")


@end_to_end.unittest.skipIf(SANITIZED, "a sanitizer has memory of its own")
class Memory(Case):
    def test_the_least_memory_of_each_command(self):
        numbers = self.write("numbers", os.urandom(8 * 1000))
        for words, where in ((["sort", numbers], "-o"), (["merge", "/dev/null"], "-o"), (["group", "--count", numbers], "-o"),
                             (["partition", "--parts", "1", numbers], "-o"), (["join", "/dev/null", "/dev/null"], "--output")):
            words += ["--format", "u64", where, f"{self.out}{{}}" if words[0] == "partition" else self.out]
            run(*words, "-S", "32M")
            self.refused(*words, "-S", f"{32 * MIB - 1}b", says="(try: at least 32M)")


@end_to_end.unittest.skipIf(SANITIZED, "a sanitizer has memory of its own")
class Items(Case):
    def lines(self, longest):
        """Unsorted lines of more than 32 MiB."""
        digits = os.urandom(20 * MIB).hex().encode()
        lines = [digits[at:at + 100] for at in range(0, len(digits), 100)]
        return self.write("lines", b"\n".join([*lines, b"x" * (longest - 1), b""]))

    def test_the_longest_line_of_a_sort(self):
        run("sort", "-S", "32M", "-o", self.out, self.lines(256 << 10))
        self.refused("sort", "-S", "32M", "-o", self.out, self.lines((256 << 10) + 1), says="cannot read a line of more than 262144 bytes")

    def test_the_longest_line_of_a_merge_and_of_a_check(self):
        # A merge divides the memory that the program itself does not take, which differs from run to run.
        for longest in (MIB * 9 // 2, 6 * MIB, 6 * MIB + 1, 8 * MIB, 16 * MIB):
            line = self.write("line", b"x" * (longest - 1) + b"\n")
            check = ["sort", "-c", line, "-S", "32M"]
            if longest <= 6 * MIB:
                run(*check)
            else:
                self.refused(*check, says="cannot read a line of more than 6291456 bytes")
            other = self.write("other", b"x" * (longest - 2) + b"\n") if longest < 6 * MIB else self.write("other", b"y\n")
            merge = ["merge", line, other, "-S", "32M", "-o", self.out]
            if longest < 16 * MIB:
                run(*merge)
            else:
                self.refused(*merge, says="cannot read a line of more than ")

    def test_the_longest_record_and_its_key(self):
        for longest in (256 << 10, (256 << 10) + 1):
            records = self.write("records", os.urandom(longest) * 200)
            words = ["sort", "--format", "record", "--record", longest, "--key", f"0:{longest}", records, "-S", "32M", "-o", self.out]
            if longest == 256 << 10:
                run(*words)
                self.assertEqual(self.out.stat().st_size, records.stat().st_size)
            else:
                self.refused(*words, says=" of more than 262144 bytes")
        self.refused("sort", "--format", "record", "--record", "100", "--key", "0:101", "/dev/null", "-o", self.out, says="(try: ")


class Files(Case):
    @end_to_end.unittest.skipIf(SANITIZED, "a sanitizer needs the address space")
    def test_the_longest_file(self):
        try:
            file = tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="penstock-limits-")
            self.addCleanup(file.close)
            file.truncate(64 * TIB)
        except OSError as error:
            self.skipTest(f"no file of 64 TiB in /dev/shm: {error}")
        # The room for an output is missing.
        self.refused("sort", "--format", "u64", "-S", "64M", "-o", self.out, file.name, says="-T with a directory on a larger disk")
        file.truncate(128 * TIB)
        self.refused("find", "x", file.name, says="bytes of address space")

    def test_ten_thousand_files_with_256_descriptors(self):
        names = [self.write(f"{number:05}", b"%05d\n" % number) for number in range(10_000)]
        memory = "1G" if SANITIZED else "64M"
        run("merge", *names, "-o", self.out, "-S", memory, **descriptors(256))
        self.assertEqual(self.out.read_bytes(), b"".join(b"%05d\n" % number for number in range(10_000)))
        # A sort has all of its inputs open.
        run("sort", *names[:100], "-o", self.out, "-S", memory, **descriptors(256))
        self.refused("sort", *names, "-o", self.out, "-S", memory, says="Too many open files (try: a higher limit (ulimit -n)",
                     **descriptors(256))

    def test_parts(self):
        numbers = self.write("numbers", os.urandom(8 * 1000))
        words = ["partition", "--format", "u64", numbers, "-o", self.folder / "part-{}"]
        memory = "1G" if SANITIZED else "64M"
        self.refused(*words, "--parts", "65537", says="cannot make 65537 parts (try: 1 to 65536)")
        self.refused(*words, "--parts", "1000", "-S", memory, says="(try: ulimit -n 2256)", **descriptors(256))
        run(*words, "--parts", "1000", "-S", memory, **descriptors(2256))
        self.assertEqual(len(list(self.folder.glob("part-*"))), 1000)

    def test_parts_of_a_split(self):
        words = ["split", "--format", "u64", self.write("numbers", bytes(8 * 1000)), "-l", "1", "-o", self.folder / "part-{}"]
        self.refused(*words, says="parts open until all of them are complete: Too many open files (try: larger parts, or ulimit -n 65792)", **descriptors(256))
        self.assertEqual(list(self.folder.glob("part-*")), [])
        run(*words, **descriptors(1200))
        self.assertEqual(len(list(self.folder.glob("part-*"))), 1000)


class Most(Case):
    """Tests with the label `full`, of seconds and more."""

    def test_65536_parts(self):
        try:
            most = int(pathlib.Path("/proc/sys/fs/nr_open").read_text())
            before = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(131_328, most), min(131_328, most)))
            self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        except ValueError as error:
            self.skipTest(f"131328 descriptors: {error}")
        numbers = self.write("numbers", os.urandom(8 * 100_000))
        (self.folder / "parts").mkdir()
        run("partition", "--format", "u64", numbers, "-o", self.folder / "parts/{}", "--parts", "65536", "-S", "1G")
        parts = list((self.folder / "parts").iterdir())
        self.assertEqual(len(parts), 65536)
        self.assertEqual(sum(part.stat().st_size for part in parts), 800_000)


class Whole(Case):
    """Tests with the label `full` that need a disk and take minutes."""

    @contextlib.contextmanager
    def memory_cgroup(self, bytes_max):
        """Returns a memory cgroup; None, with a skipped subtest, if none can be made."""
        with contextlib.ExitStack() as stack:
            group = None
            try:
                group = stack.enter_context(cgroup.memory(bytes_max))
            except OSError as error:
                with self.subTest("a memory cgroup"):
                    self.skipTest(f"a memory cgroup: {error}")
            yield group

    def test_200_gib_within_one(self):
        """Sorts a file of 4 GiB, named PENSTOCK_LIMITS_TIMES times (50). Temporaries omit the bits that their numbers share; the output goes to a check."""
        times = int(os.environ.get("PENSTOCK_LIMITS_TIMES", "50"))
        folder = tempfile.TemporaryDirectory(prefix="penstock-limits-", dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        free = shutil.disk_usage(folder.name).free - 4 * GIB
        if free < 0:
            self.skipTest("the input needs 4 GiB in /var/tmp")
        numbers = pathlib.Path(folder.name) / "numbers"
        run("gen", "--format", "u64", "--dist", "rootdup", "--count", 4 * GIB // 8, "-o", numbers)
        words = ["--format", "u64", "-S", "1G", "-T", folder.name, "--compress-temporaries", "always", *[numbers] * times]
        needed = json.loads(run("plan", *words, "--json").stdout)["sort"]["temp_bytes"]
        if free < needed * 9 // 8:
            self.skipTest(f"temporaries need {needed * 9 // 8 // GIB} GiB in /var/tmp: {free // GIB} are free")
        begin = time.monotonic()
        program, check = os.path.abspath(sys.argv[1]), ["check", "--format", "u64", "--json"]
        with self.memory_cgroup(GIB * 10 // 9) as group:
            with subprocess.Popen([program, "sort", *map(str, words)], stdout=subprocess.PIPE,
                                  preexec_fn=lambda: group and (group / "cgroup.procs").write_text("0")) as sort:
                checked = json.loads(subprocess.run([program, *check], stdin=sort.stdout, stdout=subprocess.PIPE, check=True).stdout)
                _, sort.returncode, usage = os.wait4(sort.pid, 0)
        print(f"{4 * times} GiB in {time.monotonic() - begin:.0f} s, {usage.ru_maxrss >> 10} MiB resident, "
              f"{needed / GIB:.1f} GiB of temporaries planned", file=sys.stderr)
        self.assertEqual(sort.returncode, 0)
        before = json.loads(run(*check, numbers, code=1).stdout)
        self.assertEqual(checked["count"], times * before["count"])
        self.assertEqual(int(checked["checksum"], 16), times * int(before["checksum"], 16) % (1 << 128))
        self.assertLessEqual(usage.ru_maxrss << 10, GIB)
        self.assertEqual(os.listdir(folder.name), ["numbers"])


class Threads(Case):
    def test_threads(self):
        numbers = self.write("numbers", os.urandom(8 * MIB))
        words = ["sort", "--format", "u64", numbers, "-o", self.out, "-S", "1G" if SANITIZED else "64M", "--parallel"]
        for threads in (1, 1000, 2**32 - 1):
            run(*words, threads)
            run("check", "--format", "u64", self.out)
        self.refused(*words, "0", says="cannot work with no thread")
        self.refused(*words, 2**32, says="cannot read this value")

    @end_to_end.unittest.skipIf(SANITIZED, "a sanitizer has threads of its own")
    def test_few_threads_are_enough(self):
        if os.geteuid() != 0:
            self.skipTest("the limit is a user's: only root can become one that has no process")
        user = 3_000_000 + os.getpid()
        self.folder.chmod(0o777)

        def few(count):
            def limit():
                resource.setrlimit(resource.RLIMIT_NPROC, (count, count))
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            return limit

        # (The system's own threads for io_uring count, too.)
        for engine, counts in (("threads", (3, 5, 9)), ("io_uring", (12,))):
            for words in small_runs(self, memory="32M"):
                expected = result_of(self, words)
                for count in counts:
                    with self.subTest(words=words, threads=count, engine=engine):
                        environment = dict(os.environ, PENSTOCK_IO=engine)
                        self.assertEqual(result_of(self, words, env=environment, preexec_fn=few(count)), expected)


@end_to_end.unittest.skipIf(SANITIZED, "a sanitizer needs addresses of its own")
class Addresses(Case):
    def test_small_inputs_under_a_limit_of_addresses(self):
        for words in small_runs(self, memory="64M"):
            expected = result_of(self, words)
            for gigabytes in (2, 8, 80):
                with self.subTest(words=words, gigabytes=gigabytes):
                    limit = gigabytes * 10**9
                    self.assertEqual(result_of(self, words, preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))),
                                     expected)


def small_runs(case, memory):
    """Commands over small inputs, with an output in the folder or on standard output."""
    lines = [f"{case.random.randrange(10000)} {i}\n".encode() for i in range(5000)]
    text = case.write("text", b"".join(lines))
    packed = case.write("text.gz", gzip.compress(b"".join(lines), 1))
    in_order = case.write("sorted", b"".join(sorted(lines)))
    numbers = case.write("numbers", case.random.randbytes(40 * MIB if memory == "32M" else MIB))
    out = ["-S", memory, "-o", case.out]
    return (["sort", text, *out], ["sort", "--format", "u64", numbers, *out], ["sort", packed, *out], ["sort", "-n", packed, *out],
            ["merge", in_order, in_order, *out], ["group", "--count", "--key", "1", text, *out],
            ["partition", "--by", "hash", "--parts", "2", text, "-S", memory, "-o", f"{case.out}{{}}"],
            ["join", in_order, in_order, "-S", memory], ["cat", packed], ["find", "77", packed], ["find", "77", text])


def result_of(case, words, **options):
    """The text on standard output and in the outputs, which are removed."""
    done = run(*words, env={**os.environ, "LC_ALL": "C"} | options.pop("env", {}), **options)
    outputs = {path.name: path.read_bytes() for path in sorted(case.folder.glob("out*"))}
    for name in outputs:
        (case.folder / name).unlink()
    return done.stdout, outputs


if __name__ == "__main__":
    end_to_end.main("limits")
