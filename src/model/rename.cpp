#include "model/rename.hpp"

#include <stdexcept>

#include <re2/re2.h>

namespace nsys_explain {

Rename::Rename(std::string_view expression, std::string_view replacement) : replacement_(replacement) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  compiled_ = std::make_shared<const re2::RE2>(re2::StringPiece(expression.data(), expression.size()), options);
  if (!compiled_->ok()) throw std::invalid_argument(compiled_->error());
  std::string error;
  if (!compiled_->CheckRewriteString(replacement_, &error)) throw std::invalid_argument(error);
}

std::string Rename::of(std::string_view name) const {
  std::string renamed(name);
  re2::RE2::GlobalReplace(&renamed, *compiled_, replacement_);
  return renamed;
}

}  // namespace nsys_explain
