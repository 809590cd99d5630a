//! Axes: scales and ticks.

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
}

/// An axis that maps a range of values to a range of pixels.
#[derive(Debug, Clone)]
pub(super) struct ChartAxis {
    scale: Scale,
    values: (f64, f64),
    pixels: (f64, f64),
    /// Values with a tick.
    pub ticks: Vec<f64>,
}

impl ChartAxis {
    /// An axis over these values with round ticks.
    pub(super) fn over(scale: Scale, values: (f64, f64), pixels: (f64, f64)) -> Self {
        match scale {
            Scale::Linear => {
                let (low, high) = widened(values);
                let ticks = round_ticks(low, high);
                Self { scale, values: (low, high), pixels, ticks }
            }
            Scale::Log => {
                let low = values.0.max(f64::MIN_POSITIVE).log10().floor();
                let high = values.1.max(f64::MIN_POSITIVE).log10().ceil().max(low + 1.0);
                let step = ((high - low) / 6.0).ceil().max(1.0);
                let ticks = (0..).map(|i| low + step * f64::from(i)).take_while(|e| *e <= high).map(|e| 10f64.powf(e));
                Self { scale, values: (10f64.powf(low), 10f64.powf(high)), pixels, ticks: ticks.collect() }
            }
        }
    }

    /// A linear axis over integers, such as epochs: ticks at whole numbers, and room on both sides so that the
    /// first and last value do not lie on the frame.
    pub(super) fn integers((low, high): (f64, f64), pixels: (f64, f64)) -> Self {
        let room = 0.03 * (high - low).max(1.0);
        let values = (low - room, high + room);
        let mut ticks = round_ticks(values.0, values.1);
        if ticks.iter().any(|tick| tick.fract() != 0.0) {
            ticks = (0..).map(|i| low.ceil() + f64::from(i)).take_while(|tick| *tick <= high).collect();
        }
        Self { scale: Scale::Linear, values, pixels, ticks }
    }

    /// An axis whose ticks are the values themselves, with a margin on both sides.
    pub(super) fn at(scale: Scale, ticks: &[f64], pixels: (f64, f64)) -> Self {
        let bend = |value: f64| if scale == Scale::Log { value.ln() } else { value };
        let unbend = |value: f64| if scale == Scale::Log { value.exp() } else { value };
        let low = ticks.iter().copied().map(bend).fold(f64::INFINITY, f64::min);
        let high = ticks.iter().copied().map(bend).fold(f64::NEG_INFINITY, f64::max);
        let room = if high > low { 0.06 * (high - low) } else { 0.5 };
        Self { scale, values: (unbend(low - room), unbend(high + room)), pixels, ticks: ticks.to_vec() }
    }

    /// The pixel position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        let bend = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).ln(),
        };
        let (low, high) = (bend(self.values.0), bend(self.values.1));
        self.pixels.0 + (bend(value) - low) / (high - low) * (self.pixels.1 - self.pixels.0)
    }

    /// A tick's value as text.
    pub(super) fn label(&self, tick: f64) -> String {
        if self.scale == Scale::Log && !(1e-2..1e4).contains(&tick) {
            return power_of_ten(tick);
        }
        let text = format!("{tick:.6}");
        text.trim_end_matches('0').trim_end_matches('.').replace('-', "−")
    }
}

/// A power of ten as `10⁻⁹`; another number as `3e−9`.
fn power_of_ten(tick: f64) -> String {
    let text = format!("{tick:.0e}").replace('-', "−");
    let raised = |c: char| if c == '−' { '⁻' } else { c.to_digit(10).map_or(c, |d| RAISED[d as usize]) };
    text.strip_prefix("1e")
        .map_or(text.clone(), |exponent| format!("10{}", exponent.chars().map(raised).collect::<String>()))
}

const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// Adds a margin if the range is a single value.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    let room = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
    (low - room, high + room)
}

/// Between four and eight multiples of 1, 2 or 5 times a power of ten.
fn round_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(rough);
    let first = (low / step - 1e-9).ceil();
    (0..).map(|i| (first + f64::from(i)) * step).take_while(|tick| *tick <= high + 1e-9 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(
            ChartAxis::over(Scale::Linear, (0.0, 1.0), (0.0, 1.0)).ticks,
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        let axis = ChartAxis::over(Scale::Linear, (41.3, 78.2), (300.0, 0.0));
        assert_eq!(axis.ticks, [50.0, 60.0, 70.0]);
        assert_eq!(axis.place(41.3), 300.0);
        assert_eq!(axis.label(0.6000000000000001), "0.6");
        for same in [0.0, 3.0, -2.0] {
            assert!(ChartAxis::over(Scale::Linear, (same, same), (0.0, 1.0)).place(same).is_finite());
        }
    }

    #[test]
    fn epochs_have_ticks_at_whole_numbers_and_stay_inside_the_frame() {
        for last in [1.0, 2.0, 3.0, 7.0, 30.0, 400.0] {
            let axis = ChartAxis::integers((0.0, last), (64.0, 506.0));
            assert!(axis.ticks.len() >= 2 && axis.ticks.iter().all(|tick| tick.fract() == 0.0), "{:?}", axis.ticks);
            assert!(axis.place(0.0) > 64.0 + 5.0 && axis.place(last) < 506.0 - 5.0);
        }
    }

    #[test]
    fn log_axes_have_ticks_at_powers_of_ten() {
        let axis = ChartAxis::over(Scale::Log, (3e-9, 2e-3), (0.0, 100.0));
        assert_eq!(axis.ticks.len(), 4);
        assert_eq!(axis.label(axis.ticks[0]), "10⁻⁹");
        assert_eq!((axis.label(3e-9).as_str(), axis.label(1e12).as_str()), ("3e−9", "10¹²"));
        let sizes = ChartAxis::at(Scale::Log, &[64.0, 128.0, 256.0], (0.0, 100.0));
        assert!((sizes.place(128.0) - 50.0).abs() < 1e-9);
    }
}
