//! Launches runs outside this process: one resolved recipe and one command line per run.

use crate::{Error, Result};
use curricle_recipe::SweepRun;
use curricle_record::files;
use std::path::{Path, PathBuf};

/// The options shared by all command lines.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program to start, with the subcommand `run`.
    pub program: PathBuf,
    /// The folder that holds all runs.
    pub out: PathBuf,
    /// `--device` of every run.
    pub device: String,
    /// `--threads` of every run.
    pub threads: Option<usize>,
    /// Repeat finished runs.
    pub force: bool,
    /// Further options of every run.
    pub more: Vec<String>,
}

impl Launch {
    /// The folder of a plan's resolved recipes.
    pub fn plan_folder(&self, name: &str) -> PathBuf {
        self.out.join(name).join("plan")
    }

    /// Writes the resolved recipe of each run as `<index>.toml`, and returns the paths.
    pub fn write_plan(&self, folder: &Path, runs: &[(usize, &SweepRun)]) -> Result<Vec<PathBuf>> {
        std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        let mut paths = Vec::new();
        for (index, run) in runs {
            let path = folder.join(format!("{index}.toml"));
            files::write(&path, run.resolved.to_toml().as_bytes())?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// The command line of a run, quoted for a shell.
    pub fn command(&self, recipe: &Path) -> Result<String> {
        Ok(format!("{} run {} {}", quote(&self.program)?, quote(recipe)?, self.options()?))
    }

    /// The options of every run, quoted for a shell.
    pub fn options(&self) -> Result<String> {
        let mut options = format!("--out {} --device {}", quote(&self.out)?, self.device);
        if let Some(threads) = self.threads {
            options.push_str(&format!(" --threads {threads}"));
        }
        if self.force {
            options.push_str(" --force");
        }
        for option in &self.more {
            options.push_str(&format!(" {}", quote(Path::new(option))?));
        }
        Ok(options)
    }
}

/// Quotes a path for a shell.
pub(crate) fn quote(path: &Path) -> Result<String> {
    let quoted = path.to_str().and_then(|text| shlex::try_quote(text).ok());
    quoted.map(Into::into).ok_or_else(|| {
        Error::Usage(format!("`{}` cannot be quoted for a shell script; choose another folder", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_quoted_for_a_shell() {
        let launch = Launch {
            program: "/opt/it's here/curricle".into(),
            out: "/tmp/my runs".into(),
            device: "cuda:1".into(),
            threads: Some(2),
            force: false,
            more: vec!["--python".into(), "/my venv/python".into()],
        };
        let line = launch.command(Path::new("/tmp/my runs/$x/plan/0.toml")).unwrap();
        let wanted = [
            "/opt/it's here/curricle",
            "run",
            "/tmp/my runs/$x/plan/0.toml",
            "--out",
            "/tmp/my runs",
            "--device",
            "cuda:1",
            "--threads",
            "2",
            "--python",
            "/my venv/python",
        ];
        assert_eq!(shlex::split(&line).unwrap(), wanted);
    }
}
