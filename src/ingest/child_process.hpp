#pragma once

namespace nsys_explain::ingest {

/// To be called right before a program is started: it inherits nothing but its standard streams. A child with a copy of
/// one of MPI's sockets would hide from the launcher and the other ranks that its parent died, and they would wait for
/// it as long as the child runs. (Not every system has posix_spawn_file_actions_addclosefrom_np.)
void keep_descriptors_from_children();

}  // namespace nsys_explain::ingest
