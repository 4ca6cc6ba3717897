#include "tools/lssar/call/data_options.h"

#include <limits>
#include <utility>

#include "tools/lssar/options/number_option.h"

namespace lssar::command {

void DataOptions::add_to(CLI::App& app) {
  add_whole(app, "--seed", seed_, "of the random inputs (default 1)", uint64_t{0},
            std::numeric_limits<uint64_t>::max())
      ->group("Data");
  app.add_option("--data", data_, "kind of the random inputs (default gauss)")
      ->type_name("gauss|peaky|clustered|opposed|ties|near_ties|zeros|huge|local|shifted")
      ->group("Data");
}

bool DataOptions::is_given() const { return seed_ || data_; }

Result<AttentionInputs> DataOptions::inputs(const Problem& problem, const Sizes& sizes) const {
  LSSAR_ASSIGN_OR_RETURN(const InputKind data, kind());
  RandomInputs random = random_inputs(problem, sizes, data, seed());
  return AttentionInputs{std::move(random.q),          std::move(random.k),
                         std::move(random.v),          std::move(random.grad_o),
                         std::move(random.sink),       std::move(random.rotary_cos),
                         std::move(random.rotary_sin), std::move(random.alibi_slopes)};
}

}  // namespace lssar::command
