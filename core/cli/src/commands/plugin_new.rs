//! `curricle plugin new`

use crate::error::{Error, Result};
use crate::output;
use clap::ValueEnum;
use curricle_engine::Registry;
use curricle_engine::device::libtorch;
use std::path::{Path, PathBuf};

/// Create a new plugin: example code, a test and build files.
///
/// The plugin gets its own folder, which may be anywhere. It refers to the SDK that came with this
/// program by absolute path, so that the two always match.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of the plugin, its component and the new folder: lowercase letters, digits and `_`.
    name: String,
    /// Kind of component.
    #[arg(long, value_enum, default_value = "loss")]
    kind: ComponentKind,
    /// Programming language.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Lang,
    /// Folder of the SDK [default: the one that came with this program, in its wheel or clone].
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ComponentKind {
    Loss,
    Sampler,
    Weights,
}

impl From<ComponentKind> for curricle_sdk::ComponentKind {
    fn from(kind: ComponentKind) -> Self {
        match kind {
            ComponentKind::Loss => Self::Loss,
            ComponentKind::Sampler => Self::Sampler,
            ComponentKind::Weights => Self::Weights,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lang {
    Rust,
    Cpp,
}

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../templates/", $path))
    };
}

/// The files of a new plugin: path and text.
fn files(kind: ComponentKind, lang: Lang, name: &str) -> Vec<(String, &'static str)> {
    match lang {
        Lang::Rust => vec![
            ("Cargo.toml".into(), template!("rust/Cargo.toml")),
            ("build.rs".into(), template!("rust/build.rs")),
            (".cargo/config.toml".into(), template!("rust/config.toml")),
            (".gitignore".into(), "/target\n"),
            (
                "src/lib.rs".into(),
                match kind {
                    ComponentKind::Loss => template!("rust/loss.rs"),
                    ComponentKind::Sampler => template!("rust/sampler.rs"),
                    ComponentKind::Weights => template!("rust/weights.rs"),
                },
            ),
        ],
        Lang::Cpp => vec![
            ("Makefile".into(), template!("cpp/Makefile")),
            (".gitignore".into(), "*.so\n"),
            (
                format!("{name}.cpp"),
                match kind {
                    ComponentKind::Loss => template!("cpp/loss.cpp"),
                    ComponentKind::Sampler => template!("cpp/sampler.cpp"),
                    ComponentKind::Weights => template!("cpp/weights.cpp"),
                },
            ),
        ],
    }
}

/// Writes the files.
pub(crate) fn run(args: &Args) -> Result<()> {
    let name = &args.name;
    let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
    if !starts_well || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        let message = format!("`{name}` is not a valid plugin name; use lowercase letters, digits and `_`");
        return Err(Error::usage(message));
    }
    if Registry::built_in().find(args.kind.into(), name).is_some() {
        return Err(Error::usage(format!(
            "`{name}` is built in, so a plugin with that name would be refused; choose another name"
        )));
    }
    let folder = Path::new(name);
    if folder.exists() {
        return Err(Error::usage(format!("`{name}` already exists; choose another name or another folder")));
    }
    let program = std::env::current_exe().map_err(Error::file("find", "this program"))?;
    let sdk = sdk(args.sdk.as_deref(), &program)?;
    // libtorch's libraries are in `lib` of the folder that `LIBTORCH` names.
    let libtorch = libtorch::folder().and_then(|lib| lib.parent().map(PathBuf::from)).unwrap_or_default();
    let type_name = type_name(name);
    for (path, text) in files(args.kind, args.lang, name) {
        let text = text
            .replace("@name@", name)
            .replace("@Type@", &type_name)
            .replace("@sdk@", &sdk.display().to_string())
            .replace("@libtorch@", &libtorch.display().to_string())
            .replace("@curricle@", &program.display().to_string());
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs_err::create_dir_all(parent).map_err(Error::file("create", parent))?;
        fs_err::write(&path, text).map_err(Error::file("write", &path))?;
    }
    if args.lang == Lang::Rust {
        lock_versions(&sdk, folder)?;
    }
    output::print(&next_steps(args))
}

/// Starts from the dependency versions that curricle was tested with; cargo removes those that the plugin does not
/// use. An SDK outside a checkout has no lock file, and cargo then chooses the versions.
fn lock_versions(sdk: &Path, folder: &Path) -> Result<()> {
    let lock = sdk.join("../../Cargo.lock");
    if lock.is_file() {
        fs_err::copy(&lock, folder.join("Cargo.lock")).map_err(Error::file("copy", &lock))?;
    }
    Ok(())
}

/// The SDK that came with this program, as seen from its folder: in the wheel, or in the clone whose `target` it is
/// in. The place where it was built does not count: it may be on another machine.
const SDK_FROM_PROGRAM: [&str; 2] = ["../sdk/core/sdk", "../../core/sdk"];

fn sdk(given: Option<&Path>, program: &Path) -> Result<PathBuf> {
    let folder = program.parent().unwrap_or(Path::new(""));
    let candidates = match given {
        Some(given) => vec![given.to_path_buf()],
        None => SDK_FROM_PROGRAM.iter().map(|sdk| folder.join(sdk)).collect(),
    };
    let is_sdk = |sdk: &PathBuf| sdk.join("include/curricle.h").is_file();
    let found = candidates.iter().filter_map(|sdk| sdk.canonicalize().ok()).find(is_sdk);
    found.ok_or_else(|| match given {
        Some(given) => Error::usage(format!("there is no SDK in `{}`; give a folder like `core/sdk`", given.display())),
        None => Error::usage("this program came without its SDK; give the path of `core/sdk` with `--sdk`".into()),
    })
}

/// `hard_pairs` as `HardPairs`.
fn type_name(name: &str) -> String {
    let capitalised = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('_').filter(|part| !part.is_empty()).map(capitalised).collect()
}

fn next_steps(args: &Args) -> String {
    let name = &args.name;
    let (build, test, library) = match args.lang {
        Lang::Rust => ("cargo build --release", "cargo test --release", format!("target/release/lib{name}.so")),
        Lang::Cpp => ("make", "make check", format!("lib{name}.so")),
    };
    let kind = curricle_sdk::ComponentKind::from(args.kind);
    format!(
        "created `{name}`; next:\n  cd {name}\n  {build}\n  {test}\n  curricle plugin check {library}\n\
         and in a recipe next to the folder `{name}`:\n  [plugins]\n  paths = [\"{name}/{library}\"]\n\n  \
         [{kind}]\n  name = \"{name}\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_names_become_type_names() {
        assert_eq!(type_name("hard_pairs"), "HardPairs");
        assert_eq!(type_name("x2"), "X2");
    }

    #[test]
    fn templates_have_no_unknown_placeholders() {
        for kind in [ComponentKind::Loss, ComponentKind::Sampler, ComponentKind::Weights] {
            for lang in [Lang::Rust, Lang::Cpp] {
                for (path, text) in files(kind, lang, "x") {
                    let left = ["@name@", "@Type@", "@sdk@", "@libtorch@", "@curricle@"]
                        .iter()
                        .fold(text.replace("$@", ""), |text, placeholder| text.replace(placeholder, ""));
                    assert!(!left.contains('@'), "{path}");
                }
            }
        }
    }
}
