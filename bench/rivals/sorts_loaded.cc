// Sorts from source packages: NumPy's x86-simd-sort, and two crates. The first bench that needs
// them builds them, like timely dataflow (see bench/papers/pipe.cc), and loads them.

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "bench/harness/child.h"
#include "bench/rivals/sorts.h"
#include "os/cpu.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* numpy_version = "2.3.5";

const fs::path sources = PENSTOCK_SOURCE_DIR "/bench/rivals";
const fs::path built = PENSTOCK_BINARY_DIR;

bool runs(const std::vector<std::string>& words, const std::vector<std::string>& environment = {}) {
  auto child = run_child(words, environment);
  return child && child->exit_code == 0;
}

bool is_newer(const fs::path& file, const fs::path& than) {
  std::error_code missing;
  const auto time = fs::last_write_time(file, missing);
  return !missing && time > fs::last_write_time(than);
}

// A library that stays loaded, or the reason why there is none.
struct Library {
  void* handle = nullptr;
  std::string problem;
};

Library load(const fs::path& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {handle, handle == nullptr ? "it does not load" : ""};
}

// A compiler's name of the processor as PENSTOCK_CPU limits it. Each has libraries of its own.
const char* machine() {
  switch (os::cpu_tier()) {
    case os::CpuTier::portable:
      return "x86-64";
    case os::CpuTier::avx2:
      return "haswell";
    case os::CpuTier::avx512:
      return "native";
  }
  return "native";
}

Library build_rust_sorts() {
  const fs::path target = built / "rust_sorts" / machine();
  const fs::path library = target / "release/librust_sorts.so";
  const fs::path project = sources / "rust_sorts";
  if (!is_newer(library, project / "src/lib.rs") || !is_newer(library, project / "Cargo.lock")) {
    if (std::system("cargo --version >/dev/null 2>&1") != 0) return {nullptr, "there is no cargo"};
    if (!runs({"cargo", "build", "--release", "--quiet", "--locked", "--manifest-path",
               project / "Cargo.toml", "--target-dir", target},
              {fmt::format("RUSTFLAGS=-Ctarget-cpu={}", machine())})) {
      return {nullptr, "cargo could not build it"};
    }
  }
  return load(library);
}

// Fetches NumPy's source package, of which only a folder of headers is used.
std::string fetch_x86_simd_sort(const fs::path& headers) {
  if (fs::exists(headers / "src/x86simdsort-static-incl.h")) return {};
  const std::string package = fmt::format("numpy-{}", numpy_version);
  const fs::path target = headers.parent_path();
  std::error_code problem;
  fs::create_directories(headers, problem);
  if (!runs({"python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--no-build-isolation", "--no-binary", "numpy", "--dest", target,
             fmt::format("numpy=={}", numpy_version)},
            {"PYTHONPATH=" + (sources / "x86_simd_sort").string(), "PYTHONDONTWRITEBYTECODE=1"})) {
    return "pip could not fetch NumPy's source";
  }
  return runs({"tar", "-xzf", target / (package + ".tar.gz"), "-C", headers, "--strip-components=6",
               package + "/numpy/_core/src/npysort/x86-simd-sort"})
             ? ""
             : "NumPy's source does not hold it";
}

Library build_x86_simd_sort(bool parallel) {
  if (os::cpu_tier() == os::CpuTier::portable) return {nullptr, "this processor has no AVX2"};
  const fs::path target = built / "x86_simd_sort";
  const fs::path library = target / machine() / (parallel ? "libparallel.so" : "libsequential.so");
  const fs::path source = sources / "x86_simd_sort/library.cc";
  if (!is_newer(library, source)) {
    const fs::path headers = target / "headers";
    if (std::string problem = fetch_x86_simd_sort(headers); !problem.empty()) {
      return {nullptr, problem};
    }
    std::error_code problem;
    fs::create_directories(library.parent_path(), problem);
    // g++ makes it 10 to 30 % faster than clang.
    std::vector<std::string> words = {
        "g++",   "-std=c++17", "-O3", fmt::format("-march={}", machine()),
        "-fPIC", "-shared",    "-w",  "-fvisibility=hidden"};
    if (parallel) words.insert(words.end(), {"-fopenmp", "-DXSS_USE_OPENMP=1"});
    words.insert(words.end(), {"-I", headers / "src", source, "-o", library});
    if (!runs(words)) return {nullptr, "g++ could not build it"};
  }
  return load(library);
}

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, uint32_t>) return "u32";
  if constexpr (std::is_same_v<T, uint64_t>) return "u64";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, KeyValue64>) return "kv64";
  return "record";
}

template <class T>
void add(Sorters<T>& sorters, const Library& library, const std::string& name,
         const std::string& function, std::pair<unsigned, unsigned> threads) {
  if (library.handle == nullptr) {
    sorters.missing.push_back(name + " (" + library.problem + ")");
    return;
  }
  using Sort = void (*)(T*, size_t, unsigned);
  auto sort = reinterpret_cast<Sort>(dlsym(library.handle, function.c_str()));
  if (sort == nullptr) {
    sorters.missing.push_back(name + " (its library lacks " + function + ")");
    return;
  }
  using Prepare = void (*)(size_t);
  auto prepare = reinterpret_cast<Prepare>(dlsym(library.handle, ("prepare_" + function).c_str()));
  sorters.found.push_back({name, sort, prepare, threads.first, threads.second});
}

}  // namespace

template <class T>
void add_loaded_sorts(Sorters<T>& sorters) {
  constexpr unsigned any = 64;
  const std::string type = type_name<T>();
  static const Library sequential = build_x86_simd_sort(false);
  static const Library parallel = build_x86_simd_sort(true);
  const std::string name = fmt::format("x86-simd-sort of NumPy {}", numpy_version);
  const char* how = "";
  if constexpr (std::is_same_v<T, KeyValue64>) how = ", split and joined";
  if constexpr (std::is_same_v<T, Record>) how = ", key prefixes, then a gather";
  add(sorters, sequential, name + how, "sort_" + type, {1, 1});
  add(sorters, parallel, name + how + ", OpenMP", "sort_" + type, {2, any});
  static const Library rust = build_rust_sorts();
  add(sorters, rust, "rdst", "rdst_" + type, {1, any});
  add(sorters, rust, "voracious_radix_sort", "voracious_" + type, {1, any});
  add(sorters, rust, "Rust's sort_unstable", "std_" + type, {1, 1});
}

template void add_loaded_sorts(Sorters<uint32_t>&);
template void add_loaded_sorts(Sorters<uint64_t>&);
template void add_loaded_sorts(Sorters<KeyValue64>&);
template void add_loaded_sorts(Sorters<double>&);
template void add_loaded_sorts(Sorters<Record>&);

template <class T>
Sorters<T> rival_sorts() {
  Sorters<T> sorters;
  add_compiled_sorts(sorters);
  add_loaded_sorts(sorters);
  return sorters;
}

template Sorters<uint32_t> rival_sorts();
template Sorters<uint64_t> rival_sorts();
template Sorters<double> rival_sorts();
template Sorters<KeyValue64> rival_sorts();
template Sorters<Record> rival_sorts();

}  // namespace penstock::bench
