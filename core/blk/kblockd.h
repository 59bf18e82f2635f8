// kblockd: the workqueue that runs hardware queues, one high-priority worker a CPU.
//
// A work item is pending at most once. mod_delayed() moves a pending one, as the kernel's mod_delayed_work_on(): a run
// that was due now may so be put off, which is what the kernel does. An item that executes is not started a second time
// elsewhere; it is queued again on the worker that has it.
//
// Thread safety: mod_delayed() from tasks and interrupts. Workers sleep only in what the work does.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platform/concept.h"

namespace mqlab::blk {

template <class P>
class Kblockd {
 public:
  using Cost = platform::Cost;

  class Work {
   public:
    explicit Work(std::function<void()> run) : run_(std::move(run)) {}
    bool pending() const { return pending_; }
    /// Pending, or executing now.
    bool active() const { return pending_ || executing_ != kNowhere; }

   private:
    friend class Kblockd;
    static constexpr unsigned kNowhere = ~0U;
    std::function<void()> run_;
    std::unique_ptr<typename P::timer> timer_;
    bool pending_ = false;
    bool delayed_ = false;
    unsigned delayed_to_ = 0;
    unsigned queued_on_ = kNowhere;
    unsigned executing_ = kNowhere;
  };

  /// `priority` of the workers: above ordinary tasks (the workqueue is high-priority), below irq threads.
  explicit Kblockd(int priority) : pools_(P::nr_cpus()) {
    for (unsigned cpu = 0; cpu < pools_.size(); ++cpu)
      P::spawn({.name = "kworker/" + std::to_string(cpu) + "H",
                .cpu = static_cast<int>(cpu),
                .priority = priority,
                .daemon = true},
               [this, cpu] { serve(cpu); });
  }

  /// The work runs on `cpu` in `delay_jiffies`, whenever it was due before.
  void mod_delayed(unsigned cpu, Work& work, std::uint64_t delay_jiffies) {
    P::charge(Cost::kQueueWork);
    P::smp_mb();  // the work sees all that was stored before it was queued; without it, a quiesce that has ended
    take_back(work);
    work.pending_ = true;
    if (delay_jiffies == 0) {
      enqueue(cpu, work);
      return;
    }
    if (!work.timer_) work.timer_ = std::make_unique<typename P::timer>([this, &work] { due(work); });
    work.delayed_to_ = cpu;
    work.delayed_ = true;
    work.timer_->arm_jiffies(delay_jiffies);
  }

 private:
  struct Pool {
    std::deque<Work*> works;
    typename P::wait_queue idle{"kblockd"};
  };

  void take_back(Work& work) {
    if (!work.pending_) return;
    if (work.queued_on_ != Work::kNowhere)
      std::erase(pools_[work.queued_on_].works, &work);
    else
      work.timer_->cancel();
    work.queued_on_ = Work::kNowhere;
    work.delayed_ = false;
    work.pending_ = false;
  }

  // The timer's interrupt may come after its work was taken back, and even after the timer was armed anew.
  void due(Work& work) {
    if (!work.delayed_ || work.timer_->armed()) return;
    work.delayed_ = false;
    enqueue(work.delayed_to_, work);
  }

  void enqueue(unsigned cpu, Work& work) {
    work.queued_on_ = work.executing_ != Work::kNowhere ? work.executing_ : cpu;
    Pool& pool = pools_[work.queued_on_];
    pool.works.push_back(&work);
    pool.idle.wake_one();
  }

  void serve(unsigned cpu) {
    Pool& pool = pools_[cpu];
    for (;;) {
      pool.idle.wait([&pool] { return !pool.works.empty(); });
      Work& work = *pool.works.front();
      pool.works.pop_front();
      work.queued_on_ = Work::kNowhere;
      work.pending_ = false;
      work.executing_ = cpu;
      work.run_();
      work.executing_ = Work::kNowhere;
    }
  }

  std::vector<Pool> pools_;
};

}  // namespace mqlab::blk
