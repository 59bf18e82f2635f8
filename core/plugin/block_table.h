// How often each block of a guest's code was executed: in all, and inside of the measured windows of each job.
//
// Translated code adds to the counters directly, so a block stays where it is for the life of the table. Code of
// the kernel has an address of its own for ever and is counted by block; user code is one sum, since its
// addresses are used again and again.
//
// Thread safety: none. The guest's CPUs must be executed by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

namespace mqlab::plugin {

struct Block {
  std::uint64_t address = 0;
  std::uint64_t instructions = 0;  // of one execution
  std::uint64_t runs = 0;
  std::uint64_t runs_at_begin = 0;
  std::uint64_t runs_in_windows = 0;  // of the job that runs
};

class BlockTable {
 public:
  // The block at an address. The same address may begin blocks of several lengths.
  Block& block(std::uint64_t address, std::uint64_t instructions);
  std::uint64_t& user_instructions() { return user_; }

  // What the agent marks. A window that is open when a job ends is left out.
  void begin_job();
  void begin_window();
  void end_window();
  // What is executed from now on is not counted in the boot's sums: a guest that has switched itself off goes on until
  // the emulator has noticed, which takes a while in the host's time.
  void end_boot();

  // Text, a fact a line; vm/counts.py describes and reads it. Ends the last job.
  void write(std::FILE* out);

 private:
  struct Run {
    const Block* block;
    std::uint64_t runs;
  };
  struct Job {
    std::uint64_t windows = 0;
    std::uint64_t user = 0;
    std::vector<Run> runs{};
  };

  void end_job();

  struct Key {
    std::uint64_t address;
    std::uint64_t instructions;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::uint64_t>()(key.address * 31 + key.instructions);
    }
  };

  std::deque<Block> blocks_;
  std::unordered_map<Key, Block*, KeyHash> by_key_;
  std::uint64_t user_ = 0;
  std::uint64_t user_at_begin_ = 0;
  struct Sums {
    std::uint64_t kernel = 0;
    std::uint64_t other = 0;
  };
  Sums sums() const;
  std::optional<Sums> at_end_of_boot_;
  bool window_is_open_ = false;
  bool job_runs_ = false;
  Job job_;
  std::vector<Job> jobs_;
};

}  // namespace mqlab::plugin
