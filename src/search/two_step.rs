//! The two-step search of FUSE (arXiv 2507.02135), as published: GPU first, then CPU for at most two GPU
//! frequencies. Both steps scan from the highest frequency down.
//!
//! The state of the search is nothing but what it was told: every `ask` walks the scans again from the top and
//! stops at the first point that is not told yet. A point that could not be measured is passed over; if
//! nothing can be measured at one CPU frequency, step 1 is tried at the next nearest.
//!
//! Where the publication is silent: if step 1 finds no GPU frequency within the budget (G1), the one that draws
//! least goes to step 2, because it may come under the budget with another CPU frequency (energy over frequency is
//! U-shaped: the lowest may draw more); if even the highest GPU frequency misses the target (G2), it goes to step 2
//! alone. The answer is the best of all points told; on a
//! surface without noise that is the best of the pairs step 2 found.

use super::{Effective, Goal, Point, Seen, Space, Strategy, Told, Value, descending};
use crate::units::Opp;

/// GPU first, then CPU.
pub struct TwoStep {
    goal: Goal,
    /// Fastest first.
    gpu: Vec<Option<Opp>>,
    /// Fastest first.
    cpu: Vec<Option<Opp>>,
    /// Where the CPU stands in step 1: the first of these where anything can be measured.
    resting: Vec<Option<Opp>>,
    seen: Seen,
}

/// How far a scan has come.
enum Scan {
    /// This point must be told first.
    Wants(Point),
    /// It is over. The points that could be measured, in the order of the scan, and whether the last of them
    /// is the one that ended it.
    Over(Vec<(Point, Value)>, bool),
}

impl TwoStep {
    /// A search of `space` for `goal`. In step 1 the CPU stands at the operating point nearest to its
    /// effective frequency under the default governor, or at the highest where that is not known.
    pub fn new(space: &Space, goal: Goal, effective: Effective) -> Self {
        TwoStep {
            goal,
            gpu: descending(&space.gpu),
            cpu: descending(&space.cpu),
            resting: nearest_first(&space.cpu, effective.cpu),
            seen: Seen::default(),
        }
    }

    /// Walks `points` until `ends` holds for a point, given the one before it.
    fn scan(
        &self,
        points: impl Iterator<Item = Point>,
        ends: impl Fn(Option<&Value>, &Value) -> bool,
    ) -> Scan {
        let mut walked: Vec<(Point, Value)> = Vec::new();
        for point in points {
            let Some(told) = self.seen.get(&point) else { return Scan::Wants(point) };
            let Some(value) = told else { continue };
            let ended = ends(walked.last().map(|(_, before)| before), &value);
            walked.push((point, value));
            if ended {
                return Scan::Over(walked, true);
            }
        }
        Scan::Over(walked, false)
    }

    /// Step 1: down the GPU axis. G1 ends within the budget, G2 past the least energy.
    fn step_one(&self) -> Scan {
        let ends = |before: Option<&Value>, value: &Value| match self.goal {
            Goal::LowestLatency { .. } => self.goal.admits(value),
            Goal::LowestEnergy { .. } => before.is_some_and(|b| value.energy > b.energy),
        };
        let mut scans = self
            .resting
            .iter()
            .map(|&cpu| self.scan(self.gpu.iter().map(|&gpu| Point { gpu, cpu }), ends))
            .skip_while(|scan| matches!(scan, Scan::Over(walked, _) if walked.is_empty()));
        scans.next().unwrap_or(Scan::Over(Vec::new(), false))
    }

    /// Step 2: down the CPU axis at one GPU frequency. G1 ends within the budget, G2 past the target.
    fn step_two(&self, gpu: Option<Opp>) -> Scan {
        let wanted = matches!(self.goal, Goal::LowestLatency { .. });
        let points = self.cpu.iter().map(move |&cpu| Point { gpu, cpu });
        self.scan(points, |_, value| self.goal.admits(value) == wanted)
    }

    /// The GPU frequencies that step 2 looks at.
    fn candidates(&self, walked: &[(Point, Value)], ended: bool) -> Vec<Option<Opp>> {
        let chosen = match self.goal {
            Goal::LowestLatency { .. } => just_within(walked, ended),
            Goal::LowestEnergy { .. } => self.around_target(walked, ended),
        };
        chosen.iter().map(|(point, _)| point.gpu).collect()
    }

    /// G2: the frequency of least energy if it meets the target, else the two that bracket the target.
    fn around_target<'w>(&self, walked: &'w [(Point, Value)], ended: bool) -> &'w [(Point, Value)] {
        // The point that ended the scan only showed that the one before it was the minimum.
        let falling = &walked[..walked.len() - usize::from(ended)];
        let admitted = |(_, value): &(Point, Value)| self.goal.admits(value);
        match falling.iter().position(|at| !admitted(at)) {
            Some(missed) if !falling.last().is_some_and(admitted) => {
                &falling[missed.saturating_sub(1)..=missed]
            }
            _ => &falling[falling.len().saturating_sub(1)..],
        }
    }
}

/// G1: the first frequency within the budget and the one just above it; the one that draws least alone if none is
/// within.
fn just_within(walked: &[(Point, Value)], ended: bool) -> &[(Point, Value)] {
    if ended {
        return &walked[walked.len().saturating_sub(2)..];
    }
    let least = walked.iter().min_by(|(_, a), (_, b)| a.energy.0.total_cmp(&b.energy.0));
    least.map_or(&[], std::slice::from_ref)
}

/// The operating points by distance from `clock`, the faster first of two equally near ones; fastest first
/// where the clock is not known.
fn nearest_first(axis: &[Opp], clock: Option<f64>) -> Vec<Option<Opp>> {
    let mut opps = descending(axis);
    if let Some(clock) = clock {
        let off = |opp: &Option<Opp>| opp.map_or(0.0, |o| (o.0 as f64 - clock).abs());
        opps.sort_by(|a, b| off(a).total_cmp(&off(b)));
    }
    opps
}

impl Strategy for TwoStep {
    /// One point at a time in step 1; in step 2 the next point of each candidate's scan, as they do not depend
    /// on each other.
    fn ask(&mut self) -> Vec<Point> {
        let candidates = match self.step_one() {
            Scan::Wants(point) => return vec![point],
            Scan::Over(walked, ended) => self.candidates(&walked, ended),
        };
        let wants = |gpu| match self.step_two(gpu) {
            Scan::Wants(point) => Some(point),
            Scan::Over(..) => None,
        };
        candidates.into_iter().filter_map(wants).collect()
    }

    fn tell(&mut self, told: Told) {
        self.seen.take(told);
    }

    fn best(&self) -> Option<(Point, Value)> {
        self.seen.best(&self.goal)
    }
}
