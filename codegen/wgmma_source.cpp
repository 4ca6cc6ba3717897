#include "codegen/wgmma_source.h"

#include <set>

#include <fmt/format.h>

#include "codegen/pass_needs.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr size_t kLineWidth = 93;  // with the indent and a quote, 100

// Writes `items`, separated by ", ", over lines of the source. The first line begins with `first`,
// the others with `next`, and all end with `end`. There is no space after the last comma.
void write_list(SourceWriter& out, const std::vector<std::string>& items, const char* first,
                const char* next, const char* end) {
  std::string line = first;
  for (size_t i = 0; i < items.size(); ++i) {
    if (line.size() + items[i].size() > kLineWidth) {
      out.line(line + end);
      line = next;
    }
    line += items[i];
    if (i + 1 < items.size()) line += ", ";
  }
  out.line(line + end);
}

// See templates/ptx/wgmma.cuh.
struct Form {
  const char* name;
  bool begins;          // d = a b; else d += a b
  bool from_registers;  // a
};
constexpr Form kForms[] = {{"begin_shared", true, false},
                           {"add_shared", false, false},
                           {"begin_registers", true, true},
                           {"add_registers", false, true}};

// Four registers of d as operands of the assembly, written or read as well.
constexpr const char* kOperands[] = {"LSSAR_D(", "LSSAR_SUM_D("};

void write_operand_macros(SourceWriter& out) {
  out.line("// Four registers of a product: written, and read as well.");
  out.line("#define LSSAR_D(d) \"=f\"(d[0]), \"=f\"(d[1]), \"=f\"(d[2]), \"=f\"(d[3])");
  out.line("#define LSSAR_SUM_D(d) \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])");
  out.line();
}

// The operands after d are `a` and the descriptor of b. Immediates follow that say which of them
// are transposed.
void write_form(SourceWriter& out, const WgmmaShape& shape, const Form& form) {
  const char* type = shape.dtype == DType::kFp16 ? "f16" : "bf16";
  const bool from_registers = form.from_registers;
  const int num_registers = shape.cols / 2;
  std::vector<std::string> numbers, registers;
  for (int i = 0; i < num_registers; ++i) {
    numbers.push_back(fmt::format("%{}", i));
    if (i % 4 == 0)
      registers.push_back(fmt::format("{}d[{}])", kOperands[form.begins ? 0 : 1], i / 4));
  }
  const int next = num_registers;
  const int b = next + (from_registers ? 4 : 1);
  const std::string a =
      from_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", next, next + 1, next + 2, next + 3)
                     : fmt::format("%{}", next);
  // Scales of a and b (1, -1) come first.
  const std::string transposes =
      from_registers ? fmt::format("%{}", b + 1) : fmt::format("%{}, %{}", b + 1, b + 2);
  out.line(from_registers ? "template <int kTransposeB>"
                          : "template <int kTransposeA, int kTransposeB>");
  out.open("static LSSAR_DEVICE void $name$(float (&d)[$tiles$][4], $a$, u64 b)",
           {{"name", form.name},
            {"tiles", std::to_string(shape.cols / 8)},
            {"a", from_registers ? "const u32 (&a)[4]" : "u64 a"}});
  out.line("asm volatile(");
  out.line("    \"{\\n.reg .pred p;\\nsetp.$compare$.b32 p, 0, 0;\\n\"",
           {{"compare", form.begins ? "ne" : "eq"}});
  out.line("    \"wgmma.mma_async.sync.aligned.m64n$n$k16.f32.$type$.$type$ {\"",
           {{"n", std::to_string(shape.cols)}, {"type", type}});
  write_list(out, numbers, "    \"", "    \"", "\"");
  out.line("    \"}, $a$, %$b$, p, 1, 1, $transposes$;\\n}\"",
           {{"a", a}, {"b", std::to_string(b)}, {"transposes", transposes}});
  write_list(out, registers, "    : ", "      ", "");
  out.line(from_registers ? "    : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
                            "\"n\"(kTransposeB)"
                          : "    : \"l\"(a), \"l\"(b), \"n\"(kTransposeA), \"n\"(kTransposeB)");
  out.line("    : \"memory\");");
  out.close();
}

WgmmaShape forward_values(const Problem& problem, const Schedule& schedule) {
  return {problem.dtype, schedule.block_dv};
}
std::set<WgmmaShape> forward_scores(const Problem& problem, const Schedule& schedule) {
  return {{problem.dtype, hopper_score_cols(schedule)},
          {problem.dtype, schedule.forward.block_cols}};
}

// Whether the forward may use it: scores are products of their own, o a sum of many. Backwards may
// use all, of which the source keeps what is called.
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
