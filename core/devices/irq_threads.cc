#include "devices/irq_threads.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/text_file.h"
#include "devices/task_stack.h"

namespace mqlab::devices {
namespace {

namespace fs = std::filesystem;

// A file of proc that is read again and again, from its beginning.
class ProcFile {
 public:
  explicit ProcFile(const std::string& path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  // What there is now, as far as a page of it goes; empty when the task is gone or nobody may know.
  std::string_view text() {
    const ssize_t size = pread(file_.get(), page_.data(), page_.size(), 0);
    return {page_.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
  }

 private:
  Descriptor file_;
  std::array<char, 4096> page_{};
};

}  // namespace

std::optional<unsigned> irq_of_name(std::string_view name) {
  constexpr std::string_view kHead = "irq/";
  if (!name.starts_with(kHead)) return std::nullopt;
  name.remove_prefix(kHead.size());
  unsigned irq = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), irq);
  const bool whole = error == std::errc() && end != name.data() + name.size() && *end == '-';
  return whole ? std::optional(irq) : std::nullopt;
}

char state_of_stat(std::string_view text) {
  // The name stands in brackets and may hold any character, brackets included.
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string_view::npos || end_of_name + 2 >= text.size()) return '?';
  return text[end_of_name + 2];
}

struct IrqThreads::Files {
  explicit Files(const std::string& folder) : stat(folder + "/stat"), stack(folder + "/stack") {}
  ProcFile stat;
  ProcFile stack;
};

IrqThreads::IrqThreads(const std::set<unsigned>& irqs, const std::string& proc) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, none)) {
    const std::string folder = entry.path();
    const auto irq = irq_of_name(text_of(folder + "/comm"));
    if (irq && irqs.contains(*irq)) threads_.push_back(std::make_unique<Files>(folder));
  }
}
IrqThreads::~IrqThreads() = default;

bool IrqThreads::tells_stacks() const { return !threads_.empty() && !threads_.front()->stack.text().empty(); }

std::vector<IrqThreadState> IrqThreads::look() const {
  std::vector<IrqThreadState> states;
  states.reserve(threads_.size());
  for (const auto& thread : threads_) states.push_back({state_of_stat(thread->stat.text()), {}});
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (states[i].state != 'D') continue;
    std::vector<std::string> stack = parse_stack(threads_[i]->stack.text());
    if (state_of_stat(threads_[i]->stat.text()) == 'D') states[i].stack = std::move(stack);
  }
  return states;
}

}  // namespace mqlab::devices
