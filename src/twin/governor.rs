//! The governors: CPU (schedutil-like), GPU (steps), memory (load).

use super::spec::GovernorSpec;

/// A governor and what it has seen.
#[derive(Clone, Debug)]
pub struct Governor {
    spec: GovernorSpec,
    /// The operating point it wants (index into the table).
    pub wanted: usize,
    busy_ns: f64,
    window_ns: u64,
    signal: f64,
    since_lowered_ns: u64,
}

impl Governor {
    /// A governor that has seen nothing and wants the lowest operating point.
    pub fn new(spec: GovernorSpec) -> Self {
        Governor { spec, wanted: 0, busy_ns: 0.0, window_ns: 0, signal: 0.0, since_lowered_ns: 0 }
    }

    /// Forgets everything.
    pub fn rest(&mut self) {
        *self = Governor::new(self.spec);
    }

    /// Sees `span` nanoseconds at `busy`; decides when its period is over.
    pub fn see(&mut self, span: u64, busy: f64, level: usize, table: &[u64]) {
        self.busy_ns += busy * span as f64;
        self.window_ns += span;
        if self.window_ns < self.spec.period_ms() * 1_000_000 {
            return;
        }
        let mean = self.busy_ns / self.window_ns as f64;
        self.wanted = self.decide(mean, level, table);
        self.busy_ns = 0.0;
        self.window_ns = 0;
    }

    fn decide(&mut self, busy: f64, level: usize, table: &[u64]) -> usize {
        match self.spec {
            GovernorSpec::Schedutil { headroom, burst, half_life_ms, down_hold_ms, .. } => {
                let share = table[level] as f64 / table[table.len() - 1] as f64;
                let keep = 0.5f64.powf(self.window_ns as f64 / (half_life_ms * 1e6));
                self.signal = keep * self.signal + (1.0 - keep) * busy * share;
                let wanted =
                    lowest_at_least(table, headroom * burst * self.signal * table[table.len() - 1] as f64);
                self.hold_down(wanted, level, down_hold_ms * 1_000_000)
            }
            GovernorSpec::Step { up, .. } if busy > up => (level + 1).min(table.len() - 1),
            GovernorSpec::Step { down, .. } if busy < down => level.saturating_sub(1),
            GovernorSpec::Step { .. } => level,
            GovernorSpec::Load { target, .. } => lowest_at_least(table, busy * table[level] as f64 / target),
        }
    }

    fn hold_down(&mut self, wanted: usize, level: usize, hold_ns: u64) -> usize {
        self.since_lowered_ns += self.window_ns;
        match wanted < level {
            true if self.since_lowered_ns < hold_ns => level,
            true => {
                self.since_lowered_ns = 0;
                wanted
            }
            false => wanted,
        }
    }
}

fn lowest_at_least(table: &[u64], value: f64) -> usize {
    table.partition_point(|&f| (f as f64) < value).min(table.len() - 1)
}
