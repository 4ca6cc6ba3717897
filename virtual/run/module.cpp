#include "virtual/run/module.h"

#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "virtual/program/decoder.h"
#include "virtual/ptx/ptx_parser.h"

namespace lssar::vdev {
namespace {

class Module final : public DeviceModule {
 public:
  explicit Module(MemoryMap& memory) : memory_(memory) {}
  ~Module() override {
    for (const auto& [address, bytes] : ranges_) memory_.release_range(address, bytes);
  }
  Status load(const Image& image, const Target& target, SimdLevel level);
  Result<const DeviceFunction*> function(const std::string& entry) const override;
  Result<DevicePtr> variable(const std::string& name) const override;

 private:
  Status place_variables();

  MemoryMap& memory_;
  std::unique_ptr<ParsedModule> parsed_;
  std::unique_ptr<uint8_t[]> storage_;
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
  std::map<std::string, std::unique_ptr<Function>> functions_;
};

// PTX of an architecture runs on that one and later ones; with a suffix ("sm_90a") on that one
// only.
Status check_target(const std::string& ptx_target, const Target& target) {
  int number = 0;
  char suffix[8] = "";
  if (std::sscanf(ptx_target.c_str(), "sm_%d%7s", &number, suffix) < 1 || number <= 0) {
    return device_error(fmt::format("PTX for target '{}': not an architecture", ptx_target));
  }
  const int have = target.major * 10 + target.minor;
  const bool fits = suffix[0] == '\0' ? number <= have : number == have && target.suffix == suffix;
  if (fits) return {};
  return device_error(
      fmt::format("PTX for {}: the virtual device is sm_{}{}", ptx_target, have, target.suffix));
}

Status Module::place_variables() {
  uint64_t total = 0;
  for (Variable& v : parsed_->variables) {
    if (v.space != StateSpace::kGlobal && v.space != StateSpace::kConst) continue;
    const uint64_t align = std::max<uint64_t>(v.align, 16);
    total = (total + align - 1) / align * align;
    v.address = total;      // relative, until the storage exists
    total += v.bytes + 16;  // so that a variable's end is not the beginning of the next
  }
  if (total == 0) return {};
  storage_.reset(new (std::nothrow) uint8_t[total + (1u << 16)]());
  if (!storage_) return out_of_memory(fmt::format("{} bytes of module variables", total));
  const auto align = uint64_t{1} << 16;
  const uint64_t base = (reinterpret_cast<uint64_t>(storage_.get()) + align - 1) / align * align;
  for (Variable& v : parsed_->variables) {
    if (v.space != StateSpace::kGlobal && v.space != StateSpace::kConst) continue;
    v.address += base;
    if (!v.init.empty())
      std::memcpy(reinterpret_cast<void*>(v.address), v.init.data(), v.init.size());
    LSSAR_RETURN_IF_ERROR(memory_.import_range(v.address, v.bytes));
    ranges_.emplace_back(v.address, v.bytes);
  }
  for (const Variable& v : parsed_->variables) {
    for (const Variable::Relocation& r : v.relocations) {
      for (const Variable& other : parsed_->variables) {
        if (other.name != r.symbol) continue;
        uint64_t value = 0;
        auto* place = reinterpret_cast<uint8_t*>(v.address + r.offset);
        std::memcpy(&value, place, sizeof value);
        value += other.address;
        std::memcpy(place, &value, sizeof value);
        break;
      }
    }
  }
  return {};
}

// Puts every opcode's modifiers in the order of the table's rows.
void use_row_order(ParsedModule& module, const OpcodeTable& table) {
  std::unordered_map<std::string_view, std::string_view> known;
  for (const auto& kernel : module.kernels) {
    for (Instruction& in : kernel->instructions) {
      const auto [found, added] = known.try_emplace(in.opcode, in.opcode);
      if (added) {
        std::string ordered = table.in_row_order(in.opcode);
        if (ordered != in.opcode) found->second = module.spellings.emplace_back(std::move(ordered));
      }
      in.opcode = found->second;
    }
  }
}

Status Module::load(const Image& image, const Target& target, SimdLevel level) {
  LSSAR_ASSIGN_OR_RETURN(parsed_, parse_ptx(image.bytes));
  LSSAR_RETURN_IF_ERROR(check_target(parsed_->target, target));
  LSSAR_RETURN_IF_ERROR(place_variables());
  LSSAR_ASSIGN_OR_RETURN(const DevicePtr wait_report, variable(kWaitReportVariable));
  const OpcodeTable& table = opcode_table(level);
  use_row_order(*parsed_, table);
  for (const auto& kernel : parsed_->kernels) {
    std::unique_ptr<KernelProgram> program = decode_kernel(*parsed_, *kernel, table);
    program->limits_waits = wait_report != 0;
    functions_.emplace(std::string(kernel->name), std::make_unique<Function>(std::move(program)));
  }
  return {};
}

Result<const DeviceFunction*> Module::function(const std::string& entry) const {
  if (const auto found = functions_.find(entry); found != functions_.end()) {
    return static_cast<const DeviceFunction*>(found->second.get());
  }
  std::string have;
  for (const auto& [name, f] : functions_) have += " " + name;
  return device_error(fmt::format("no kernel '{}' in the image; there are:{}", entry, have));
}

Result<DevicePtr> Module::variable(const std::string& name) const {
  for (const Variable& v : parsed_->variables) {
    if (v.name == name && v.space == StateSpace::kGlobal) return DevicePtr{v.address};
  }
  return DevicePtr{0};
}

}  // namespace

KernelResources Function::resources() const {
  KernelResources r;
  r.entry = program_->name;
  r.shared_bytes = static_cast<int>(program_->static_shared_bytes);
  r.local_bytes = static_cast<int>(program_->local_bytes);
  return r;
}

Result<std::unique_ptr<DeviceModule>> load_module(const Image& image, const Target& target,
                                                  SimdLevel level, MemoryMap& memory) {
  auto module = std::make_unique<Module>(memory);
  LSSAR_RETURN_IF_ERROR(module->load(image, target, level));
  return std::unique_ptr<DeviceModule>(std::move(module));
}

}  // namespace lssar::vdev
