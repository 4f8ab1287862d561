#include "files/sort/resume/resume_journal.h"

#include <algorithm>
#include <limits>

// Entries of the journal, by kind. Numbers have 4 bytes by default, a text its length and bytes:
//
//   begin      the version of this format; text: the purpose, from which the name is derived; the
//              number of inputs, and for each the text of its path, and inode, bytes, and the times
//              of the last change of its content and of its inode in ns (8 each); the number of
//              folders, and their texts; text: the path of the output in progress
//   output     the inode of the output in progress (8): another file under its name is not it
//   split      its number; the bucket that it splits: split and bucket; parts of its temporaries;
//              bytes of a block (8); buckets; the sum of the items that it read
//   bucket     the next bucket of that split: least and greatest key, bytes, items, blocks (8
//              each), its part, whether all of its keys are equal; the sum SplitBucket::rest
//   blocks     the next blocks of that bucket, any number; for each its number and its check:
//              CRC-32C, without complements, of its contents in whole sectors and of zeros behind
//              these (io/block_checks.h)
//   split end  its number; makes the split valid
//   done       for each bucket: split and bucket; its place in the output, and bytes and items
//              there (8 each); the sum of its sorted items
//   complete   texts: the output's name so far, and its final one; inode, bytes and items (8 each)
//
// A sum is items, words and squares (sorting/sort/item_mix.h; 8 each).

namespace penstock::external {
namespace {

constexpr size_t blocks_per_entry = 16384;
constexpr uint64_t offset_max = std::numeric_limits<int64_t>::max();  // largest offset in a file

enum Kind : uint32_t { begin = 1, split, bucket, blocks, split_end, done, complete, output };

// Fields of the entries: written to a PayloadWriter, or read from a PayloadReader.

template <class Payload, class Sum>
void fields_of_sum(Payload& payload, Sum& sum) {
  payload.fields(sum.items, sum.words, sum.squares);
}

template <class Payload, class Input>
void fields_of_input(Payload& payload, Input& input) {
  auto& identity = input.identity;
  payload.fields(input.path, identity.inode, identity.bytes, identity.modified_ns,
                 identity.changed_ns);
}

template <class Payload, class Id, class Split, class Count>
void fields_of_split(Payload& payload, Id& of, Split& split, Count& buckets) {
  payload.fields(split.number, of.split, of.bucket, split.parts, split.block_bytes, buckets);
  fields_of_sum(payload, split.read);
}

template <class Payload, class Bucket, class Count, class Flag>
void fields_of_bucket(Payload& payload, Bucket& bucket, Count& blocks, Flag& constant) {
  payload.fields(bucket.keys.low, bucket.keys.high, bucket.bytes, bucket.items, blocks, bucket.part,
                 constant);
  fields_of_sum(payload, bucket.rest);
}

template <class Payload, class Done>
void fields_of_done(Payload& payload, Done& done) {
  payload.fields(done.id.split, done.id.bucket, done.offset, done.stored.bytes, done.stored.items);
  fields_of_sum(payload, done.stored.sum);
}

template <class Payload, class Complete>
void fields_of_complete(Payload& payload, Complete& complete) {
  payload.fields(complete.in_progress, complete.final_name, complete.inode, complete.stored.bytes,
                 complete.stored.items);
}

// Applies entries as long as they are consistent.
class Replay {
 public:
  explicit Replay(ResumeState& state) : state_(state) {}

  // Returns false if the entry is inconsistent here: it and all behind it are invalid.
  bool take(const Journal::Entry& entry) {
    PayloadReader reader(entry.payload);
    if ((state_.version == 0) != (entry.kind == Kind::begin)) return false;
    // Only buckets stand between a split and its end, unless the split begins again.
    if (split_ && entry.kind > Kind::split_end) return false;
    switch (entry.kind) {
      case Kind::begin:
        return take_begin(reader);
      case Kind::split:
        return take_split(reader);
      case Kind::bucket:
        return take_bucket(reader);
      case Kind::blocks:
        return take_blocks(reader);
      case Kind::split_end:
        return take_split_end(reader);
      case Kind::done:
        return take_done(reader);
      case Kind::complete:
        fields_of_complete(reader, state_.complete.emplace());
        return reader.ended_well();
      case Kind::output:
        reader.fields(state_.part_inode);
        return reader.ended_well();
    }
    return false;
  }
  // Whether all entries so far are valid, whatever follows.
  bool at_rest() const { return !split_; }

 private:
  bool take_begin(PayloadReader& reader) {
    reader.fields(state_.version);
    if (state_.version != ResumeState::present_version) return false;
    reader.fields(state_.purpose);
    for (auto left = reader.get<uint32_t>(); left > 0 && reader.whole(); --left)
      fields_of_input(reader, state_.inputs.emplace_back());
    for (auto left = reader.get<uint32_t>(); left > 0 && reader.whole(); --left)
      state_.folders.push_back(reader.get_text());
    reader.fields(state_.part);
    return reader.ended_well() && !state_.folders.empty();
  }

  bool take_split(PayloadReader& reader) {
    blocks_left_ = 0;
    fields_of_split(reader, of_, split_.emplace(), buckets_);
    return reader.ended_well() && split_->block_bytes > 0;
  }

  bool take_bucket(PayloadReader& reader) {
    if (!split_ || blocks_left_ != 0) return false;
    ResumeBucket& bucket = split_->buckets.emplace_back();
    uint32_t constant = 0;
    fields_of_bucket(reader, bucket, blocks_left_, constant);
    bucket.constant = constant != 0;
    return reader.ended_well() && bucket.part < std::max(split_->parts, 1u);
  }

  bool take_blocks(PayloadReader& reader) {
    const size_t count = reader.left_bytes() / (2 * sizeof(uint32_t));
    if (!split_ || split_->buckets.empty() || count > blocks_left_) return false;
    ResumeBucket& bucket = split_->buckets.back();
    for (size_t i = 0; i < count; ++i)
      reader.fields(bucket.blocks.emplace_back(), bucket.checks.emplace_back());
    blocks_left_ -= count;
    return reader.ended_well();
  }

  bool take_split_end(PayloadReader& reader) {
    if (!split_ || blocks_left_ != 0 || split_->buckets.size() != buckets_ ||
        reader.get<uint32_t>() != split_->number || !reader.ended_well())
      return false;
    state_.next_split = split_->number + 1;
    buckets_of_[split_->number] = buckets_;
    // The temporaries of the bucket that was split are removed, or will be.
    state_.splits[of_] = std::move(*split_);
    split_.reset();
    return true;
  }

  bool take_done(PayloadReader& reader) {
    std::vector<ResumeDone> all;  // all of them are valid, or none
    while (reader.left_bytes() > 0) {
      ResumeDone& done = all.emplace_back();
      fields_of_done(reader, done);
      auto buckets = buckets_of_.find(done.id.split);
      if (!reader.whole() || buckets == buckets_of_.end() || done.id.bucket >= buckets->second ||
          done.offset > offset_max || done.stored.bytes > offset_max - done.offset)
        return false;
    }
    for (const ResumeDone& done : all) {
      state_.done[done.id] = done;
      state_.output_bytes = std::max(state_.output_bytes, done.offset + done.stored.bytes);
    }
    return true;
  }

  ResumeState& state_;
  BucketId of_;
  std::optional<ResumeSplit> split_;  // a split that has not ended
  uint32_t buckets_ = 0;
  uint64_t blocks_left_ = 0;
  std::map<uint32_t, uint32_t> buckets_of_;
};

Status append_and_commit(Journal& journal, Kind kind, const PayloadWriter& writer) {
  if (auto status = journal.append(kind, writer.text()); !status) return status;
  return journal.commit();
}

}  // namespace

Result<ResumeState> read_steps(Journal& journal, Journal::Position& end) {
  ResumeState state;
  Replay replay(state);
  Journal::Entry entry;
  for (end = journal.position();;) {
    auto whole = journal.next(entry);
    if (!whole) return std::unexpected(whole.error());
    if (!*whole || !replay.take(entry)) return state;
    if (replay.at_rest()) end = journal.position();
  }
}

Status write_begin(Journal& journal, const ResumeState& begin) {
  PayloadWriter writer;
  writer.fields(begin.version, begin.purpose, static_cast<uint32_t>(begin.inputs.size()));
  for (const ResumeInput& input : begin.inputs) fields_of_input(writer, input);
  writer.fields(static_cast<uint32_t>(begin.folders.size()));
  for (const std::string& folder : begin.folders) writer.fields(folder);
  writer.fields(begin.part);
  return append_and_commit(journal, Kind::begin, writer);
}

Status write_output(Journal& journal, uint64_t inode) {
  PayloadWriter writer;
  writer.fields(inode);
  return append_and_commit(journal, Kind::output, writer);
}

Status write_split(Journal& journal, BucketId of, const ResumeSplit& head, uint32_t buckets,
                   const std::function<ResumeBucket(uint32_t)>& bucket) {
  PayloadWriter writer;
  fields_of_split(writer, of, head, buckets);
  if (auto status = journal.append(Kind::split, writer.text()); !status) return status;
  for (uint32_t number = 0; number < buckets; ++number) {
    const ResumeBucket saved = bucket(number);
    PayloadWriter table;
    const uint64_t blocks = saved.blocks.size();
    const uint32_t constant = saved.constant;
    fields_of_bucket(table, saved, blocks, constant);
    if (auto status = journal.append(Kind::bucket, table.text()); !status) return status;
    for (size_t first = 0; first < saved.blocks.size(); first += blocks_per_entry) {
      PayloadWriter list;
      const size_t last = std::min(first + blocks_per_entry, saved.blocks.size());
      for (size_t i = first; i < last; ++i) list.fields(saved.blocks[i], saved.checks[i]);
      if (auto status = journal.append(Kind::blocks, list.text()); !status) return status;
    }
  }
  PayloadWriter end;
  end.fields(head.number);
  return append_and_commit(journal, Kind::split_end, end);
}

Status write_done(Journal& journal, std::span<const ResumeDone> done) {
  PayloadWriter writer;
  for (const ResumeDone& one : done) fields_of_done(writer, one);
  return append_and_commit(journal, Kind::done, writer);
}

Status write_complete(Journal& journal, const ResumeComplete& complete) {
  PayloadWriter writer;
  fields_of_complete(writer, complete);
  return append_and_commit(journal, Kind::complete, writer);
}

}  // namespace penstock::external
