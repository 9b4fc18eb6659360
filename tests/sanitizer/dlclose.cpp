// Linked into sanitizer builds only. Open MPI unloads its plugins before the leak check runs, and a leak of an unloaded
// module has no name that a suppression could match. So nothing is unloaded.
extern "C" int dlclose(void* /*handle*/) noexcept {
  return 0;
}
