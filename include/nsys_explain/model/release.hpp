#pragma once

namespace nsys_explain {

/// Gives back what a container holds: `container = {}` would only empty it and keep its memory.
template <class Container>
void release(Container& container) {
  container = Container();
}

}  // namespace nsys_explain
