// What a real kernel allocated, tag for tag: the bitmap must give the same tags in the same order.
//
// The traces begin with a new bitmap, whose hint the kernel had drawn at random: one hint must explain all of a trace.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "blk/tags.h"
#include "platform/native/platform.h"

using namespace mqlab::blk;
using P = mqlab::native::Platform;

namespace {

struct Step {
  char kind = 0;
  unsigned asked = 0;
  BitBatch batch{};
  std::vector<unsigned> tags{};
};

struct Trace {
  std::string name;
  unsigned depth = 0;
  std::vector<Step> steps;
};

Step parse_step(std::istringstream& line, char kind) {
  Step step;
  step.kind = kind;
  if (kind == 'B') {
    line >> step.asked >> std::hex >> step.batch.mask >> std::dec >> step.batch.offset;
  } else if (kind == 'E') {
    line >> step.asked;
  } else {
    for (unsigned tag = 0; line >> tag;) step.tags.push_back(tag);
  }
  return step;
}

std::vector<Trace> read_traces() {
  std::ifstream file(MQLAB_TEST_DATA "/kernel_traces.txt");
  REQUIRE_MESSAGE(file.good(), "cannot read " MQLAB_TEST_DATA "/kernel_traces.txt");
  std::vector<Trace> traces;
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text[0] == '#') continue;
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "trace") {
      traces.emplace_back();
      line >> traces.back().name >> traces.back().depth;
    } else {
      traces.back().steps.push_back(parse_step(line, word[0]));
    }
  }
  return traces;
}

bool same(Tags<P>& tags, const Step& step) {
  const unsigned cpu = P::this_cpu();
  switch (step.kind) {
    case 'S':
      return tags.bitmap(false).get() == step.tags.front();
    case 'F':
      for (const unsigned tag : step.tags) tags.put(tag, cpu);
      return true;
    case 'R':
      tags.put_batch(step.tags);
      return true;
    default: {
      const BitBatch batch = tags.get_batch(step.asked);
      return batch.mask == step.batch.mask && (batch.mask == 0 || batch.offset == step.batch.offset);
    }
  }
}

/// How many steps go as in the kernel, from the hint on.
std::size_t steps_alike(const Trace& trace, unsigned hint) {
  Tags<P> tags(trace.depth);
  tags.bitmap(false).bits().hint(P::this_cpu(), hint);
  for (std::size_t i = 0; i < trace.steps.size(); ++i)
    if (!same(tags, trace.steps[i])) return i;
  return trace.steps.size();
}

}  // namespace

TEST_CASE("the tags of a real kernel, one by one") {
  const std::vector<Trace> traces = read_traces();
  REQUIRE(traces.size() == 7);
  for (const Trace& trace : traces) {
    CAPTURE(trace.name);
    REQUIRE(trace.steps.size() > 30);
    std::size_t best = 0;
    for (unsigned hint = 0; hint < trace.depth; ++hint) best = std::max(best, steps_alike(trace, hint));
    CHECK(best == trace.steps.size());
  }
}
