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
    since_change_ns: u64,
    /// What leans on the thresholds of [`GovernorSpec::Step`], milliseconds.
    lean: (f64, f64),
    /// The last window and what it leaves of the signal of [`GovernorSpec::Schedutil`]: windows are nearly all
    /// of one length, and a power is what costs most here.
    keep: (u64, f64),
}

impl Governor {
    /// A governor that has seen nothing and wants the lowest operating point.
    pub fn new(spec: GovernorSpec) -> Self {
        Governor {
            spec,
            wanted: 0,
            busy_ns: 0.0,
            window_ns: 0,
            signal: 0.0,
            since_change_ns: 0,
            lean: (0.0, 0.0),
            keep: (0, 1.0),
        }
    }

    /// Forgets everything.
    pub fn rest(&mut self) {
        *self = Governor::new(self.spec);
    }

    /// Sees `span` nanoseconds at `busy`; decides when its period is over. Tells whether it wants another
    /// operating point than before.
    pub fn see(&mut self, span: u64, busy: f64, level: usize, table: &[u64]) -> bool {
        self.busy_ns += busy * span as f64;
        self.window_ns += span;
        if self.window_ns < self.spec.period_ms() * 1_000_000 {
            return false;
        }
        let mean = self.busy_ns / self.window_ns as f64;
        let wanted = self.decide(mean, level, table);
        let changed = wanted != self.wanted;
        self.wanted = wanted;
        self.busy_ns = 0.0;
        self.window_ns = 0;
        changed
    }

    /// What the window that is over leaves of the signal.
    fn keep(&mut self, half_life_ms: f64) -> f64 {
        if self.keep.0 != self.window_ns {
            self.keep = (self.window_ns, 0.5f64.powf(self.window_ns as f64 / (half_life_ms * 1e6)));
        }
        self.keep.1
    }

    fn decide(&mut self, busy: f64, level: usize, table: &[u64]) -> usize {
        match self.spec {
            GovernorSpec::Schedutil { headroom, burst, half_life_ms, down_hold_ms, .. } => {
                let share = table[level] as f64 / table[table.len() - 1] as f64;
                let keep = self.keep(half_life_ms);
                self.signal = keep * self.signal + (1.0 - keep) * busy * share;
                let wanted =
                    lowest_at_least(table, headroom * burst * self.signal * table[table.len() - 1] as f64);
                self.hold_down(wanted, level, down_hold_ms * 1_000_000)
            }
            GovernorSpec::Step { up, up_ms, down, down_ms, .. } => {
                let window = self.window_ns as f64 * 1e-6;
                self.lean.0 += (busy - up).max(0.0) * window;
                self.lean.1 += (down - busy).max(0.0) * window;
                let step = match (self.lean.0 >= up_ms, self.lean.1 >= down_ms) {
                    (true, _) => table.len() - 1,
                    (false, true) => level.saturating_sub(1),
                    (false, false) => return level,
                };
                self.lean = (0.0, 0.0);
                step
            }
            GovernorSpec::Load { target, down_hold_ms, .. } => {
                let wanted = lowest_at_least(table, busy * table[level] as f64 / target);
                self.hold_down(wanted, level, down_hold_ms * 1_000_000)
            }
        }
    }

    fn hold_down(&mut self, wanted: usize, level: usize, hold_ns: u64) -> usize {
        self.since_change_ns += self.window_ns;
        if wanted < level && self.since_change_ns < hold_ns {
            return level;
        }
        if wanted != level {
            self.since_change_ns = 0;
        }
        wanted
    }
}

fn lowest_at_least(table: &[u64], value: f64) -> usize {
    table.partition_point(|&f| (f as f64) < value).min(table.len() - 1)
}
