"""A run that stands still where a test wants it: a stand-in for nsys waits in its export until it is let go."""

import os


class HangingExport:
    """`directory` must be seen by the tool wherever it runs. Put `path()` first on its PATH."""

    def __init__(self, directory):
        self.gate, self.reached = directory / "gate", directory / "reached"
        self.program = directory / "bin" / "nsys"
        self.program.parent.mkdir()
        # "Exports" by copying the file named in the report.
        self.program.write_text(f"""#!/bin/bash
while [ $# -gt 1 ]; do [ "$1" = --output ] && out=$2; shift; done
[ -p {self.gate} ] && {{ echo $PPID >{self.reached}.part; mv {self.reached}.part {self.reached}; : <{self.gate}; }}
cp "$(cat "$1")" "$out"
""")
        self.program.chmod(0o755)

    def path(self, others):
        return f"{self.program.parent}:{others}"

    def close(self):
        """From now on exports hang."""
        if not self.gate.exists():
            os.mkfifo(self.gate)
        self.reached.unlink(missing_ok=True)

    def hanging_tool(self):
        """The process number of the tool (in its own namespace) whose export hangs; None while there is none."""
        return int(self.reached.read_text()) if self.reached.exists() else None

    def open(self):
        """Lets what still stands at the gate go; later exports do not hang."""
        if not self.gate.exists():
            return
        # Stays open: who found the gate, and comes to it only now, does not stand there for good.
        os.open(self.gate, os.O_RDWR | os.O_NONBLOCK)
        self.gate.unlink()
