#include "tests/virtual/strict/mutate.h"

#include <cctype>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

namespace lssar::test {
namespace {

// A line that holds one instruction, with its guard.
struct Statement {
  std::string guard;   // "@%p1 " or ""
  std::string opcode;  // "bar.sync"
  std::vector<std::string> operands;
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

// Operands are split at commas outside brackets and braces.
std::vector<std::string> split_operands(std::string_view text) {
  std::vector<std::string> operands;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c != ',' || (depth != 0 && i < text.size())) continue;
    operands.emplace_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return operands;
}

bool parse_statement(std::string_view line, Statement& statement) {
  line = trim(line.substr(0, line.find("//")));
  if (line.empty() || line.back() != ';') return false;
  line.remove_suffix(1);
  statement = {};
  if (line.front() == '@') {
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    statement.guard = std::string(line.substr(0, end)) + " ";
    line = trim(line.substr(end));
  }
  const size_t end = std::min(line.find_first_of(" \t"), line.size());
  statement.opcode = std::string(line.substr(0, end));
  const std::string_view rest = trim(line.substr(end));
  if (!rest.empty()) statement.operands = split_operands(rest);
  return true;
}

std::string join(const Statement& s, const std::string& opcode,
                 const std::vector<std::string>& operands) {
  std::string text = s.guard + opcode;
  for (size_t i = 0; i < operands.size(); ++i) text += (i == 0 ? " " : ", ") + operands[i];
  return text + ";";
}

struct Change {
  std::string what;
  std::string line;
};

// Changes the operand, a literal or a register, by an added instruction with a register of its own.
std::string with_operand(const Statement& s, size_t operand, const std::string& operation) {
  Statement changed = s;
  const std::string source = s.operands[operand];
  changed.operands[operand] = "mutated";
  return fmt::format("{{ .reg .b32 mutated; {}; {} }}",
                     fmt::format(fmt::runtime(operation), source),
                     join(changed, s.opcode, changed.operands));
}
Change add_to(const Statement& s, size_t operand, const char* name, int amount) {
  return {fmt::format("{} {:+}", name, amount),
          with_operand(s, operand, fmt::format("add.s32 mutated, {{}}, {}", amount))};
}

using Changes = std::vector<Change>;

Changes change_wait(const Statement& s) {
  Changes changes = {{"taken away", ""}};
  if (s.operands.size() == 1) {
    const int pending = std::stoi(s.operands[0]);
    changes.push_back({"one more pending", join(s, s.opcode, {std::to_string(pending + 1)})});
  }
  if (s.opcode == "cp.async.bulk.wait_group") {
    changes.push_back({"only reads", join(s, s.opcode + ".read", s.operands)});
  }
  return changes;
}

Changes change_barrier(const Statement& s) {
  Changes changes = {{"taken away", ""}};
  if (s.operands.size() == 2) {
    changes.push_back(add_to(s, 1, "threads", 32));
    changes.push_back(add_to(s, 1, "threads", -32));
  }
  return changes;
}

// Weakens an instruction that orders others.
Changes weaken(const Statement& s) {
  for (const char* order : {".acquire", ".release", ".acq_rel"}) {
    const size_t at = s.opcode.find(order);
    if (at == std::string::npos) continue;
    std::string opcode = s.opcode;
    opcode.replace(at, std::strlen(order), ".relaxed");
    return {{"relaxed", join(s, opcode, s.operands)}};
  }
  return {};
}

Changes change_arrive(const Statement& s) {
  const bool expects = s.opcode.find("expect_tx") != std::string::npos;
  // A thread that expects bytes has written nothing itself, and the bytes order themselves.
  Changes changes = expects ? Changes{} : weaken(s);
  changes.push_back({"taken away", ""});
  if (expects) {
    changes.push_back(add_to(s, s.operands.size() - 1, "bytes", 16));
    changes.push_back(add_to(s, s.operands.size() - 1, "bytes", -16));
  }
  if (s.opcode.find(".noinc") != std::string::npos) {
    std::string opcode = s.opcode;
    opcode.erase(opcode.find(".noinc"), 6);
    changes.push_back({"counts itself", join(s, opcode, s.operands)});
  }
  return changes;
}

Changes change_init(const Statement& s) {
  return {add_to(s, 1, "count", 1), add_to(s, 1, "count", -1)};
}

Changes change_test(const Statement& s) {
  Changes changes = weaken(s);
  if (s.opcode.find(".parity") != std::string::npos) {
    changes.push_back({"other parity", with_operand(s, 2, "xor.b32 mutated, {}, 1")});
  }
  changes.push_back({"taken for true", fmt::format("setp.eq.u32 {}, 0, 0;", s.operands[0])});
  changes.push_back({"result ignored", fmt::format("{} setp.eq.u32 {}, 0, 0;",
                                                   join(s, s.opcode, s.operands), s.operands[0])});
  return changes;
}

Changes change_registers(const Statement& s) {
  const int registers = std::stoi(s.operands[0]);
  return {{"taken away", ""}, {"8 more", join(s, s.opcode, {std::to_string(registers + 8)})}};
}

Changes take_away_only(const Statement&) { return {{"taken away", ""}}; }

Changes change_release(const Statement& s) {
  Changes changes = weaken(s);
  if (!changes.empty()) changes.push_back({"taken away", ""});
  return changes;
}

struct Rule {
  const char* prefix;
  Changes (*changes)(const Statement& statement);
};
// The first rule that fits counts.
constexpr Rule kRules[] = {
    {"cp.async.mbarrier.arrive", change_arrive},
    {"cp.async.wait", change_wait},
    {"cp.async.commit_group", take_away_only},
    {"cp.async.bulk.wait_group", change_wait},
    {"cp.async.bulk.commit_group", take_away_only},
    {"wgmma.wait_group", change_wait},
    {"wgmma.commit_group", take_away_only},
    {"wgmma.fence", take_away_only},
    {"fence.", take_away_only},
    {"membar.", take_away_only},
    {"griddepcontrol.wait", take_away_only},
    {"bar.warp.sync", take_away_only},
    {"bar.red", take_away_only},
    {"bar.", change_barrier},
    {"barrier.cluster.", take_away_only},
    {"mbarrier.init", change_init},
    {"mbarrier.inval", take_away_only},
    {"mbarrier.arrive", change_arrive},
    {"mbarrier.expect_tx", change_arrive},
    {"mbarrier.try_wait", change_test},
    {"mbarrier.test_wait", change_test},
    {"setmaxnreg", change_registers},
    {"ld.", weaken},
    {"st.", change_release},
    {"red.", change_release},
    {"atom.", weaken},
};

// The registers of an entry that hold a phase's parity, or a part of its computation.
using Parities = std::set<std::string>;

bool is_flip(const Statement& s, const Parities& parities) {
  return s.opcode == "xor.b32" && s.operands.size() == 3 && parities.count(s.operands[0]) != 0;
}

// Walks from the last statement to the first until nothing is new, because loops carry parities
// around.
Parities find_parities(const std::vector<Statement>& entry) {
  Parities parities;
  for (const Statement& s : entry) {
    if (s.opcode.find("wait.parity") != std::string::npos) parities.insert(s.operands[2]);
  }
  for (size_t before = 0; before != parities.size();) {
    before = parities.size();
    for (auto s = entry.rbegin(); s != entry.rend(); ++s) {
      const bool is_copy = s->opcode == "mov.b32" && parities.count(s->operands[0]) != 0;
      if (is_copy || is_flip(*s, parities)) parities.insert(s->operands[1]);
    }
  }
  return parities;
}

Changes changes_of(const Statement& statement, const Parities& parities) {
  if (is_flip(statement, parities)) {
    return {{"not flipped",
             join(statement, "mov.b32", {statement.operands[0], statement.operands[1]})}};
  }
  for (const Rule& rule : kRules) {
    if (statement.opcode.starts_with(rule.prefix)) return rule.changes(statement);
  }
  return {};
}

std::string entry_name(std::string_view line) {
  constexpr std::string_view kEntry = ".entry ";
  const size_t at = line.find(kEntry);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + kEntry.size());
  return std::string(rest.substr(0, rest.find_first_of("( \t")));
}

struct Line {
  int number;
  size_t begin, end;    // in the module
  std::string entry;    // the entry that has it
  Statement statement;  // without an opcode if it is none
};

std::vector<Line> split_lines(const std::string& module) {
  std::vector<Line> lines;
  std::string entry;
  int number = 1;
  for (size_t at = 0; at < module.size(); ++number) {
    const size_t end = std::min(module.find('\n', at), module.size());
    const std::string_view text = std::string_view(module).substr(at, end - at);
    if (const std::string name = entry_name(text); !name.empty()) entry = name;
    Line line{number, at, end, entry, {}};
    if (!parse_statement(text, line.statement)) line.statement = {};
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

std::map<std::string, Parities> parities_by_entry(const std::vector<Line>& lines) {
  std::map<std::string, std::vector<Statement>> entries;
  for (const Line& line : lines) entries[line.entry].push_back(line.statement);
  std::map<std::string, Parities> parities;
  for (const auto& [name, statements] : entries) parities[name] = find_parities(statements);
  return parities;
}

}  // namespace

std::string with_plain_sums(const std::string& module) {
  std::string changed;
  for (const Line& line : split_lines(module)) {
    const Statement& s = line.statement;
    if (s.opcode != "red.global.add.v2.f32") {
      changed += module.substr(line.begin, line.end - line.begin) + "\n";
      continue;
    }
    const std::string& pair = s.operands[1];  // {x, y}
    const std::vector<std::string> added = split_operands(pair.substr(1, pair.size() - 2));
    changed += fmt::format(
        "{{ .reg .f32 sum<2>; {0}ld.global.v2.f32 {{sum0, sum1}}, {1}; {0}add.f32 sum0, sum0, "
        "{2}; {0}add.f32 sum1, sum1, {3}; {0}st.global.v2.f32 {1}, {{sum0, sum1}}; }}\n",
        s.guard, s.operands[0], added[0], added[1]);
  }
  return changed;
}

std::vector<Mutant> make_mutants(const std::string& module) {
  // Which of how many lines with an opcode in an entry.
  struct Place {
    std::string group;
    int ordinal;
    std::string what;
  };
  const std::vector<Line> lines = split_lines(module);
  const std::map<std::string, Parities> parities = parities_by_entry(lines);
  std::vector<Mutant> mutants;
  std::vector<Place> places;
  std::map<std::string, int> count;
  for (const Line& line : lines) {
    if (line.statement.opcode.empty()) continue;
    const Changes changes = changes_of(line.statement, parities.at(line.entry));
    const std::string group = line.entry + ": " + line.statement.opcode;
    const int ordinal = changes.empty() ? 0 : ++count[group];
    for (const Change& change : changes) {
      places.push_back({group, ordinal, change.what});
      mutants.push_back({{},
                         line.entry,
                         line.statement.opcode,
                         line.number,
                         module.substr(0, line.begin) + change.line + module.substr(line.end)});
    }
  }
  for (size_t i = 0; i < mutants.size(); ++i) {
    const auto& [group, ordinal, what] = places[i];
    const bool last = ordinal > 1 && ordinal == count[group];
    mutants[i].name =
        fmt::format("{} {}: {}", group, last ? "last" : fmt::format("#{}", ordinal), what);
  }
  return mutants;
}

}  // namespace lssar::test
