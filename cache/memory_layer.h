// A bounded store of entries in this process. The least recently used ones are dropped first.
//
// Threads: not safe. The store holds its lock around every call.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "cache/store.h"

namespace lssar {

class MemoryLayer {
 public:
  explicit MemoryLayer(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  std::shared_ptr<const CacheEntry> find(const std::string& key);
  void insert(const std::string& key, std::shared_ptr<const CacheEntry> entry);

 private:
  struct Item {
    std::string key;
    std::shared_ptr<const CacheEntry> entry;
  };

  void erase(std::list<Item>::iterator item);

  uint64_t max_bytes_;
  uint64_t bytes_ = 0;
  std::list<Item> items_;  // most recently used first
  std::unordered_map<std::string, std::list<Item>::iterator> by_key_;
};

}  // namespace lssar
