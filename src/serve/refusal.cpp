#include "serve/refusal.hpp"

namespace nsys_explain::serve {

std::string beginning_of(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

Refusal refusal_of(int status, std::string_view sentence) {
  const std::size_t advice = sentence.rfind("; ");
  const std::string_view rest = sentence.substr(0, advice);
  const std::size_t reason = rest.find(", so ");
  const auto part = [](std::string_view text, std::size_t at, std::size_t skipped) {
    return at == std::string_view::npos ? std::string() : std::string(text.substr(at + skipped));
  };
  return {status, std::string(rest.substr(0, reason)), part(rest, reason, 2), part(sentence, advice, 2)};
}

std::string error_json(const Refusal& refusal) {
  const nlohmann::ordered_json error = {
      {"error", {{"problem", refusal.problem()}, {"why", refusal.why()}, {"what_to_do", refusal.what_to_do()}}}};
  return error.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace nsys_explain::serve
