#!/usr/bin/env python3
"""The files of a release in empty roots of Debian: empty_root_test.py RELEASE [TEST...]. Takes minutes, and the net for Debian's packages and PyPI's.

RELEASE is the folder that tools/release.sh made. Each file is installed as its users do, in debootstrap's smallest root: Debian 12, on
which a release is made, and Debian 13, with a newer compiler and Python. The projects of test/consumer are built with the libraries.
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
RELEASE = pathlib.Path(sys.argv[1])
OLDEST_GLIBC = (2, 34)
STREAMED = "streamed, 3 lines sorted"


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout.strip()


def needs_glibc_alone(file):
    """Asserts that a program or library loads nothing but glibc, and of that nothing newer than OLDEST_GLIBC."""
    needed = set(re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", file)))
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, (file, needed)
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_([0-9.]+)", run("objdump", "-T", file))}
    assert (2, 14) <= max(versions) <= OLDEST_GLIBC, (file, sorted(versions))


class Files(unittest.TestCase):
    """Contents of the files, looked at without a root."""

    def test_tarball_needs_glibc_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            [tarball] = RELEASE.glob("penstock-*-linux-*.tar.gz")
            run("tar", "-xzf", tarball, "-C", folder, "--strip-components=1")
            for file in ("bin/penstock", "lib/libpenstock.so"):
                needs_glibc_alone(f"{folder}/{file}")
                hardening.check("readelf", f"{folder}/{file}")
                hardening.check_release("readelf", f"{folder}/{file}")

    def test_wheels_need_glibc_alone(self):
        wheels = sorted(RELEASE.glob("*.whl"))
        self.assertTrue(wheels)
        for wheel in wheels:
            self.assertRegex(wheel.name, r"-manylinux_2_%d_x86_64(\.\w+)?\.whl$" % OLDEST_GLIBC[1])
            with tempfile.TemporaryDirectory() as folder:
                shutil.unpack_archive(wheel, folder, "zip")
                [extension] = pathlib.Path(folder).glob("penstock/*.so")
                [program] = pathlib.Path(folder).glob("*.data/scripts/penstock")
                for file in (extension, program):
                    needs_glibc_alone(file)

    @unittest.skipUnless(shutil.which("rpm"), "no rpm here")
    def test_rpms_need_glibc_and_each_other(self):
        made = sorted(RELEASE.glob("*.rpm"))
        self.assertEqual(len(made), 3)
        provided = {line.split()[0] for file in made for line in run("rpm", "-qp", "--provides", file).split("\n")}
        for file in made:
            for need in run("rpm", "-qp", "--requires", file).split("\n"):
                known = re.match(r"(libc|libm|ld-linux-x86-64)\.so\.\d\(|rpmlib\(|rtld\(GNU_HASH\)|/(usr/)?s?bin/(sh|ldconfig)$", need)
                self.assertTrue(known or need.split()[0] in provided, f"{file.name} needs {need}")

    def test_checksums(self):
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=RELEASE)


class EmptyRoot:
    """Tests in a root of `suite`."""

    suite = ""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise unittest.SkipTest("only root makes roots, by debootstrap")
        folder = tempfile.TemporaryDirectory(prefix="penstock-root-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name) / "root"
        run("debootstrap", "--variant=minbase", cls.suite, cls.root)
        for name in ("/etc/resolv.conf", "/etc/hosts"):
            if os.path.exists(name):
                shutil.copy(name, f"{cls.root}{name}")
        # pip and uv get the machine's certificates.
        cls.certificates = []
        if os.path.exists(os.environ.get("SSL_CERT_FILE", "")):
            shutil.copy(os.environ["SSL_CERT_FILE"], cls.root / "certificates")
            cls.certificates = [f"{name}=/certificates" for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")]
        shutil.copytree(RELEASE, cls.root / "release")
        shutil.copytree(SOURCE, cls.root / "source", ignore=shutil.ignore_patterns("build", ".git"))
        (cls.root / "root/in").write_text("b\nc\na\n")
        cls.inside("apt-get update -q")

    @classmethod
    def inside(cls, script):
        """Runs the script in the root, with its own /proc and terminals."""
        return run("unshare", "--mount", "--pid", "--fork", f"--root={cls.root}", "--mount-proc=/proc", "--kill-child", "/usr/bin/env", "-u",
                   "PYTHONPATH", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "HOME=/root", *cls.certificates,
                   "/bin/bash", "-ec", f"mount -t devpts devpts /dev/pts; install() {{ apt-get install -y -q --no-install-recommends \"$@\"; }}; cd /root; {script}")

    def sorts(self, penstock):
        told = self.inside(f"{penstock} gen --format u64 --count 12000000 -o in.u64; {penstock} sort in.u64 -o out --format u64 -S 32M; "
                           f"{penstock} check out --format u64; rm in.u64 out")
        self.assertIn("out: sorted; 12000000 items", told)

    def sorts_in_python(self, python):
        told = self.inside(f"{python} -c 'import numpy, penstock; a = numpy.arange(9)[::-1].copy(); penstock.sort(a); print(a)'")
        self.assertEqual(told, "[0 1 2 3 4 5 6 7 8]")

    def compiles(self, prefix):
        """Builds the consumers, in C and C++, by pkg-config and CMake. The archive needs what libpenstock-dev depends on."""
        path = f"export PKG_CONFIG_PATH={prefix}/lib/pkgconfig LD_LIBRARY_PATH={prefix}/lib; "
        self.inside("rm -rf b c cc")
        shared = "gcc -std=c11 /source/test/consumer/main.c -o c $(pkg-config --cflags --libs penstock); ./c in out"
        self.assertEqual(self.inside(path + shared), STREAMED)
        static = "g++ -std=c++23 /source/test/consumer/main.cc -o cc $(pkg-config --static --cflags --libs penstock-static); ./cc in out"
        self.assertEqual(self.inside(path + static), STREAMED)
        self.inside(f"{path} cmake -S /source/test/consumer/package -B b -DCMAKE_PREFIX_PATH={prefix}; cmake --build b")
        for program in ("with_cpp", "with_c", "with_c_static"):
            self.assertEqual(self.inside(f"{path} b/{program} in out"), STREAMED, program)

    def test_0_sources_name_what_they_lack(self):
        self.inside("install python3-venv; python3 -m venv v")
        self.assertIn("apt install g++ pkg-config liburing-dev", self.inside("v/bin/pip install /source 2>&1 || true"))

    def test_1_tarball_needs_nothing(self):
        self.inside("mkdir /anywhere; tar -xzf /release/penstock-*-linux-*.tar.gz -C /anywhere --strip-components=1")
        self.sorts("/anywhere/bin/penstock")

    def test_2_debs_bring_what_they_need(self):
        self.inside("install /release/penstock_*.deb")
        self.sorts("penstock")
        self.assertEqual(self.inside("test -f /usr/share/man/man1/penstock-sort.1.gz && test -f /usr/share/doc/penstock/copyright && echo there"), "there")
        self.inside("install gcc g++ libc6-dev cmake make pkg-config; install /release/libpenstock*.deb")
        self.compiles("/usr")

    def test_3_deb_of_python(self):
        if self.suite != "bookworm":
            raise unittest.SkipTest("the package is for Debian 12's Python")
        self.inside("install /release/python3-penstock_*.deb")
        self.sorts_in_python("python3")

    def test_4_libraries_of_the_tarball(self):
        self.compiles("/anywhere")

    def wheel(self):
        """The wheel for the root's Python, as the manual names it."""
        minor = int(self.inside("python3 -c 'import sys; print(sys.version_info.minor)'"))
        return f"/release/penstock-*-{'cp311' if minor == 11 else 'cp312'}-*.whl"

    def test_5_wheel_by_pip(self):
        self.inside(f"v/bin/pip install -q {self.wheel()}")
        self.sorts_in_python("v/bin/python")
        self.sorts("v/bin/penstock")

    def test_6_wheel_by_uv(self):
        self.inside(f"v/bin/pip install -q uv; v/bin/uv tool install -q {self.wheel()}; v/bin/uv venv -q u; VIRTUAL_ENV=u v/bin/uv pip install -q {self.wheel()}")
        self.sorts(".local/bin/penstock")
        self.sorts_in_python("u/bin/python")

    def test_7_wheel_by_pipx(self):
        self.inside(f"v/bin/uv tool uninstall -q penstock; install pipx; pipx install {self.wheel()}")
        self.sorts(".local/bin/penstock")


    def test_9_setup_installs_what_the_build_needs(self):
        """Up to the compiler. (`./check ci` compiles it.)"""
        self.assertIn("Build files have been written to", self.inside("cd /source; tools/setup.sh python; cmake --preset static"))


class Debian12(EmptyRoot, unittest.TestCase):
    suite = "bookworm"

    def test_8_dockerfile(self):
        lines = re.findall(r"^RUN (.*)$", (SOURCE / "Dockerfile").read_text(), re.MULTILINE)
        self.assertEqual(lines[:2], ["tools/setup.sh", "tools/build.sh static"])


class Debian13(EmptyRoot, unittest.TestCase):
    suite = "trixie"


if __name__ == "__main__":
    end_to_end.main("empty_root")
