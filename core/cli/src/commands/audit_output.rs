//! What `curricle audit` prints.

use crate::error::Result;
use crate::output;
use curricle_engine::audit::{Audit, Cleaned, DuplicateKind, DuplicatePair, Evidence};
use curricle_recipe::{BackboneRecipe, DataRecipe};
use serde_json::json;
use std::path::Path;

/// Maximum number of rows in the tables of suspects and of classes.
const ROWS: usize = 10;

/// The files of an audit.
pub(super) struct AuditFiles<'a> {
    pub(super) table: &'a Path,
    pub(super) gallery: &'a Path,
    pub(super) cleaned: Option<(&'a Path, Cleaned)>,
    /// The data that the cleaned labels belong to.
    pub(super) data: &'a DataRecipe,
    /// The network that the embeddings come from.
    pub(super) network: &'a BackboneRecipe,
}

/// Which network judged the labels, and how far it can be relied on.
fn network_line(audit: &Audit, AuditFiles { network, data, .. }: &AuditFiles) -> String {
    let name = network.name();
    let agreeing = 100.0 * audit.agreement();
    let basis = match (network.weights(), network) {
        (Some(file), _) => format!("`{name}` with the weights of `{}`", file.display()),
        (None, BackboneRecipe::Linear | BackboneRecipe::Mlp { .. }) => format!("`{name}` on precomputed features"),
        (None, BackboneRecipe::Torchscript(_)) => format!("`{name}`"),
        (None, _) if matches!(data, DataRecipe::Strokes(_)) => format!("`{name}`, trained from scratch"),
        (None, _) => format!(
            "`{name}`, trained from scratch on these images alone: enough for drawings and symbols, but unreliable on \
             photographs; there, use pretrained weights (`--weights` with `--images`)"
        ),
    };
    let doubt = if agreeing < 50.0 { "; it hardly knows these classes, so take the suspects as hints" } else { "" };
    format!("network: {basis}\nthe neighbours agree with {agreeing:.0} % of the labels{doubt}")
}

/// How a recipe reads a cleaned list.
fn recipe_line(path: &Path, cleaned: &Cleaned, data: &DataRecipe) -> String {
    let quoted = |path: &Path| toml::Value::String(path.display().to_string()).to_string();
    let path = quoted(&path.canonicalize().unwrap_or_else(|_| path.to_path_buf()));
    let root = match data {
        DataRecipe::Folder(folder) => Some(folder.path.as_path()),
        DataRecipe::Csv(list) => list.root.as_deref().or(list.path.parent()),
        _ => None,
    };
    match root {
        Some(root) => format!("data = {{ source = \"csv\", path = {path}, root = {} }}", quoted(root)),
        None if cleaned.dropped > 0 => {
            "not possible: a list for `noise` must have every sample; use `--others keep`, or a `csv` source".into()
        }
        None => format!("noise = {{ name = \"list\", path = {path}, labels = \"names\" }}"),
    }
}

/// The audit as JSON.
pub(super) fn report(audit: &Audit, written: &AuditFiles) -> serde_json::Value {
    let suspect = |(rank, e): (usize, &Evidence)| {
        json!({
            "rank": rank + 1,
            "sample": e.sample,
            "path": e.path,
            "label": audit.class(e.label),
            "proposed": audit.class(e.proposed),
            "suspicion": e.suspicion,
            "confidence": e.confidence,
            "weight": e.weight,
            "votes_for_label": e.given_share,
            "voted": audit.class(e.voted),
            "votes_for_voted": e.voted_share,
            "neighbours_agreeing": e.agreeing,
            "similarity_label": e.similarity_given,
            "similarity_proposed": e.similarity_proposed,
            "xi_pos": e.xi_pos,
            "xi_neg": e.xi_neg,
            "original": e.original,
        })
    };
    let pair = |pair: &DuplicatePair| {
        let (paths, labels) = (audit.pair_paths(pair), audit.pair_labels(pair));
        json!({ "kind": pair.kind, "paths": paths, "labels": labels, "distance": pair.distance })
    };
    let far = |e: &Evidence| json!({ "path": e.path, "label": audit.class(e.label), "far": e.far });
    json!({
        "run": audit.title,
        "samples": audit.ranked.len(),
        "weights": audit.weights,
        "neighbours": audit.neighbours,
        "estimate": audit.estimate,
        "network": written.network.name(),
        "pretrained": written.network.weights(),
        "agreement": audit.agreement(),
        "suspects": audit.suspects().iter().enumerate().map(suspect).collect::<Vec<_>>(),
        "classes": audit.classes(),
        "mix_ups": audit.mix_ups(),
        "duplicates": audit.duplicates.iter().map(pair).collect::<Vec<_>>(),
        "no_class": audit.no_class().into_iter().map(far).collect::<Vec<_>>(),
        "known": audit.known,
        "table": written.table,
        "gallery": written.gallery,
        "cleaned": written.cleaned.as_ref().map(|(path, cleaned)| json!({ "path": path, "counts": cleaned })),
    })
}

/// Prints the suspects, what else was found, and where it is written.
pub(super) fn show(audit: &Audit, written: &AuditFiles, limit: usize) -> Result<()> {
    let suspects = audit.suspects();
    let (count, all) = (suspects.len(), audit.ranked.len());
    let are = if count == 1 { "is" } else { "are" };
    output::print(&format!(
        "{count} of {all} samples ({:.1} %) {are} suspected; {}\n",
        100.0 * count as f64 / all.max(1) as f64,
        audit.weights.describe()
    ))?;
    output::print(&format!("{}\n", estimate_line(audit)))?;
    if count > 0 {
        let mut table = output::table(&["", "path", "label", "proposed", "right (%)", "weight", "suspicion"]);
        for (rank, e) in suspects.iter().take(ROWS).enumerate() {
            table.add_row([
                (rank + 1).to_string(),
                shortened(&e.path),
                audit.class(e.label).into(),
                audit.class(e.proposed).into(),
                format!("{:.0}", 100.0 * e.confidence),
                format!("{:.2}", e.weight),
                format!("{:.2}", e.suspicion),
            ]);
        }
        output::print(&format!("{table}\n"))?;
        let mut table = output::table(&["class", "samples", "suspected"]);
        let classes: Vec<_> = audit.classes().into_iter().filter(|class| class.suspects > 0).collect();
        for class in classes.iter().take(ROWS) {
            table.add_row([class.class.clone(), class.samples.to_string(), class.suspects.to_string()]);
        }
        output::print(&format!("{table}\n"))?;
        let rest = classes.len().saturating_sub(ROWS);
        if rest > 0 {
            let classes = if rest == 1 { "class" } else { "classes" };
            output::note(&format!("and {rest} more {classes} with suspects"));
        }
    }
    output::print(&format!("{}\n", findings_lines(audit)))?;
    if let Some(known) = &audit.known {
        let mut table = output::table(&[&format!("against {} known wrong labels", known.wrong), ""]);
        for (name, value) in known.described() {
            table.add_row([name.to_string(), format!("{value:.3}")]);
        }
        output::print(&format!("{table}\n"))?;
    }
    if let Some((path, cleaned)) = &written.cleaned {
        let wrong = match (cleaned.wrong_before, cleaned.wrong_after) {
            (Some(before), Some(after)) => {
                format!("; wrong labels: {:.1} % before, {:.1} % now", 100.0 * before, 100.0 * after)
            }
            _ => String::new(),
        };
        let Cleaned { decided, relabelled, dropped, listed, .. } = cleaned;
        let decided = if *decided > 0 { format!("{decided} decided by you, ") } else { String::new() };
        output::print(&format!(
            "cleaned labels: {decided}{relabelled} relabelled, {dropped} dropped, {listed} in `{}`{wrong}\n",
            path.display()
        ))?;
        output::note(&format!("to use them in a recipe: {}", recipe_line(path, cleaned, written.data)));
    }
    output::note(&network_line(audit, written));
    let shown = if count > limit { format!(" (the first {limit})") } else { String::new() };
    output::note(&format!("gallery{shown}: {}", written.gallery.display()));
    output::note(&format!("all samples with all values: {}", written.table.display()));
    Ok(())
}

/// How many labels are wrong by estimate.
fn estimate_line(audit: &Audit) -> String {
    match &audit.estimate {
        Some(estimate) => {
            let wrong = output::counted(estimate.wrong.round() as usize, "wrong label", "wrong labels");
            let share = 100.0 * estimate.wrong / estimate.judged.max(1) as f64;
            let too_low = if audit.trained_on_labels {
                "; too low if the network has learnt wrong labels by heart (`--suspects N` lists more)"
            } else {
                ""
            };
            format!(
                "estimate: about {wrong} ({share:.1} %), {:.0} at random and {:.0} confused with a class that looks alike; \
                 the last number is rough{too_low}",
                estimate.random, estimate.confused
            )
        }
        None => "no estimate of the number of wrong labels: it needs two classes, one of them with two samples".into(),
    }
}

/// Near-duplicates and images that may belong to no class, counted.
fn findings_lines(audit: &Audit) -> String {
    let count = |kind| audit.duplicates.iter().filter(|pair| pair.kind == kind).count();
    let (pairs, far) = (audit.duplicates.len(), audit.no_class().len());
    let (plural, belong) = (if pairs == 1 { "" } else { "s" }, if far == 1 { " that may" } else { "s that may" });
    let pairs = match pairs {
        0 => "no near-duplicates".into(),
        _ => format!(
            "{pairs} pair{plural} of near-duplicates: {} with different labels, {} in the training and the test set, {} \
             with the same label",
            count(DuplicateKind::OtherClass),
            count(DuplicateKind::TrainAndTest),
            count(DuplicateKind::SameClass)
        ),
    };
    format!("{pairs}\n{far} sample{belong} belong to no class")
}

/// The end of a long path, which is the part that identifies the sample.
fn shortened(path: &str) -> String {
    const LONGEST: usize = 40;
    let length = path.chars().count();
    if length <= LONGEST {
        path.into()
    } else {
        format!("…{}", path.chars().skip(length + 1 - LONGEST).collect::<String>())
    }
}
