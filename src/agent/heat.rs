//! Temperatures while a stage runs.

use super::series::Track;
use crate::clock::{Clock, Ticker};
use crate::device::lock;
use crate::protocol::Series;
use crate::sensor::Zone;
use crate::sysfs::Nodes;
use crate::trial::Heat;
use crate::units::Celsius;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two looks at the zones: housings and dies take seconds to warm by a degree.
const LOOK: Duration = Duration::from_secs(1);

/// Looks at the zones from its start to its end.
pub struct HeatWatch {
    zones: Zones,
    start: BTreeMap<String, Celsius>,
    ticker: Ticker,
}

#[derive(Clone)]
struct Zones {
    zones: Vec<Zone>,
    nodes: Arc<dyn Nodes>,
    clock: Arc<dyn Clock>,
    tracks: Arc<Mutex<BTreeMap<String, Track>>>,
}

impl Zones {
    /// Looks once. Zones that give no temperature now are left out.
    fn look(&self) -> BTreeMap<String, Celsius> {
        let read = |zone: &Zone| Some((zone.kind.clone(), zone.read(&*self.nodes)?));
        let found: BTreeMap<_, _> = self.zones.iter().filter_map(read).collect();
        let (now, mut tracks) = (self.clock.now(), lock(&self.tracks));
        for (kind, celsius) in &found {
            let track = || Track::new(format!("temperature.{kind}"), "°C");
            tracks.entry(kind.clone()).or_insert_with(track).note(now, celsius.0);
        }
        found
    }
}

impl HeatWatch {
    /// Looks, and goes on looking.
    pub fn start(zones: Vec<Zone>, nodes: Arc<dyn Nodes>, clock: Arc<dyn Clock>) -> Self {
        let zones = Zones { zones, nodes, clock: clock.clone(), tracks: Arc::default() };
        let (start, each) = (zones.look(), zones.clone());
        let ticker = clock.every(LOOK, Box::new(move || drop(each.look())));
        HeatWatch { zones, start, ticker }
    }

    /// Looks a last time.
    pub fn stop(self) -> (Heat, Vec<Series>) {
        drop(self.ticker);
        let heat = Heat { start: self.start, end: self.zones.look() };
        let tracks = std::mem::take(&mut *lock(&self.zones.tracks));
        (heat, tracks.into_values().filter_map(Track::end).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::{MapNodes, StepClock};
    use crate::profile::ZoneRole;
    use crate::sysfs::NodePath;

    #[test]
    fn zones_are_read_at_both_ends_and_every_second() {
        let nodes = Arc::new(MapNodes::new(&[("/soc", "30000"), ("/skin", "none")]));
        let zone = |kind: &str, role| Zone {
            kind: kind.into(),
            role,
            node: NodePath::new(format!("/{kind}")).unwrap(),
        };
        let zones = vec![zone("soc", ZoneRole::Soc), zone("skin", ZoneRole::Skin)];
        let clock = StepClock::default();
        let watch = HeatWatch::start(zones, nodes.clone(), Arc::new(clock.clone()));
        nodes.set("/soc", "31000");
        clock.sleep(Duration::from_millis(1500));
        nodes.set("/soc", "32000");
        let (heat, series) = watch.stop();
        assert_eq!(heat.start, [("soc".to_owned(), Celsius(30.0))].into());
        assert_eq!(heat.end, [("soc".to_owned(), Celsius(32.0))].into());
        let [soc] = &series[..] else { panic!("{series:?}") };
        let values: Vec<f64> = soc.points.iter().map(|(_, celsius)| *celsius).collect();
        assert_eq!((soc.name.as_str(), values), ("temperature.soc", vec![30.0, 31.0, 32.0]));
    }
}
