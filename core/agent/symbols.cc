#include "agent/symbols.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/text_file.h"

namespace mqlab::agent {
namespace {

struct Function {
  std::uint64_t address = 0;
  std::string_view name;
};

bool is_code(char type) { return type == 't' || type == 'T' || type == 'w' || type == 'W'; }

// "ADDRESS TYPE NAME" or "ADDRESS TYPE NAME\t[MODULE]".
std::vector<Function> parse(std::string_view text) {
  std::vector<Function> functions;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    Function function;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), function.address, 16);
    const auto at = static_cast<std::size_t>(end - line.data());
    if (error != std::errc() || function.address == 0 || line.size() < at + 4 || !is_code(line[at + 1])) continue;
    function.name = line.substr(at + 3);
    function.name = function.name.substr(0, function.name.find('\t'));
    functions.push_back(function);
  }
  return functions;
}

}  // namespace

std::string kernel_functions(const std::string& kallsyms) {
  const std::string text = text_of(kallsyms);
  std::vector<Function> functions = parse(text);
  std::stable_sort(functions.begin(), functions.end(),
                   [](const Function& a, const Function& b) { return a.address < b.address; });
  std::string told;
  std::uint64_t before = 0;
  for (const Function& function : functions) {
    std::array<char, 16> delta{};
    const auto [end, error] = std::to_chars(delta.data(), delta.data() + delta.size(), function.address - before, 16);
    if (!told.empty()) told += ' ';
    told.append(delta.data(), end).append(1, ' ').append(function.name);
    before = function.address;
  }
  return told;
}

std::string text_address(const std::string& kallsyms) {
  std::ifstream file(kallsyms);
  for (std::string line; std::getline(file, line);) {
    const std::string address = line.substr(0, line.find(' '));
    const bool is_hidden = address.find_first_not_of('0') == std::string::npos;
    if (!is_hidden && (line.ends_with(" _text") || line.ends_with(" _stext"))) return address;
  }
  return {};
}

}  // namespace mqlab::agent
