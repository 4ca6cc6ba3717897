#include "virtual/program/opcode_order.h"

#include <cstdint>
#include <vector>

namespace lssar::vdev {
namespace {

// Names of more than one word. The words after them may be in any order.
constexpr std::string_view kNames[] = {
    "bar.arrive",
    "bar.cta.arrive",
    "bar.cta.red",
    "bar.cta.sync",
    "bar.red",
    "bar.sync",
    "bar.warp.sync",
    "barrier.arrive",
    "barrier.cluster.arrive",
    "barrier.cluster.wait",
    "barrier.cta",
    "barrier.cta.arrive",
    "barrier.cta.red",
    "barrier.red",
    "barrier.sync",
    "cp.async",
    "cp.async.bulk",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.prefetch",
    "cp.async.bulk.prefetch.tensor",
    "cp.async.bulk.tensor",
    "cp.async.bulk.wait_group",
    "cp.async.commit_group",
    "cp.async.mbarrier.arrive",
    "cp.async.wait_all",
    "cp.async.wait_group",
    "cp.reduce.async.bulk",
    "cp.reduce.async.bulk.tensor",
    "createpolicy.cvt",
    "createpolicy.fractional",
    "createpolicy.range",
    "cvt.pack",
    "cvta.to",
    "div.full",
    "dp2a.hi",
    "dp2a.lo",
    "fence.proxy",
    "mad.hi",
    "mad.lo",
    "mad.wide",
    "mad24.hi",
    "mad24.lo",
    "madc.hi",
    "madc.lo",
    "mbarrier.arrive",
    "mbarrier.arrive.expect_tx",
    "mbarrier.arrive_drop",
    "mbarrier.arrive_drop.expect_tx",
    "mbarrier.complete_tx",
    "mbarrier.expect_tx",
    "mbarrier.init",
    "mbarrier.inval",
    "mbarrier.pending_count",
    "mbarrier.test_wait",
    "mbarrier.test_wait.parity",
    "mbarrier.try_wait",
    "mbarrier.try_wait.parity",
    "mul.hi",
    "mul.lo",
    "mul.wide",
    "mul24.hi",
    "mul24.lo",
    "red.async",
    "setmaxnreg.dec",
    "setmaxnreg.inc",
    "shf.l",
    "shf.r",
    "st.async",
    "tensormap.cp_fenceproxy",
    "tensormap.replace",
    "wgmma.commit_group",
    "wgmma.fence",
    "wgmma.mma_async",
    "wgmma.wait_group",
};

constexpr size_t kMaxWords = 16;

struct Words {
  std::vector<std::string_view> words;  // without dots
  std::vector<uint32_t> after;          // by word: the words that must come before it
};

// The number of words of the opcode's name in kNames; 1 if it is not there.
size_t words_of_name(std::string_view opcode) {
  size_t most = 1;
  for (const std::string_view name : kNames) {
    const bool fits =
        opcode.starts_with(name) && (opcode.size() == name.size() || opcode[name.size()] == '.');
    if (!fits) continue;
    size_t words = 1;
    for (const char c : name) words += c == '.';
    most = words > most ? words : most;
  }
  return most;
}

constexpr std::string_view kDigits = "0123456789";

// "u32", "bf16x2", "tf32", "e4m3", "pred", ..., but not "f4e", a mode of prmt.
bool is_type(std::string_view word) {
  if (word == "pred") return true;
  const size_t digit = word.find_first_of(kDigits);
  if (digit == std::string_view::npos) return false;
  const std::string_view kind = word.substr(0, digit);
  if (kind == "e" || kind == "ue") return true;
  const size_t end = word.find_first_not_of(kDigits, digit);
  const bool is_number = end == std::string_view::npos || word[end] == 'x';
  for (const std::string_view k : {"b", "u", "s", "f", "bf", "tf"}) {
    if (kind == k) return is_number;
  }
  return false;
}

bool is_vector(std::string_view word) { return word == "v2" || word == "v4"; }

// The class of a word; words of one class keep their order. 0: no class.
int order_class(std::string_view word) {
  if (word == "b1024") return 0;  // of a tensor map, beside the type of a field
  if (is_type(word)) return 1;
  for (const std::string_view space : {"global", "shared", "param", "local", "const"}) {
    if (word == space || (word.starts_with(space) && word.substr(space.size()).starts_with("::"))) {
      return 2;
    }
  }
  if (word == "row" || word == "col") return 3;
  return word.starts_with("L2::evict") ? 4 : 0;
}

// False: ptxas accepts the opcode in no other order.
bool take_apart(std::string_view opcode, Words& taken) {
  for (std::string_view rest = opcode;;) {
    const size_t dot = rest.find('.');
    taken.words.push_back(rest.substr(0, dot));
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  const size_t count = taken.words.size();
  if (count > kMaxWords) return false;
  const size_t name = words_of_name(opcode);
  taken.after.assign(count, 0);
  for (size_t i = 1; i < count; ++i) {
    if (i < name) {
      taken.after[i] = (1u << i) - 1;
      continue;
    }
    taken.after[i] |= (1u << name) - 1;
    const int order = order_class(taken.words[i]);
    for (size_t j = name; j < i; ++j) {
      if (order != 0 && order_class(taken.words[j]) == order) taken.after[i] |= 1u << j;
    }
    if (!is_vector(taken.words[i])) continue;
    if (i + 1 == count || !is_type(taken.words[i + 1])) return false;
    taken.after[i + 1] |= 1u << i;
  }
  return true;
}

// Matches a pattern. It takes a word of the opcode at every dot, with backtracking.
class Matcher {
 public:
  explicit Matcher(const Words& words) : words_(words) {}

  // Matches `literal`, then `pattern`, with the rest of the current word.
  bool match(std::string_view literal, const char* pattern, std::string_view rest);
  bool all_used() const { return order_.size() == words_.words.size(); }
  std::string spelling() const;
  bool take(size_t word, std::string_view literal, const char* pattern);

 private:
  bool match_group(const char* pattern, std::string_view rest);

  const Words& words_;
  uint32_t used_ = 0;
  std::vector<size_t> order_;
};

bool Matcher::take(size_t word, std::string_view literal, const char* pattern) {
  if (((used_ >> word) & 1) != 0 || (words_.after[word] & ~used_) != 0) return false;
  used_ |= 1u << word;
  order_.push_back(word);
  if (match(literal, pattern, words_.words[word])) return true;
  order_.pop_back();
  used_ &= ~(1u << word);
  return false;
}

// A group of alternatives: [.a|.b] or (.a|.b).
bool Matcher::match_group(const char* pattern, std::string_view rest) {
  const bool optional = *pattern == '[';
  std::string_view group(pattern + 1);
  group = group.substr(0, group.find(optional ? ']' : ')'));
  const char* const behind = pattern + 1 + group.size() + 1;
  while (true) {
    const size_t bar = group.find('|');
    if (match(group.substr(0, bar), behind, rest)) return true;
    if (bar == std::string_view::npos) break;
    group.remove_prefix(bar + 1);
  }
  return optional && match({}, behind, rest);
}

bool Matcher::match(std::string_view literal, const char* pattern, std::string_view rest) {
  while (true) {
    if (literal.empty()) {
      if (*pattern == '\0') return rest.empty() && all_used();
      if (*pattern == '[' || *pattern == '(') return match_group(pattern, rest);
      literal = std::string_view(pattern++, 1);
    }
    const char next = literal[0];
    literal.remove_prefix(1);
    if (next != '.') {
      if (rest.empty() || rest[0] != next) return false;
      rest.remove_prefix(1);
      continue;
    }
    if (!rest.empty()) return false;
    for (size_t i = 0; i < words_.words.size(); ++i) {
      if (take(i, literal, pattern)) return true;
    }
    return false;
  }
}

std::string Matcher::spelling() const {
  std::string spelled;
  for (const size_t word : order_) {
    if (!spelled.empty()) spelled += '.';
    spelled += words_.words[word];
  }
  return spelled;
}

}  // namespace

std::optional<std::string> in_order_of(const char* pattern, std::string_view opcode) {
  Words words;
  if (!take_apart(opcode, words)) return std::nullopt;
  Matcher matcher(words);
  if (!matcher.take(0, {}, pattern)) return std::nullopt;
  std::string spelled = matcher.spelling();
  // No word may become a part of the name: "mul.u32.lo" is not "mul.lo.u32".
  if (words_of_name(spelled) != words_of_name(opcode)) return std::nullopt;
  return spelled;
}

}  // namespace lssar::vdev
