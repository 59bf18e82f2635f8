// Many allocate and free at once: no tag is held twice, none is lost, and nobody waits for ever. The same code on real
// threads (which the thread sanitizer watches) and in virtual time under many schedules.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "blk/plug.h"
#include "blk/tag_iter.h"
#include "platform/native/platform.h"
#include "platform/sim/platform.h"

using namespace mqlab::blk;
using Native = mqlab::native::Platform;
using Sim = mqlab::sim::Platform;

namespace {

struct Plan {
  unsigned depth = 64;
  unsigned tasks = 4;
  unsigned turns = 2'000;
  unsigned batch = 8;  // most tags that a task holds at once
  unsigned users = 1;  // queues that share the tags
  bool waits = true;
  AllocPolicy policy{};
};

template <class P>
class Fight {
 public:
  explicit Fight(const Plan& plan) : plan_(plan), tags_(plan.depth), owner_(plan.depth) {
    for (auto& owner : owner_) owner.store(0);
    for (unsigned i = 0; i < plan.users; ++i)
      users_.push_back(std::make_unique<TagUser<P>>(tags_, &users_, plan.users > 1));
  }

  void run() {
    std::vector<typename P::thread> threads;
    for (unsigned i = 0; i < plan_.tasks; ++i)
      threads.push_back(P::spawn({.name = "task"}, [this, i] { work(i + 1); }));
    for (auto& thread : threads) P::join(thread);
  }

  bool held_twice() const { return held_twice_.load(); }
  std::uint64_t done() const { return done_.load(); }
  Tags<P>& tags() { return tags_; }

 private:
  TagUser<P>& user_of(unsigned self) { return *users_[self % users_.size()]; }

  void work(unsigned self) {
    for (unsigned turn = 0; turn < plan_.turns; ++turn) {
      const unsigned count = 1 + static_cast<unsigned>(P::random_below(plan_.batch));
      Plug<P> plug(count, plan_.policy);
      // A task that holds tags while it waits for more would deadlock with its like: only the first one waits.
      for (unsigned i = 0; i < count; ++i) {
        const bool nowait = i > 0 || !plan_.waits;
        Request<P>* const request =
            plug.request(&users_, [&]() -> TagUser<P>& { return user_of(self); }, {.nowait = nowait});
        if (request == nullptr) break;
        claim(*request, self);
        if (plug.add(request)) break;
      }
      auto list = plug.take();
      plug.drop_cached();
      if (P::random_below(4) == 0) P::yield();
      give_back(list, self);
    }
  }

  void claim(Request<P>& request, unsigned self) {
    if (owner_[request.tag.load()].exchange(self, std::memory_order_relaxed) != 0) held_twice_ = true;
    tags_.start(request);
    done_.fetch_add(1, std::memory_order_relaxed);
  }

  void give_back(RequestList<P>& list, unsigned self) {
    RequestList<P> together;
    while (Request<P>* const request = list.pop()) {
      if (owner_[request->tag.load()].exchange(0, std::memory_order_relaxed) != self) held_twice_ = true;
      if (self % 2 == 0)
        together.add_tail(request);
      else
        free_request(*request);
    }
    end_request_batch(together);
  }

  Plan plan_;
  Tags<P> tags_;
  std::vector<std::unique_ptr<TagUser<P>>> users_;
  std::vector<std::atomic<unsigned>> owner_;
  std::atomic<bool> held_twice_{false};
  std::atomic<std::uint64_t> done_{0};
};

template <class P>
void check_after(Fight<P>& fight, const Plan& plan) {
  CHECK_FALSE(fight.held_twice());
  CHECK(fight.done() >= std::uint64_t{plan.tasks} * plan.turns * (plan.waits ? 1 : 0));
  auto& bitmap = fight.tags().bitmap(false);
  CHECK_FALSE(bitmap.bits().any_bit_set());
  CHECK(bitmap.waiters() == 0);
  unsigned free = 0;
  while (bitmap.get() != kNoBit) ++free;
  CHECK(free == plan.depth);
}

const std::vector<Plan> kPlans = {
    {.depth = 64, .tasks = 3, .batch = 8},
    {.depth = 256, .tasks = 4, .batch = 32},
    {.depth = 256, .tasks = 4, .batch = 32, .policy = {.plug_retry = true}},
    {.depth = 256, .tasks = 4, .batch = 32, .policy = {.batch_loop = true}},
    {.depth = 3, .tasks = 6, .batch = 2},  // nearly everybody waits
    {.depth = 1, .tasks = 4, .batch = 1},
    {.depth = 8, .tasks = 6, .batch = 4, .users = 3},  // shares of four
    {.depth = 16, .tasks = 4, .batch = 16, .waits = false},
};

void simulate(std::uint64_t seed, const std::function<void()>& body) {
  mqlab::sim::MachineConfig config;
  config.cpus = 4;
  config.seed = seed;
  config.slice_ns = 2'000;
  config.costs.fill(7);
  mqlab::sim::Machine machine(config);
  machine.run(body);
}

}  // namespace

TEST_CASE("real threads: no tag twice, none lost, nobody forgotten") {
  for (const Plan& plan : kPlans) {
    Fight<Native> fight(plan);
    fight.run();
    check_after(fight, plan);
  }
}

TEST_CASE("virtual time, many schedules: no tag twice, none lost, nobody forgotten") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    for (Plan plan : kPlans) {
      plan.turns = 60;
      simulate(seed, [&] {
        CAPTURE(seed);
        Fight<Sim> fight(plan);
        fight.run();
        check_after(fight, plan);
      });
    }
}

TEST_CASE("an iterator beside allocation and freeing sees only requests that keep their tag") {
  Plan plan{.depth = 32, .tasks = 3, .turns = 3'000, .batch = 8};
  Fight<Native> fight(plan);
  std::atomic<bool> stop{false};
  std::atomic<bool> wrong{false};
  auto watcher = Native::spawn({}, [&] {
    while (!stop.load())
      for_each_started(fight.tags(), [&](Request<Native>& request) {
        const unsigned tag = request.tag.load();
        if (tag >= plan.depth || request.references.load() == 0) wrong = true;
        Native::yield();
        if (request.tag.load() != tag || !fight.tags().bitmap(false).bits().test(tag)) wrong = true;
        return true;
      });
  });
  fight.run();
  stop = true;
  Native::join(watcher);
  CHECK_FALSE(wrong.load());
  check_after(fight, plan);
}

TEST_CASE("waiters are woken by batches: not one by one, and all in the end") {
  simulate(1, [] {
    Tags<Sim> tags(64);
    TagUser<Sim> user(tags, &tags);
    const auto map = [&]() -> TagUser<Sim>& { return user; };
    std::vector<Request<Sim>*> held;
    for (int i = 0; i < 64; ++i) {
      AllocData<Sim> data{};
      held.push_back(alloc_requests<Sim>(map, data));
    }
    int got = 0;
    std::vector<Sim::thread> threads;
    for (int i = 0; i < 20; ++i)
      threads.push_back(Sim::spawn({}, [&] {
        AllocData<Sim> data{};
        Request<Sim>* const request = alloc_requests<Sim>(map, data);
        ++got;
        Sim::sleep_ns(1'000'000);
        free_request(*request);
      }));
    Sim::sleep_ns(1'000'000);
    REQUIRE(tags.bitmap(false).wake_batch() == 8);
    for (int i = 0; i < 7; ++i) free_request(*held[static_cast<std::size_t>(i)]);
    Sim::sleep_ns(100'000);
    CHECK(got == 0);
    free_request(*held[7]);
    Sim::sleep_ns(100'000);
    CHECK(got == 8);
    for (std::size_t i = 8; i < held.size(); ++i) free_request(*held[i]);
    for (auto& thread : threads) Sim::join(thread);
    CHECK(got == 20);
  });
}

TEST_CASE("wake_all lets one waiter of each queue look again") {
  simulate(1, [] {
    SbitmapQueue<Sim> queue(8);
    int awake = 0;
    std::vector<Sim::thread> threads;
    for (unsigned i = 0; i < 16; ++i)
      threads.push_back(Sim::spawn({}, [&, i] {
        SbitmapQueue<Sim>::Waiter waiter;
        queue.prepare_to_wait(i % SbitmapQueue<Sim>::kWaitQueues, waiter);
        queue.sleep(i % SbitmapQueue<Sim>::kWaitQueues, waiter);
        queue.finish_wait(i % SbitmapQueue<Sim>::kWaitQueues, waiter);
        ++awake;
      }));
    Sim::sleep_ns(100'000);
    CHECK(queue.waiters() == 16);
    queue.wake_all();
    Sim::sleep_ns(100'000);
    CHECK(awake == 8);
    queue.wake_all();
    for (auto& thread : threads) Sim::join(thread);
    CHECK(queue.waiters() == 0);
  });
}
