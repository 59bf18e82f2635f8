// Where Linux 7.3.4 adds requests and then runs a hardware queue: what a guard made of barriers alone has to pair.
//
// Counted in its source. Of 37 calls of blk_mq_run_hw_queue() and blk_mq_run_hw_queues() (27 in block/, 10 in
// drivers/), these follow the addition of requests to a dispatch list, a software queue or an I/O scheduler. The others
// run a queue because something else changed: a tag or a budget came free, a queue was started, resumed, unquiesced or
// frozen. One of these sites has a full barrier already, for another reason. A flush or zone-append path that reaches
// the queue through the requeue list is counted once, at the requeue work.
//
// Thread safety: constant.
#pragma once

#include <array>
#include <string_view>

namespace mqlab::blk {

inline constexpr unsigned kQueueRunCalls = 37;

struct CallSite {
  std::string_view function;
  std::string_view adds;
  bool has_barrier = false;
};

inline constexpr std::array<CallSite, 15> kAddingCallSites{{
    {"blk_execute_rq_nowait", "a passthrough request, to the dispatch list"},
    {"blk_execute_rq", "a passthrough request, to the dispatch list"},
    {"blk_mq_requeue_work", "requeued requests, to all of them"},
    {"blk_mq_dispatch_rq_list", "what the driver refused, to the dispatch list", true},
    {"blk_mq_insert_requests", "a plug's requests, to a software queue"},
    {"blk_mq_try_issue_directly", "the request, when the queue is quiesced or stopped"},
    {"blk_mq_try_issue_directly", "the request, when there is no budget or tag"},
    {"blk_mq_try_issue_directly", "the request that the driver refused, to the dispatch list"},
    {"blk_mq_request_issue_directly", "the request, when the queue is quiesced or stopped"},
    {"blk_mq_issue_direct", "the request that the driver refused, to the dispatch list"},
    {"blk_mq_dispatch_list", "a plug's passthrough requests, to the dispatch list"},
    {"blk_mq_dispatch_list", "a plug's requests, to the scheduler"},
    {"blk_mq_try_issue_list_directly", "the request that the driver refused, to the dispatch list"},
    {"blk_mq_submit_bio", "the request, to the scheduler or a software queue"},
    {"blk_mq_hctx_notify_dead", "the requests of a CPU that went away, to the dispatch list"},
}};

}  // namespace mqlab::blk
