//! `curricle list`

use super::PluginArgs;
use crate::completing;
use crate::error::{Error, Result};
use crate::output;
use clap_complete::ArgValueCompleter;
use curricle_recipe::{BuiltIn, Catalogue, Choice, Listing, Schema, Setting, built_in, listings, nearest};

/// List what recipes can use: losses, samplers, data sources, optimisers and more.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only this kind, with every setting explained, e.g. `loss`; `recipes` lists the built-in recipes.
    #[arg(add = ArgValueCompleter::new(completing::kinds))]
    kind: Option<String>,
    #[command(flatten)]
    plugin: PluginArgs,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints a summary of everything, or one kind in detail.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.kind.as_deref().is_some_and(|kind| matches!(kind, "recipe" | "recipes")) {
        return recipes(args.json);
    }
    let all = listings(&Schema::of_recipes(&args.plugin.registry()?.components()));
    let Some(wanted) = &args.kind else {
        return if args.json { output::json(&all) } else { output::print(&join(&all, brief)) };
    };
    // `list losses` works like `list loss`.
    let is_wanted = |l: &&Listing| l.kind == *wanted || plural(&l.kind) == *wanted;
    let listing = all.iter().find(is_wanted).ok_or_else(|| unknown(wanted, &all))?;
    if args.json { output::json(listing) } else { output::print(&at_length(listing)) }
}

fn recipes(json: bool) -> Result<()> {
    if json {
        let entry = |r: &BuiltIn| serde_json::json!({ "name": r.name, "summary": r.summary(), "text": r.text });
        return output::json(&built_in().iter().map(entry).collect::<Vec<_>>());
    }
    let width = built_in().iter().map(|recipe| recipe.name.len()).max().unwrap_or(0) + 2;
    let line = |recipe: &BuiltIn| format!("  {:width$}{}\n", recipe.name, recipe.summary());
    let lines: String = built_in().iter().map(line).collect();
    output::print(&format!(
        "built-in recipes; use them with `curricle run NAME`, `curricle bench NAME` or \
         `extends = \"curricle:NAME\"`:\n{lines}"
    ))
}

fn plural(kind: &str) -> String {
    if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") }
}

fn unknown(wanted: &str, all: &[Listing]) -> Error {
    let kinds: Vec<_> = all.iter().map(|l| l.kind.as_str()).chain(["recipes"]).collect();
    let hint = nearest(wanted, kinds.iter().copied()).map(|k| format!("did you mean `{k}`? ")).unwrap_or_default();
    Error::usage(format!("there is no kind `{wanted}`; {hint}available: `{}`", kinds.join("`, `")))
}

fn join(listings: &[Listing], show: fn(&Listing) -> String) -> String {
    listings.iter().map(show).collect::<Vec<_>>().join("\n")
}

fn brief(listing: &Listing) -> String {
    let mut text = heading(listing);
    for choice in &listing.choices {
        text += &format!("  {:22}{}\n", choice.name, choice.summary);
        let top = choice.settings.iter().filter(|s| !s.name.contains('.'));
        let settings: Vec<_> = top.map(with_default).collect();
        if !settings.is_empty() {
            text += &format!("  {:22}{}\n", "", settings.join("  "));
        }
    }
    text
}

fn heading(listing: &Listing) -> String {
    format!("{}: {}\n", listing.kind, listing.summary)
}

fn with_default(setting: &Setting) -> String {
    match &setting.default {
        Some(default) => format!("{}={default}", setting.name),
        None if setting.required => format!("{} (required)", setting.name),
        None => setting.name.clone(),
    }
}

fn at_length(listing: &Listing) -> String {
    let choices: Vec<_> = listing.choices.iter().map(|choice| described(listing, choice)).collect();
    format!("{}\n{}", heading(listing), choices.join("\n"))
}

fn described(listing: &Listing, choice: &Choice) -> String {
    let mut text = format!("{} = \"{}\"\n    {}\n", listing.key, choice.name, choice.summary);
    for setting in &choice.settings {
        let mut facts = vec![setting.value.clone()];
        match &setting.default {
            Some(default) => facts.push(format!("default {default}")),
            None if setting.required => facts.push("required".into()),
            None => facts.push("optional".into()),
        }
        facts.extend(setting.only_if.as_ref().map(|condition| format!("if {condition}")));
        text += &format!("    {}: {}\n", setting.name, facts.join(", "));
        if !setting.description.is_empty() {
            text += &format!("        {}\n", setting.description);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_engine::Registry;

    #[test]
    fn plurals_are_accepted() {
        assert_eq!(plural("loss"), "losses");
        assert_eq!(plural("backbone"), "backbones");
    }

    #[test]
    fn a_required_setting_is_marked_and_a_default_shown() {
        let all = listings(&Schema::of_recipes(&Registry::built_in().components()));
        let optimizer = all.iter().find(|l| l.kind == "optimizer").unwrap();
        assert!(brief(optimizer).contains("lr (required)  momentum=0.0"), "{}", brief(optimizer));
        assert!(at_length(optimizer).contains("    lr: a number at least 0, required\n        Learning rate.\n"));
    }
}
