#include "codegen/wgmma_source.h"

#include <set>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr size_t kOperandsLineWidth = 93;  // with the indent and a quote, 100

// Writes `items`, separated by ", ", over several lines. The first line begins with `first`, and
// the others are indented to match.
void write_list(SourceWriter& out, const std::vector<std::string>& items, const std::string& first,
                const char* separator) {
  std::string line = first;
  for (size_t i = 0; i < items.size(); ++i) {
    if (line.size() + items[i].size() > kOperandsLineWidth) {
      out.line(line.substr(0, line.find_last_not_of(' ') + 1));
      line = std::string(first.size(), ' ');
    }
    line += items[i];
    if (i + 1 < items.size()) line += separator;
  }
  out.line(line);
}

// See templates/ptx/wgmma.cuh.
struct Form {
  const char* name;
  bool begins;          // d = a b; otherwise d += a b
  bool from_registers;  // for a
};
constexpr Form kForms[] = {{"begin_shared", true, false},
                           {"add_shared", false, false},
                           {"begin_registers", true, true},
                           {"add_registers", false, true}};

void write_operand_macros(SourceWriter& out) {
  out.line(
      "// The assembly's beginning (d is read if `setp` is eq), ten operands, a row of d, four.");
  out.line("#define LSSAR_WGMMA(setp, shape) \\");
  out.line("  \"{\\n.reg .pred p;\\nsetp.\" setp \".b32 p, 0, 0;\\n\" \\");
  out.line("  \"wgmma.mma_async.sync.aligned.m64\" shape \" {\"");
  out.line("#define LSSAR_TEN(t) \\");
  out.line("  \"%\" t \"0, %\" t \"1, %\" t \"2, %\" t \"3, %\" t \"4, \" \\");
  out.line("  \"%\" t \"5, %\" t \"6, %\" t \"7, %\" t \"8, %\" t \"9, \"");
  out.line("#define LSSAR_ROW(use, d) use(d[0]), use(d[1]), use(d[2]), use(d[3])");
  out.line("#define LSSAR_ROWS(use, d, i) \\");
  out.line("  LSSAR_ROW(use, d[i]), LSSAR_ROW(use, d[(i) + 1]), \\");
  out.line("  LSSAR_ROW(use, d[(i) + 2]), LSSAR_ROW(use, d[(i) + 3])");
  out.line();
}

// The numbers of all registers except the last ones, ten per line. `rest` receives the last ones.
std::vector<std::string> register_numbers(int count, std::string& rest) {
  std::vector<std::string> tens;
  const int num_tens = (count - 1) / 10;
  for (int ten = 0; ten < num_tens; ++ten)
    tens.push_back(fmt::format("LSSAR_TEN(\"{}\")", ten == 0 ? "" : std::to_string(ten)));
  for (int i = num_tens * 10; i < count; ++i)
    rest += fmt::format("{}%{}", i == num_tens * 10 ? "" : ", ", i);
  return tens;
}

// The operands of the assembly for d: written, or read and written.
std::vector<std::string> row_operands(int num_rows, bool begins) {
  const char* use = begins ? "\"=f\"" : "\"+f\"";
  std::vector<std::string> operands;
  int row = 0;
  for (; row + 4 <= num_rows; row += 4)
    operands.push_back(fmt::format("LSSAR_ROWS({}, d, {})", use, row));
  for (; row < num_rows; ++row) operands.push_back(fmt::format("LSSAR_ROW({}, d[{}])", use, row));
  return operands;
}

// `a` and the descriptor of b follow d as operands. Then immediates say which of the two are
// transposed.
void write_form(SourceWriter& out, const WgmmaShape& shape, const Form& form) {
  const char* type = shape.dtype == DType::kFp16 ? "f16" : "bf16";
  const bool from_registers = form.from_registers;
  const int num_registers = shape.cols / 2;
  std::string rest;
  const std::vector<std::string> tens = register_numbers(num_registers, rest);
  const int next = num_registers;
  const int b = next + (from_registers ? 4 : 1);
  const std::string a =
      from_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", next, next + 1, next + 2, next + 3)
                     : fmt::format("%{}", next);
  // The immediates before these are the scales of a and b (1 or -1).
  const std::string transposes =
      from_registers ? fmt::format("%{}", b + 1) : fmt::format("%{}, %{}", b + 1, b + 2);
  out.line(from_registers ? "template <int kTransposeB>"
                          : "template <int kTransposeA, int kTransposeB>");
  out.open("static LSSAR_DEVICE void $name$(float (&d)[$tiles$][4], $a$, u64 b)",
           {{"name", form.name},
            {"tiles", std::to_string(shape.cols / 8)},
            {"a", from_registers ? "const u32 (&a)[4]" : "u64 a"}});
  out.line(
      "asm volatile(LSSAR_WGMMA(\"$compare$\", \"n$n$k16.f32.$type$.$type$\")",
      {{"compare", form.begins ? "ne" : "eq"}, {"n", std::to_string(shape.cols)}, {"type", type}});
  if (!tens.empty()) write_list(out, tens, "             ", " ");
  out.line("             \"$rest$\"", {{"rest", rest}});
  out.line("             \"}, $a$, %$b$, p, 1, 1, $transposes$;\\n}\"",
           {{"a", a}, {"b", std::to_string(b)}, {"transposes", transposes}});
  write_list(out, row_operands(shape.cols / 8, form.begins), "             : ", ", ");
  out.line(from_registers
               ? "             : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
                 "\"n\"(kTransposeB) : \"memory\");"
               : "             : \"l\"(a), \"l\"(b), \"n\"(kTransposeA), \"n\"(kTransposeB) : "
                 "\"memory\");");
  out.close();
}

WgmmaShape forward_values(const Problem& problem, const Schedule& schedule) {
  return {problem.dtype, schedule.block_dv};
}
std::set<WgmmaShape> forward_scores(const Problem& problem, const Schedule& schedule) {
  return {{problem.dtype, hopper_score_cols(problem, schedule)},
          {problem.dtype, schedule.forward.block_cols}};
}

// Whether the forward may use the form, for scores or for o, which is only added to. A backward may
// use all forms; the source keeps those that it calls.
bool may_use(const Problem& problem, const Schedule& schedule, const WgmmaShape& shape,
             const Form& form) {
  if (problem.pass == Pass::kBackward) return true;
  const bool is_of_scores = forward_scores(problem, schedule).contains(shape) &&
                            form.from_registers == schedule.hopper.queries_in_registers;
  const bool weights_in_registers = schedule.hopper.weights_from == WeightsFrom::kRegisters;
  const bool is_of_values = shape == forward_values(problem, schedule) && !form.begins &&
                            form.from_registers == weights_in_registers;
  return is_of_scores || is_of_values;
}

}  // namespace

std::vector<WgmmaShape> wgmma_shapes(const Problem& problem, const Schedule& schedule) {
  if (schedule.variant != Variant::kHopper) return {};
  std::set<WgmmaShape> shapes;
  if (problem.pass != Pass::kBackward) {
    shapes = forward_scores(problem, schedule);
    shapes.insert(forward_values(problem, schedule));
  } else {
    shapes = {{problem.dtype, schedule.dkdv.block_cols},
              {problem.dtype, problem.head_dim},
              {problem.dtype, problem.head_dim_v}};
    if (sums_dq(schedule))
      shapes.insert({problem.dtype, hopper_query_grad_cols(problem, schedule)});
    if (has_dq_tiles(schedule)) shapes.insert({problem.dtype, schedule.dq.block_cols});
  }
  return {shapes.begin(), shapes.end()};
}

void write_wgmma(SourceWriter& out, const Problem& problem, const Schedule& schedule) {
  const std::vector<WgmmaShape> shapes = wgmma_shapes(problem, schedule);
  if (shapes.empty()) return;
  write_operand_macros(out);
  out.line("template <class T, int N>");
  out.line("struct Wgmma;");
  for (const WgmmaShape& shape : shapes) {
    out.line();
    out.line("template <>");
    out.open("struct Wgmma<$type$, $cols$>",
             {{"type", shape.dtype == DType::kFp16 ? "Fp16" : "Bf16"},
              {"cols", std::to_string(shape.cols)}});
    bool is_first = true;
    for (const Form& form : kForms) {
      if (!may_use(problem, schedule, shape, form)) continue;
      if (!is_first) out.line();
      is_first = false;
      write_form(out, shape, form);
    }
    out.close(";");
  }
}

}  // namespace lssar
