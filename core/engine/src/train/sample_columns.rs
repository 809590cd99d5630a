//! Numbers per sample that a component logs batch by batch.

use super::checks::check_name;
use curricle_record::samples;
use curricle_sdk::{Error, Result};
use std::collections::{BTreeMap, HashMap};
use tch::{Device, Kind, Tensor};

/// More columns are taken for names that change from step to step.
const MOST: usize = 256;

/// Prefix of the columns' names in a checkpoint.
const PREFIX: &str = "sample_columns.";

/// Prefix of the columns that a loss logs, so that they cannot have the names of a weight scheme's columns.
pub(crate) const LOSS_COLUMNS: &str = "loss_";

/// The last number of every sample, by name; NaN for samples that have not been in a batch. They stay on the device
/// until `samples.csv` is written.
#[derive(Debug)]
pub(crate) struct SampleColumns {
    columns: BTreeMap<String, Tensor>,
    samples: i64,
    device: Device,
}

impl SampleColumns {
    /// No columns.
    pub(crate) fn new(samples: usize, device: Device) -> Self {
        Self { columns: BTreeMap::new(), samples: samples as i64, device }
    }

    /// Keeps the numbers of a batch in columns whose names start with `prefix`.
    pub(crate) fn keep(&mut self, prefix: &str, ids: &Tensor, logged: Vec<(String, Tensor)>) -> Result<()> {
        let _no_grad = tch::no_grad_guard();
        for (index, (name, _)) in logged.iter().enumerate() {
            if logged[..index].iter().any(|(other, _)| other == name) {
                return Err(Error::other(format!(
                    "logged numbers per sample as `{name}` twice in one call; use different names"
                )));
            }
        }
        for (name, values) in logged {
            check_name(&name)?;
            let name = format!("{prefix}{name}");
            check_column_name(&name)?;
            let is_real = !values.is_sparse() && !values.is_complex();
            if !is_real || values.size() != ids.size() || values.device() != ids.device() {
                return Err(Error::other(format!(
                    "logged numbers of shape {:?}, type {:?}, on {:?} as `{name}` for a batch of {} on {:?}; log a dense real \
                     `[B]`",
                    values.size(),
                    values.kind(),
                    values.device(),
                    ids.size()[0],
                    ids.device()
                )));
            }
            if self.columns.len() >= MOST && !self.has(&name) {
                return Err(Error::other(format!(
                    "logged numbers per sample under more than {MOST} names; use the same names in every step"
                )));
            }
            let empty = || Tensor::full([self.samples], f64::NAN, (Kind::Float, self.device));
            let column = self.columns.entry(name).or_insert_with(empty);
            let _ = column.f_index_copy_(0, ids, &values.to_kind(Kind::Float))?;
        }
        Ok(())
    }

    /// Whether there is a column of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// The columns on the host.
    pub(crate) fn read(&self) -> Vec<(String, Vec<f64>)> {
        let read = |tensor: &Tensor| {
            Vec::<f64>::try_from(tensor.to_device(Device::Cpu).to_kind(Kind::Double)).unwrap_or_default()
        };
        self.columns.iter().map(|(name, column)| (name.clone(), read(column))).collect()
    }

    /// The tensors for a checkpoint.
    pub(super) fn state(&self) -> impl Iterator<Item = (String, Tensor)> {
        self.columns.iter().map(|(name, column)| (format!("{PREFIX}{name}"), column.shallow_clone()))
    }

    /// Restores the columns in a checkpoint.
    pub(super) fn restore(&mut self, tensors: &HashMap<String, Tensor>) {
        let saved = tensors.iter().filter_map(|(name, tensor)| Some((name.strip_prefix(PREFIX)?, tensor)));
        let fitting = saved.filter(|(_, tensor)| tensor.size() == [self.samples]);
        self.columns = fitting.map(|(name, tensor)| (name.to_string(), tensor.copy().to_device(self.device))).collect();
    }
}

/// Checks that a name is free for a column of `samples.csv`.
pub(super) fn check_column_name(name: &str) -> Result<()> {
    check_name(name)?;
    if samples::RESERVED.contains(&name) {
        return Err(Error::other(format!(
            "named a column of `samples.csv` `{name}`, which is not available; choose another name"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_each_sample_is_kept() {
        let mut columns = SampleColumns::new(3, Device::Cpu);
        let log = |values: &[f64]| vec![("p".to_string(), Tensor::from_slice(values))];
        columns.keep("", &Tensor::from_slice(&[0i64, 2]), log(&[0.5, 0.25])).unwrap();
        columns.keep("", &Tensor::from_slice(&[2i64]), log(&[1.0])).unwrap();
        let saved: HashMap<_, _> = columns.state().collect();
        let mut resumed = SampleColumns::new(3, Device::Cpu);
        resumed.restore(&saved);
        let (name, values) = resumed.read().remove(0);
        assert_eq!(name, "p");
        assert_eq!((values[0], values[2]), (0.5, 1.0));
        assert!(values[1].is_nan());
        let ids = Tensor::from_slice(&[0i64, 1]);
        let mut refused = |logged| columns.keep("", &ids, logged).unwrap_err().to_string();
        assert!(refused(log(&[1.0])).starts_with("logged numbers of shape [1]"));
        let twice = log(&[1.0, 1.0]).into_iter().chain(log(&[1.0, 1.0])).collect();
        assert!(refused(twice).ends_with("as `p` twice in one call; use different names"));
        let complex = vec![("c".to_string(), Tensor::zeros([2], (Kind::ComplexFloat, Device::Cpu)))];
        assert!(refused(complex).contains("type ComplexFloat"));
        let reserved = vec![("weight".to_string(), Tensor::from_slice(&[1.0, 1.0]))];
        assert!(refused(reserved).contains("`weight`, which is not available; choose another name"));
        let unnamed = vec![(String::new(), Tensor::from_slice(&[1.0, 1.0]))];
        assert!(refused(unnamed).contains("a name must not be empty"));
    }

    #[test]
    fn names_that_change_from_step_to_step_are_refused() {
        let mut columns = SampleColumns::new(1, Device::Cpu);
        let mut log = |step| {
            columns.keep("", &Tensor::from_slice(&[0i64]), vec![(format!("p{step}"), Tensor::from_slice(&[0.5f32]))])
        };
        (0..MOST).for_each(|step| log(step).unwrap());
        log(0).unwrap();
        let message = log(MOST).unwrap_err().to_string();
        assert!(message.contains("more than 256 names; use the same names in every step"), "{message}");
    }
}
