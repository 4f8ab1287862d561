"""The public headers compile in users' programs.

Each case is a small program that gcc and, where it is on the machine, clang compile or refuse: with other standards,
without exceptions, with libc++. Compilers and libraries that are not there are named and left out.
Usage: headers_test.py SOURCE CXX
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

IGNORED = """
#include "penstock/penstock.hpp"
void ignored(penstock::FileWriter& writer, penstock::Source& source, penstock::RewiredVector<int>& vector) {
  std::vector<uint64_t> keys{3, 1, 2};
  penstock::sort(keys);  // ignored
  penstock::sort_files({.inputs = {"in"}, .output = "out"});  // ignored
  writer.finish(0);  // ignored
  source.read({});  // ignored
  vector.try_push_back(1);  // ignored
  penstock::RemapStream::open({.bytes = 1});  // ignored
  (void)penstock::sort(keys);
}
"""

STRUCT = """
#include "penstock/sort.h"
#include <vector>
struct Pair { uint64_t key, value; };
void refused(std::vector<Pair>& pairs) { (void)penstock::sort(pairs); }
"""

# Every function that returns a Result has the version in its mangled name, also members of classes.
SYMBOLS = """
#include "penstock/files.h"
#include "penstock/stream.h"
void uses() {
  (void)penstock::sort_files({});
  (void)penstock::RemapStream::open({.bytes = 1});
}
"""

# A Result can be chained, as a std::expected can, and stays a Result.
CHAINS = """
#include "penstock/base.h"
#include <memory>
using penstock::Error, penstock::ErrorCode, penstock::Result, penstock::Status;
Result<int> half(int value) {
  if (value % 2 != 0) return penstock::failure(ErrorCode::invalid_argument, "halve");
  return value / 2;
}
Status nothing(int) { return {}; }
template <class Wanted, class Found>
void same(Found&&) { static_assert(std::is_same_v<Wanted, Found>); }
void chains(const Result<int>& number, Result<std::unique_ptr<int>> moved, Status status) {
  same<Status>(number.and_then(half).and_then(half).and_then(nothing));
  same<Result<int>>(number.or_else([](const Error&) -> Result<int> { return 0; }));
  same<Result<long>>(number.transform([](int value) { return long{value}; }));
  same<Status>(number.transform([](int) {}));
  struct OfLvalue {
    long operator()(int value) & { return value; }
    Error operator()(const Error& error) & { return error; }
  } of_lvalue;
  same<Result<long>>(number.transform(of_lvalue));
  same<Result<int>>(number.transform_error(of_lvalue));
  same<Result<int>>(number.transform_error([](Error error) { return error; }));
  same<std::expected<int, ErrorCode>>(number.transform_error([](const Error& error) { return error.code; }));
  same<Result<int>>(std::move(moved).and_then([](std::unique_ptr<int> to) { return half(*to); }));
  same<Result<std::unique_ptr<int>>>(std::move(moved).transform([](std::unique_ptr<int> to) { return to; }));
  same<Result<int>>(status.and_then([] { return half(2); }));
  same<Status>(status.or_else([](Error&) { return Status(); }));
  same<Result<int>>(status.transform([] { return 1; }));
  same<Status>(status.transform([] {}));
  same<Status>(status.transform_error([](const Error& error) { return error; }));
  same<std::expected<int, Error>>(number.and_then([](int value) { return std::expected<int, Error>(value); }));
}
"""

VERSION = """
#include "penstock/penstock.h"
#if PENSTOCK_VERSION < PENSTOCK_VERSION_OF(0, 1, 0) || PENSTOCK_VERSION != PENSTOCK_VERSION_OF(PENSTOCK_VERSION_MAJOR, \\
    PENSTOCK_VERSION_MINOR, PENSTOCK_VERSION_PATCH)
#error "the version"
#endif
"""


def main():
    source, cxx = sys.argv[1:3]
    include = pathlib.Path(source) / "include"
    clang = next((found for name in ("clang++", "clang++-19", "clang++-20", "clang++-18") if (found := shutil.which(name))), None)
    compilers = [cxx] + ([clang] if clang and clang != cxx else [])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def compiled(compiler, text, *options, to=None):
            (folder / "case.cc").write_text(text)
            output = ["-c", "-o", to] if to else ["-fsyntax-only"]
            done = subprocess.run([compiler, f"-I{include}", *options, *output, folder / "case.cc"], capture_output=True, text=True)
            return done.returncode, done.stderr

        def errors(text):
            return [line for line in text.splitlines() if "error:" in line]

        for compiler in compilers:
            name = pathlib.Path(compiler).name
            code, said = compiled(compiler, IGNORED, "-std=c++23", "-fno-exceptions", "-Wall", "-Wextra")
            assert code == 0, (name, said)
            warned = {int(line.split(":")[1]) for line in said.splitlines() if "warning:" in line}
            wanted = {number for number, line in enumerate(IGNORED.splitlines(), 1) if "// ignored" in line}
            assert warned == wanted, (name, warned, wanted, said)

            code, said = compiled(compiler, '#include "penstock/sort.h"\n', "-std=c++20")
            found = errors(said)
            assert code != 0 and "Penstock needs C++23" in found[0] and len(found) <= 2, (name, said)

            code, said = compiled(compiler, STRUCT, "-std=c++23")
            found = errors(said)
            assert code != 0 and len(found) == 1, (name, said)
            assert "KeyValue64" in found[0] and "sort_records" in found[0], (name, said)

            for language in ("c", "c++"):
                code, said = compiled(compiler, VERSION, "-x", language)
                assert code == 0, (name, language, said)

            code, said = compiled(compiler, CHAINS, "-std=c++23", "-Wall", "-Wextra")
            assert code == 0 and not said, (name, said)

            code, said = compiled(compiler, SYMBOLS, "-std=c++23", to=folder / "symbols.o")
            assert code == 0, (name, said)
            used = [word for line in subprocess.run(["nm", "-u", folder / "symbols.o"], capture_output=True, text=True,
                                                    check=True).stdout.splitlines() for word in line.split()[1:]]
            for function in ("10sort_files", "11RemapStream4open"):
                assert [symbol for symbol in used if function in symbol and "B4v0_1" in symbol], (name, function, used)
            print(f"headers: {name}: results have to be used, C++20 and structs are refused in a sentence")
        if clang is None:
            print("headers: no clang here: it was not tried")
            return
        if compiled(clang, "#include <vector>\n", "-std=c++23", "-stdlib=libc++")[0] != 0:
            print("headers: no libc++ here: it was not tried")
            return
        code, said = compiled(clang, '#include "penstock/penstock.hpp"\n', "-std=c++23", "-stdlib=libc++")
        assert code == 0, said
        code, said = compiled(clang, CHAINS, "-std=c++23", "-stdlib=libc++")
        assert code == 0, said
        print("headers: clang with libc++")


main()
