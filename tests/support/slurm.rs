//! A private Slurm: controller and node on this machine, everything in a temporary folder.

use super::skip;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time the daemons may take to start.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running Slurm; it is stopped when this value is dropped.
pub(crate) struct Slurm {
    folder: TempDir,
}

impl Slurm {
    /// Starts one, or skips the test where that is impossible.
    pub(crate) fn start() -> Option<Self> {
        Self::try_start().map_err(|why| skip("`bench --launcher slurm`", &why)).ok()
    }

    fn try_start() -> Result<Self, String> {
        for program in ["munged", "slurmctld", "slurmd", "sbatch"] {
            if !installed(program) {
                return Err(format!("`{program}` is not installed; `scripts/setup --slurm` installs it"));
            }
        }
        let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.trim_ascii() == b"0");
        if !root {
            return Err("the daemons of Slurm need root".into());
        }
        let folder = tempfile::Builder::new().prefix("slurm").tempdir().map_err(|e| e.to_string())?;
        let slurm = Self { folder };
        slurm.configure().map_err(|e| format!("Slurm cannot be configured: {e}"))?;
        let munge = slurm.path("munge");
        let option = |name: &str, file: &str| format!("--{name}={}", munge.join(file).display());
        let options = [
            option("key-file", "key"),
            option("socket", "socket"),
            option("pid-file", "pid"),
            option("log-file", "log"),
            option("seed-file", "seed"),
            "--force".into(),
        ];
        run(Command::new("munged").args(options))?;
        run(&mut slurm.command("slurmctld"))?;
        run(&mut slurm.command("slurmd"))?;
        let started = Instant::now();
        loop {
            let state = slurm.command("sinfo").args(["--noheader", "--format=%T"]).output();
            let state = state.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default();
            if state == "idle" {
                return Ok(slurm);
            }
            if started.elapsed() > START_LIMIT {
                let log = |name: &str| std::fs::read_to_string(slurm.path(name)).unwrap_or_default();
                let logs = format!("{}\n{}", log("slurmctld.log"), log("slurmd.log"));
                return Err(format!("Slurm is installed but does not start here (node is `{state}`):\n{logs}"));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A file in its folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command that talks to this Slurm.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env("SLURM_CONF", self.path("slurm.conf"));
        command
    }

    fn configure(&self) -> std::io::Result<()> {
        for folder in ["munge", "state", "spool"] {
            std::fs::create_dir(self.path(folder))?;
        }
        let key: Vec<u8> = (0..128).map(|i: u32| (i.wrapping_mul(97) ^ std::process::id()) as u8).collect();
        std::fs::write(self.path("munge/key"), key)?;
        run(Command::new("chmod").arg("400").arg(self.path("munge/key"))).map_err(std::io::Error::other)?;
        run(Command::new("chmod").arg("755").arg(self.folder.path()).arg(self.path("munge")))
            .map_err(std::io::Error::other)?;
        let host = Command::new("hostname").arg("-s").output()?;
        let host = String::from_utf8_lossy(&host.stdout).trim().to_string();
        // Both are free again before Slurm opens them, which is good enough for a test.
        let ports = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let [controller, node] = [ports[0].local_addr()?.port(), ports[1].local_addr()?.port()];
        let here = self.folder.path().display();
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={here}/munge/socket\nSlurmctldPort={controller}\nSlurmdPort={node}\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool\nSlurmctldPidFile={here}/slurmctld.pid\n\
             SlurmdPidFile={here}/slurmd.pid\nSlurmctldLogFile={here}/slurmctld.log\nSlurmdLogFile={here}/slurmd.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nJobAcctGatherType=jobacct_gather/none\nMpiDefault=none\nReturnToService=2\n\
             AccountingStorageType=accounting_storage/none\nKillWait=20\nNodeName={host} NodeAddr=127.0.0.1 CPUs=1\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        std::fs::write(self.path("slurm.conf"), text)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for file in ["slurmd.pid", "slurmctld.pid", "munge/pid"] {
            if let Ok(pid) = std::fs::read_to_string(self.path(file)) {
                let _ = Command::new("kill").arg(pid.trim()).output();
            }
        }
        // They write their state before they exit.
        let started = Instant::now();
        while self.path("slurmctld.pid").exists() && started.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn installed(program: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {program}")]).output().is_ok_and(|o| o.status.success())
}

fn run(command: &mut Command) -> Result<Output, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
