//! Submits runs to Slurm as a job array with one task per run.
//!
//! A task that is about to hit its time limit gets SIGTERM, writes a checkpoint and exits with code
//! 75; the script then requeues it, and it resumes where it stopped. A cancelled task is not requeued.

use super::launch::{Launch, quote};
use crate::{Error, Result};
use curricle_record::{Exit, files};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds before the time limit at which a task is asked to stop.
const WARNING_SECONDS: u32 = 120;

/// Slurm's default `MaxArraySize`, which task numbers must stay below.
const DEFAULT_ARRAY_SIZE: usize = 1001;

/// A job script and the arrays it is submitted as.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The script's text.
    pub script: String,
    /// The path it is written to.
    pub path: PathBuf,
    /// For each array the index of its first run in the plan, and the task numbers for `--array`.
    pub arrays: Vec<(usize, String)>,
}

/// The submitted jobs of a bench, so that it is not submitted twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Submitted {
    jobs: Vec<String>,
}

/// Creates the job script for the runs at these indices of a plan, at most `at_once` of them at a
/// time, with additional `sbatch` options.
pub fn submission(
    launch: &Launch,
    name: &str,
    places: &[usize],
    at_once: Option<usize>,
    sbatch: &[String],
) -> Result<Submission> {
    let folder = launch.plan_folder(name);
    let limit = at_once.map_or_else(String::new, |n| format!("%{n}"));
    let size = array_size();
    let mut arrays: Vec<(usize, Vec<usize>)> = Vec::new();
    for place in places {
        let offset = place / size * size;
        match arrays.last_mut() {
            Some((last, tasks)) if *last == offset => tasks.push(place - offset),
            _ => arrays.push((offset, vec![place - offset])),
        }
    }
    Ok(Submission {
        script: script(launch, name, &folder, sbatch)?,
        path: folder.join("slurm.sh"),
        arrays: arrays.into_iter().map(|(offset, tasks)| (offset, ranges(&tasks) + &limit)).collect(),
    })
}

impl Submission {
    /// Writes the script, submits it, and returns the job ids.
    pub fn submit(&self) -> Result<Vec<String>> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let record = folder.join("slurm.json");
        let before = files::read_json::<Submitted>(&record)?.unwrap_or_default();
        if let Some(job) = before.jobs.iter().find(|job| is_in_queue(job)) {
            return Err(Error::Usage(format!(
                "job {job} of this bench is still in the queue; wait for it, or `scancel {job}` first"
            )));
        }
        files::write(&self.path, self.script.as_bytes())?;
        let mut submitted = Submitted::default();
        for (offset, tasks) in &self.arrays {
            let mut command = Command::new("sbatch");
            command.arg("--parsable").arg(format!("--array={tasks}")).arg(&self.path).arg(offset.to_string());
            let output = command.output().map_err(|error| {
                Error::Usage(format!("cannot start `sbatch`: {error}; run this on a host that can submit Slurm jobs"))
            })?;
            if !output.status.success() {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_string();
                return Err(Error::Failed(format!("`sbatch` rejected `{}`: {message}", self.path.display())));
            }
            let printed = String::from_utf8_lossy(&output.stdout).trim().to_string();
            // With several clusters the job id is followed by the cluster's name.
            submitted.jobs.push(printed.split(';').next().unwrap_or_default().to_string());
            files::write_json(&record, &submitted)?;
        }
        Ok(submitted.jobs)
    }
}

fn script(launch: &Launch, name: &str, folder: &Path, sbatch: &[String]) -> Result<String> {
    let folder_text = folder.display().to_string();
    if folder_text.contains(['"', '\n', '%', '\\']) {
        return Err(Error::Usage(format!("Slurm cannot write logs to `{folder_text}`; choose another `--out`")));
    }
    let own: String = sbatch.iter().map(|options| format!("#SBATCH {options}\n")).collect();
    let program = quote(&launch.program)?;
    let options = launch.options()?;
    let folder = quote(folder)?;
    // An explicit thread count overrides the number of cores that Slurm allocates.
    let threads = if launch.threads.is_some() { "" } else { " ${SLURM_CPUS_PER_TASK:+--threads=$SLURM_CPUS_PER_TASK}" };
    let (interrupted, busy) = (Exit::Interrupted.code(), Exit::Busy.code());
    Ok(format!(
        r#"#!/usr/bin/env bash
# Written by `curricle bench --launcher slurm`. Every task is one run; the argument is the index of
# the array's first run in the plan.
#SBATCH --job-name={name}
#SBATCH --output="{folder_text}/slurm-%A_%a.log"
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@{WARNING_SECONDS}
{own}
task="${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
run=$(($1 + SLURM_ARRAY_TASK_ID))

{program} run {folder}/"$run.toml" {options}{threads} &
child=$!
# Slurm signals this shell; a run that gets the signal writes a checkpoint and exits with {interrupted}.
trap 'kill -TERM "$child" 2>/dev/null' TERM
wait "$child"
code=$?
# A signal ends `wait`, not the run.
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
wait "$child"
code=$?

case $code in
  {interrupted}) # time limit: requeue; cancelled: do not
    if scontrol show job --oneliner "$task" | grep -q ' JobState=RUNNING '; then
      echo "curricle: requeueing, to resume where it stopped"
      scontrol requeue "$task" && exit 0
    fi
    ;;
  {busy}) # another process is working on this run
    exit 0
    ;;
esac
exit "$code"
"#
    ))
}

/// Formats numbers as Slurm ranges, e.g. `0-3,7,9-10`.
fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The cluster's `MaxArraySize`.
fn array_size() -> usize {
    let config = Command::new("scontrol").args(["show", "config"]).output();
    let config = config.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let size = config.lines().find_map(|line| line.strip_prefix("MaxArraySize")?.trim_start().strip_prefix('='));
    size.and_then(|size| size.trim().parse().ok()).filter(|size| *size > 0).unwrap_or(DEFAULT_ARRAY_SIZE)
}

/// Whether a job has pending or running tasks.
fn is_in_queue(job: &str) -> bool {
    let listed = Command::new("squeue").args(["--noheader", "--jobs", job]).output();
    // squeue fails for an unknown job, which is not in the queue.
    listed.is_ok_and(|output| output.status.success() && !output.stdout.trim_ascii().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> Launch {
        Launch {
            program: "/bin/curricle".into(),
            out: "/shared/my runs".into(),
            device: "auto".into(),
            threads: None,
            force: false,
            more: Vec::new(),
        }
    }

    #[test]
    fn task_numbers_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[3]), "3");
    }

    #[test]
    fn the_script_asks_for_a_signal_and_requeues_itself() {
        let sbatch = ["--partition=gpu --gres=gpu:1".to_string()];
        let made = submission(&launch(), "noise", &[0, 1, 4], Some(2), &sbatch).unwrap();
        assert_eq!(made.arrays, [(0, "0-1,4%2".to_string())]);
        for part in [
            "#SBATCH --partition=gpu --gres=gpu:1\n",
            "#SBATCH --signal=B:TERM@120\n",
            "scontrol requeue",
            "'/shared/my runs/noise/plan'/\"$run.toml\" --out '/shared/my runs' --device auto ${SLURM_CPUS_PER_TASK",
        ] {
            assert!(made.script.contains(part), "no {part} in\n{}", made.script);
        }
        let syntax = std::process::Command::new("bash").args(["-n", "-c", &made.script]).status().unwrap();
        assert!(syntax.success());
    }

    #[test]
    fn long_plans_become_several_arrays() {
        let places: Vec<_> = (0..array_size() + 3).collect();
        let made = submission(&launch(), "noise", &places, None, &[]).unwrap();
        assert_eq!(made.arrays.len(), 2);
        assert_eq!(made.arrays[1], (array_size(), "0-2".to_string()));
    }
}
