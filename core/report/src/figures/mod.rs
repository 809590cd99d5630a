//! Figures of a report as SVG, as far as the runs have the data for them.

mod axis;
mod chart;
mod family;
mod histogram;
mod history;
mod memorisation;
mod multiples;
mod svg;
mod sweep;

use crate::Result;
use crate::{Comparison, Measure, ReportedRun, Summary};
use curricle_record::{self as record, RunFolder, files};
use histogram::WeightHistogram;
use history::History;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// Name of its file without `.svg`.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The case it belongs to; empty if it shows all of them.
    pub case: String,
    /// The drawing.
    pub svg: String,
    /// Whether it needs the width of a page.
    pub wide: bool,
    /// Whether it is a histogram of a method's weights.
    pub of_weights: bool,
}

/// A figure that could not be drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotDrawn {
    /// What it would show.
    pub title: String,
    /// Why it was not drawn.
    pub reason: String,
}

/// All figures, and those that could not be drawn.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The figures.
    pub drawn: Vec<Figure>,
    /// Figures that could not be drawn.
    pub not_drawn: Vec<NotDrawn>,
    /// Runs whose curves are missing because a file is missing or damaged.
    pub damaged: Vec<NotDrawn>,
}

impl Figures {
    /// Draws all figures that the runs have the data for.
    pub fn draw(comparison: &Comparison, summary: &Summary) -> Self {
        let mut figures = Self::default();
        let main = summary.metrics.first();
        figures.sweeps(comparison, main);
        figures.histories(comparison, main);
        figures.weights(comparison);
        figures
    }

    /// Writes the figures to a folder, which is created if missing, and returns the files.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        std::fs::create_dir_all(folder).map_err(record::Error::file("create", folder))?;
        let write = |figure: &Figure| {
            let path = folder.join(format!("{}.svg", figure.name));
            files::write(&path, figure.svg.as_bytes())?;
            Ok(path)
        };
        self.drawn.iter().map(write).collect()
    }

    fn sweeps(&mut self, comparison: &Comparison, main: Option<&Measure>) {
        let (maw, sdaw) = (Measure::named("maw"), Measure::named("sdaw"));
        let mut wanted = Vec::new();
        wanted.extend(main.map(|main| (main, sweep::NOISE)));
        wanted.extend([(&maw, sweep::LAMBDA), (&sdaw, sweep::LAMBDA), (&maw, sweep::MU), (&sdaw, sweep::MU)]);
        wanted.extend(main.map(|main| (main, sweep::EMBEDDING)));
        for (measure, dimension) in wanted {
            match sweep::charts(comparison, measure, &dimension) {
                Ok(charts) => charts.iter().for_each(|chart| self.add(chart, "")),
                Err(reason) => {
                    let title = format!("{} against {}", measure.title, dimension.label.trim_end_matches(" (%)"));
                    self.not_drawn.push(NotDrawn { title, reason });
                }
            }
        }
    }

    fn histories(&mut self, comparison: &Comparison, main: Option<&Measure>) {
        let mut histories: BTreeMap<&Path, History> = BTreeMap::new();
        for run in &comparison.runs {
            match History::read(run, main) {
                Ok(history) => {
                    histories.insert(&run.folder, history);
                }
                Err(error) => self.damaged.push(NotDrawn {
                    title: format!("Curves of {} with seed {}", run.method, run.seed()),
                    reason: error.to_string(),
                }),
            }
        }
        let noisy = self.memorisation(comparison, &histories, main);
        for followed in history::plotted_scalars(main) {
            let mut reason = None;
            for case in &comparison.cases {
                if history::is_in_memorisation(&followed) && noisy.contains(case) {
                    continue;
                }
                match history::chart(comparison, &histories, case, &followed) {
                    Ok(chart) => self.add(&chart, case),
                    Err(why) => reason = Some(why),
                }
            }
            let elsewhere = history::is_in_memorisation(&followed) && !noisy.is_empty();
            let shown = elsewhere || self.drawn.iter().any(|f| f.title.starts_with(&followed.title));
            if let Some(reason) = reason.filter(|_| !shown) {
                self.not_drawn.push(NotDrawn { title: followed.title, reason });
            }
        }
    }

    /// One figure for each case with weights and known wrong labels; returns those cases.
    fn memorisation(
        &mut self,
        comparison: &Comparison,
        histories: &BTreeMap<&Path, History>,
        main: Option<&Measure>,
    ) -> Vec<String> {
        let plotted = history::plotted_scalars(main);
        let Some([recall, auroc]) = history::memorised(&plotted) else { return Vec::new() };
        let mut drawn = Vec::new();
        for case in comparison.cases.iter().filter(|case| comparison.of_case(case).iter().any(|run| is_noisy(run))) {
            let chart = |scalar| history::chart(comparison, histories, case, scalar);
            let (Ok(upper), Ok(lower)) = (chart(recall), chart(auroc)) else { continue };
            let condition = if case.is_empty() { String::new() } else { format!(" ({case})") };
            let title = format!("Memorisation of wrong labels{condition}");
            let name = self.free_name(&slug(&format!("memorisation-{case}")));
            let svg = memorisation::stacked(&name, &title, &upper, &lower);
            let wide = upper.is_wide() || lower.is_wide();
            self.drawn.push(Figure { name, title, case: case.clone(), svg, wide, of_weights: false });
            drawn.push(case.clone());
        }
        drawn
    }

    fn weights(&mut self, comparison: &Comparison) {
        let before = self.drawn.len();
        let weighted = |runs: &[&ReportedRun]| runs.iter().any(|run| run.result.weights != "uniform");
        for (method, case, runs) in comparison.groups().filter(|(_, _, runs)| weighted(runs)) {
            let condition = if case.is_empty() { String::new() } else { format!(" ({case})") };
            let title = format!("Weights of {method}{condition}");
            match weights(&runs) {
                Ok(weights) => {
                    let suffix = if case.is_empty() { String::new() } else { format!("-{case}") };
                    let name = self.free_name(&slug(&format!("weights-{method}{suffix}")));
                    let svg = weights.svg(&name, &title);
                    self.drawn.push(Figure { name, title, case: case.into(), svg, wide: false, of_weights: true });
                }
                Err(error) => self.damaged.push(NotDrawn { title, reason: error.to_string() }),
            }
        }
        if self.drawn.len() == before && !comparison.runs.iter().any(|run| run.result.weights != "uniform") {
            let reason = "needs runs with a weight scheme".into();
            self.not_drawn.push(NotDrawn { title: "Histograms of weights".into(), reason });
        }
    }

    fn add(&mut self, chart: &chart::Chart, case: &str) {
        let name = self.free_name(&chart.name);
        let svg = chart::Chart { name: name.clone(), ..chart.clone() }.svg();
        let (title, wide) = (chart.title.clone(), chart.is_wide());
        self.drawn.push(Figure { name, title, case: case.into(), svg, wide, of_weights: false });
    }

    /// The name, numbered if another figure has it: case names may differ only in characters that
    /// [`slug`] drops.
    fn free_name(&self, name: &str) -> String {
        let taken = |name: &str| self.drawn.iter().any(|figure| figure.name == name);
        let numbered = (2..).map(|i| format!("{name}-{i}"));
        std::iter::once(name.to_string()).chain(numbered).find(|name| !taken(name)).unwrap_or_default()
    }
}

/// Whether a run was trained on wrong labels.
fn is_noisy(run: &ReportedRun) -> bool {
    !matches!(run.word("noise.name"), None | Some("none"))
        && run.setting("noise.remove_flipped").is_none_or(|v| v != true)
}

/// A name for files and element ids: lower-case letters, digits and hyphens.
pub(crate) fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// The weights from the `samples.csv` of all runs, pooled.
fn weights(runs: &[&ReportedRun]) -> Result<WeightHistogram> {
    let mut weights = WeightHistogram::default();
    for run in runs {
        let table = RunFolder::new(&run.folder).read_samples()?;
        for (weight, flipped) in table.numbers("weight")?.into_iter().zip(table.flags("flipped")?) {
            if flipped { weights.noisy.push(weight) } else { weights.clean.push(weight) }
        }
    }
    Ok(weights)
}
