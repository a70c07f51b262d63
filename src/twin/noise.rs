//! Seeded measurement noise: multiplicative factors near 1.

use super::spec::NoiseSpec;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The noise of one trial.
#[derive(Clone, Debug)]
pub struct Noise {
    spec: NoiseSpec,
    run_seed: u64,
    random: ChaCha8Rng,
    /// Factor on the trial's times.
    pub latency: f64,
    /// Factor on the trial's power.
    pub power: f64,
}

impl Noise {
    /// Noise of a run, before its first trial.
    pub fn new(spec: NoiseSpec, run_seed: u64) -> Self {
        let mut noise =
            Noise { spec, run_seed, random: ChaCha8Rng::seed_from_u64(0), latency: 1.0, power: 1.0 };
        noise.begin(0);
        noise
    }

    /// Begins a trial: everything drawn from now on depends on the run's and the trial's seed alone.
    pub fn begin(&mut self, trial_seed: u64) {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.run_seed.to_le_bytes());
        seed[8..16].copy_from_slice(&trial_seed.to_le_bytes());
        self.random = ChaCha8Rng::from_seed(seed);
        self.latency = self.factor(self.spec.latency);
        self.power = self.factor(self.spec.power);
    }

    /// Factor on the next token's time.
    pub fn token(&mut self) -> f64 {
        self.factor(self.spec.token)
    }

    /// A log-normal factor (Box-Muller): never negative, median 1.
    fn factor(&mut self, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.random::<f64>()).ln()).sqrt();
        let angle = std::f64::consts::TAU * self.random.random::<f64>();
        (sigma * radius * angle.cos()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_depends_on_both_seeds_and_nothing_else() {
        let spec = NoiseSpec { latency: 0.01, power: 0.01, token: 0.02 };
        let draw = |run, trial, before: usize| {
            let mut noise = Noise::new(spec, run);
            for _ in 0..before {
                noise.token();
            }
            noise.begin(trial);
            (noise.latency, noise.power, noise.token())
        };
        assert_eq!(draw(1, 7, 0), draw(1, 7, 5));
        assert_ne!(draw(1, 7, 0), draw(2, 7, 0));
        assert_ne!(draw(1, 7, 0), draw(1, 8, 0));
        let (latency, ..) = draw(1, 7, 0);
        assert!((latency - 1.0).abs() < 0.05);
    }
}
