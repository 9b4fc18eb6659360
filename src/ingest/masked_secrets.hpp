#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// What stands for a secret.
inline constexpr std::string_view secret_mask = "***";

/// `text` (valid UTF-8) with what a program should not have written into it masked: passwords and tokens, by what they
/// are called or how they begin, and values of variables of the environment. Numbers stay, but for passwords; of the
/// environment also what is too short or too plain for a token. Returns false where nothing was masked; `masked` is
/// then left alone.
///
///     "load, HF_TOKEN=0a1b2c3d from https://me:pw@host/x, BATCH=32"
///     "load, HF_TOKEN=*** from https://***@host/x, BATCH=32"
bool mask_secrets(std::string_view text, std::string& masked);

/// `text`, masked where it has to be.
std::string without_secrets(std::string text);

}  // namespace nsys_explain::ingest
