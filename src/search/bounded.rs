//! An upper bound on what any strategy may spend.

use super::{Point, Strategy, Told, Value};

/// A strategy that ends after a number of points, wherever it is then.
pub struct Bounded<S> {
    inner: S,
    left: usize,
}

impl<S: Strategy> Bounded<S> {
    /// `inner`, ended after `points` points.
    pub fn new(inner: S, points: usize) -> Self {
        Bounded { inner, left: points }
    }
}

impl<S: Strategy> Strategy for Bounded<S> {
    /// The batch that would overrun the bound is cut; the inner strategy is not asked after that, so it never
    /// sees a batch half told.
    fn ask(&mut self) -> Vec<Point> {
        if self.left == 0 {
            return Vec::new();
        }
        let mut points = self.inner.ask();
        points.truncate(self.left);
        self.left -= points.len();
        points
    }

    fn tell(&mut self, told: Told) {
        self.inner.tell(told);
    }

    fn best(&self) -> Option<(Point, Value)> {
        self.inner.best()
    }
}

impl Strategy for Box<dyn Strategy> {
    fn ask(&mut self) -> Vec<Point> {
        (**self).ask()
    }

    fn tell(&mut self, told: Told) {
        (**self).tell(told);
    }

    fn best(&self) -> Option<(Point, Value)> {
        (**self).best()
    }
}
