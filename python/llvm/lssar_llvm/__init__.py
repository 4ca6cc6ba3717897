"""The LLVM compiler of lssar, lib/liblssar_llvm.so. liblssar.so opens it; there is nothing to call."""
