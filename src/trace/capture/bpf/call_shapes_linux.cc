#include <algorithm>

#include "base/check.h"
#include "trace/calls/call_table.h"
#include "trace/capture/bpf/call_shapes.h"
#include "trace/capture/proc_files.h"

namespace penstock::trace {

using kernel::CallShape;

namespace {

constexpr int8_t none = CallArguments::none;
static_assert(none == -1, "records.h");

// Returns the shape of a call.
CallShape shape_of(const CallRow& row, bool rings_are_seen) {
  using namespace kernel;
  const CallArguments& at = row.at;
  int what = call_watched;
  CallShape shape{.descriptor = at.descriptor,
                  .descriptor2 = none,
                  .folder = {none, none},
                  .path = {none, none},
                  .points = {none, none},
                  .chosen_by = none};
  switch (row.effect) {
    case Effect::open:
      what |= call_makes_file | call_failures;
      shape.folder[0] = at.folder;
      shape.path[0] = at.path;
      shape.points[0] = at.structure;  // open_how begins with the flags
      break;
    case Effect::close:
      what |= call_at_entry | call_storage_only;
      break;
    case Effect::close_range:
      what |= call_at_entry;
      shape.descriptor = none;
      break;
    case Effect::duplicate:
      what |= call_makes_file;
      break;
    case Effect::set_flags:
      shape.chosen_by = at.operation;
      std::ranges::copy(row.commands, shape.choices);
      break;
    case Effect::read:
    case Effect::write:
      what |= call_storage_only | call_streams;
      break;
    case Effect::seek:
      what |= call_storage_only;
      break;
    case Effect::sync:  // a folder can be synced as well
      break;
    case Effect::read_size:
    case Effect::stat:
      what |= call_failures | (at.descriptor == none ? 0 : call_storage_only);
      shape.folder[0] = at.folder;
      shape.path[0] = at.path;
      break;
    case Effect::allocate:
    case Effect::truncate:
      what |= call_storage_only | call_sizes;
      break;
    case Effect::map:
      what |= call_storage_only | call_maps;
      break;
    case Effect::copy:
      what |= call_either | call_streams;
      shape.descriptor2 = at.descriptor2;
      shape.points[0] = at.offset_at;
      shape.points[1] = at.offset2_at;
      break;
    case Effect::truncate_path:
    case Effect::rename:
    case Effect::unlink:
      shape.folder[0] = at.folder;
      shape.path[0] = at.path;
      shape.folder[1] = at.folder2;
      shape.path[1] = at.path2;
      break;
    case Effect::ring_setup:
      shape.points[0] = at.structure;
      shape.points_ahead = 8;  // the flags, and the member behind them
      break;
    case Effect::ring_enter:
      // Each request has a record of its own, or else requests are counted here.
      if (rings_are_seen) return {};
      [[fallthrough]];
    case Effect::aio_submit:  // requests are counted, not recorded
      what |= call_at_entry;
      shape.descriptor = none;
      break;
    default:
      PENSTOCK_CHECK(!row.not_by_bpf.empty(), "a captured call has a shape, or a reason");
      return {};
  }
  shape.what = static_cast<uint16_t>(what);
  return shape;
}

}  // namespace

void fill_settings(kernel::Settings& settings, bool rings_are_seen) {
  for (const CallRow& row : call_table()) {
    if (row.number == CallRow::no_number) continue;
    PENSTOCK_CHECK(row.number < kernel::calls_max, "a call has a larger number");
    settings.calls[row.number] = shape_of(row, rings_are_seen);
  }
  const std::span<const uint64_t> pseudo = pseudo_file_systems();
  PENSTOCK_CHECK(pseudo.size() <= kernel::pseudo_systems_max, "more pseudo file systems");
  std::ranges::copy(pseudo, settings.pseudo_systems);
}

}  // namespace penstock::trace
