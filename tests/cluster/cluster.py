"""A cluster on one machine: hosts made of Linux namespaces, and a real Slurm on them.

Every host has a network of its own (a veth pair into a bridge that leads nowhere else), a host name, /tmp, /dev/shm,
a disk at /mnt/local and, but for the controller h0, processes of its own: when its first process dies, the host dies.
The machine's directory tree is what all hosts share. Needs root and the right to make namespaces; see `why_not`.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

NETWORK = "10.77.0"
PROGRAMS = ("ip", "nsenter", "unshare", "munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "squeue")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Root in a container, more ranks than cores, and a launch of PMIx that does not lose its first messages.
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_btl_tcp_if_include": "eth0",
    "OMPI_MCA_oob_tcp_if_include": "eth0", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "SLURM_PMIX_FENCE": "ring", "PMIX_MCA_gds": "hash",
}


def why_not():
    """Why no cluster can be made here; None where it can."""
    if os.geteuid() != 0:
        return "making namespaces needs root"
    missing = [p for p in PROGRAMS if shutil.which(p, path=SYSTEM_PATH) is None]
    if missing:
        return "not installed: " + " ".join(missing)
    probe = subprocess.run(["unshare", "--net", "--pid", "--mount", "--uts", "--ipc", "--fork", "true"],
                           capture_output=True, text=True)
    return None if probe.returncode == 0 else "namespaces are not allowed here: " + probe.stderr.strip()


class Cluster:
    """Hosts h0 (controller) and h1 ... hN, Slurm on h1 ... hN. Use as a context manager."""

    def __init__(self, hosts=4, processors=4, settings=""):
        """`settings`: further lines of slurm.conf; what stands there as {directory} is the shared disk."""
        self.hosts, self.processors, self.settings = hosts, processors, settings
        # Not below /tmp: every host has a /tmp of its own, and this directory is the shared disk.
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nsys-explain-cluster-", dir="/var/tmp"))
        self.directory.chmod(0o755)
        self.tag = f"nx{os.getpid() % 100000}"
        self.first_process = {}
        self.launchers = []

    # --- hosts
    def __enter__(self):
        try:
            self._start_hosts()
            self._start_slurm()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        for name in ("slurmctld.pid", "munged.h0.pid"):
            self._kill_by_file(self.directory / name)
        for process_id in self.first_process.values():
            self._kill(process_id)
        for launcher in self.launchers:
            launcher.kill()
            launcher.wait()
        for host in [f"h{i}" for i in range(self.hosts + 1)] + ["switch"]:
            subprocess.run(["ip", "netns", "del", self._namespace(host)], capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _namespace(self, host):
        return f"{self.tag}-{host}"

    @staticmethod
    def _kill(process_id):
        try:
            os.kill(process_id, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _kill_by_file(self, path):
        try:
            self._kill(int(path.read_text()))
        except (FileNotFoundError, ValueError):
            pass

    def _ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True, env={"PATH": SYSTEM_PATH})

    def _start_hosts(self):
        switch = self._namespace("switch")
        self._ip("netns", "add", switch)
        self._ip("-n", switch, "link", "add", "bridge0", "type", "bridge")
        self._ip("-n", switch, "link", "set", "bridge0", "up")
        names = [f"{NETWORK}.{100 + i} h{i}" for i in range(self.hosts + 1)]
        (self.directory / "hosts").write_text("127.0.0.1 localhost\n" + "\n".join(names) + "\n")
        for i in range(self.hosts + 1):
            host, namespace = f"h{i}", self._namespace(f"h{i}")
            self._ip("netns", "add", namespace)
            self._ip("link", "add", f"port{i}", "netns", switch, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            self._ip("-n", switch, "link", "set", f"port{i}", "master", "bridge0", "up")
            self._ip("-n", namespace, "addr", "add", f"{NETWORK}.{100 + i}/24", "dev", "eth0")
            self._ip("-n", namespace, "link", "set", "lo", "up")
            self._ip("-n", namespace, "link", "set", "eth0", "up")
            self._start_host(host)

    def _start_host(self, host):
        home = self.directory / "host" / host
        (home / "tmp").mkdir(parents=True)
        (home / "tmp").chmod(0o1777)
        (home / "local").mkdir()
        (home / "local").chmod(0o1777)
        # h0 keeps the machine's process numbers, so that it can enter the other hosts.
        own_processes = ["--pid", "--fork", "--kill-child"] if host != "h0" else []
        script = f"""
            {"mount -t proc proc /proc" if own_processes else ":"}
            hostname {host}
            mount -t tmpfs tmpfs /dev/shm
            mount --bind {self.directory}/hosts /etc/hosts
            mkdir -p /mnt/local && mount --bind {home}/local /mnt/local
            mount --rbind {home}/tmp /tmp
            touch {home}/up
            exec sleep infinity"""
        with open(home / "log", "w", encoding="utf-8") as log:
            launcher = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self._namespace(host)}", "unshare", *own_processes, "--mount", "--uts",
                 "--ipc", "--propagation", "private", "bash", "-c", script],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        self.launchers.append(launcher)
        self._until(lambda: (home / "up").exists(), f"host {host} did not start: see its log")
        first = launcher.pid
        if own_processes:
            first = int(pathlib.Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()[0])
        self.first_process[host] = first

    @staticmethod
    def _until(condition, complaint, attempts=600):
        for _ in range(attempts):
            if condition():
                return
            time.sleep(0.05)
        raise RuntimeError(complaint)

    def kill_host(self, host):
        self._kill(self.first_process[host])

    def local_disk(self, host):
        """Where /mnt/local of that host lies, seen from outside."""
        return self.directory / "host" / host / "local"

    def on(self, host, command, timeout=120, **options):
        """Runs a command on a host with exactly that environment; returns subprocess.CompletedProcess with text."""
        return subprocess.run(self._entering(host, command, **options), capture_output=True, text=True, timeout=timeout)

    def start_on(self, host, command, **options):
        """The same without waiting for its end: a subprocess.Popen."""
        return subprocess.Popen(self._entering(host, command, **options), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def _entering(self, host, command, environment=None, user=None, cwd=None):
        processes = ["-p"] if host != "h0" else []
        enter = ["nsenter", "-t", str(self.first_process[host]), "-n", "-m", "-u", "-i", *processes,
                 f"--wd={cwd or self.directory}", "--"]
        if user is not None:
            enter += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
        variables = {"PATH": SYSTEM_PATH, "HOME": "/root", "SLURM_CONF": str(self.directory / "slurm.conf"),
                     **MPI_ENVIRONMENT, **(environment or {})}
        return [*enter, "env", "-i", *(f"{k}={v}" for k, v in variables.items() if v is not None), *map(str, command)]

    # --- Slurm
    def _configuration(self):
        d = self.directory
        return f"""
ClusterName=pretend
SlurmctldHost=h0({NETWORK}.100)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/munge.socket
StateSaveLocation={d}/state
SlurmdSpoolDir=/mnt/local/slurmd
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile=/mnt/local/slurmd.pid
SlurmctldLogFile={d}/slurmctld.log
SlurmdLogFile={d}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={d}/finished-jobs.txt
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=10
KillWait=5
{self.settings.format(directory=d)}
NodeName=h[1-{self.hosts}] NodeAddr={NETWORK}.[101-{100 + self.hosts}] CPUs={self.processors} RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

    def _start_slurm(self):
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        (self.directory / "state").mkdir()
        (self.directory / "slurm.conf").write_text(self._configuration())
        for i in range(self.hosts + 1):
            host, local = f"h{i}", "/mnt/local"
            pid_file = self.directory / "munged.h0.pid" if i == 0 else f"{local}/munged.pid"
            self._daemon(host, "munged", f"--key-file={key}", "--socket=/tmp/munge.socket", f"--pid-file={pid_file}",
                         f"--log-file={local}/munged.log", f"--seed-file={local}/munged.seed", "--num-threads=2",
                         "--force")
        self._daemon("h0", "slurmctld", "-f", self.directory / "slurm.conf", "-c")
        for i in range(1, self.hosts + 1):
            (self.local_disk(f"h{i}") / "slurmd").mkdir()
            self._daemon(f"h{i}", "slurmd", "-f", self.directory / "slurm.conf")
        self._until(lambda: self.on("h0", ["sinfo", "-h", "-N", "-o", "%t"]).stdout.split() == ["idle"] * self.hosts,
                    "Slurm did not start: see slurmctld.log")

    def _daemon(self, host, *command):
        done = self.on(host, command)
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} on {host}: {done.stderr}")

    def srun(self, *arguments, **options):
        """srun from the controller; the launch itself is tried once more where PMIx lost it."""
        command = ["srun", "--immediate=20", "--mpi=pmix", *arguments]
        done = self.on("h0", command, **options)
        if "PMIX ERROR" in done.stderr or "SEGV" in done.stderr:
            done = self.on("h0", command, **options)
        return done

    def wait_for_jobs(self, seconds=120):
        """Until no job is queued or running; True if that came to pass."""
        for _ in range(int(seconds / 0.2)):
            if not self.on("h0", ["squeue", "-h", "-o", "%i"]).stdout.split():
                return True
            time.sleep(0.2)
        return False

    def finished_jobs(self):
        """JobId -> fields of Slurm's record of finished jobs."""
        path = self.directory / "finished-jobs.txt"
        jobs = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            fields = dict(part.split("=", 1) for part in line.split() if "=" in part)
            jobs[int(fields["JobId"])] = fields
        return jobs
