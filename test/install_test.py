"""The files of `cmake --install` can be used by CMake and pkg-config, in C++, C, Rust and Go.

Installs the build to a folder, moves that, and builds and runs the small programs of test/consumer with it. Languages
whose tools are not on the machine are named and left out. With "packages" after the arguments, CPack's packages of the
build are unpacked and used instead.
Usage: install_test.py SOURCE BUILD CMAKE CXX CC [packages]
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout.strip()


def unpack(kind, made, root):
    """Unpacks the packages to the folder `root`; returns their prefix and their folder of libraries there."""
    root.mkdir()
    if kind == "RPM":
        # A real installation, with a database of installed files.
        run("rpm", "--root", root, "--initdb")
        run("rpm", "--root", root, "-i", "--nodeps", "--noscripts", *made)
        changed = run("rpm", "--root", root, "-V", "penstock", "penstock-libs", "penstock-devel", "--nodeps")
        assert not changed, f"what was installed is not what {made} have: {changed}"
        return root / "usr", root / "usr/lib64"
    for package in made:
        run(*(["dpkg", "-x", package, root] if kind == "DEB" else ["tar", "-xzf", package, "-C", root, "--strip-components=1"]))
    prefix = root / "usr" if kind == "DEB" else root
    return prefix, prefix / "lib"


# Files of each package of Debian, among others, and a part of its dependencies.
DEBIAN = {
    "penstock": (["usr/bin/penstock", "usr/share/man/man1/penstock-sort.1.gz"], "libc6"),
    "libpenstock0.1": (["usr/lib/libpenstock.so.0.1"], "libc6"),
    "libpenstock-dev": (["usr/lib/libpenstock.so", "usr/lib/libpenstock.a", "usr/include/penstock/files.h", "usr/lib/pkgconfig/penstock.pc",
                         "usr/lib/cmake/penstock/penstockConfig.cmake"], "libpenstock0.1 (= 0.1.0), liburing-dev"),
    "python3-penstock": (["usr/lib/python3/dist-packages/penstock/__init__.py"], "python3-numpy"),
}


def check_split(made):
    """Each file of Debian's packages is in one of them; each has its dependencies, its licence and its changes."""
    packages = {run("dpkg-deb", "-f", package, "Package"): package for package in made}
    assert set(DEBIAN) - {"python3-penstock"} <= set(packages) <= set(DEBIAN), packages
    owners = {}
    for name, package in packages.items():
        listed = run("dpkg-deb", "-c", package).split("\n")
        files = [line.split(" ./", 1)[1].split(" -> ")[0] for line in listed if not line.endswith("/")]
        for file in files:
            assert owners.setdefault(file, name) == name, f"{file} is in {name} and {owners[file]}"
        expected, depends = DEBIAN[name]
        for file in (*expected, f"usr/share/doc/{name}/copyright", f"usr/share/doc/{name}/changelog.gz"):
            assert file in files, (name, file, files)
        fields = run("dpkg-deb", "-f", package)
        assert depends in re.search("^Depends: (.*)", fields, re.MULTILINE).group(1), fields
        assert "\nSuggests:" not in fields and re.search(r"^Maintainer: .+ <\S+@\S+>$", fields, re.MULTILINE), fields
    if shutil.which("lintian"):
        run("lintian", "--fail-on", "error", "--allow-root", *made)
    print("install: lintian finds no errors" if shutil.which("lintian") else "install: no lintian here")


def check_packages(consumer, build, cmake, cc):
    cpack = pathlib.Path(cmake).with_name("cpack") if "/" in cmake else "cpack"
    can_rpm = shutil.which("rpmbuild") and os.geteuid() == 0  # rpm --root changes the root
    if not can_rpm:
        print("install: no rpmbuild here, or not root: the .rpm was not tried")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "in").write_text("b\nc\na\n")
        kinds = ["TGZ"] + (["DEB"] if shutil.which("dpkg-shlibdeps") else []) + (["RPM"] if can_rpm else [])
        for kind in kinds:
            run(cpack, "--config", f"{build}/CPackConfig.cmake", "-G", kind, "-B", folder / f"made-{kind}")
            made = sorted((folder / f"made-{kind}").glob({"TGZ": "*.tar.gz", "DEB": "*.deb", "RPM": "*.rpm"}[kind]))
            if kind == "DEB":
                check_split(made)
            root = folder / kind
            prefix, libraries = unpack(kind, made, root)
            page = "penstock-sort.1.gz" if kind == "DEB" else "penstock-sort.1"
            for file in ("libpenstock.a", "libpenstock.so.0.1", "cmake/penstock/penstockConfig.cmake"):
                assert (libraries / file).exists(), (kind, file)
            for file in ("bin/penstock", "include/penstock/files.h", f"share/man/man1/{page}"):
                assert (prefix / file).exists(), (kind, file)
            assert "penstock" in run(prefix / "bin/penstock", "--version")
            run(prefix / "bin/penstock", "sort", folder / "in", "-o", folder / "out")
            assert (folder / "out").read_text() == "a\nb\nc\n", kind
            environment = dict(os.environ, PKG_CONFIG_PATH=f"{libraries}/pkgconfig", LD_LIBRARY_PATH=str(libraries))
            if kind == "RPM":  # like a build for another system
                environment |= {"PKG_CONFIG_LIBDIR": environment.pop("PKG_CONFIG_PATH"), "PKG_CONFIG_SYSROOT_DIR": str(root)}
            flags = run("pkg-config", "--cflags", "--libs", "penstock", env=environment).split()
            run(cc, "-std=c11", consumer / "main.c", "-o", root / "c", *flags)
            assert run(root / "c", folder / "in", folder / "out", env=environment) == "streamed, 3 lines sorted"
            # The CMake package finds the libraries. (On Debian, CMake does not look for the package in lib64.)
            run(cmake, "-S", consumer / "package", "-B", root / "package", f"-Dpenstock_DIR={libraries}/cmake/penstock",
                "-DLANGUAGES=C", f"-DCMAKE_C_COMPILER={cc}")
            run(cmake, "--build", root / "package")
            assert run(root / "package/with_c", folder / "in", folder / "out", env=environment) == "streamed, 3 lines sorted"
            print(f"install: what is in the {kind} works")


def main():
    source, build, cmake, cxx, cc = sys.argv[1:6]
    if sys.argv[6:] == ["packages"]:
        check_packages(pathlib.Path(source) / "test/consumer", build, cmake, cc)
        return
    consumer = pathlib.Path(source) / "test/consumer"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run(cmake, "--install", build, "--prefix", folder / "first", "--strip")
        prefix = folder / "moved"  # the installed files contain no path
        (folder / "first").rename(prefix)
        libraries = prefix / "lib"
        assert (prefix / "bin/penstock").exists() and (libraries / "libpenstock.so.0.1").exists()
        headers = prefix / "include/penstock"
        included = set(re.findall(r'"penstock/(\w+\.h)"', (headers / "penstock.hpp").read_text()))
        there = {path.name for path in headers.glob("*.h")} - {"penstock.h"}
        assert included == there, f"penstock.hpp differs from what is installed in {included ^ there}"
        environment = dict(os.environ, PKG_CONFIG_PATH=str(libraries / "pkgconfig"), LD_LIBRARY_PATH=str(libraries))
        (folder / "in").write_text("b\nc\na\n")

        def flags(*arguments):
            return run("pkg-config", *arguments, env=environment).split()

        def uses_files(way, program):
            out = folder / "out"
            told = run(program, folder / "in", out, env=environment)
            assert told == "streamed, 3 lines sorted", (way, told)
            assert out.read_text() == "a\nb\nc\n", way
            print(f"install: {way}")

        for name, languages in (("package", "C;CXX"), ("package_c", "C")):
            run(cmake, "-S", consumer / "package", "-B", folder / name, f"-DCMAKE_PREFIX_PATH={prefix}",
                f"-DLANGUAGES={languages}", f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_C_COMPILER={cc}")
            run(cmake, "--build", folder / name)
        uses_files("find_package, C++", folder / "package/with_cpp")
        uses_files("find_package, C", folder / "package/with_c")
        uses_files("find_package, C, static", folder / "package/with_c_static")
        uses_files("find_package, C alone, static", folder / "package_c/with_c_static")
        # Distributions package it without the archive.
        shared_prefix = folder / "without the archive"
        shutil.copytree(prefix, shared_prefix, symlinks=True)
        (shared_prefix / "lib/libpenstock.a").unlink()
        run(cmake, "-S", consumer / "package", "-B", folder / "package_shared", f"-DCMAKE_PREFIX_PATH={shared_prefix}",
            "-DLANGUAGES=C", "-DCOMPONENTS=shared", f"-DCMAKE_C_COMPILER={cc}")
        run(cmake, "--build", folder / "package_shared")
        uses_files("find_package, COMPONENTS shared, without the archive", folder / "package_shared/with_c")
        refused = subprocess.run([cmake, "-S", consumer / "package", "-B", folder / "package_refused",
                                  f"-DCMAKE_PREFIX_PATH={shared_prefix}", "-DLANGUAGES=C", f"-DCMAKE_C_COMPILER={cc}"],
                                 capture_output=True, text=True)
        assert refused.returncode != 0 and "COMPONENTS shared has the C interface" in refused.stderr, refused.stderr
        strict = ["-pedantic", "-Wall", "-Wextra", "-Werror"]
        run(cc, "-std=c11", *strict, consumer / "main.c", "-o", folder / "c", *flags("--cflags", "--libs", "penstock"))
        uses_files("pkg-config, C, shared", folder / "c")
        static = flags("--cflags", "--libs", "--static", "penstock-static")
        run(cc, "-std=c11", consumer / "main.c", "-o", folder / "c_static", *static)
        uses_files("pkg-config, C, static", folder / "c_static")
        run(cxx, "-std=c++23", consumer / "main.cc", "-o", folder / "cpp", *static)
        uses_files("pkg-config, C++", folder / "cpp")
        # The C header must compile as C++.
        run(cxx, "-std=c++23", *strict, "-fsyntax-only", "-include", prefix / "include/penstock/penstock.h", "-x", "c++",
            "/dev/null")

        bindings = pathlib.Path(source) / "bindings"
        declared = set(re.findall(r"pub fn (penstock_\w+)", (bindings / "rust/penstock-sys/src/bindings.rs").read_text()))
        functions = set((pathlib.Path(source) / "src/interfaces/c/symbols.txt").read_text().split())
        assert functions <= declared, f"bindings/rust/penstock-sys/declare.sh >src/bindings.rs declares {functions - declared}"
        if shutil.which("cargo"):
            shutil.copytree(bindings / "rust", folder / "rust")
            run("cargo", "build", "-q", "--offline", "--example", "sort", cwd=folder / "rust", env=environment)
            told = run(folder / "rust/target/debug/examples/sort", folder / "in", folder / "out", env=environment)
            assert told == "[1, 2, 3] [1, 2, 0] true", told
        print("install: Rust" if shutil.which("cargo") else "install: no cargo here, Rust was not tried")
        if shutil.which("go"):
            # Go's cache remembers the library's path from pkg-config, so it must always be the same; the
            # cache also has Go's own library, compiled for test/others.
            installed = pathlib.Path(build) / "go-installed"
            installed.unlink(missing_ok=True)
            installed.symlink_to(prefix)
            go = dict(environment, GOCACHE=f"{build}/test/others/go-cache", GOFLAGS="", GOTOOLCHAIN="local", CC=cc,
                      PKG_CONFIG_PATH=f"{installed}/lib/pkgconfig")
            run("go", "build", "-o", folder / "go_program", "./example", env=go, cwd=bindings / "go")
            told = run(folder / "go_program", folder / "in", folder / "out", env=environment)
            assert told == "[1 2 3] true", told
        print("install: Go" if shutil.which("go") else "install: no go here, Go was not tried")


main()
