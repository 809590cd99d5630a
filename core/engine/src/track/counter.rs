//! Progress of work that goes through a known number of things.

use crate::progress::{self, ProgressMode};
use indicatif::{ProgressBar, ProgressStyle};

/// Shows how many things are done. Files and other programs are shown nothing.
#[derive(Debug)]
pub struct Counter {
    bar: ProgressBar,
}

impl Counter {
    /// A counter of things of this name, such as `images`.
    pub fn new(mode: ProgressMode, things: &str) -> Self {
        let bar = match mode {
            ProgressMode::Bar => progress::add(ProgressBar::new(0)),
            ProgressMode::Lines | ProgressMode::Quiet => ProgressBar::hidden(),
        };
        let template = format!("{{bar:30}} {{pos}}/{{len}} {things}  {{per_sec}}  {{eta}} left");
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self { bar }
    }

    /// So many of so many are done.
    pub fn set(&mut self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }

    /// Everything is done.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
