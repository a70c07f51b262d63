//! Every combination of the two axes: what the others are measured against.

use super::{Goal, Point, Seen, Space, Strategy, Told, Value};

/// Asks for all points of the space as one batch.
pub struct Exhaustive {
    space: Space,
    goal: Goal,
    seen: Seen,
}

impl Exhaustive {
    /// A search of the whole `space` for `goal`.
    pub fn new(space: Space, goal: Goal) -> Self {
        Exhaustive { space, goal, seen: Seen::default() }
    }
}

impl Strategy for Exhaustive {
    fn ask(&mut self) -> Vec<Point> {
        let mut points = self.space.points();
        points.retain(|point| self.seen.get(point).is_none());
        points
    }

    fn tell(&mut self, told: Told) {
        self.seen.take(told);
    }

    fn best(&self) -> Option<(Point, Value)> {
        self.seen.best(&self.goal)
    }
}
