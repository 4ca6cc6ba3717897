#include "codegen/wgmma_source.h"

#include <set>

#include <fmt/format.h>

#include "codegen/kernel.h"
#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr size_t kLineWidth = 88;

// `items` separated by ", " over lines of the source: the first between `first` and `end`, the
// others between `next` and `end`; the last without the space after its comma.
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

// One form: its operands after d are `a` and b's descriptor.
void write_form(SourceWriter& out, const WgmmaShape& shape, bool from_registers) {
  const char* type = shape.dtype == DType::kFp16 ? "f16" : "bf16";
  const int num_registers = shape.cols / 2;
  std::vector<std::string> numbers, registers;
  for (int i = 0; i < num_registers; ++i) {
    numbers.push_back(fmt::format("%{}", i));
    registers.push_back(fmt::format("\"+f\"(d[{}][{}])", i / 4, i % 4));
  }
  const int next = num_registers;
  const int a_operands = from_registers ? 4 : 1;
  const int b = next + a_operands;
  const std::string a =
      from_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", next, next + 1, next + 2, next + 3)
                     : fmt::format("%{}", next);
  // Immediates: scales of a and b (1, -1), then which of them are transposed.
  const std::string transposes =
      from_registers ? fmt::format("%{}", b + 2) : fmt::format("%{}, %{}", b + 2, b + 3);
  out.line(from_registers ? "template <int kTransposeB>"
                          : "template <int kTransposeA, int kTransposeB>");
  out.open("static LSSAR_DEVICE void $name$(float (&d)[$tiles$][4], $a$, u64 b, bool accumulate)",
           {{"name", from_registers ? "registers" : "shared"},
            {"tiles", std::to_string(shape.cols / 8)},
            {"a", from_registers ? "const u32 (&a)[4]" : "u64 a"}});
  out.line("asm volatile(");
  out.line("    \"{\\n.reg .pred p;\\nsetp.ne.b32 p, %$flag$, 0;\\n\"",
           {{"flag", std::to_string(b + 1)}});
  out.line("    \"wgmma.mma_async.sync.aligned.m64n$n$k16.f32.$type$.$type$ {\"",
           {{"n", std::to_string(shape.cols)}, {"type", type}});
  write_list(out, numbers, "    \"", "    \"", "\"");
  out.line("    \"}, $a$, %$b$, p, 1, 1, $transposes$;\\n}\"",
           {{"a", a}, {"b", std::to_string(b)}, {"transposes", transposes}});
  write_list(out, registers, "    : ", "      ", "");
  if (from_registers) {
    out.line(
        "    : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b), "
        "\"r\"(static_cast<int>(accumulate)),");
    out.line("      \"n\"(kTransposeB)");
  } else {
    out.line(
        "    : \"l\"(a), \"l\"(b), \"r\"(static_cast<int>(accumulate)), "
        "\"n\"(kTransposeA), \"n\"(kTransposeB)");
  }
  out.line("    : \"memory\");");
  out.close();
}

}  // namespace

std::vector<WgmmaShape> wgmma_shapes(const Problem& problem, const Schedule& schedule) {
  if (schedule.variant != Variant::kHopper) return {};
  const DType score_type = needs_unit_keys(problem, schedule) ? DType::kFp16 : problem.dtype;
  std::set<WgmmaShape> shapes;
  if (problem.pass != Pass::kBackward) {
    shapes = {{score_type, schedule.hopper.score_cols},
              {score_type, schedule.forward.block_cols},
              {problem.dtype, schedule.block_dv}};
  } else {
    shapes = {{problem.dtype, schedule.dkdv.block_cols},
              {problem.dtype, problem.head_dim},
              {problem.dtype, problem.head_dim_v}};
    if (schedule.dq_mode == DqMode::kAtomic) {
      shapes.insert({problem.dtype, hopper_query_grad_cols(problem, schedule)});
    } else {
      shapes.insert({problem.dtype, schedule.dq.block_cols});
    }
  }
  return {shapes.begin(), shapes.end()};
}

void write_wgmma(SourceWriter& out, const WgmmaShape& shape) {
  out.line("template <>");
  out.open("struct Wgmma<$type$, $cols$>", {{"type", shape.dtype == DType::kFp16 ? "Fp16" : "Bf16"},
                                            {"cols", std::to_string(shape.cols)}});
  write_form(out, shape, false);
  out.line();
  write_form(out, shape, true);
  out.close(";");
  out.line();
}

}  // namespace lssar
