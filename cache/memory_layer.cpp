#include "cache/memory_layer.h"

#include <iterator>
#include <utility>

namespace lssar {
namespace {

uint64_t bytes_of(const CacheEntry& entry) { return entry.metadata.size() + entry.payload.size(); }

}  // namespace

std::shared_ptr<const CacheEntry> MemoryLayer::find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  items_.splice(items_.begin(), items_, found->second);
  return found->second->entry;
}

void MemoryLayer::insert(const std::string& key, std::shared_ptr<const CacheEntry> entry) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) erase(found->second);
  bytes_ += bytes_of(*entry);
  items_.push_front({key, std::move(entry)});
  by_key_[key] = items_.begin();
  while (bytes_ > max_bytes_ && items_.size() > 1) erase(std::prev(items_.end()));
}

void MemoryLayer::erase(std::list<Item>::iterator item) {
  bytes_ -= bytes_of(*item->entry);
  by_key_.erase(item->key);
  items_.erase(item);
}

}  // namespace lssar
