//! `curricle completions`

use crate::error::{Error, Result};
use crate::output;
use clap_complete::Shell;
use clap_complete::env::Shells;

/// Print the completion script of a shell.
///
/// It asks this program for candidates, so it knows recipes, components and settings.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Write it to a file that the shell loads:
  bash  ~/.local/share/bash-completion/completions/curricle
  zsh   a file `_curricle` in a folder of `$fpath`
  fish  ~/.config/fish/completions/curricle.fish")]
pub(crate) struct Args {
    /// Shell to complete in.
    shell: Shell,
}

/// Completes words with `=` and `:` in bash, such as `--set loss.name=ms`; it calls the function of the other script.
const WHOLE_WORDS_IN_BASH: &str = include_str!("../../templates/completions.bash");

/// A script in `fpath` is loaded when the first completion is asked for, and must then answer it.
const FIRST_TIME_IN_ZSH: &str = "[[ $funcstack[1] != _curricle ]] || _clap_dynamic_completer_curricle \"$@\"\n";

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<()> {
    let name = args.shell.to_string();
    let shells = Shells::builtins();
    let shell =
        shells.completer(&name).ok_or_else(|| Error::usage(format!("there are no completions for `{name}`")))?;
    let mut script = Vec::new();
    shell
        .write_registration("COMPLETE", "curricle", "curricle", "curricle", &mut script)
        .map_err(|e| Error::failed(format!("cannot write the script: {e}")))?;
    let more = match args.shell {
        Shell::Bash => WHOLE_WORDS_IN_BASH,
        Shell::Zsh => FIRST_TIME_IN_ZSH,
        _ => "",
    };
    output::print(&format!("{}{more}", String::from_utf8_lossy(&script)))
}
