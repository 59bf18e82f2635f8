// Getting one tag, and waiting for it when there is none.
//
// Source: block/blk-mq-tag.c of Linux 7.3 (behaviour).
//
// Thread safety: from tasks, which may sleep in it unless `nowait` is set.
#pragma once

#include <utility>

#include "blk/tags.h"

namespace mqlab::blk {

/// What a task that runs out of tags does besides waiting. The defaults do nothing.
struct NoWaitHooks {
  void run_hw_queue() {}  ///< before the first sleep, as what is pending may complete and free tags
  void before_sleep() {}  ///< its plug must not keep requests while it sleeps
  void after_wait() {}
};

/// One try. A scheduler limits by itself, so the share of a user counts only without one.
template <class P>
unsigned try_get_tag(TagUser<P>& user, SbitmapQueue<P>& bitmap, const TagOptions& options) {
  if (user.scheduler_tags() == nullptr && !options.reserved && !user.may_queue(bitmap)) return kNoTag;
  return options.shallow_depth != 0 ? bitmap.get_shallow(options.shallow_depth) : bitmap.get();
}

/// A tag for a request of the calling CPU's hardware queue, which `map()` gives. After a wait the task may be on
/// another CPU and so on another queue. Returns the user with the tag, or kNoTag if it may not wait.
template <class P, class Map, class Hooks = NoWaitHooks>
std::pair<TagUser<P>*, unsigned> get_tag(Map&& map, const TagOptions& options, Hooks&& hooks = {}) {
  TagUser<P>* user = &map();
  Tags<P>* tags = &user->allocation_tags();
  // A set without reserved tags has none to wait for either.
  if (options.reserved && tags->reserved() == 0) return {user, kNoTag};
  SbitmapQueue<P>* bitmap = &tags->bitmap(options.reserved);

  unsigned bit = try_get_tag(*user, *bitmap, options);
  if (bit != kNoTag) [[likely]]
    return {user, bit + tags->offset(options.reserved)};
  if (options.nowait) return {user, kNoTag};

  typename SbitmapQueue<P>::Waiter waiter;
  for (;;) {
    const unsigned queue = bitmap->next_queue(user->wait_index());
    hooks.run_hw_queue();
    bit = try_get_tag(*user, *bitmap, options);
    if (bit != kNoTag) break;

    bitmap->prepare_to_wait(queue, waiter);
    bit = try_get_tag(*user, *bitmap, options);
    if (bit != kNoTag) {
      bitmap->finish_wait(queue, waiter);
      break;
    }
    hooks.before_sleep();
    bitmap->sleep(queue, waiter);
    bitmap->finish_wait(queue, waiter);

    SbitmapQueue<P>* const slept_on = bitmap;
    user = &map();
    tags = &user->allocation_tags();
    bitmap = &tags->bitmap(options.reserved);
    // The wake-up was meant for a task that takes a tag there: it must go on to another.
    if (bitmap != slept_on) slept_on->wake_up(1);
  }
  hooks.after_wait();
  return {user, bit + tags->offset(options.reserved)};
}

}  // namespace mqlab::blk
