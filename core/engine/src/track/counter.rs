//! A progress bar that counts items.

use crate::progress::{self, ProgressMode};
use indicatif::{ProgressBar, ProgressStyle};

/// Shows how many items are done, on terminals only.
#[derive(Debug)]
pub struct Counter {
    bar: ProgressBar,
}

impl Counter {
    /// A counter of `items`, named in the plural, such as `images`.
    pub fn new(mode: ProgressMode, items: &str) -> Self {
        let bar = match mode {
            ProgressMode::Bar => progress::add(ProgressBar::new(0)),
            ProgressMode::Lines | ProgressMode::Quiet => ProgressBar::hidden(),
        };
        let template = format!("{{bar:30}} {{pos}}/{{len}} {items}  {{per_sec}}  {{eta}} left");
        let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        Self { bar }
    }

    /// Sets the number of items done and their total.
    pub fn set(&mut self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
