#pragma once

// The theorems of "On High-Latency Bowtie Data Streaming" that src/files/bowtie/model.h does not
// need, because one formula gives all of them: as printed, to check that formula and the simulator.
// REQUIRES of all: as in model.h.

#include <cstdint>
#include <vector>

#include "files/bowtie/model.h"

namespace penstock::papers {

using namespace bowtie;

// --- Run lengths; all in bytes. ---

// Theorem 4, equation 6: A2, n = 1, groups of c = m / (m / c).
double run_bytes_a2(const Bowtie& bowtie, double group_outputs);
// Theorem 5, equation 7: A2 with c = sqrt(m).
double run_bytes_a2_best(const Bowtie& bowtie);
// The step before theorem 9: A4, m = 1, groups of c; equation 6 with the sides exchanged.
double run_bytes_a4(const Bowtie& bowtie, double group_inputs);
// Theorem 10, equation 12, which is for alpha = 1/2; here for every alpha.
double run_bytes_a5(const Bowtie& bowtie, double group_inputs, double group_outputs);
// Theorem 11, equation 13, which is for alpha = 1/2; here for every alpha. A6r has c_r = 1, A6w has
// c_w = 1.
double run_bytes_a6r(const Bowtie& bowtie, double group_outputs);
double run_bytes_a6w(const Bowtie& bowtie, double group_inputs);
// Theorem 12, equation 14: the better A6 with its best group, alpha = 1/2 whatever the bowtie says.
double run_bytes_a6_half(const Bowtie& bowtie);
// Theorem 13, equation 16: the better A6 with its best group, every alpha.
double run_bytes_a6_best(const Bowtie& bowtie);

// The best group of theorem 5: a real number, at least 1.
double best_group_a2(uint32_t outputs);
// Theorem 13: whether A6r beats A6w. Theorem 12 is the case alpha = 1/2: m > n; for m = n both are
// as good. The rule asks which side's best group is above 1, which is not always right: with alpha
// other than 1/2 the other algorithm with groups of 1 can be better, by 9 % for 10 x 26 and alpha =
// 0.8, by 1.8 times for 2 x 2. best_schedule() therefore compares the two.
bool a6r_wins(const Bowtie& bowtie);

// The naive ways for the paper's comparison: every output has M / m (section III.A), and M / 2 is
// read, processed, written (section III.B).
double run_bytes_a1_naive(const Bowtie& bowtie);
double run_bytes_a2_naive(const Bowtie& bowtie);

// --- Staircases: bytes per bucket (per group), largest first. ---

// Theorem 1, equation 3: the outputs of A1 when the memory is full.
std::vector<double> staircase_a1(const Bowtie& bowtie);
// Theorem 3, equation 5: the groups of outputs of A2 when the memory is full. REQUIRES: c divides
// m.
std::vector<double> staircase_a2(const Bowtie& bowtie, uint32_t group_outputs);
// Theorem 6, equation 8: the preload of A3.
std::vector<double> staircase_a3(const Bowtie& bowtie);
// Theorem 8, equation 10: the preload of A4, per group. REQUIRES: c divides n.
std::vector<double> staircase_a4(const Bowtie& bowtie, uint32_t group_inputs);

}  // namespace penstock::papers
