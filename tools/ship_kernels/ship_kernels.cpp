// lssar_ship_kernels PROBLEMS FOLDER: compiles kernels for liblssar_kernels.so, which
// tools/ship_kernels.sh links. For every problem of the file PROBLEMS (one JSON object a line) and
// every CPU target it writes
//
//   FOLDER/N.o      the object; kernels of different problems use the same names
//   FOLDER/names    a line for each function: N, its name, its name in the library
//   FOLDER/table.c  the library's table (compile/shipped_abi.h)
//
// Exit code: 0; 1 with a line on standard error if a problem is wrong or does not compile.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/schedule.h"
#include "codegen/target.h"
#include "compile/compiler.h"
#include "compile/shipped_kernels.h"

namespace lssar {
namespace {

struct ShippedFunction {
  std::string kernel;  // shipped_kernel_name()
  std::string entry;   // as it is called
  std::string symbol;  // in the library
};

Status write_file(const std::string& path, const std::string& bytes) {
  LSSAR_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path));
  LSSAR_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

Result<std::vector<Problem>> read_problems(const std::string& path) {
  std::ifstream file(path);
  if (!file) return io_error(path + ": cannot be read");
  std::vector<Problem> problems;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) return invalid_argument(fmt::format("{}:{}: not JSON", path, number));
    Result<Problem> problem = problem_from_json(json);
    if (!problem.ok()) return problem.status().with_context(fmt::format("{}:{}", path, number));
    problems.push_back(*problem);
  }
  return problems;
}

class Shipment {
 public:
  Shipment(std::string folder, std::shared_ptr<const Compiler> compiler)
      : folder_(std::move(folder)), compiler_(std::move(compiler)) {}

  // Two problems may have one kernel, which is then added once.
  Status add(const Problem& problem, const Target& target) {
    LSSAR_ASSIGN_OR_RETURN(const KernelSource source,
                           emit_kernel(problem, default_schedule(problem, target), target));
    const std::string kernel = shipped_kernel_name(source.source, target);
    for (const ShippedFunction& known : functions_)
      if (known.kernel == kernel) return {};
    CompileRequest request;
    request.name = source.name;
    request.source = source.source;
    request.target = target;
    request.kind = ImageKind::kObject;
    LSSAR_ASSIGN_OR_RETURN(const Image image, compiler_->compile(request));
    for (const LaunchStep& step : source.steps) {
      const std::string symbol = fmt::format("kernel_{}_{}", num_kernels_, step.entry);
      functions_.push_back({kernel, step.entry, symbol});
      names_ += fmt::format("{} {} {}\n", num_kernels_, step.entry, symbol);
    }
    return write_file(fmt::format("{}/{}.o", folder_, num_kernels_++), image.bytes);
  }

  Status finish() {
    std::sort(functions_.begin(), functions_.end(),
              [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
    std::string declared, rows;
    for (const ShippedFunction& f : functions_) {
      declared += fmt::format("void {}(void);\n", f.symbol);
      rows += fmt::format("    {{\"{}\", \"{}\", {}}},\n", f.kernel, f.entry, f.symbol);
    }
    LSSAR_RETURN_IF_ERROR(write_file(folder_ + "/names", names_));
    return write_file(
        folder_ + "/table.c",
        fmt::format("#include \"compile/shipped_abi.h\"\n\n{}\n"
                    "static const lssar_shipped_function functions[] = {{\n{}}};\n\n"
                    "static const lssar_shipped_table table = {{\n"
                    "    LSSAR_SHIPPED_ABI_VERSION, {}, functions, \"{} {}\"}};\n\n"
                    "__attribute__((visibility(\"default\")))\n"
                    "const lssar_shipped_table* lssar_shipped_kernels(void) {{ return &table; }}\n",
                    declared, rows, functions_.size(), compiler_->name(), compiler_->version()));
  }

  int num_kernels() const { return num_kernels_; }

 private:
  const std::string folder_;
  const std::shared_ptr<const Compiler> compiler_;
  std::vector<ShippedFunction> functions_;
  std::string names_;
  int num_kernels_ = 0;
};

Status ship(const std::string& problems_path, const std::string& folder) {
  LSSAR_ASSIGN_OR_RETURN(const std::vector<Problem> problems, read_problems(problems_path));
  LSSAR_ASSIGN_OR_RETURN(std::shared_ptr<const Compiler> compiler,
                         open_compiler(CompilerChoice::kLlvm));
  Shipment shipment(folder, std::move(compiler));
  for (const Problem& problem : problems) {
    for (const CpuLevel& level : cpu_levels()) {
      LSSAR_ASSIGN_OR_RETURN(const Target target, target_from_name(level.name));
      LSSAR_RETURN_IF_ERROR(shipment.add(problem, target).with_context(to_string(problem)));
    }
  }
  LSSAR_RETURN_IF_ERROR(shipment.finish());
  fmt::print("{} kernels\n", shipment.num_kernels());
  return {};
}

}  // namespace
}  // namespace lssar

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: lssar_ship_kernels PROBLEMS FOLDER\n", stderr);
    return 2;
  }
  const lssar::Status status = lssar::ship(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fputs(("lssar_ship_kernels: " + status.to_string() + '\n').c_str(), stderr);
  return 1;
}
