#include "tools/lssar/options/overrides.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/lssar/terminal/print_text.h"

namespace lssar::command {

Status check_overridden(const PreparedKernels& kernels) {
  const auto is_generated = [](const auto& kernel) { return !kernel->override_missed.empty(); };
  if (kernels.empty() || !std::all_of(kernels.begin(), kernels.end(), is_generated)) return {};
  std::string text = "LSSAR_OVERRIDE_DIR overrides no kernel of this command";
  for (const auto& kernel : kernels) text += "; " + kernel->override_missed;
  return invalid_argument(
      text + "; lssar emit --override, with the same options of problem and target, writes it");
}

void print_overrides(const PreparedKernels& kernels) {
  for (const auto& kernel : kernels) {
    if (!kernel->override_path.empty())
      print_text("{} is {}, instead of what is generated\n", kernel->source.name,
                 kernel->override_path);
    if (!kernel->override_missed.empty())
      print_text("{} is generated: {}\n", kernel->source.name, kernel->override_missed);
  }
}

}  // namespace lssar::command
