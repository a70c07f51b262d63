//! Statistics of small samples: what a decision, a table or a report needs, and nothing more.
//!
//! Medians decide, because one disturbed run must not. The interval of a median is the one of order
//! statistics (binomial, distribution-free): Conover, *Practical Nonparametric Statistics*, 3rd ed., 3.2;
//! percentiles interpolate linearly between order statistics (Hyndman & Fan 1996, type 7).

/// A sample, sorted. Values that are not finite are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(Vec<f64>);

/// An interval and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the interval covers the median of the population, exact, 0..1.
    pub coverage: f64,
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Sample(sorted)
    }
}

impl Sample {
    /// Number of values.
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// The values, smallest first.
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }

    /// The median; `None` of nothing.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The arithmetic mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// The standard deviation of the population, estimated with n - 1; `None` under two values.
    pub fn sd(&self) -> Option<f64> {
        let mean = self.mean().filter(|_| self.0.len() > 1)?;
        let squares: f64 = self.0.iter().map(|v| (v - mean).powi(2)).sum();
        Some((squares / (self.0.len() - 1) as f64).sqrt())
    }

    /// The median absolute deviation from the median, not scaled; `None` of nothing.
    pub fn mad(&self) -> Option<f64> {
        let median = self.median()?;
        self.0.iter().map(|v| (v - median).abs()).collect::<Sample>().median()
    }

    /// The `p`-th percentile (0..100); `None` where n does not allow it, that is where fewer than one value is
    /// expected beyond it: p90 needs 10 values, p95 20, p99 100.
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let beyond = 1.0 - (p / 100.0 - 0.5).abs() - 0.5;
        // A hair of slack: 1 - 0.9 is a little under 0.1 in binary.
        (self.0.len() as f64 * beyond >= 1.0 - 1e-9).then(|| self.quantile(p / 100.0)).flatten()
    }

    /// The value below which a share `q` (0..=1) of the sample lies, whatever n is; `None` of nothing.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let position = q.clamp(0.0, 1.0) * self.0.len().checked_sub(1)? as f64;
        let (below, above) = (self.0[position.floor() as usize], self.0[position.ceil() as usize]);
        Some(below + (above - below) * position.fract())
    }

    /// The narrowest symmetric interval of order statistics that covers the median with at least `confidence`;
    /// where n is too small for that (under 6 for 95 %), the full range with the coverage it has.
    pub fn median_interval(&self, confidence: f64) -> Option<Interval> {
        let n = self.0.len();
        let (first, last) = (self.0.first()?, self.0.last()?);
        let widest = Interval { low: *first, high: *last, coverage: coverage(n, 0) };
        let narrower = (1..n / 2).map(|cut| (cut, coverage(n, cut)));
        let enough = narrower.take_while(|(_, sure)| *sure >= confidence).last();
        Some(enough.map_or(widest, |(cut, coverage)| Interval {
            low: self.0[cut],
            high: self.0[n - 1 - cut],
            coverage,
        }))
    }
}

/// Probability that the median lies between the order statistics left when `cut` values are cut off each end
/// of `n`: 1 - 2 P(B <= cut) for B binomial with p = 1/2.
fn coverage(n: usize, cut: usize) -> f64 {
    let mut log_term = -(n as f64) * std::f64::consts::LN_2;
    let mut tail = log_term.exp();
    for k in 1..=cut {
        log_term += ((n - k + 1) as f64 / k as f64).ln();
        tail += log_term.exp();
    }
    (1.0 - 2.0 * tail).max(0.0)
}

/// How much larger (positive) or smaller `value` is than `reference`, as a share of it.
pub fn relative(value: f64, reference: f64) -> f64 {
    value / reference - 1.0
}

/// `value` with `digits` significant digits, so that a number in a file does not pretend to more than was
/// measured and does not change with the last bit.
pub fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        values.iter().copied().collect()
    }

    #[test]
    fn the_usual_figures_are_right() {
        let s = sample(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(s.median(), Some(4.5));
        assert_eq!(s.mean(), Some(5.0));
        assert!((s.sd().unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(s.mad(), Some(0.5));
    }

    #[test]
    fn nothing_has_no_figures_and_one_value_no_deviation() {
        let none = sample(&[f64::NAN, f64::INFINITY]);
        assert_eq!((none.n(), none.median(), none.mean(), none.mad()), (0, None, None, None));
        assert_eq!(none.median_interval(0.95), None);
        let one = sample(&[3.0]);
        assert_eq!((one.median(), one.sd(), one.mad()), (Some(3.0), None, Some(0.0)));
    }

    #[test]
    fn percentiles_need_enough_values() {
        let of = |n: usize| (0..n).map(|v| v as f64).collect::<Sample>();
        assert_eq!(of(9).percentile(90.0), None);
        assert_eq!(of(11).percentile(90.0), Some(9.0));
        assert_eq!((of(19).percentile(95.0), of(99).percentile(99.0)), (None, None));
        assert!(of(10).percentile(90.0).is_some() && of(20).percentile(95.0).is_some());
        assert_eq!(of(101).percentile(99.0), Some(99.0));
        assert_eq!(of(2).percentile(50.0), Some(0.5));
    }

    #[test]
    fn the_interval_of_a_median_is_the_binomial_one() {
        let of = |n: usize| (1..=n).map(|v| v as f64).collect::<Sample>();
        let ends = |n| of(n).median_interval(0.95).map(|i| (i.low, i.high)).unwrap();
        // Published ranks of the 95 % interval (Conover, table A3; R's wilcox-free sign interval).
        assert_eq!(ends(5), (1.0, 5.0));
        assert_eq!(ends(6), (1.0, 6.0));
        assert_eq!(ends(10), (2.0, 9.0));
        assert_eq!(ends(20), (6.0, 15.0));
        assert!((of(3).median_interval(0.95).unwrap().coverage - 0.75).abs() < 1e-12);
        assert!((of(10).median_interval(0.95).unwrap().coverage - 0.978_515_625).abs() < 1e-12);
        let large = of(5000).median_interval(0.95).unwrap();
        assert!(large.coverage >= 0.95 && large.coverage < 0.96 && large.low > 2400.0);
    }

    #[test]
    fn numbers_keep_their_significant_digits() {
        assert_eq!(significant(123.456_789, 5), 123.46);
        assert_eq!(significant(0.001_234_56, 3), 0.001_23);
        assert_eq!(significant(0.0, 4), 0.0);
        assert!((relative(150.0, 200.0) + 0.25).abs() < 1e-12);
    }
}
