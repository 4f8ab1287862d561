#include "papers/bowtie/theorems.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace penstock::papers {
namespace {

double divided(double bytes, double by) {
  return by > 0 ? bytes / by : std::numeric_limits<double>::infinity();
}

double memory(const Bowtie& bowtie) {
  return static_cast<double>(bowtie.memory_bytes);
}

double square(double x) {
  return x * x;
}

std::vector<double> grouped_staircase(double memory_bytes, uint32_t streams, uint32_t group) {
  PENSTOCK_CHECK(group > 0 && streams % group == 0, "equations 5 and 10 want groups that divide");
  const uint32_t groups = streams / group;
  std::vector<double> stairs(groups);
  for (uint32_t i = 0; i < groups; ++i)
    stairs[i] = 2 * memory_bytes / (groups + 1.0) * (1 - i / static_cast<double>(groups));
  return stairs;
}

}  // namespace

double run_bytes_a2(const Bowtie& bowtie, double c) {
  return divided(2 * memory(bowtie), (1 - bowtie.input_share) * (bowtie.outputs / c + 1) * (c + 1));
}

double run_bytes_a2_best(const Bowtie& bowtie) {
  return divided(2 * memory(bowtie),
                 (1 - bowtie.input_share) * square(std::sqrt(bowtie.outputs) + 1));
}

double run_bytes_a4(const Bowtie& bowtie, double c) {
  return divided(2 * memory(bowtie), bowtie.input_share * (bowtie.inputs / c + 1) * (c + 1));
}

double run_bytes_a5(const Bowtie& bowtie, double c_r, double c_w) {
  const double alpha = bowtie.input_share;
  return divided(2 * memory(bowtie), (c_r + c_w) * (alpha * (bowtie.inputs / c_r + 1) +
                                                    (1 - alpha) * (bowtie.outputs / c_w + 1)));
}

double run_bytes_a6r(const Bowtie& bowtie, double c_w) {
  const double alpha = bowtie.input_share;
  return divided(2 * memory(bowtie), (1 + c_w) * (alpha * (bowtie.inputs - 1.0) +
                                                  (1 - alpha) * (bowtie.outputs / c_w + 1)));
}

double run_bytes_a6w(const Bowtie& bowtie, double c_r) {
  const double alpha = bowtie.input_share;
  return divided(2 * memory(bowtie), (1 + c_r) * (alpha * (bowtie.inputs / c_r + 1) +
                                                  (1 - alpha) * (bowtie.outputs - 1.0)));
}

double run_bytes_a6_half(const Bowtie& bowtie) {
  return 4 * memory(bowtie) / square(std::sqrt(bowtie.inputs) + std::sqrt(bowtie.outputs));
}

double run_bytes_a6_best(const Bowtie& bowtie) {
  // Equation 16, with reader and writer as given, or exchanged.
  auto one_way = [&](double near, double far, double alpha) {
    return divided(2 * memory(bowtie), square(std::sqrt((1 - alpha) * far) +
                                              std::sqrt((1 - alpha) + alpha * (near - 1))));
  };
  return a6r_wins(bowtie) ? one_way(bowtie.inputs, bowtie.outputs, bowtie.input_share)
                          : one_way(bowtie.outputs, bowtie.inputs, 1 - bowtie.input_share);
}

double best_group_a2(uint32_t outputs) {
  return std::sqrt(outputs);
}

bool a6r_wins(const Bowtie& bowtie) {
  // m > 1 + alpha (n - 1) / (1 - alpha), without the division.
  return (1 - bowtie.input_share) * (bowtie.outputs - 1.0) >
         bowtie.input_share * (bowtie.inputs - 1.0);
}

double run_bytes_a1_naive(const Bowtie& bowtie) {
  return memory(bowtie) / bowtie.outputs;
}

double run_bytes_a2_naive(const Bowtie& bowtie) {
  return memory(bowtie) / (bowtie.outputs + 1.0);
}

std::vector<double> staircase_a1(const Bowtie& bowtie) {
  return overlapped_staircase(memory(bowtie), bowtie.outputs);
}

std::vector<double> staircase_a2(const Bowtie& bowtie, uint32_t group_outputs) {
  return grouped_staircase(memory(bowtie), bowtie.outputs, group_outputs);
}

std::vector<double> staircase_a3(const Bowtie& bowtie) {
  return overlapped_staircase(memory(bowtie), bowtie.inputs);
}

std::vector<double> staircase_a4(const Bowtie& bowtie, uint32_t group_inputs) {
  return grouped_staircase(memory(bowtie), bowtie.inputs, group_inputs);
}

}  // namespace penstock::papers
