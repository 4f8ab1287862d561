// penstock doctor: reports the abilities of this machine, the choices made for it and why, and
// advice for more speed.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/amounts.h"
#include "base/wrapped.h"
#include "cli/common/command.h"
#include "cli/common/print.h"
#include "io/engine.h"
#include "io/file.h"
#include "io/temporaries.h"
#include "memory/pool/pool.h"
#include "os/cpu.h"
#include "os/limits.h"
#include "os/memory.h"
#include "os/userfault.h"
#include "penstock/base.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Fact {
  const char* key;  // in JSON
  const char* label;
  Json value;        // null: the system does not have or report it
  std::string text;  // the value as text
};

struct Section {
  const char* key;
  const char* title;
  std::vector<Fact> facts;
};

struct Choice {
  const char* key;
  const char* what;
  std::string chosen;
  std::string why;
};

struct Diagnosis {
  std::vector<Section> sections;
  std::vector<Choice> choices;
  std::vector<std::string> advice;
  bool blocks_move = true;  // some mechanism works; without one no stream opens
};

Fact bytes_fact(const char* key, const char* label, uint64_t bytes) {
  return {key, label, bytes, bytes_text(bytes)};
}

Fact limit_fact(const char* key, const char* label, const std::optional<uint64_t>& bytes) {
  if (!bytes) return {key, label, nullptr, "unlimited"};
  return bytes_fact(key, label, *bytes);
}

Fact size_fact(const char* key, const char* label, const std::optional<uint64_t>& bytes) {
  if (!bytes) return {key, label, nullptr, "unknown on this system"};
  return bytes_fact(key, label, *bytes);
}

Fact number_fact(const char* key, const char* label, const std::optional<uint64_t>& number) {
  if (!number) return {key, label, nullptr, "unknown on this system"};
  return {key, label, *number, std::to_string(*number)};
}

Fact text_fact(const char* key, const char* label, const std::optional<std::string>& text) {
  if (!text) return {key, label, nullptr, "unknown on this system"};
  return {key, label, *text, *text};
}

Fact ability_fact(const char* key, const char* label, bool works, const std::string& detail) {
  std::string text = works ? "works" : "does not work";
  if (!detail.empty()) text += works ? ", " + detail : ": " + detail;
  return {key, label, {{"works", works}, {"detail", detail}}, text};
}

std::string words_of_cpu(const os::CpuFeatures& cpu) {
  std::string words;
  auto add = [&](bool has, const char* word) {
    if (has) words += (words.empty() ? "" : " ") + std::string(word);
  };
  add(cpu.avx2, "avx2");
  add(cpu.bmi2, "bmi2");
  add(cpu.avx512f, "avx512f");
  add(cpu.avx512bw, "avx512bw");
  add(cpu.avx512cd, "avx512cd");
  add(cpu.avx512dq, "avx512dq");
  add(cpu.avx512vl, "avx512vl");
  add(cpu.avx512vbmi2, "avx512vbmi2");
  return words.empty() ? "none of those used here" : words;
}

// Whether Options::system_calls of streams is possible, found by trying.
Fact system_calls_fact() {
  auto userfault = os::Userfault::open_privileged();
  std::string text = userfault ? "possible" : userfault.error().message();
  return {"system_calls_on_streams", "system calls on a stream's pointer", userfault.has_value(),
          std::move(text)};
}

void examine_system(const os::Limits& limits, Diagnosis& diagnosis) {
  diagnosis.sections.push_back(
      {"system",
       "System",
       {{"kernel", "kernel", limits.kernel_release, limits.kernel_release},
        number_fact("cores_usable", "cores for this process", limits.cores_usable),
        text_fact("cpu_features", "processor features", words_of_cpu(limits.cpu)),
        bytes_fact("memory_bytes", "memory", limits.memory_bytes),
        bytes_fact("memory_available_bytes", "memory available", limits.memory_available_bytes),
        limit_fact("cgroup_bytes_max", "memory cgroup's limit", limits.cgroup_bytes_max),
        size_fact("cgroup_bytes_now", "memory cgroup's use", limits.cgroup_bytes_now),
        bytes_fact("usable_bytes", "memory usable here", limits.usable_bytes)}});
  diagnosis.sections.push_back(
      {"limits",
       "Limits",
       {number_fact("max_map_count", "mappings (vm.max_map_count)", limits.mappings_max),
        number_fact("overcommit_memory", "vm.overcommit_memory", limits.overcommit_memory),
        number_fact("unprivileged_userfaultfd", "vm.unprivileged_userfaultfd",
                    limits.unprivileged_userfaultfd),
        system_calls_fact(),
        limit_fact("address_space_bytes_max", "address space (ulimit -v)",
                   limits.address_space_bytes_max),
        limit_fact("locked_bytes_max", "locked memory (ulimit -l)", limits.locked_bytes_max),
        number_fact("files_max", "open files (ulimit -n)", limits.files_max)}});
  diagnosis.choices.push_back({"cpu", "instructions", std::string(os::name_of(limits.cpu_tier)),
                               limits.cpu_tier == os::tier_of(limits.cpu, "")
                                   ? "the best that the processor has"
                                   : "PENSTOCK_CPU hides the rest"});

  constexpr uint32_t least_major = 5, least_minor = 14;
  if (std::pair(limits.kernel_major, limits.kernel_minor) < std::pair(least_major, least_minor)) {
    diagnosis.advice.push_back(fmt::format("use Linux {}.{} or later: this one is not supported",
                                           least_major, least_minor));
  }
  if (limits.cpu_tier != os::tier_of(limits.cpu, "")) {
    diagnosis.advice.push_back("let all of the processor be used: unset PENSTOCK_CPU");
  }
  // Linux's default; with fewer mappings, streams of small blocks run out early.
  constexpr uint64_t usual_mappings_max = 65530;
  if (limits.mappings_max.value_or(usual_mappings_max) < usual_mappings_max) {
    diagnosis.advice.push_back(
        fmt::format("allow more mappings: sysctl vm.max_map_count={}", usual_mappings_max));
  }
  if (limits.address_space_bytes_max) {
    diagnosis.advice.push_back(
        "streams reserve far more addresses than memory: ulimit -v unlimited");
  }
}

void examine_huge_pages(const os::Limits& limits, Diagnosis& diagnosis) {
  diagnosis.sections.push_back(
      {"huge_pages",
       "Huge pages",
       {text_fact("anonymous", "anonymous memory", limits.huge_pages),
        text_fact("shared", "shared memory", limits.shared_huge_pages),
        text_fact("defrag", "made by waiting (defrag)", limits.huge_page_defrag),
        number_fact("reserved_free", "reserved pages free (hugetlb)",
                    limits.reserved_huge_pages_free)}});
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  if (limits.huge_pages == "never") {
    diagnosis.advice.push_back("allow huge pages: echo madvise > " + folder + "enabled");
  }
  if (limits.huge_page_defrag == "never") {
    diagnosis.advice.push_back("let huge pages be made when they are wanted: echo madvise > " +
                               folder + "defrag");
  }
}

// The reason for the pool's choice; src/memory/pool/pool.cc has the measurements.
std::string why_chosen(pool::Use use, pool::Mechanism mechanism, bool small_blocks) {
  if (small_blocks) {
    return mechanism == pool::Mechanism::uffd_move
               ? "blocks this small move faster than by mremap"
               : "uffd_move would move small blocks faster, but cannot be used here";
  }
  if (use == pool::Use::same_thread) {
    return "one thread moves its own blocks, huge pages whole, and leaves nothing mapped";
  }
  return mechanism == pool::Mechanism::shared
             ? "both threads run on while blocks move"
             : "shared memory has no huge pages here, without which it is slower";
}

void choose_pool(const char* key, const char* what, pool::Use use, size_t block_bytes,
                 const std::vector<pool::MechanismReport>& reports, Diagnosis& diagnosis) {
  const pool::Mechanism chosen = pool::preferred(use, block_bytes);
  const bool works = std::ranges::any_of(reports, [&](const pool::MechanismReport& report) {
    return report.mechanism == chosen && report.works;
  });
  const bool mremap_works = std::ranges::any_of(reports, [](const pool::MechanismReport& report) {
    return report.mechanism == pool::Mechanism::mremap && report.works;
  });
  if (!works) {
    diagnosis.choices.push_back({key, what, "none", "no mechanism works here"});
  } else if (!mremap_works && block_bytes >= os::huge_page_bytes) {
    diagnosis.choices.push_back({key, what, pool::name_of(chosen), "mremap does not work here"});
  } else {
    diagnosis.choices.push_back({key, what, pool::name_of(chosen),
                                 why_chosen(use, chosen, block_bytes < os::huge_page_bytes)});
  }
}

void examine_pools(const os::Limits& limits, Diagnosis& diagnosis) {
  Section section{"mechanisms", "How blocks of memory move", {}};
  const std::vector<pool::MechanismReport> reports = pool::probe();
  for (const pool::MechanismReport& report : reports) {
    section.facts.push_back(
        ability_fact(pool::name_of(report.mechanism), pool::name_of(report.mechanism), report.works,
                     report.works ? pool::name_of(report.pages) : report.detail));
    if (report.mechanism == pool::Mechanism::uffd_move && !report.works) {
      diagnosis.advice.push_back(
          "move small blocks faster: Linux 6.8 or later, and a sandbox that allows userfaultfd");
    } else if (report.mechanism == pool::Mechanism::shared && report.works &&
               report.pages == PageKind::small) {
      diagnosis.advice.push_back(
          "allow huge pages in shared memory: echo advise > "
          "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    }
  }
  if (limits.overcommit_memory == 2) {
    diagnosis.advice.push_back(
        "reserved addresses count as memory here: sysctl vm.overcommit_memory=0");
  }
  diagnosis.sections.push_back(std::move(section));
  constexpr size_t small_block_bytes = 64 * KiB;
  choose_pool("sort_pool", "large blocks of a sort", pool::Use::same_thread, 2 * MiB, reports,
              diagnosis);
  choose_pool("small_block_pool", "small blocks (up to 256 KiB)", pool::Use::same_thread,
              small_block_bytes, reports, diagnosis);
  choose_pool("pipe_pool", "blocks between threads", pool::Use::between_threads, 2 * MiB, reports,
              diagnosis);
  diagnosis.blocks_move = std::ranges::any_of(reports, &pool::MechanismReport::works);
}

void examine_uring(const os::Limits& limits, Section& section, Diagnosis& diagnosis) {
  auto uring = io::Engine::open({.kind = io::EngineKind::io_uring});
  section.facts.push_back(ability_fact("io_uring", "io_uring", uring.has_value(),
                                       uring ? "" : uring.error().message()));
  section.facts.push_back(
      number_fact("io_uring_disabled", "kernel.io_uring_disabled", limits.io_uring_disabled));

  auto automatic = io::Engine::open({});
  bool threads = !automatic || (*automatic)->kind() == io::EngineKind::threads;
  const char* why = !threads ? "many requests in flight from one thread"
                    : uring  ? "PENSTOCK_IO asks for it"
                             : "io_uring is refused";
  if (threads && uring) {
    diagnosis.advice.push_back("let io_uring be used: unset PENSTOCK_IO");
  }
  diagnosis.choices.push_back({"engine", "file requests", threads ? "threads" : "io_uring", why});
  if (!uring) {
    diagnosis.advice.push_back(limits.io_uring_disabled.value_or(0) != 0
                                   ? "allow io_uring: sysctl kernel.io_uring_disabled=0"
                                   : "allow io_uring in the seccomp profile of the container");
  }
}

void examine_directory(const std::string& directory, Section& section, Diagnosis& diagnosis) {
  section.facts.push_back(text_fact("directory", "folder for temporaries", directory));
  auto space = io::space_of(directory);
  if (!space) {
    section.facts.push_back({"free_bytes", "free there", nullptr, space.error().message()});
    section.facts.push_back(ability_fact("direct", "direct I/O there", false, "no such folder"));
    diagnosis.advice.push_back("choose a folder that can be used: -T DIR");
    return;
  }
  section.facts.push_back(size_fact("free_bytes", "free there",
                                    space->free_bytes == io::unknown_free_bytes
                                        ? std::nullopt
                                        : std::optional(space->free_bytes)));
  auto temporary = io::File::create_temporary(directory);
  bool direct = temporary && temporary->caching() == io::Caching::direct;
  section.facts.push_back(ability_fact("direct", "direct I/O there", direct,
                                       direct      ? ""
                                       : temporary ? "this file system has none"
                                                   : temporary.error().message()));
  if (!direct)
    diagnosis.advice.push_back("keep temporaries on a file system with direct I/O: -T DIR");
}

Diagnosis examine(const std::string& directory) {
  Diagnosis diagnosis;
  os::Limits limits = os::limits();
  examine_system(limits, diagnosis);
  examine_huge_pages(limits, diagnosis);
  examine_pools(limits, diagnosis);
  Section files{"files", "Files", {}};
  examine_uring(limits, files, diagnosis);
  examine_directory(directory, files, diagnosis);
  diagnosis.sections.push_back(std::move(files));
  return diagnosis;
}

void print_diagnosis_json(const Diagnosis& diagnosis) {
  Json object = {{"version", 1}};
  for (const Section& section : diagnosis.sections) {
    Json& facts = object[section.key] = Json::object();
    for (const Fact& fact : section.facts) facts[fact.key] = fact.value;
  }
  object["chosen"] = Json::object();
  for (const Choice& choice : diagnosis.choices) {
    object["chosen"][choice.key] = {{"choice", choice.chosen}, {"why", choice.why}};
  }
  object["advice"] = diagnosis.advice;
  object["works"] = diagnosis.blocks_move;
  print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_diagnosis(const Diagnosis& diagnosis) {
  // Width of the longest label and a blank.
  size_t width = 0;
  for (const Section& section : diagnosis.sections) {
    for (const Fact& fact : section.facts)
      width = std::max(width, std::string_view(fact.label).size() + 1);
  }
  for (const Choice& choice : diagnosis.choices)
    width = std::max(width, std::string_view(choice.what).size() + 1);
  for (const Section& section : diagnosis.sections) {
    print("{}\n", section.title);
    for (const Fact& fact : section.facts)
      print("  {:<{}}{}\n", fact.label, width, wrapped(fact.text, width + 2));
    print("\n");
  }
  print("Chosen\n");
  for (const Choice& choice : diagnosis.choices) {
    print("  {:<{}}{}\n", choice.what, width,
          wrapped(choice.chosen + ": " + choice.why, width + 2));
  }
  if (!diagnosis.blocks_move) {
    print(
        "\nPenstock does not work here\n"
        "  No mechanism moves blocks of memory: this kernel or sandbox refuses mremap(), and\n"
        "  memfd_create() or mmap() of its file, or madvise(). Its errors are listed above.\n");
    return;
  }
  print("\nTo go faster\n");
  for (const std::string& advice : diagnosis.advice) print("  {}\n", wrapped(advice, 4, 2));
  if (diagnosis.advice.empty()) print("  nothing to change\n");
}

}  // namespace

Command add_doctor(Parser& program) {
  struct Arguments {
    std::string directory = io::default_temp_directory();
    bool json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  Parser parser = program.add_subcommand("doctor", "report what this machine supports");
  parser.describe(
      {.examples = {{"penstock doctor",
                     "what works on this machine, and what would make it faster"},
                    {"penstock doctor -T /var/tmp", "the same for temporaries on another disk"}},
       .exit_codes = {{0, "Penstock works here"}, {1, "it does not"}, {2, "any error"}}});
  parser.add_option("-T,--temporary-directory", arguments->directory,
                    "the folder for temporaries to check (default: the one that sort uses)");
  parser.add_flag("--json", arguments->json, "print the report as JSON");
  return {parser, [arguments] {
            Diagnosis diagnosis = examine(arguments->directory);
            arguments->json ? print_diagnosis_json(diagnosis) : print_diagnosis(diagnosis);
            return diagnosis.blocks_move ? exit_ok : exit_incomplete;
          }};
}

}  // namespace penstock::cli
