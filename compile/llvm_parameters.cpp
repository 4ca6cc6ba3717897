#include "compile/llvm_parameters.h"

#include <string>
#include <vector>

#include <llvm/IR/CallingConv.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Metadata.h>
#include <llvm/IR/Module.h>

namespace lssar {
namespace {

// The functions that nvvm.annotations names as kernels.
std::vector<llvm::Function*> kernels_of(llvm::Module& module) {
  std::vector<llvm::Function*> kernels;
  const llvm::NamedMDNode* annotations = module.getNamedMetadata("nvvm.annotations");
  if (annotations == nullptr) return kernels;
  for (const llvm::MDNode* node : annotations->operands()) {
    llvm::Function* function =
        llvm::mdconst::dyn_extract_or_null<llvm::Function>(node->getOperand(0));
    if (function == nullptr || function->isDeclaration()) continue;
    for (unsigned i = 1; i + 1 < node->getNumOperands(); i += 2) {
      const auto* word = llvm::dyn_cast_or_null<llvm::MDString>(node->getOperand(i));
      if (word != nullptr && word->getString() == "kernel") kernels.push_back(function);
    }
  }
  return kernels;
}

// The uses of a parameter's address, grouped by what the back end does with them.
struct AddressUses {
  std::vector<llvm::Use*> escaping;  // need a generic address
  bool is_written = false;
};

// Follows an address through additions. The back end turns the loads into ld.param.
void collect_uses(llvm::Value& address, AddressUses& uses) {
  for (llvm::Use& use : address.uses()) {
    llvm::User* user = use.getUser();
    if (llvm::isa<llvm::LoadInst>(user)) continue;
    if (llvm::isa<llvm::GetElementPtrInst>(user)) {
      collect_uses(*user, uses);
      continue;
    }
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(user);
    if (store != nullptr && store->getPointerOperand() == use.get()) uses.is_written = true;
    uses.escaping.push_back(&use);
  }
}

// The parameter's generic address. NOTE: it is built from the parameter's name in PTX. If it were
// built from the argument, the back end would see one more use and copy the struct. With the back
// end's own "grid_constant" all loads would be generic.
llvm::Value* generic_address(llvm::IRBuilder<>& builder, const llvm::Argument& argument) {
  const std::string name =
      (argument.getParent()->getName() + "_param_").str() + std::to_string(argument.getArgNo());
  const std::string text = "{\n.reg .b64 lssar_param;\nmov.b64 lssar_param, " + name +
                           ";\ncvta.param.u64 $0, lssar_param;\n}";
  llvm::FunctionType* type = llvm::FunctionType::get(argument.getType(), false);
  return builder.CreateCall(type, llvm::InlineAsm::get(type, text, "=l", /*hasSideEffects=*/false));
}

// `address` is `from` plus an offset. Returns `to` plus the same offset.
llvm::Value* rebase(llvm::Value* address, const llvm::Argument& from, llvm::Value* to) {
  if (address == &from) return to;
  auto* original = llvm::cast<llvm::GetElementPtrInst>(address);
  auto* copy = llvm::cast<llvm::GetElementPtrInst>(original->clone());
  copy->insertBefore(original);
  copy->setOperand(0, rebase(original->getPointerOperand(), from, to));
  return copy;
}

void use_in_place(llvm::Argument& argument) {
  AddressUses uses;
  collect_uses(argument, uses);
  if (uses.is_written || uses.escaping.empty()) return;
  llvm::IRBuilder<> builder(&argument.getParent()->getEntryBlock().front());
  llvm::Value* generic = generic_address(builder, argument);
  for (llvm::Use* use : uses.escaping) {
    llvm::Value* address = use->get();
    use->set(rebase(address, argument, generic));
    auto* original = llvm::dyn_cast<llvm::Instruction>(address);
    if (original != nullptr && original->use_empty()) original->eraseFromParent();
  }
}

}  // namespace

void use_parameters_in_place(llvm::Module& module) {
  for (llvm::Function* kernel : kernels_of(module))
    for (llvm::Argument& argument : kernel->args())
      if (argument.hasByValAttr()) use_in_place(argument);
}

}  // namespace lssar
