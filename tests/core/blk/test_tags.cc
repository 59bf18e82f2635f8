// Tags, waiting for them, sharing them, batches and plugs, one task at a time: what the kernel does, step by step.
#include "blk/tags.h"

#include <doctest/doctest.h>

#include <vector>

#include "blk/plug.h"
#include "blk/tag_iter.h"
#include "platform/native/platform.h"

using namespace mqlab::blk;
using P = mqlab::native::Platform;

namespace {

const int kQueueA = 0;
const int kQueueB = 0;

struct Device {
  explicit Device(unsigned depth, const void* queue_ = &kQueueA, unsigned reserved = 0)
      : queue(queue_), tags(depth, reserved), user(tags, queue_) {}
  auto map() {
    return [this]() -> TagUser<P>& { return user; };
  }
  Request<P>* single(const TagOptions& options = {.nowait = true}) {
    AllocData<P> data{.options = options};
    return alloc_requests<P>(map(), data);
  }

  const void* queue;
  Tags<P> tags;
  TagUser<P> user;
};

/// Holds tags so that the first word of a 64-bit-a-word map is fragmented: every second tag stays taken.
std::vector<Request<P>*> fragment(Device& device, unsigned count) {
  std::vector<Request<P>*> kept;
  std::vector<Request<P>*> freed;
  device.tags.bitmap(false).bits().hint(P::this_cpu(), 0);
  for (unsigned i = 0; i < count; ++i) (i % 2 == 0 ? freed : kept).push_back(device.single());
  for (Request<P>* request : freed) free_request(*request);
  device.tags.bitmap(false).bits().hint(P::this_cpu(), 0);
  return kept;
}

}  // namespace

TEST_CASE("ordinary and reserved tags do not meet") {
  Device device(8, &kQueueA, 2);
  for (int i = 0; i < 6; ++i) {
    Request<P>* const request = device.single();
    REQUIRE(request != nullptr);
    CHECK(request->tag.load() >= 2);
  }
  CHECK(device.single() == nullptr);
  Request<P>* const reserved = device.single({.reserved = true, .nowait = true});
  REQUIRE(reserved != nullptr);
  CHECK(reserved->tag.load() < 2);
  free_request(*reserved);
  Device without(8);
  CHECK(without.single({.reserved = true}) == nullptr);
}

TEST_CASE("a batch asks once and is answered with what one word has") {
  Device device(256);
  const auto kept = fragment(device, 64);
  AllocStats stats;
  RequestList<P> cached;
  AllocData<P> data{.nr_tags = 32, .cached = &cached, .stats = &stats};
  Request<P>* const first = alloc_requests<P>(device.map(), data);
  REQUIRE(first != nullptr);
  CHECK(data.nr_tags == 16);
  CHECK(stats.batch_tries == 1);
  CHECK(stats.partial_tries == 1);
  CHECK(stats.requests == 16);
  // The last tag of the window comes first: each was put at the list's head.
  CHECK(first->tag.load() == 30);
  CHECK(cached.peek()->tag.load() == 28);
}

TEST_CASE("a batch that loops asks again until it has all") {
  Device device(256);
  const auto kept = fragment(device, 64);
  AllocStats stats;
  RequestList<P> cached;
  AllocData<P> data{.nr_tags = 32, .cached = &cached, .policy = {.batch_loop = true}, .stats = &stats};
  REQUIRE(alloc_requests<P>(device.map(), data) != nullptr);
  CHECK(data.nr_tags == 0);
  CHECK(stats.batch_tries > 1);
  CHECK(stats.requests == 32);
  CHECK(stats.singles == 0);
}

TEST_CASE("without a window for the batch a single tag is taken") {
  Device device(16);
  AllocStats stats;
  RequestList<P> cached;
  AllocData<P> data{.nr_tags = 32, .cached = &cached, .stats = &stats};
  CHECK(alloc_requests<P>(device.map(), data) != nullptr);
  CHECK(data.nr_tags == 1);
  CHECK(stats.empty_tries == 1);
  CHECK(stats.singles == 1);
}

TEST_CASE("no batches from shared tags, for reserved tags, or for shallow users") {
  Tags<P> tags(256, 1);
  TagUser<P> shared(tags, &kQueueA, true);
  TagUser<P> alone(tags, &kQueueB);
  for (const auto& [user, options] : {std::pair{&shared, TagOptions{}}, std::pair{&alone, TagOptions{.reserved = true}},
                                      std::pair{&alone, TagOptions{.shallow_depth = 10}}}) {
    AllocStats stats;
    RequestList<P> cached;
    AllocData<P> data{.nr_tags = 8, .cached = &cached, .options = options, .stats = &stats};
    REQUIRE(alloc_requests<P>([user = user]() -> TagUser<P>& { return *user; }, data) != nullptr);
    CHECK(stats.batch_tries == 0);
    CHECK(stats.singles == 1);
    CHECK(cached.empty());
  }
}

TEST_CASE("the plug asks for a batch once; with the retry, as long as more than one is missing") {
  for (const bool retry : {false, true}) {
    Device device(256);
    const auto kept = fragment(device, 64);
    AllocStats stats;
    Plug<P> plug(32, {.plug_retry = retry}, &stats);
    for (int i = 0; i < 32; ++i) {
      Request<P>* const request = plug.request(device.queue, device.map());
      REQUIRE(request != nullptr);
      CHECK(plug.add(request) == (i == 31));
    }
    CHECK(stats.requests == 32);
    if (retry) {
      // 16 of 32, 8 of 16, 4 of 8, 2 of 4, 1 of 2; then one is left, which is no batch.
      CHECK(stats.batch_tries == 5);
      CHECK(stats.singles == 1);
      CHECK(stats.calls == 6);
    } else {
      CHECK(stats.batch_tries == 1);
      CHECK(stats.singles == 16);
      CHECK(stats.calls == 17);
      CHECK(plug.nr_ios() == 1);
    }
    auto list = plug.take();
    while (Request<P>* const request = list.pop()) free_request(*request);
    plug.drop_cached();
    CHECK(stats.unused == 0);
    CHECK(device.tags.bitmap(false).bits().weight() == kept.size());
  }
}

TEST_CASE("a plug asks for 32 requests at most") {
  Device device(1023);
  AllocStats stats;
  Plug<P> plug(128, {}, &stats);
  CHECK(plug.request(device.queue, device.map()) != nullptr);
  CHECK(stats.requests == 32);
  plug.drop_cached();
  CHECK(stats.unused == 31);
}

TEST_CASE("cached requests of one queue do not serve another, and are freed with the plug") {
  Device a(256, &kQueueA);
  Device b(256, &kQueueB);
  AllocStats stats;
  Plug<P> plug(8, {}, &stats);
  std::vector<Request<P>*> used;
  used.push_back(plug.request(a.queue, a.map()));
  used.push_back(plug.request(b.queue, b.map()));
  CHECK(stats.batch_tries == 1);
  CHECK(stats.singles == 1);
  used.push_back(plug.request(a.queue, a.map()));
  CHECK(stats.calls == 2);
  CHECK(used[0]->user == &a.user);
  CHECK(used[1]->user == &b.user);
  plug.drop_cached();
  CHECK(stats.unused == 6);
  for (Request<P>* request : used) free_request(*request);
  CHECK_FALSE(a.tags.bitmap(false).bits().any_bit_set());
  CHECK_FALSE(b.tags.bitmap(false).bits().any_bit_set());
}

TEST_CASE("a plug of two queues holds twice as much") {
  Device a(256, &kQueueA);
  Device b(256, &kQueueB);
  Plug<P> plug(32, {});
  int added = 0;
  for (bool full = false; !full; ++added) {
    Device& device = added % 2 == 0 ? a : b;
    full = plug.add(plug.request(device.queue, device.map()));
  }
  CHECK(added == 64);
  auto list = plug.take();
  CHECK(plug.empty());
  while (Request<P>* const request = list.pop()) free_request(*request);
  plug.drop_cached();
}

TEST_CASE("active users share the tags; who leaves gives its part back") {
  Tags<P> tags(64);
  TagUser<P> a(tags, &kQueueA, true);
  TagUser<P> b(tags, &kQueueB, true);
  const auto take = [](TagUser<P>& user) {
    AllocData<P> data{.options = {.nowait = true}};
    return alloc_requests<P>([&user]() -> TagUser<P>& { return user; }, data);
  };
  std::vector<Request<P>*> of_b{take(b)};
  std::vector<Request<P>*> of_a;
  while (Request<P>* const request = take(a)) of_a.push_back(request);
  CHECK(tags.active_users() == 2);
  CHECK(of_a.size() == 32);
  CHECK(a.in_flight() == 32);
  CHECK(tags.bitmap(false).wake_batch() == 4);
  free_request(*of_b.front());
  b.idle();
  CHECK(tags.active_users() == 1);
  CHECK(tags.bitmap(false).wake_batch() == 8);
  while (Request<P>* const request = take(a)) of_a.push_back(request);
  CHECK(of_a.size() == 64);
  RequestList<P> done;
  for (Request<P>* request : of_a) done.add_tail(request);
  end_request_batch(done);
  CHECK(a.in_flight() == 0);
  CHECK_FALSE(tags.bitmap(false).bits().any_bit_set());
}

TEST_CASE("a small share is four tags at least") {
  Tags<P> tags(16);
  std::vector<std::unique_ptr<TagUser<P>>> users;
  for (int i = 0; i < 8; ++i) {
    users.push_back(std::make_unique<TagUser<P>>(tags, &kQueueA, true));
    users.back()->busy();
  }
  int taken = 0;
  AllocData<P> data{.options = {.nowait = true}};
  while (alloc_requests<P>([&]() -> TagUser<P>& { return *users.front(); }, data) != nullptr) ++taken;
  CHECK(taken == 4);
}

TEST_CASE("wake batch: an eighth of the depth, of the shallow depth, of the share; 1 to 8") {
  SbitmapQueue<P> queue(1023);
  CHECK(queue.wake_batch() == 8);
  queue.min_shallow_depth(20);
  CHECK(queue.wake_batch() == 2);
  queue.resize(10);
  CHECK(queue.wake_batch() == 1);
  queue.recalculate_wake_batch(3);
  CHECK(queue.wake_batch() == 1);
  CHECK(SbitmapQueue<P>(40).wake_batch() == 5);
}

TEST_CASE("a completion batch clears its bits at once, a word at a time, and leaves the hint at the last") {
  Device device(256);
  RequestList<P> done;
  std::vector<Request<P>*> requests;
  for (int i = 0; i < 100; ++i) requests.push_back(device.single());
  for (Request<P>* request : requests) done.add_tail(request);
  const unsigned last = requests.back()->tag.load();
  end_request_batch(done);
  const auto& bits = device.tags.bitmap(false).bits();
  CHECK(bits.weight() == 0);
  for (unsigned word = 0; word < bits.word_count(); ++word) {
    CHECK(bits.word_bits(word) == 0);
    CHECK(bits.cleared_bits(word) == 0);
  }
  CHECK(bits.hint(P::this_cpu()) == last);
}

TEST_CASE("fewer requests (nr_requests) take effect at once, more as well") {
  Device device(128);
  device.tags.resize(40);
  int taken = 0;
  while (device.single() != nullptr) ++taken;
  CHECK(taken == 40);
  device.tags.resize(128);
  while (device.single() != nullptr) ++taken;
  CHECK(taken == 128);
}

TEST_CASE("scheduler tags come with the allocation, driver tags at dispatch") {
  Tags<P> driver(4);
  Tags<P> scheduler(8);
  TagUser<P> user(driver, &kQueueA, false, &scheduler);
  std::vector<Request<P>*> requests;
  AllocData<P> data{.options = {.nowait = true}};
  while (Request<P>* const request = alloc_requests<P>([&]() -> TagUser<P>& { return user; }, data))
    requests.push_back(request);
  CHECK(requests.size() == 8);
  CHECK_FALSE(driver.bitmap(false).bits().any_bit_set());
  int dispatched = 0;
  for (Request<P>* request : requests) dispatched += get_driver_tag(*request) ? 1 : 0;
  CHECK(dispatched == 4);
  for (Request<P>* request : requests) free_request(*request);
  CHECK_FALSE(driver.bitmap(false).bits().any_bit_set());
  CHECK_FALSE(scheduler.bitmap(false).bits().any_bit_set());
}

TEST_CASE("iterators: started, busy of one queue, allocated") {
  Device device(64, &kQueueA, 2);
  TagUser<P> other(device.tags, &kQueueB);
  std::vector<Request<P>*> requests;
  for (int i = 0; i < 10; ++i) requests.push_back(device.single());
  requests.push_back(device.single({.reserved = true}));
  AllocData<P> data{};
  requests.push_back(alloc_requests<P>([&]() -> TagUser<P>& { return other; }, data));
  for (std::size_t i = 0; i < requests.size(); i += 2) device.tags.start(*requests[i]);

  const auto count = [](auto&& iterate) {
    int seen = 0;
    iterate([&](Request<P>&) {
      ++seen;
      return true;
    });
    return seen;
  };
  CHECK(count([&](auto visit) { for_each_started(device.tags, visit); }) == 6);
  CHECK(count([&](auto visit) { for_each_busy<P>(device.tags, &device.user, visit); }) == 6);
  CHECK(count([&](auto visit) { for_each_busy<P>(device.tags, &other, visit); }) == 0);
  CHECK(count([&](auto visit) { for_each_allocated(device.tags, visit); }) == 12);
  int seen = 0;
  for_each_started(device.tags, [&](Request<P>&) { return ++seen < 3; });
  CHECK(seen == 3);
}

TEST_CASE("a request that ends while it is looked at keeps its tag until the look is over") {
  Device device(8);
  Request<P>* const request = device.single();
  device.tags.start(*request);
  for_each_started(device.tags, [&](Request<P>& seen) {
    free_request(seen);
    CHECK(device.tags.bitmap(false).bits().any_bit_set());
    return true;
  });
  CHECK_FALSE(device.tags.bitmap(false).bits().any_bit_set());
}
