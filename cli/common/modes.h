#pragma once

// The modes of `penstock sort` and `penstock plan`. Each option names those that obey it where it is declared.

#include "cli/common/parser.h"

namespace penstock::cli::modes {

inline constexpr unsigned items = plain_mode;    // a sort of items
inline constexpr unsigned keys_shown = 2;        // --debug
inline constexpr unsigned merging = 4;           // -m, of a plan, too
inline constexpr unsigned checking = 8;          // -c, -C
inline constexpr unsigned plan = 16;             // penstock plan FILE
inline constexpr unsigned plan_of_size = 32;     // penstock plan --size
inline constexpr unsigned tables = 64;           // --by
inline constexpr unsigned cluster = 128;         // --engine ray
inline constexpr unsigned cluster_tables = 256;  // --engine ray --by
// GNU sort takes it with -c, -m and --debug, where it has no meaning, and so does this program under that name.
inline constexpr unsigned as_gnu = 512;

// Sorts, their plans, and merges.
inline constexpr unsigned sorts = items | keys_shown | merging | plan;
// The format and the order of items.
inline constexpr unsigned all_items = sorts | checking | cluster;

inline constexpr Mode keys_are_shown{keys_shown, "with --debug"};
inline constexpr Mode merges{merging, "with -m"};
inline constexpr Mode checks{checking, "with -c"};
inline constexpr Mode plans_size{plan_of_size, "with --size"};
inline constexpr Mode plans_files{plan, "in a plan of files"};
inline constexpr Mode sorts_tables{tables, "with --by"};
inline constexpr Mode sorts_on_cluster{cluster, "with --engine ray"};
inline constexpr Mode sorts_tables_on_cluster{cluster_tables, "with --engine ray --by"};

}  // namespace penstock::cli::modes
