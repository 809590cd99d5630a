//! Learning-rate schedules with warm-up.

use curricle_recipe::ScheduleRecipe;

/// Computes the learning-rate factor of each step.
#[derive(Debug, Clone)]
pub struct Schedule {
    recipe: ScheduleRecipe,
    warmup_epochs: f64,
    epochs: f64,
}

impl Schedule {
    /// The schedule of a run with this number of epochs.
    pub fn new(recipe: &ScheduleRecipe, warmup_epochs: f64, epochs: u64) -> Self {
        Self { recipe: recipe.clone(), warmup_epochs, epochs: epochs as f64 }
    }

    /// The factor of a step of an epoch, both counted from 0.
    ///
    /// The warm-up rises linearly to 1 and uses the time at the end of the step, so that the first
    /// step's rate is not 0. The schedules use the time at the start of the step; the cosine spans the
    /// epochs after the warm-up.
    pub fn factor(&self, epoch: u64, step: usize, steps: usize) -> f64 {
        let time = |step: usize| epoch as f64 + step as f64 / steps as f64;
        let (start, end) = (time(step), time(step + 1));
        if end < self.warmup_epochs {
            return end / self.warmup_epochs;
        }
        match self.recipe {
            ScheduleRecipe::Constant => 1.0,
            ScheduleRecipe::Step { every, factor } => factor.powf((start / every as f64).floor()),
            ScheduleRecipe::Cosine { floor } => {
                let span = (self.epochs - self.warmup_epochs).max(f64::MIN_POSITIVE);
                let progress = ((start - self.warmup_epochs) / span).clamp(0.0, 1.0);
                floor + (1.0 - floor) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_rises_to_the_full_rate() {
        let schedule = Schedule::new(&ScheduleRecipe::Constant, 2.0, 10);
        assert_eq!(schedule.factor(0, 0, 10), 0.05, "the first step has a positive rate");
        assert_eq!(schedule.factor(0, 9, 10), 0.5);
        assert_eq!(schedule.factor(2, 0, 10), 1.0);
    }

    #[test]
    fn the_rate_drops_at_epoch_boundaries() {
        let schedule = Schedule::new(&ScheduleRecipe::Step { every: 3, factor: 0.1 }, 0.0, 10);
        assert_eq!(schedule.factor(2, 9, 10), 1.0, "the last step of the third epoch");
        assert_eq!(schedule.factor(3, 0, 10), 0.1, "the first of the fourth");
    }

    #[test]
    fn the_cosine_falls_to_its_floor() {
        let schedule = Schedule::new(&ScheduleRecipe::Cosine { floor: 0.2 }, 1.0, 5);
        assert!((schedule.factor(1, 0, 1000) - 1.0).abs() < 1e-12);
        assert!((schedule.factor(3, 0, 1000) - 0.6).abs() < 1e-12);
        assert!((schedule.factor(4, 999, 1000) - 0.2).abs() < 1e-5);
    }
}
