// Queue runs, dispatch, quiesce and kblockd, against what the kernel does.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "blk/run_queue.h"
#include "platform/sim/platform.h"

using namespace mqlab;
using P = sim::Platform;
using Request = blk::QueuedRequest<P>;
using Hw = blk::HwQueue<P>;

namespace {

/// A driver with a budget, that remembers what it was given.
class Driver {
 public:
  explicit Driver(unsigned budget) : budget_(budget) {}
  bool get_budget(Hw&) {
    if (budget_ == 0) return false;
    --budget_;
    return true;
  }
  void put_budget(Hw&) { ++budget_; }
  bool queue_rq(Hw&, Request& request) {
    taken.push_back(&request);
    cpus.push_back(P::this_cpu());
    if (sim::Machine::current().current_task()->name() == "root") ++by_root;
    return true;
  }

  std::vector<Request*> taken;
  std::vector<unsigned> cpus;
  unsigned by_root = 0;  // dispatched by the test's own task

 private:
  unsigned budget_;
};

struct World {
  World(unsigned budget, unsigned hw_queues, const blk::QuiesceConfig& quiesce)
      : driver(budget), kblockd(1), queue(kblockd, driver, hw_queues, quiesce) {}
  Driver driver;
  blk::Kblockd<P> kblockd;
  blk::RunQueue<P, Driver> queue;
};

void in_world(unsigned cpus, unsigned budget, unsigned hw_queues, const blk::QuiesceConfig& quiesce,
              const std::function<void(World&)>& body) {
  sim::MachineConfig config;
  config.cpus = cpus;
  sim::Machine machine(config);
  std::unique_ptr<World> world;
  machine.run([&] {
    world = std::make_unique<World>(budget, hw_queues, quiesce);
    P::sleep_ns(1000);
    body(*world);
  });
}

constexpr std::uint64_t kSettleNs = 20'000'000;

}  // namespace

TEST_CASE("a request goes straight to the driver while there is budget, and waits in its software queue when not") {
  in_world(2, 1, 2, {}, [](World& w) {
    std::vector<Request> requests(2);
    w.queue.submit(requests[0]);
    CHECK(w.driver.taken.size() == 1);
    w.queue.submit(requests[1]);
    CHECK(w.driver.taken.size() == 1);
    Hw& hw = *requests[1].hw_queue;
    CHECK(hw.index == 0);
    CHECK(hw.has_pending());
    P::sleep_ns(kSettleNs);
    CHECK(w.driver.taken.size() == 1);  // refused again and again, and never lost
    w.driver.put_budget(hw);
    w.queue.run_hw_queue(hw, true);
    P::sleep_ns(kSettleNs);
    CHECK(w.driver.taken.size() == 2);
    CHECK_FALSE(hw.has_pending());
  });
}

TEST_CASE("an asynchronous run happens on the hardware queue's own CPU, a synchronous one of another CPU's too") {
  for (const bool async : {true, false})
    in_world(4, 8, 4, {}, [async](World& w) {
      Request request;
      request.cpu = 2;
      request.hw_queue = &w.queue.hw_queue(2);
      w.queue.insert(request);
      w.queue.run_hw_queue(*request.hw_queue, async);
      P::sleep_ns(kSettleNs);
      CHECK(w.driver.cpus == std::vector<unsigned>{2});
    });
}

TEST_CASE("a quiesced queue keeps its requests until the last unquiesce, which runs them all") {
  for (const auto guard : {blk::QuiesceGuard::kSpinlock, blk::QuiesceGuard::kRawSpinlock,
                           blk::QuiesceGuard::kAtomicDepth, blk::QuiesceGuard::kBarriers})
    in_world(2, 8, 2, {.guard = guard}, [](World& w) {
      w.queue.quiesce();
      w.queue.quiesce();
      std::vector<Request> requests(2);
      w.queue.submit(requests[0]);
      requests[1].cpu = 1;
      requests[1].hw_queue = &w.queue.hw_queue(1);
      w.queue.bypass_insert(requests[1]);
      w.queue.run_hw_queues(true);
      P::sleep_ns(kSettleNs);
      CHECK(w.driver.taken.empty());
      w.queue.unquiesce();
      P::sleep_ns(kSettleNs);
      CHECK(w.queue.quiesced());
      CHECK(w.driver.taken.empty());
      w.queue.unquiesce();
      P::sleep_ns(kSettleNs);
      CHECK_FALSE(w.queue.quiesced());
      CHECK(w.driver.taken.size() == 2);
      CHECK_FALSE(w.queue.find_lost().has_value());
    });
}

TEST_CASE("the guard's lock is taken by a run that finds nothing to do, and only by that") {
  in_world(2, 0, 2, {}, [](World& w) {
    const auto& lock = w.queue.quiesce_state().lock_stats();
    const auto before = lock.acquired;
    w.queue.run_hw_queues(true);
    CHECK(lock.acquired == before + 2);
    Request request;
    w.queue.submit(request);  // no budget: it waits, so its queue has something to do
    const auto waiting = lock.acquired;
    w.queue.run_hw_queue(*request.hw_queue, true);
    CHECK(lock.acquired == waiting);
  });
}

TEST_CASE("a request that nobody will run is found") {
  in_world(2, 8, 2, {}, [](World& w) {
    Request request;
    request.hw_queue = &w.queue.hw_queue(1);
    request.cpu = 1;
    w.queue.bypass_insert(request);
    REQUIRE(w.queue.find_lost().has_value());
    CHECK(w.queue.find_lost()->find("hardware queue 1 (dispatch list)") != std::string::npos);
    w.queue.run_hw_queue(*request.hw_queue, true);
    CHECK_FALSE(w.queue.find_lost().has_value());  // on its way
    P::sleep_ns(kSettleNs);
    CHECK_FALSE(w.queue.find_lost().has_value());
  });
}

TEST_CASE("mod_delayed moves a pending work, earlier and later, and runs it once") {
  in_world(2, 0, 1, {}, [](World& w) {
    std::vector<std::uint64_t> ran_ns;
    blk::Kblockd<P>::Work work([&] { ran_ns.push_back(P::now_ns()); });
    const std::uint64_t start_ns = P::now_ns();
    w.kblockd.mod_delayed(1, work, 10);
    w.kblockd.mod_delayed(1, work, 3);
    P::sleep_ns(kSettleNs);
    REQUIRE(ran_ns.size() == 1);
    CHECK(ran_ns[0] - start_ns >= 3'000'000);
    CHECK(ran_ns[0] - start_ns <= 4'000'000);
    w.kblockd.mod_delayed(1, work, 3);
    w.kblockd.mod_delayed(1, work, 0);
    P::sleep_ns(kSettleNs);
    CHECK(ran_ns.size() == 2);
    CHECK_FALSE(work.active());
  });
}

TEST_CASE("synchronous or not, a freeze's start looks at every queue itself; only its own CPU's queue differs") {
  for (const auto how : {blk::FreezeRun::kSync, blk::FreezeRun::kAsync})
    in_world(4, 8, 4, {}, [how](World& w) {
      w.queue.quiesce();
      std::vector<Request> requests(4);
      for (unsigned cpu = 0; cpu < 4; ++cpu) {
        requests[cpu].cpu = cpu;
        requests[cpu].hw_queue = &w.queue.hw_queue(cpu);
        w.queue.insert(requests[cpu]);
      }
      static_cast<void>(w.queue.quiesce_state().unquiesce());  // without the run that should follow
      w.queue.run_at_freeze(how);
      P::sleep_ns(kSettleNs);
      CHECK(w.driver.taken.size() == 4);
      CHECK(w.driver.by_root == (how == blk::FreezeRun::kSync ? 1 : 0));
    });
}
