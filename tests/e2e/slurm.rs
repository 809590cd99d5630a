//! `curricle bench --launcher slurm` on a real Slurm.

use crate::support::slurm::Slurm;
use crate::support::{Sandbox, find, metrics_lines, program, small_recipe};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

struct Cluster<'a> {
    slurm: &'a Slurm,
    sandbox: &'a Sandbox,
}

impl Cluster<'_> {
    fn run(&self, command: &mut Command) -> Output {
        command.current_dir(self.sandbox.path("")).output().expect("the command starts")
    }

    fn bench(&self, recipe: &str, args: &[&str]) -> Output {
        let mut command = self.slurm.command(program());
        self.run(command.args(["bench", recipe]).args(args).env("OMP_NUM_THREADS", "1").env("NO_COLOR", "1"))
    }

    fn counts(&self, recipe: &str) -> Value {
        let output = self.bench(recipe, &["--status", "--json"]);
        let json: Value = serde_json::from_slice(&output.stdout).expect("the status is JSON");
        json["counts"].clone()
    }

    fn submit(&self, recipe: &str, args: &[&str]) -> String {
        let output = self.bench(recipe, &[&["--launcher", "slurm", "--json"], args].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{errors}");
        let json: Value = serde_json::from_slice(&output.stdout).expect("the submission is JSON");
        json["jobs"][0].as_str().unwrap().to_string()
    }

    /// Runs one of Slurm's commands and returns what it printed.
    fn tell(&self, command: &[&str]) -> String {
        let output = self.run(self.slurm.command(command[0]).args(&command[1..]));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            let logs = || self.tell(&["sh", "-c", "cat runs/*/plan/slurm-*.log; squeue"]);
            assert!(started.elapsed() < Duration::from_secs(240), "never: {what}\n{}", logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn recipe(epochs: &str) -> String {
    let rarely = "restarts = 1\nevery = 100000\ncluster = \"never\"\n[track]\nhistograms = false\nimages = false";
    small_recipe("ms", "uniform").replace("epochs = 3", epochs).replace("restarts = 1", rarely)
        + "\nprojector = false\n"
}

/// The log of the run that was started first.
fn first_log(sandbox: &Sandbox) -> String {
    let mut logs = find(&sandbox.path("runs"), "log.txt");
    logs.sort();
    std::fs::read_to_string(&logs[0]).expect("a run has a log")
}

#[test]
fn a_bench_on_slurm_is_interrupted_requeued_resumed_and_collected() {
    let Some(slurm) = Slurm::start() else { return };
    let sandbox = Sandbox::new();
    let cluster = Cluster { slurm: &slurm, sandbox: &sandbox };
    sandbox.write("many.toml", recipe("epochs = 300") + "[sweep]\nseeds = 2\n");
    let job = cluster.submit("many.toml", &["--jobs", "1", "--sbatch", "--time=10 --signal=B:TERM@60"]);

    // Before the time limit, Slurm sends the signal to the job's script.
    cluster.wait_until("the first run makes progress", || metrics_lines(&sandbox.path("runs")) > 60);
    let first = format!("{job}_0");
    cluster.tell(&["scancel", "--batch", "--signal=TERM", &first]);
    let is_back = || cluster.tell(&["squeue", "--noheader", "--jobs", &first, "--format=%T"]) == "PENDING";
    cluster.wait_until("the first run is requeued", is_back);
    let twice = cluster.bench("many.toml", &["--launcher", "slurm"]);
    let message = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert!(twice.status.code() == Some(2) && message.contains("still in the queue"), "{message}");
    // Slurm waits two minutes before it starts a requeued task.
    cluster.tell(&["scontrol", "update", &format!("JobId={first}"), "StartTime=now"]);
    cluster.wait_until("both runs are finished", || cluster.counts("many.toml")["finished"] == 2);
    let log = first_log(&sandbox);
    assert!(log.contains("interrupted") && log.contains("resumed in epoch"), "{log}");
    let collected = cluster.bench("many.toml", &["--collect"]);
    assert!(String::from_utf8_lossy(&collected.stdout).contains("R@1"));
    cluster.wait_until("the job is over", || cluster.tell(&["squeue", "--noheader", "--jobs", &job]).is_empty());
    let nothing = cluster.bench("many.toml", &["--launcher", "slurm"]);
    let message = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(nothing.status.success() && message.contains("2 runs finished or in progress"), "{message}");
}

#[test]
fn a_cancelled_bench_keeps_its_checkpoint_and_is_not_requeued() {
    let Some(slurm) = Slurm::start() else { return };
    let sandbox = Sandbox::new();
    let cluster = Cluster { slurm: &slurm, sandbox: &sandbox };
    sandbox.write("long.toml", recipe("epochs = 1000000"));
    let job = cluster.submit("long.toml", &[]);
    cluster.wait_until("the run makes progress", || metrics_lines(&sandbox.path("runs")) > 60);
    assert_eq!(cluster.counts("long.toml")["running"], 1);
    cluster.tell(&["scancel", &job]);
    cluster.wait_until("the job is over", || cluster.tell(&["squeue", "--noheader", "--jobs", &job]).is_empty());
    assert_eq!(cluster.counts("long.toml")["interrupted"], 1);
    let log = first_log(&sandbox);
    assert!(log.contains("interrupted"), "{log}");
}
