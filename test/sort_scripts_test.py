#!/usr/bin/env python3
"""The program under the name sort, in scripts of others: sort_scripts_test.py PENSTOCK [TEST...].

A folder with a link `sort` to the program stands first in PATH. The examples of GNU sort's manual are in gnu_sort_manual.txt, each with
its output; the scripts of others are run once with ours and once with the system's, where both are installed.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import end_to_end

EXAMPLES = pathlib.Path(__file__).with_name("gnu_sort_manual.txt")


def read_examples():
    """({name: text}, [(command, output)]): "== NAME" begins a file, "$ COMMAND" a command."""
    files, commands, lines = {}, [], []
    for line in EXAMPLES.read_text().splitlines(keepends=True):
        if line.startswith("== "):
            lines = files.setdefault(line[3:-1], [])
        elif line.startswith("$ "):
            lines = []
            commands.append((line[2:-1], lines))
        else:
            lines.append(line)
    return {name: "".join(text) for name, text in files.items()}, [(command, "".join(text)) for command, text in commands]


class Scripts(end_to_end.Case):
    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        (self.bin / "sort").symlink_to(os.path.abspath(sys.argv[1]))
        self.environment = {"ours": dict(os.environ, LC_ALL="C", PATH=f"{self.bin}:{os.environ['PATH']}"),
                            "theirs": dict(os.environ, LC_ALL="C")}

    def script(self, script, which="ours", code=0, stdin=b"", name="work", **environment):
        folder = self.folder / which / name
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["bash", "-c", script], cwd=folder, input=stdin, capture_output=True, timeout=120,
                              env=dict(self.environment[which], **environment))
        if code is not None:
            self.assertEqual(done.returncode, code, (script, done.stderr))
        return done

    def same(self, script, **more):
        ours = self.script(script, **more)
        theirs = self.script(script, "theirs", **more)
        self.assertEqual(ours.stdout, theirs.stdout, script)
        self.assertNotEqual(ours.stdout, b"", script)
        return ours

    def needs(self, *programs):
        for program in programs:
            if shutil.which(program) is None and not os.path.exists(program):
                self.skipTest(f"{program} is not installed")

    def test_the_manuals_examples(self):
        files, commands = read_examples()
        self.assertGreater(len(commands), 60)
        for at, (command, output) in enumerate(commands):
            work = self.folder / "ours" / str(at)
            work.mkdir(parents=True)
            for name, text in files.items():
                (work / name).write_text(text)
            with self.subTest(command=command):
                done = self.script(command, code=None, name=str(at)).stdout.decode()
                self.assertEqual(done + ("\n" if done and not done.endswith("\n") else ""), output)

    def test_sorted_files_suit_comm_join_uniq_and_look(self):
        self.needs("look")
        # 40,000 words that repeat, of letters, digits and other characters.
        words = "\n".join(f"{self.random.choice('abAB_-.~ 0')}{self.random.randrange(9999):x}" for _ in range(40_000))
        for which in ("ours", "theirs"):
            folder = self.folder / which / "work"
            folder.mkdir(parents=True)
            (folder / "a").write_text(words)
            (folder / "b").write_text(words[len(words) // 3:])
        self.same("sort a > a.sorted && sort b > b.sorted && comm --check-order a.sorted b.sorted")
        self.same("sort -k1b,1 a > a.keys && sort -k1b,1 -u b > b.keys && join --check-order a.keys b.keys")
        self.same("sort a | uniq -c | sort -rn | head -50")
        self.same("sort -f a | uniq -ci | sort -k1,1nr -k2 | head -50")
        self.same("sort -d -f a > words && look a1 words; look -d b words | wc -l")
        self.same("sort -m <(sort a) <(sort b) <(sort -u a) | cksum")
        self.same("sort -c a.sorted && sort -C a || echo $?")

    def test_a_pipe_that_nobody_reads_to_its_end(self):
        done = self.script("seq 300000 | sort -rn | head -1; echo ${PIPESTATUS[1]}")
        self.assertEqual(done.stdout.split(b"\n")[0], b"300000")
        self.assertIn(done.stdout.split(b"\n")[1], (b"0", b"141"))
        self.assertEqual(done.stderr, b"")

    def test_a_makefile_with_sorts_side_by_side(self):
        self.needs("make")
        makefile = ("parts = $(patsubst %.in,%.out,$(sort $(wildcard *.in)))\nall: $(parts)\n\tsort -n -m $(parts) -o all\n"
                    "%.out: %.in\n\tsort -n $< -o $@\n")
        for which in ("ours", "theirs"):
            folder = self.folder / which / "work"
            folder.mkdir(parents=True)
            (folder / "Makefile").write_text(makefile)
            for part in range(8):
                (folder / f"{part}.in").write_text("".join(f"{(i * 7919 + part) % 10007}\n" for i in range(5000)))
        self.same("make -s -j4 && cksum < all")

    def test_the_environments_locale(self):
        locales = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
        print("locales:", " ".join(locales))
        for locale in ["C", "C.UTF-8", "POSIX", "xx_NO.such", *locales]:
            with self.subTest(locale=locale):
                self.same("printf 'b\\nB\\na\\nA\\n-a\\n\\303\\244\\n' | sort; printf '1,5\\n1.5\\n' | sort -g", LC_ALL=locale)

    def test_messages_and_exit_codes(self):
        for script, code, told in (("sort nofile", 2, b"sort: nofile: cannot open: No such file or directory\n"),
                                   ("printf 'b\\na\\n' | sort -c", 1, b"sort: -:2: disorder: a\n"),
                                   ("printf 'b\\na\\n' | sort -C", 1, b""),
                                   ("sort --no-such-option", 2, b"sort: no option --no-such-option\nTry 'sort --help'.\n"),
                                   ("sort -k0", 2, None), ("sort -o /no/such/folder/x /dev/null", 2, None)):
            with self.subTest(script=script):
                done = self.script(script, code=code)
                if told is not None:
                    self.assertEqual(done.stderr, told)
                self.assertTrue(code != 2 or done.stderr.startswith(b"sort: "), done.stderr)
        self.assertIn(b"sort (Penstock)", self.script("sort --version").stdout)
        self.assertIn(b"Usage: sort [OPTION]... [FILE]...", self.script("sort --help").stdout)
        # Any amount of memory is accepted; compressed inputs are not decompressed.
        self.assertEqual(self.script("printf 'b\\na\\n' | sort -S 1").stdout, b"a\nb\n")
        self.same("printf 'b\\na\\n' | gzip -n > x.gz; sort x.gz | cksum")

    def test_debian_scripts(self):
        ran = 0
        for program, script in (
                ("gendiff", "mkdir t; for f in b a c; do echo 1 > t/$f.old; echo 2 > t/$f; done; gendiff t .old | grep '^diff\\|^[-+][0-9]'"),
                ("tzselect", "printf '2\\n4\\n1\\n' | tzselect 2>&1 | grep -v ' is now:' | head -80; tzselect -n 5 -c +4852+00220 <<< 1 2>&1 | grep -v ' is now:' | head -12"),
                ("/usr/sbin/update-ca-certificates",
                 "mkdir certs local etc hooks; for n in b a c; do openssl req -x509 -newkey ed25519 -nodes -subj /CN=$n -keyout /dev/null"
                 " -out local/$n.crt 2>/dev/null; done; touch conf; /usr/sbin/update-ca-certificates --verbose --certsconf $PWD/conf --certsdir $PWD/certs"
                 " --localcertsdir $PWD/local --etccertsdir $PWD/etc --hooksdir $PWD/hooks >/dev/null 2>&1; ls etc | grep pem; openssl crl2pkcs7 -nocrl"
                 " -certfile etc/ca-certificates.crt | openssl pkcs7 -print_certs -noout | grep subject"),
                ("/usr/share/debootstrap/functions",
                 ". /usr/share/debootstrap/functions 2>/dev/null; without 'c b a d' 'b d'; echo 'z y x y' | tr ' ' '\\n' | sort | uniq"),
                ("dpkg", "dpkg-query -W -f '${Package} ${Installed-Size}\\n' | sort -k2,2nr -k1,1 | head -40; ls -R /usr/share/doc | sort -k1,1f | cksum"),
                ("git", "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && for i in 10 9 1; do git tag v$i; done;"
                        " git tag | sort -V; git for-each-ref --format='%(refname)' | sort -r")):
            if shutil.which(program) is None and not os.path.exists(program):
                print(f"{program} is not installed")
                continue
            with self.subTest(program=program):
                self.same(script, name=os.path.basename(program))
            ran += 1
        if ran == 0:
            self.skipTest("none of the scripts is installed")


if __name__ == "__main__":
    print(f"seed {end_to_end.SEED}")
    end_to_end.main("sort_scripts")
