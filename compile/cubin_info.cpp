#include "compile/cubin_info.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "codegen/target.h"

namespace lssar {
namespace {

constexpr int kMachineCuda = 190;  // EM_CUDA
// Set in a symbol's st_other for kernels, not for device functions.
constexpr unsigned char kSymbolEntry = 0x10;

// The section .nv.info is a sequence of records: format (1 byte), attribute (1 byte), 2 bytes. The
// 2 bytes are the value itself or, for kFormatSized, the number of bytes that follow.
constexpr uint8_t kFormatSized = 4;
constexpr uint8_t kAttributeFrameSize = 0x11;  // {symbol index, bytes of stack frame}
constexpr uint8_t kAttributeMinStack = 0x12;   // {symbol index, bytes of stack with callees}
constexpr uint8_t kAttributeRegisters = 0x2f;  // {symbol index, registers}

// Limits what overlapping names in a hostile file can cost. A longer name reads as "".
constexpr size_t kMaxNameBytes = 4096;

// From sm_90 on the system reserves the first bytes of a block's shared memory. An image that
// accounts for this has the section below, and its kernels' sections include these bytes.
constexpr const char* kReservedSharedSection = ".nv.shared.reserved.0";

Status malformed(const std::string& what) { return invalid_argument("cubin: " + what); }

class CubinReader {
 public:
  explicit CubinReader(std::string_view bytes) : bytes_(bytes) {}

  Result<std::vector<KernelResources>> read();

 private:
  // A copy of the T at `offset`. Nothing in a file is guaranteed to be aligned.
  template <typename T>
  bool load(std::string_view from, uint64_t offset, T* value) const {
    if (offset > from.size() || from.size() - offset < sizeof(T)) return false;
    std::memcpy(value, from.data() + offset, sizeof(T));
    return true;
  }

  Status read_sections();
  Status read_kernels();
  void read_info();
  void read_shared();

  // Text in bytes_; "" if it is out of bounds, has no end or is too long.
  std::string_view text_at(const Elf64_Shdr& strings, uint64_t offset) const;
  // Empty if it is out of bounds. NOBITS sections have no bytes.
  std::string_view contents(const Elf64_Shdr& section) const;
  const Elf64_Shdr* section_named(std::string_view name) const;

  std::string_view bytes_;
  std::vector<Elf64_Shdr> sections_;
  std::unordered_map<std::string_view, size_t> section_by_name_;  // the first section of each name
  std::vector<KernelResources> kernels_;
  std::unordered_map<uint32_t, size_t> kernel_by_symbol_;
};

std::string_view CubinReader::contents(const Elf64_Shdr& section) const {
  if (section.sh_type == SHT_NOBITS || section.sh_offset > bytes_.size() ||
      bytes_.size() - section.sh_offset < section.sh_size) {
    return {};
  }
  return bytes_.substr(section.sh_offset, section.sh_size);
}

std::string_view CubinReader::text_at(const Elf64_Shdr& strings, uint64_t offset) const {
  const std::string_view table = contents(strings);
  if (offset >= table.size()) return "";
  const std::string_view text = table.substr(offset, kMaxNameBytes + 1);
  const size_t end = text.find('\0');
  return end == std::string_view::npos ? "" : text.substr(0, end);
}

const Elf64_Shdr* CubinReader::section_named(std::string_view name) const {
  const auto found = section_by_name_.find(name);
  return found == section_by_name_.end() ? nullptr : &sections_[found->second];
}

Status CubinReader::read_sections() {
  Elf64_Ehdr header;
  if (!load(bytes_, 0, &header)) return malformed("shorter than an ELF header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return malformed("not a 64-bit little-endian ELF");
  }
  if (header.e_machine != kMachineCuda) {
    return malformed(fmt::format("machine = {}, not {} (CUDA)", header.e_machine, kMachineCuda));
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return malformed("size of a section header");
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (header.e_shoff > bytes_.size() ||
        !load(bytes_, header.e_shoff + i * sizeof(Elf64_Shdr), &section)) {
      return malformed("section headers end beyond the file");
    }
    sections_.push_back(section);
  }
  if (header.e_shstrndx >= sections_.size()) return malformed("no section names");
  for (size_t i = 0; i < sections_.size(); ++i) {
    section_by_name_.emplace(text_at(sections_[header.e_shstrndx], sections_[i].sh_name), i);
  }
  return {};
}

Status CubinReader::read_kernels() {
  const Elf64_Shdr* symbols = section_named(".symtab");
  if (symbols == nullptr || symbols->sh_link >= sections_.size()) {
    return malformed("no symbol table");
  }
  const std::string_view table = contents(*symbols);
  if (table.size() != symbols->sh_size) return malformed("symbol table ends beyond the file");
  const Elf64_Shdr& strings = sections_[symbols->sh_link];
  for (uint32_t i = 0; i < table.size() / sizeof(Elf64_Sym); ++i) {
    Elf64_Sym symbol;
    if (!load(table, uint64_t{i} * sizeof(symbol), &symbol)) break;
    const bool is_kernel =
        ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && (symbol.st_other & kSymbolEntry) != 0;
    if (!is_kernel) continue;
    KernelResources kernel;
    kernel.entry = text_at(strings, symbol.st_name);
    if (kernel.entry.empty()) return malformed(fmt::format("symbol {} has no name", i));
    kernel.shared_bytes = 0;
    kernel_by_symbol_[i] = kernels_.size();
    kernels_.push_back(std::move(kernel));
  }
  return {};
}

void CubinReader::read_info() {
  const Elf64_Shdr* section = section_named(".nv.info");
  if (section == nullptr) return;
  const std::string_view info = contents(*section);
  struct Record {
    uint8_t format, attribute;
    uint16_t size;
  };
  Record record;
  for (uint64_t at = 0; load(info, at, &record); at += sizeof(record)) {
    if (record.format != kFormatSized) continue;
    struct SymbolValue {
      uint32_t symbol, value;
    };
    SymbolValue pair;
    const bool has_pair = record.size == sizeof(pair) && load(info, at + sizeof(record), &pair);
    at += record.size;
    if (!has_pair) continue;
    const auto found = kernel_by_symbol_.find(pair.symbol);
    if (found == kernel_by_symbol_.end() || pair.value > INT32_MAX) continue;
    KernelResources& kernel = kernels_[found->second];
    const int value = static_cast<int>(pair.value);
    if (record.attribute == kAttributeRegisters) kernel.registers = value;
    if (record.attribute == kAttributeFrameSize || record.attribute == kAttributeMinStack) {
      kernel.local_bytes = std::max(kernel.local_bytes, value);
    }
  }
}

void CubinReader::read_shared() {
  const bool has_reserved = section_named(kReservedSharedSection) != nullptr;
  for (KernelResources& kernel : kernels_) {
    const Elf64_Shdr* section = section_named(".nv.shared." + kernel.entry);
    if (section == nullptr) continue;
    uint64_t size = section->sh_size;
    if (has_reserved && size >= uint64_t{kReservedSharedBytes}) size -= kReservedSharedBytes;
    kernel.shared_bytes = size > INT32_MAX ? INT32_MAX : static_cast<int>(size);
  }
}

Result<std::vector<KernelResources>> CubinReader::read() {
  LSSAR_RETURN_IF_ERROR(read_sections());
  LSSAR_RETURN_IF_ERROR(read_kernels());
  read_info();
  read_shared();
  return std::move(kernels_);
}

}  // namespace

Result<std::vector<KernelResources>> read_cubin_resources(std::string_view cubin) {
  return CubinReader(cubin).read();
}

}  // namespace lssar
