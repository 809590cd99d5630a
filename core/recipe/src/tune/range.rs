//! The values that a random search draws for one setting.

use crate::grid::{PathSetting, distinct_text, value_text};
use crate::problems::Problem;
use crate::source::Origin;
use crate::tree::{Node, Value};
use curricle_rng::stream;
use rand::RngExt;

/// The values to draw from.
#[derive(Debug, Clone)]
pub(super) enum SearchRange {
    /// One of these.
    Choices(Vec<Node>),
    /// A number, uniform or log-uniform.
    Between { low: f64, high: f64, log: bool },
}

impl SearchRange {
    /// Reads the range of a setting.
    pub(super) fn read(named: &PathSetting, problems: &mut Vec<Problem>) -> Option<Self> {
        let path = format!("tune.random.{}", named.path());
        let example = "for example `{ min = 1e-4, max = 1e-2, log = true }`, or a list of choices";
        let mut wrong = |origin: &Origin, what: &str| {
            problems.push(Problem::new(origin, format!("`{path}` {what}")).at(path.as_str()).help(example));
            None
        };
        let table = match &named.node.value {
            Value::Array(choices) if !choices.is_empty() => return Some(Self::Choices(choices.clone())),
            Value::Table(table) => table,
            _ => return wrong(&named.node.origin, "must be a range or a list of choices"),
        };
        if let Some(other) = table.iter().find(|entry| !["min", "max", "log"].contains(&entry.key.as_str())) {
            return wrong(&other.key_origin, &format!("has no `{}`", other.key));
        }
        let number = |key: &str| match table.get(key).map(|entry| &entry.node.value) {
            Some(Value::Integer(number)) => Some(*number as f64),
            Some(Value::Float(number)) if number.is_finite() => Some(*number),
            _ => None,
        };
        let log = match table.get("log").map(|entry| &entry.node.value) {
            None => false,
            Some(Value::Boolean(log)) => *log,
            Some(_) => return wrong(&named.node.origin, "must have `true` or `false` for `log`"),
        };
        match (number("min"), number("max")) {
            (Some(low), Some(high)) if low < high && !(log && low <= 0.0) => Some(Self::Between { low, high, log }),
            (Some(low), Some(high)) if low < high => {
                wrong(&named.node.origin, "must have `min` above 0 with `log = true`")
            }
            (Some(_), Some(_)) => wrong(&named.node.origin, "must have `min` below `max`"),
            _ => wrong(&named.node.origin, "must have numbers for `min` and `max`"),
        }
    }

    /// Whether a whole number can be drawn.
    pub(super) fn has_whole_number(&self) -> bool {
        match self {
            Self::Choices(_) => true,
            Self::Between { low, high, .. } => low.ceil() <= high.floor(),
        }
    }

    /// A drawn value in the label of a trial.
    pub(super) fn text(&self, value: &Node) -> String {
        match self {
            Self::Choices(choices) => distinct_text(value, choices),
            Self::Between { .. } => value_text(value),
        }
    }

    /// The value of a trial. Every setting has its own random stream, so that its values do not
    /// change when another setting is added.
    pub(super) fn draw(&self, seed: u64, path: &str, trial: u64, whole: bool, origin: &Origin) -> Node {
        let mut rng = stream(seed, &format!("tune {path}"), trial, 0);
        match self {
            Self::Choices(choices) => choices[rng.random_range(0..choices.len())].clone(),
            Self::Between { low, high, log } => {
                let share: f64 = rng.random();
                let between = |low: f64, high: f64| match log {
                    true => (low.ln() + share * (high.ln() - low.ln())).exp(),
                    false => low + share * (high - low),
                };
                let value = match whole {
                    // Half a unit more on both sides makes the ends as likely as the other numbers.
                    true => {
                        let (low, high) = (low.ceil(), high.floor());
                        let bottom = if *log { (low - 0.5).max(0.5 * low) } else { low - 0.5 };
                        let drawn = between(bottom, high + 0.5).round();
                        Value::Integer(drawn.clamp(low, high) as i128)
                    }
                    false => Value::Float(readable(between(*low, *high)).clamp(*low, *high)),
                };
                Node { value, origin: origin.clone() }
            }
        }
    }
}

/// Rounds to four significant digits, which are easy to read and type.
fn readable(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    #[test]
    fn drawn_numbers_are_rounded() {
        assert_eq!(super::readable(0.001_234_567), 0.001_235);
    }
}
