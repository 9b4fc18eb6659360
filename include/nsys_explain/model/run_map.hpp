#pragma once

#include <map>
#include <utility>

namespace nsys_explain {

/// A map for keys that come in runs, as the threads and streams of events do: the latest one is found at once.
template <class Key, class Value>
class RunMap {
 public:
  /// The value of the key, made where there is none yet.
  Value& operator[](const Key& key) {
    if (latest_ == nullptr || latest_->first != key) latest_ = &*map_.try_emplace(key).first;
    return latest_->second;
  }
  /// nullptr where there is none.
  Value* find(const Key& key) {
    if (latest_ == nullptr || latest_->first != key) {
      const auto found = map_.find(key);
      if (found == map_.end()) return nullptr;
      latest_ = &*found;
    }
    return &latest_->second;
  }
  const std::map<Key, Value>& all() const { return map_; }
  std::map<Key, Value>& all() { return map_; }

 private:
  std::map<Key, Value> map_;
  std::pair<const Key, Value>* latest_ = nullptr;
};

}  // namespace nsys_explain
