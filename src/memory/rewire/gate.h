#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::rewire {

// A gate through which any number of fault handlers may pass, and which is closed for moments in
// which none may be inside. A handler that finds it closed waits until it opens; and it is not
// closed again while a handler waits that came during an earlier closing. So no handler waits for
// more than two closings, however many there are.
//
// Thread safety: enter() and leave() from any thread, on the fault path; close() and open() by one
// thread at a time. Invariants: state_ = visitors + (closed ? closed_bit : 0); between the returns
// of close() and open() there are no visitors.
class Gate {
 public:
  // Returns whether it had to wait.
  bool enter() noexcept;
  void leave() noexcept;
  void close() noexcept;
  void open() noexcept;

  // A visit, as an object.
  class Visit {
   public:
    explicit Visit(Gate& gate) noexcept : gate_(gate), has_waited_(gate.enter()) {}
    ~Visit() { gate_.leave(); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    bool has_waited() const { return has_waited_; }

   private:
    Gate& gate_;
    const bool has_waited_;
  };
  // A closing, as an object.
  class Closing {
   public:
    explicit Closing(Gate& gate) noexcept : gate_(gate) { gate_.close(); }
    ~Closing() { gate_.open(); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

   private:
    Gate& gate_;
  };

 private:
  static constexpr uint32_t closed_bit = uint32_t{1} << 31;

  std::atomic<uint32_t> state_{0};
  std::atomic<uint32_t> waiting_{0};  // visitors that found it closed and have not passed yet
};

}  // namespace penstock::rewire
