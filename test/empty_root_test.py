#!/usr/bin/env python3
"""The packages in an empty Debian 12: empty_root_test.py BUILD STATIC_BUILD CMAKE [TEST...]. Takes minutes, and the net for Debian's packages.

The root is debootstrap's smallest. There the tarball, of the static build, needs nothing; the .deb, of BUILD, installs its
dependencies, and the projects of test/consumer are built with it. BUILD and STATIC_BUILD are built already.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import end_to_end
import hardening

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD, STATIC_BUILD, CMAKE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
del sys.argv[2:4]


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout.strip()


def needed(file):
    return set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", file)))


class EmptyRoot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise unittest.SkipTest("only root makes roots, by debootstrap")
        folder = tempfile.TemporaryDirectory(prefix="penstock-root-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        run("debootstrap", "--variant=minbase", "bookworm", cls.root)
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            if os.path.exists(name):
                shutil.copy(name, str(cls.root) + name)

    def inside(self, script):
        """Runs the script in the root, with its own /proc."""
        return run("unshare", "--mount", "--pid", "--fork", f"--root={self.root}", "--mount-proc=/proc", "--kill-child", "/bin/bash", "-ec",
                   f"cd /root; export DEBIAN_FRONTEND=noninteractive LC_ALL=C; {script}")

    def pack(self, build, kind, pattern):
        made = self.folder / kind
        run(pathlib.Path(CMAKE).with_name("cpack") if "/" in CMAKE else "cpack", "--config", build / "CPackConfig.cmake", "-G", kind, "-B", made)
        package, = made.glob(pattern)
        shutil.copy(package, self.root / "root")
        return package.name

    def sorts(self, penstock):
        told = self.inside(f"{penstock} gen --format u64 --count 12000000 -o in; {penstock} sort in -o out --format u64 -S 32M; "
                           f"{penstock} check out --format u64; rm in out")
        self.assertIn("out: sorted; 12000000 items", told)

    def test_1_tarball_needs_glibc_alone(self):
        for file in ("cli/penstock", "src/interfaces/c/libpenstock.so"):
            self.assertLessEqual(needed(STATIC_BUILD / file), {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, file)
            hardening.check("readelf", STATIC_BUILD / file)
            hardening.check_release("readelf", STATIC_BUILD / file)
        name = self.pack(STATIC_BUILD, "TGZ", "penstock-*.tar.gz")
        self.inside(f"mkdir /anywhere; tar -xzf {name} -C /anywhere --strip-components=1")
        self.sorts("/anywhere/bin/penstock")

    def test_2_deb_brings_what_it_needs(self):
        name = self.pack(BUILD, "DEB", "penstock*.deb")
        self.inside(f"apt-get update -q; apt-get install -y -q --no-install-recommends ./{name}")
        self.sorts("penstock")
        self.assertEqual(self.inside("test -f /usr/share/man/man1/penstock-sort.1 && test -f /usr/share/doc/penstock/LICENSE && echo there"), "there")

    def test_3_consumers_of_the_deb(self):
        shutil.copytree(SOURCE / "test/consumer", self.root / "root/consumer")
        told = "streamed, 3 lines sorted"
        self.inside("apt-get install -y -q --no-install-recommends gcc libc6-dev pkg-config; printf 'b\\nc\\na\\n' >in")
        shared = "gcc -std=c11 consumer/main.c -o c $(pkg-config --cflags --libs penstock); ./c in out"
        self.assertEqual(self.inside(shared), told)
        self.inside("apt-get install -y -q --no-install-recommends g++ cmake make libfmt-dev liburing-dev zlib1g-dev libzstd-dev liblz4-dev "
                    "liblzma-dev libbz2-dev libpcre2-dev libbpf-dev")
        static = "g++ -std=c++23 consumer/main.cc -o cc $(pkg-config --static --cflags --libs penstock-static); ./cc in out"
        self.assertEqual(self.inside(static), told)
        self.inside("cmake -S consumer/package -B b; cmake --build b")
        for program in ("with_cpp", "with_c", "with_c_static"):
            self.assertEqual(self.inside(f"b/{program} in out"), told, program)

    def test_4_dockerfile(self):
        """Runs the Dockerfile's lines up to the compiler: the build's packages are installed and found."""
        lines = re.findall(r"^RUN (.*)$", (SOURCE / "Dockerfile").read_text(), re.MULTILINE)
        self.assertEqual(lines[:2], ["tools/setup.sh", "tools/build.sh static"])
        shutil.copytree(SOURCE, self.root / "root/penstock", ignore=shutil.ignore_patterns("build", ".git"))
        told = self.inside(f"cd penstock; {lines[0]}; cmake --preset static")
        self.assertIn("Build files have been written to", told)


if __name__ == "__main__":
    end_to_end.main("empty_root")
