#pragma once

// Names of the modes of `penstock sort` and `penstock plan` (interfaces/api/option_table.h) in
// messages.

#include "cli/common/parser.h"
#include "interfaces/api/option_table.h"

namespace penstock::cli::modes {

using namespace scope;

static_assert(scope::items == plain_mode);

inline constexpr Mode keys_are_shown{keys_shown, "with --debug"};
inline constexpr Mode merges{merging, "with -m"};
inline constexpr Mode checks{checking, "with -c"};
inline constexpr Mode plans_size{plan_of_size, "with --size"};
inline constexpr Mode plans_files{plan, "in a plan of files"};
inline constexpr Mode sorts_tables{tables, "with --by"};
inline constexpr Mode sorts_on_cluster{cluster, "with --engine ray"};
inline constexpr Mode sorts_tables_on_cluster{cluster_tables, "with --engine ray --by"};

}  // namespace penstock::cli::modes
