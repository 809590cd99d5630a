//! `audit.html`: suspects next to typical members of their labelled and proposed classes.
//!
//! The page is self-contained. The strip of typical members of a class is embedded once and reused. A script
//! lets a person decide about each suspect (`deciding`); without JavaScript, the rest of the page is the same.

use super::findings::Findings;
use super::thumbnails::{data_uri, thumbnails};
use super::{Audit, Evidence, deciding};
use crate::track::rgb_image::RgbImage;
use crate::{Error, Result};
use curricle_record::files;
use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Suspects per section, so that a long page can be navigated.
const SECTION: usize = 50;
/// Typical members shown per class.
const TYPICAL: usize = 4;
/// Side in pixels of a suspect's image and of a typical member's.
const SIDE: (usize, usize) = (144, 72);
const GAP: usize = 4;
/// Rows of the tables of classes and of mix-ups.
const ROWS: usize = 12;

/// Writes the page.
pub(super) fn write(path: &Path, audit: &Audit, limit: usize) -> Result<()> {
    Ok(files::write(path, page(audit, limit)?.as_bytes())?)
}

#[derive(Debug, Serialize)]
struct Card<'a> {
    rank: usize,
    image: Option<String>,
    path: &'a str,
    label: &'a str,
    proposed: &'a str,
    sides: Vec<Side<'a>>,
    evidence: CaseNumbers,
    original: Option<&'a str>,
    proposal_is_right: bool,
    label_is_wrong: bool,
}

#[derive(Debug, Serialize)]
struct CaseNumbers {
    suspicion: String,
    confidence: String,
    given_share: String,
    agreeing: usize,
    neighbours: usize,
    weight: String,
    similarity_given: String,
    similarity_proposed: String,
    xi_pos: String,
    xi_neg: String,
}

/// One of the two classes shown next to a suspect.
#[derive(Debug, Serialize)]
struct Side<'a> {
    kind: &'static str,
    caption: &'static str,
    class: &'a str,
    strip: usize,
    width: usize,
    height: usize,
}

/// The image of a class's typical members.
#[derive(Debug, Serialize)]
struct Strip {
    id: usize,
    uri: String,
    width: usize,
    height: usize,
}

#[derive(Debug, Serialize)]
struct Section<'a> {
    first: usize,
    last: usize,
    cards: Vec<Card<'a>>,
}

fn page(audit: &Audit, limit: usize) -> Result<String> {
    let suspects = audit.suspects();
    let shown = &suspects[..suspects.len().min(limit)];
    let strips = strips(audit, shown)?;
    let images = thumbnails(audit.inputs(), &rows(shown), SIDE.0)?;
    let mut cards = Vec::new();
    for (at, evidence) in shown.iter().enumerate() {
        let image = images.as_ref().map(|all| data_uri(&all[at])).transpose()?;
        cards.push(card(audit, at + 1, evidence, image, &strips));
    }
    let mut sections = Vec::new();
    let mut cards = cards.into_iter();
    for first in (1..=shown.len()).step_by(SECTION) {
        let split: Vec<_> = cards.by_ref().take(SECTION).collect();
        sections.push(Section { first, last: first + split.len() - 1, cards: split });
    }
    let classes: Vec<_> = audit.classes().into_iter().filter(|class| class.suspects > 0).collect();
    let mix_ups = audit.mix_ups();
    let known = audit.known.as_ref().map(|known| {
        known.described().into_iter().map(|(name, value)| (name, format!("{value:.3}"))).collect::<Vec<_>>()
    });
    let findings = Findings::of(audit)?;
    let mut environment = Environment::new();
    let failed = |e: minijinja::Error| Error::encode("the gallery")(format!("{e:#}"));
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(failed)?);
    environment.add_template("gallery.html", include_str!("gallery.html")).map_err(failed)?;
    environment.add_template("decide.html", include_str!("decide.html")).map_err(failed)?;
    environment.add_template("findings.html", include_str!("findings.html")).map_err(failed)?;
    let template = environment.get_template("gallery.html").map_err(failed)?;
    let view = json!({
        "title": audit.title,
        "style": concat!(include_str!("gallery.css"), include_str!("decide.css")),
        "script": include_str!("decide.js"),
        "samples_json": deciding::samples_json(audit)?,
        "weights": audit.weights.describe().replace('`', ""),
        "neighbours": audit.neighbours,
        "samples": audit.ranked.len(),
        "class_count": audit.class_names.len(),
        "suspects": suspects.len(),
        "shown": shown.len(),
        "images": images.is_some(),
        "strips": strips.values().collect::<Vec<_>>(),
        "sections": sections,
        "more_classes": classes.len().saturating_sub(ROWS),
        "classes": &classes[..classes.len().min(ROWS)],
        "more_mix_ups": mix_ups.len().saturating_sub(ROWS),
        "mix_ups": &mix_ups[..mix_ups.len().min(ROWS)],
        "known": known,
        "asked": audit.asked.is_some(),
        "to_decide": !shown.is_empty() || findings.has_samples(),
        "findings": findings,
    });
    template.render(Serde(view)).map_err(failed)
}

fn card<'a>(
    audit: &'a Audit,
    rank: usize,
    e: &'a Evidence,
    image: Option<String>,
    strips: &BTreeMap<i64, Strip>,
) -> Card<'a> {
    // Adding 0 turns −0 into 0.
    let two = |value: f64| format!("{:.2}", (100.0 * value).round() / 100.0 + 0.0).replace('-', "−");
    let percent = |value: f64| format!("{:.0}", 100.0 * value);
    let side = |kind, caption, class| {
        let &Strip { id, width, height, .. } = strips.get(&class)?;
        Some(Side { kind, caption, class: audit.class(class), strip: id, width, height })
    };
    let (label, proposed, original) = (audit.class(e.label), audit.class(e.proposed), e.original.as_deref());
    Card {
        rank,
        image,
        path: &e.path,
        label,
        proposed,
        sides: [side("label", "labelled", e.label), side("proposed", "proposed", e.proposed)]
            .into_iter()
            .flatten()
            .collect(),
        evidence: CaseNumbers {
            suspicion: percent(e.suspicion),
            confidence: percent(e.confidence),
            given_share: percent(e.given_share),
            agreeing: (e.agreeing * audit.neighbours as f64).round() as usize,
            neighbours: audit.neighbours,
            weight: two(e.weight),
            similarity_given: two(e.similarity_given),
            similarity_proposed: two(e.similarity_proposed),
            xi_pos: two(e.xi_pos),
            xi_neg: two(e.xi_neg),
        },
        original,
        proposal_is_right: original == Some(proposed),
        label_is_wrong: original.is_some_and(|original| original != label),
    }
}

/// One image for each class shown: the members closest to its mean.
fn strips(audit: &Audit, shown: &[Evidence]) -> Result<BTreeMap<i64, Strip>> {
    let classes: BTreeSet<i64> = shown.iter().flat_map(|e| [e.label, e.proposed]).collect();
    let mut members: BTreeMap<i64, Vec<&Evidence>> = BTreeMap::new();
    for evidence in audit.ranked.iter().filter(|e| !e.suspected && classes.contains(&e.label)) {
        members.entry(evidence.label).or_default().push(evidence);
    }
    let mut strips = BTreeMap::new();
    for (id, (class, mut typical)) in members.into_iter().enumerate() {
        typical.sort_by(|a, b| b.similarity_given.total_cmp(&a.similarity_given).then(a.row.cmp(&b.row)));
        typical.truncate(TYPICAL);
        let rows: Vec<usize> = typical.iter().map(|e| e.row).collect();
        let Some(images) = thumbnails(audit.inputs(), &rows, SIDE.1)? else { return Ok(BTreeMap::new()) };
        let width: usize = images.iter().map(|p| p.width() + GAP).sum::<usize>().saturating_sub(GAP);
        let height = images.iter().map(RgbImage::height).max().unwrap_or(0);
        let mut strip = RgbImage::new(width, height, [255; 3]);
        let mut x = 0;
        for image in &images {
            strip.paste(x, 0, image);
            x += image.width() + GAP;
        }
        strips.insert(class, Strip { id, uri: data_uri(&strip)?, width, height });
    }
    Ok(strips)
}

fn rows(evidence: &[Evidence]) -> Vec<usize> {
    evidence.iter().map(|e| e.row).collect()
}
