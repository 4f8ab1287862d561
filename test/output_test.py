#!/usr/bin/env python3
"""Tests of outputs: devices, disks that fail late, power cuts, inputs that change. output_test.py PENSTOCK [TEST...]."""

import fcntl
import hashlib
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

import end_to_end

PROGRAM = os.path.abspath(sys.argv[1])
MIB = 1 << 20
# A sanitizer needs memory of its own.
MEMORY = "1G" if "ASAN_OPTIONS" in os.environ else "32M"
EXT4_IOC_SHUTDOWN = 0x8004587D  # _IOR('X', 125, __u32)
NO_FLUSH = 2  # unwritten data are lost, also of the journal


def penstock(*words, program=PROGRAM, **options):
    done = subprocess.run([program, *map(str, words)], stdout=options.pop("stdout", subprocess.PIPE), stderr=subprocess.PIPE,
                          timeout=300, **options)
    end_to_end.skip_if_left_out(done.stderr)
    return done


def numbers(count, step=1):
    """Numbers in the wrong order."""
    return struct.pack(f"<{count}Q", *(step * (count - i) for i in range(count)))


def in_order(data):
    values = sorted(struct.unpack(f"<{len(data) // 8}Q", data))
    return struct.pack(f"<{len(values)}Q", *values)


class Case(end_to_end.Case):
    def system(self, *words):
        """Runs a command of the system; skips the test if it is not allowed or the kernel lacks it."""
        try:
            done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        except FileNotFoundError as error:
            self.skipTest(str(error))
        if done.returncode != 0:
            self.skipTest(f"{words[0]}: {done.stderr.decode().strip()}")
        return done.stdout.decode().strip()

    def loop(self, path, *words):
        device = self.system("losetup", *words, "--find", "--show", path)
        self.addCleanup(subprocess.run, ["losetup", "-d", device])
        return device

    def refused(self, done, *texts):
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 2, message)
        for text in texts:
            self.assertIn(text, message)


class Devices(Case):
    """Outputs to devices. The device of a test contains unsorted numbers, so that any write shows."""

    def setUp(self):
        super().setUp()
        self.data = numbers(MIB // 8)
        self.image = self.write("image", self.data)
        self.device = self.loop(self.image)

    def content(self):
        return pathlib.Path(self.device).read_bytes()

    def test_an_input_is_not_written_over(self):
        for words in (["sort"], ["sort", "-m"], ["merge"], ["group", "--count"]):
            with self.subTest(words=words):
                done = penstock(*words, self.device, "--format", "u64", "-S", "64M", "-o", self.device, "--overwrite-device")
                self.refused(done, f"write to the same data as the input {self.device}")
                self.assertEqual(self.content(), self.data)
        with self.subTest("cat"):
            self.refused(penstock("cat", self.device, "-o", self.device, "--overwrite-device"), "write to the same data as the input")
        with self.subTest("join"):
            self.refused(penstock("join", self.device, self.device, "--format", "u64", "-S", "64M", "-o", self.device,
                                  "--overwrite-device"), "write to the same data as the input")
        self.assertEqual(self.content(), self.data)

    def test_an_input_has_many_names(self):
        node = self.folder / "node"
        status = os.stat(self.device)
        os.mknod(node, 0o600 | 0o060000, status.st_rdev)
        other = self.loop(self.image)
        link = self.folder / "link"
        link.symlink_to(node)
        for source, target in ((self.device, node), (self.device, link), (self.device, other), (self.image, self.device)):
            with self.subTest(source=source, target=target):
                done = penstock("sort", source, "--format", "u64", "-S", "64M", "-o", target, "--overwrite-device")
                self.refused(done, "write to the same data as the input")
        with self.subTest("the file behind the device that is read"):
            done = penstock("sort", self.device, "--format", "u64", "-S", "64M", "-o", self.image)
            self.refused(done, f"replace the file that {self.device} lies on")
        with self.subTest("standard output"), open(self.device, "r+b") as target:
            done = penstock("sort", self.device, "--format", "u64", "-S", "64M", "--overwrite-device", stdout=target)
            self.refused(done, "standard output", "write to the same data as the input")
        self.assertEqual(self.content(), self.data)
        self.assertEqual(self.image.read_bytes(), self.data)

    def test_a_partition_of_the_disk_that_is_read(self):
        self.system("sfdisk", "--version")
        large = self.write("disk", b"")
        os.truncate(large, 8 * MIB)
        subprocess.run(["sfdisk", "-q", large], input=b"label: dos\nsize=2M\nsize=2M\n", check=True)
        disk = self.loop(large, "--partscan")
        first, second = disk + "p1", disk + "p2"
        if not os.path.exists(first):
            numbers_of = pathlib.Path(f"/sys/class/block/{os.path.basename(first)}/dev")
            if not numbers_of.exists():
                self.skipTest("no partitions on loop devices here")
            for name in (first, second):
                major, minor = map(int, pathlib.Path(f"/sys/class/block/{os.path.basename(name)}/dev").read_text().split(":"))
                os.mknod(name, 0o600 | 0o060000, os.makedev(major, minor))
                self.addCleanup(os.unlink, name)
        for source, target in ((disk, first), (first, disk)):
            done = penstock("sort", source, "--format", "u64", "-S", "64M", "-o", target, "--overwrite-device")
            self.refused(done, "write to the same data as the input")
        done = penstock("sort", first, "--format", "u64", "-S", "64M", "-o", second, "--overwrite-device")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_device_is_given_away_by_a_word(self):
        source = self.write("in", numbers(1000))
        line = self.write("empty.trace", b"")
        commands = (["sort", source, "--format", "u64"], ["merge", line, "--format", "u64"], ["group", source, "--count",
                    "--format", "u64"], ["join", line, line, "--format", "u64"], ["cat", source],
                    ["gen", "--format", "u64", "--count", "1000"])
        for words in commands:
            with self.subTest(words=words):
                self.refused(penstock(*words, "-o", self.device), "--overwrite-device")
                self.assertEqual(self.content(), self.data)
        with self.subTest("partition"):
            (self.folder / "part-0").symlink_to(self.device)
            self.refused(penstock("partition", source, "--format", "u64", "--parts", 1, "-o", self.folder / "part-{}"),
                         "--overwrite-device")
        with self.subTest("standard output"), open(self.device, "r+b") as target:
            self.refused(penstock("sort", source, "--format", "u64", stdout=target), "--overwrite-device")
        with self.subTest("trace"):
            self.refused(penstock("trace", "-o", self.device, "--", "true"), "over a device")
        with self.subTest("statistics"):
            self.refused(penstock("sort", source, "--format", "u64", "-o", self.folder / "out", "--stats", self.device),
                         "--overwrite-device")
        self.assertEqual(self.content(), self.data)
        done = penstock("sort", source, "--format", "u64", "-o", self.device, "--overwrite-device")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.content()[:8000], in_order(source.read_bytes()))

    def test_a_device_has_to_be_large_enough(self):
        source = self.write("in", numbers(MIB // 8 + 1))
        for words in (["sort", source, "--format", "u64", "-S", "64M"], ["merge", source, "--format", "u64"],
                      ["gen", "--format", "u64", "--count", MIB // 8 + 1]):
            with self.subTest(words=words):
                self.refused(penstock(*words, "-o", self.device, "--overwrite-device"), f"{MIB + 8} bytes where {MIB} have room")
                self.assertEqual(self.content(), self.data)

    def test_a_stopped_run_promises_nothing_of_a_device(self):
        large = self.write("large", b"")
        os.truncate(large, 64 * MIB)
        target = self.loop(large)
        child = subprocess.Popen([PROGRAM, "sort", "-", "--format", "u64", "-o", target, "--overwrite-device"],
                                 stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with child:
            end_to_end.wait_until_it_catches(child, signal.SIGINT)
            child.send_signal(signal.SIGINT)
            child.wait(timeout=60)
            self.assertEqual(child.returncode, -signal.SIGINT)
            self.assertIn(b"stopped by SIGINT; the output is not complete", child.stderr.read())


class Disks(Case):
    """Late errors of a disk are errors of the run, and no output appears."""

    def commands(self):
        source = self.write("in", numbers(1000))
        ordered = self.write("ordered", in_order(numbers(1000)))
        return (["sort", source, "--format", "u64"], ["merge", ordered, "--format", "u64"],
                ["group", source, "--count", "--format", "u64"], ["join", ordered, ordered, "--format", "u64"],
                ["cat", source], ["gen", "--format", "u64", "--count", "1000"],
                ["partition", source, "--format", "u64", "--parts", "3"])

    def test_errors_of_the_disk_are_exit_code_2(self):
        for words in self.commands():
            for error in ("EIO", "ENOSPC"):
                for call, options in (("sync", []), ("rename", []), ("close", ["--no-sync"])):
                    with self.subTest(words=words[0], error=error, call=call):
                        environment = dict(os.environ, PENSTOCK_INJECT=f"seed=1,error={error}@{call}:0")
                        name = "out-{}" if words[0] == "partition" else "out"
                        done = penstock(*words, *options, "-o", self.folder / name, program=end_to_end.with_seams(PROGRAM),
                                        env=environment)
                        self.refused(done, "Input/output error" if error == "EIO" else "No space left on device")
                        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["in", "ordered"])

    def test_errors_of_closing_standard_output(self):
        environment = dict(os.environ, PENSTOCK_INJECT="seed=1,error=EIO@close:0")
        for words in self.commands()[:-1]:
            with self.subTest(words=words[0]):
                more = ["-o", "-"] if words[0] == "gen" else []
                done = penstock(*words, *more, program=end_to_end.with_seams(PROGRAM), env=environment)
                self.refused(done, "Input/output error")

    def test_a_resumed_sort_syncs(self):
        source = self.write("in", numbers(1000))
        self.refused(penstock("sort", source, "--format", "u64", "-o", self.folder / "out", "--resume", "--no-sync"), "--no-sync")

    def test_an_input_that_changes_is_not_replaced(self):
        """Standard input comes last, so that the run waits while the test changes the file that it has opened before."""
        source = self.write("in", b"b\na\n")
        child = subprocess.Popen([PROGRAM, "sort", source, "-", "-o", source], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        with child:
            end_to_end.wait_until_it_catches(child, signal.SIGINT)
            self.wait_until_open(child, source)
            with source.open("ab") as file:
                file.write(b"new\n")
            _, message = child.communicate(b"c\n", timeout=60)
        self.assertEqual(child.returncode, 2, message)
        self.assertEqual(source.read_bytes(), b"b\na\nnew\n")
        kept, = self.folder.glob("in.new-*")
        self.assertEqual(kept.read_bytes(), b"a\nb\nc\n")
        self.assertIn(str(kept), message.decode())

    def wait_until_open(self, child, path):
        folder = pathlib.Path(f"/proc/{child.pid}/fd")
        deadline = time.monotonic() + 60
        while child.poll() is None:
            self.assertLess(time.monotonic(), deadline, f"{path} is never opened")
            for descriptor in folder.iterdir():
                try:
                    if os.readlink(descriptor) == str(path):
                        return
                except FileNotFoundError:
                    pass  # the pipe was closed meanwhile
            time.sleep(0.005)


class Told(Case):
    """Statistics and reports of a sort."""

    def test_statistics_replace_no_input_nor_output(self):
        data = numbers(1000)
        source, output = self.write("in", data), self.folder / "out"
        (self.folder / "link").symlink_to(source)
        for option in ("--stats", "--report"):
            for path in (source, self.folder / "link", output):
                with self.subTest(option=option, path=path):
                    self.refused(penstock("sort", source, "--format", "u64", "-o", output, option, path), "cannot write ", str(path))
                    self.assertEqual((source.read_bytes(), output.exists()), (data, False))

    def test_a_notice_shows_names_that_act(self):
        folder = self.folder / "a\n\x1b[2J"
        folder.mkdir()
        if MEMORY != "32M":
            self.skipTest("with the memory of a sanitizer nothing is left to resume")
        source = self.write("in", os.urandom(48 * MIB))
        done = penstock("sort", source, "--format", "u64", "-S", MEMORY, "-T", folder, "-o", self.folder / "out", "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"\x1b", done.stderr)
        self.assertIn(rb"a\x0a\x1b[2J/", done.stderr)


class PowerCut(Case):
    """The file system drops unsynced data, as in a power cut."""

    def test_finished_outputs_survive_a_power_cut(self):
        source = self.write("in", numbers(3 * MIB // 8))
        for words, names in ((["sort", source, "--format", "u64", "-S", MEMORY, "-o", "out"], ["out"]),
                             (["partition", source, "--format", "u64", "--parts", 5, "-o", "part-{}"],
                              [f"part-{i}" for i in range(5)]),
                             (["cat", source, "-o", "out"], ["out"]),
                             (["gen", "--format", "lines", "--count", 10000, "-o", "out"], ["out"])):
            with self.subTest(words=words[0]):
                before, after = self.cut(words, names)
                self.assertEqual(before, after)

    def cut(self, words, names):
        """Hashes of the files after the run, and after the power cut that follows."""
        image = self.write("image", b"")
        os.truncate(image, 64 * MIB)
        self.system("mkfs.ext4", "-q", "-F", image)
        point = self.folder / "mounted"
        point.mkdir(exist_ok=True)
        self.system("mount", "-o", "loop", image, point)
        mounted = True
        try:
            done = penstock(*words, cwd=point)
            self.assertEqual(done.returncode, 0, done.stderr)
            before = [content_of(point / name) for name in names]
            folder = os.open(point, os.O_RDONLY)
            try:
                fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, struct.pack("<I", NO_FLUSH))
            except OSError as error:
                self.skipTest(f"no power cut here: {error}")
            finally:
                os.close(folder)
            subprocess.run(["umount", point], check=True)
            mounted = False
            self.system("mount", "-o", "loop", image, point)
            mounted = True
            return before, [content_of(point / name) for name in names]
        finally:
            if mounted:
                subprocess.run(["umount", point])


def content_of(path):
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return error.errno


if __name__ == "__main__":
    end_to_end.main("output_end_to_end")
