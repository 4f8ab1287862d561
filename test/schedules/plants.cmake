# Faults planted in the sources under test, each the classic mistake at its place, and switched on by
# schedules::plant(number). A change of the source at such a place must adapt the plant.

# ---- memory/fault/registry.cc

# Only one of the two counters is checked, once.
penstock_plant(memory/fault/registry.cc "round < 2;" "round < (penstock_planted(1) ? 1 : 2);")
# The visitor is counted after the lookup.
penstock_plant(memory/fault/registry.cc [[
  const Lookup lookup;
  Slot* const slot = search(lookup.now(), address);
  if (slot != nullptr) slot->visitors]] [[
  Slot* slot;
  {
    const Lookup lookup;
    slot = search(lookup.now(), address);
    if (slot != nullptr && !penstock_planted(2)) slot->visitors.fetch_add(1, std::memory_order_relaxed);
  }
  if (slot != nullptr && penstock_planted(2)) slot->visitors]])
# A weaker order of the lookup's count.
penstock_plant(memory/fault/registry.cc "lookups[phase_].fetch_add(1, std::memory_order_seq_cst);" "
    penstock_planted(3) ? lookups[phase_].fetch_add(1, std::memory_order_relaxed)
                        : lookups[phase_].fetch_add(1, std::memory_order_seq_cst);")
# Waiters are checked before the count falls.
penstock_plant(memory/fault/registry.cc "void leave(Slot& slot) {" "void leave(Slot& slot) {
  if (penstock_planted(4)) {
    const bool awaited = slot.awaited.load(std::memory_order_seq_cst);
    if (slot.visitors.fetch_sub(1, std::memory_order_seq_cst) == 1 && awaited) os::futex_wake_all(slot.visitors);
    return;
  }")
# The last visitor's decrement does not release.
penstock_plant(memory/fault/registry.cc "  ~Lookup() { lookups[phase_].fetch_sub(1, std::memory_order_release); }" "  ~Lookup() {
    penstock_planted(5) ? lookups[phase_].fetch_sub(1, std::memory_order_relaxed)
                        : lookups[phase_].fetch_sub(1, std::memory_order_release);
  }")
# The slot is reused without a wait for the region's visitors.
penstock_plant(memory/fault/registry.cc "  wait_for_visitors(*slot);" "  if (!penstock_planted(6)) wait_for_visitors(*slot);")

# The replaced handler is published, or read, without order.
penstock_plant(memory/fault/registry.cc "*previous(signal).load(std::memory_order_acquire);" "*previous(signal).load(
      penstock_planted(7) ? std::memory_order_relaxed : std::memory_order_acquire);")
penstock_plant(memory/fault/registry.cc "front),
                         std::memory_order_release);" "front),
                         penstock_planted(8) ? std::memory_order_relaxed : std::memory_order_release);")

# ---- memory/rewire/gate.cc

penstock_plant(memory/rewire/gate.cc "state + 1, std::memory_order_acquire," "state + 1,
        penstock_planted(11) ? std::memory_order_relaxed : std::memory_order_acquire,")
# A visitor's decrement does not release.
penstock_plant(memory/rewire/gate.cc "  if (state_.fetch_sub(1, std::memory_order_release) ==" "
  if ((penstock_planted(12) ? state_.fetch_sub(1, std::memory_order_relaxed)
                           : state_.fetch_sub(1, std::memory_order_release)) ==")
# The closing thread does not wait for those inside.
penstock_plant(memory/rewire/gate.cc "while (state != closed_bit) {" "while (state != closed_bit && !penstock_planted(13)) {")
# The closing thread waits, and is not woken.
penstock_plant(memory/rewire/gate.cc "(closed_bit | 1))" "(closed_bit | 1) && !penstock_planted(14))")
penstock_plant(memory/rewire/gate.cc "  os::futex_wake_all(state_);
}

}" "  if (!penstock_planted(15)) os::futex_wake_all(state_);
}

}")
# The gate is closed although a thread from an earlier closing still waits.
penstock_plant(memory/rewire/gate.cc "while (const uint32_t waiting = waiting_.load(std::memory_order_seq_cst))"
  "while (const uint32_t waiting = penstock_planted(16) ? 0 : waiting_.load(std::memory_order_seq_cst))")

# ---- os/semaphore.cc

# Not a fault: it keeps the search from spinning.
penstock_plant(os/semaphore.cc "i < 50;" "i < 1;")

# Waiters are checked before the units are added.
penstock_plant(os/semaphore.cc "  value_.fetch_add(n << 1, std::memory_order_seq_cst);
  wake();" "  if (penstock_planted(21)) {
    const bool waits = waiters_.load(std::memory_order_seq_cst) != 0;
    value_.fetch_add(n << 1, std::memory_order_seq_cst);
    if (waits) futex_wake_all(value_);
    return;
  }
  value_.fetch_add(n << 1, std::memory_order_seq_cst);
  wake();")
# The waiter sleeps on another value than the one that it saw.
penstock_plant(os/semaphore.cc "if ((value >> 1) < n) futex_wait(value_, value);"
  "if ((value >> 1) < n) futex_wait(value_, penstock_planted(22) ? value_.load() : value);")
penstock_plant(os/semaphore.cc "value - (n << 1), std::memory_order_acquire," "value - (n << 1),
        penstock_planted(23) ? std::memory_order_relaxed : std::memory_order_acquire,")

# The units become visible to the futex call after the check for waiters.
penstock_plant(os/semaphore.cc "void Semaphore::release(uint32_t n) noexcept {" "void Semaphore::release(uint32_t n) noexcept {
  if (penstock_planted(24)) {
    value_.fetch_add(n << 1, std::memory_order_release);
    return wake();
  }")

# ---- memory/stream/sides.cc, between threads

# A sleeper, or a change, is counted without order.
penstock_plant(memory/stream/sides.cc "  spin(seen);
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  while" "  spin(seen);
  sleeping_.fetch_add(1, penstock_planted(25) ? std::memory_order_relaxed : std::memory_order_seq_cst);
  while")
penstock_plant(memory/stream/sides.cc "  if (waiting_ == 0) return;
  count_.fetch_add(1, std::memory_order_seq_cst);" "  if (waiting_ == 0) return;
  count_.fetch_add(1, penstock_planted(26) ? std::memory_order_relaxed : std::memory_order_seq_cst);")

# ---- memory/pool/late_unmaps.cc

# A pending view that was replaced by another one stays pending.
penstock_plant(memory/pool/late_unmaps.cc "  forget_locked(view, view + block_bytes_);"
  "  if (!penstock_planted(31)) forget_locked(view, view + block_bytes_);")
# The lock is not taken.
penstock_plant(memory/pool/late_unmaps.cc "int LateUnmaps::add(std::byte* view) noexcept {
  const os::SemaphoreLock lock(mutex_);" "int LateUnmaps::add(std::byte* view) noexcept {
  const os::SemaphoreLock lock(penstock_planted(32) ? nullptr : &mutex_);")

# ---- memory/stream/process_stream.cc, two_sided.cc, sides.cc

# A process that died while reporting its failure is taken for alive.
penstock_plant(memory/stream/process_stream.cc "if (now == Phase::finished || now == Phase::failed) return;"
  "if (now == Phase::finished || now == Phase::failed || (penstock_planted(41) && now == Phase::failing)) return;")
# The survivor overwrites the last report of the dead process.
penstock_plant(memory/stream/process_stream.cc "if (sides_.phase[others].compare_exchange_strong(now, Phase::failing, std::memory_order_relaxed))" "
  if (penstock_planted(42)) sides_.phase[others].store(Phase::failing);
  if (penstock_planted(42) ||
      sides_.phase[others].compare_exchange_strong(now, Phase::failing, std::memory_order_relaxed))")
# Blocks are announced before they are there.
penstock_plant(memory/stream/two_sided.cc "    sides_.released.store(std::max(released(), kept), std::memory_order_release);" "
    penstock_planted(43) ? sides_.released.store(std::max(released(), kept), std::memory_order_relaxed)
                        : sides_.released.store(std::max(released(), kept), std::memory_order_release);")
# The producer goes a block too far.
penstock_plant(memory/stream/two_sided.cc "return position <= consumer + ahead_ + comeback_of(Side::producer) ? Verdict::take"
  "return position <= consumer + ahead_ + comeback_of(Side::producer) + (penstock_planted(44) ? 1 : 0) ? Verdict::take")
# The end is published before the released bytes.
penstock_plant(memory/stream/two_sided.cc "  sides_.end_bytes.store(bytes, std::memory_order_relaxed);
  sides_.released.store(end, std::memory_order_release);" "
  if (penstock_planted(45)) sides_.phase[index_of(Side::producer)].store(Phase::finished);
  sides_.end_bytes.store(bytes, std::memory_order_relaxed);
  sides_.released.store(end, std::memory_order_release);
  if (penstock_planted(45)) sides_.phase[index_of(Side::producer)].store(Phase::active);")
# A waiter reads the state before it reads the event count.
penstock_plant(memory/stream/two_sided.cc "    if (verdict != Verdict::wait) break;
    wait(seen);" "
    if (verdict != Verdict::wait) break;
    wait(penstock_planted(46) ? sides_.changes.now() : seen);")
# Sleepers are checked before the event is counted.
penstock_plant(memory/stream/sides.cc "void EventCount::announce_shared() noexcept {" "void EventCount::announce_shared() noexcept {
  if (penstock_planted(47)) {
    const bool sleeps = sleeping_.load(std::memory_order_seq_cst) != 0;
    count_.fetch_add(1, std::memory_order_seq_cst);
    if (sleeps) os::futex_wake_all_shared(count_);
    return;
  }")
# The consumer's head is not ordered after its loads from the blocks that it leaves.
penstock_plant(memory/stream/two_sided.cc "  sides_.head[index].store(position, std::memory_order_release);" "
  penstock_planted(48) ? sides_.head[index].store(position, std::memory_order_relaxed)
                      : sides_.head[index].store(position, std::memory_order_release);")

# The header of a stream is published without order.
penstock_plant(memory/stream/process_stream.cc "shared->magic.store(magic_value, std::memory_order_release);" "
  shared->magic.store(magic_value, penstock_planted(49) ? std::memory_order_relaxed : std::memory_order_release);")

# ---- memory/rewire/table_core.cc

# A snapshot is taken with the gate open.
penstock_plant(memory/rewire/table_core.cc "  if (Status status = reserve_copies(); !status) return status;
  const Gate::Closing closing(gate_);" "  if (Status status = reserve_copies(); !status) return status;
  Gate open;
  const Gate::Closing closing(penstock_planted(51) ? open : gate_);")
# The pages are recorded before they are protected.
penstock_plant(memory/rewire/table_core.cc "  if (Status status = make_read_only(); !status) return status;
  live_->pages(0, pages);" "  if (penstock_planted(52)) {
    live_->pages(0, pages);
    gate_.open();
    gate_.close();
  }
  if (Status status = make_read_only(); !status) return status;
  if (!penstock_planted(52)) live_->pages(0, pages);")
# Two handlers change a slot at the same time.
penstock_plant(memory/rewire/table_core.cc "  const os::SemaphoreLock lock(stripe_of(slot));"
  "  const os::SemaphoreLock lock(penstock_planted(53) ? nullptr : &stripe_of(slot));")
# The last snapshot's end removes protection while handlers run.
penstock_plant(memory/rewire/table_core.cc "  if (image_) return;
  const Gate::Closing closing(gate_);" "  if (image_) return;
  Gate open;
  const Gate::Closing closing(penstock_planted(54) ? open : gate_);")
# Written pages are checked before the gate is closed.
penstock_plant(memory/rewire/table_core.cc "  std::vector<PageId> pages;
  const Gate::Closing closing(gate_);" "  std::vector<PageId> pages;
  Gate open;
  const Gate::Closing closing(penstock_planted(55) ? open : gate_);")

# ---- memory/pool/page_store.cc, memory/rewire/range.cc

# A reference is released, and found to be the last one, without order.
penstock_plant(memory/pool/page_store.cc "count_of(page).fetch_sub(1, std::memory_order_acq_rel);" "count_of(page).fetch_sub(
        1, penstock_planted(61) ? std::memory_order_relaxed : std::memory_order_acq_rel);")
penstock_plant(memory/pool/page_store.cc "return count_of(page).load(std::memory_order_acquire);"
  "return count_of(page).load(penstock_planted(62) ? std::memory_order_relaxed : std::memory_order_acquire);")
# A slot's page is published without order, when it is set and when its access changes.
penstock_plant(memory/rewire/range.cc "first + static_cast<uint32_t>(i), std::memory_order_release);" "first + static_cast<uint32_t>(i),
        penstock_planted(63) ? std::memory_order_relaxed : std::memory_order_release);")
penstock_plant(memory/rewire/range.cc "cell(i).store(entry_of(page(i), access), std::memory_order_release);"
  "cell(i).store(entry_of(page(i), access),
        penstock_planted(64) ? std::memory_order_relaxed : std::memory_order_release);")
