#include "bench/rivals/fio.h"

#include <fmt/core.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/harness/child.h"

namespace penstock::bench {

bool fio_is_installed() {
  return std::system("fio --version >/dev/null 2>&1") == 0;
}

Result<FioRun> run_fio(const FioJob& job) {
  std::vector<std::string> environment;
  if (job.huge_pages) environment.emplace_back("GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  auto child =
      run_child({"fio", "--name=job", "--filename=" + job.file, fmt::format("--size={}", job.bytes),
                 job.write ? "--rw=write" : "--rw=read", "--bs=2m", "--iodepth=8", "--direct=1",
                 "--ioengine=io_uring", "--output-format=json"},
                environment);
  if (!child) return std::unexpected(child.error());
  const auto json = nlohmann::json::parse(child->output, nullptr, false);
  const auto part = nlohmann::json::json_pointer(job.write ? "/jobs/0/write" : "/jobs/0/read");
  if (child->exit_code != 0 || json.is_discarded() || !json.contains(part))
    return failure(ErrorCode::io, "run a job: " + child->output.substr(0, 200), "fio");
  const auto& numbers = json[part];
  const auto& of_job = json["jobs"][0];
  const double seconds = numbers["runtime"].get<double>() / 1e3;
  return FioRun{
      .bytes_per_s = static_cast<double>(job.bytes) / seconds,
      .cpu_seconds =
          seconds * (of_job["usr_cpu"].get<double>() + of_job["sys_cpu"].get<double>()) / 100};
}

}  // namespace penstock::bench
