//! Whether two results may stand side by side: same device, same model, same engine, same conditions.
//! Results with different conditions are never averaged together.

use crate::engine::EngineInfo;
use crate::protocol::Opened;
use crate::trial::SourceInfo;
use std::fmt::Debug;

/// Collects what differs, one line each.
#[derive(Debug, Default)]
pub struct Differences(Vec<String>);

impl Differences {
    /// Notes `what` if the two are not equal.
    pub fn compare<T: PartialEq + Debug + ?Sized>(&mut self, what: &str, here: &T, there: &T) {
        if here != there {
            self.0.push(format!("{what}: {here:?} against {there:?}"));
        }
    }

    /// What differs; empty: nothing.
    pub fn lines(self) -> Vec<String> {
        self.0
    }

    /// Compares the devices, up to which unit of the series it is and which boot it is in.
    pub fn devices(&mut self, here: &Opened, there: &Opened) {
        let (a, b) = (&here.device, &there.device);
        self.compare("device model", &a.model, &b.model);
        self.compare("SoC", &a.soc, &b.soc);
        self.compare("operating system", &a.os, &b.os);
        self.compare("kernel", &a.kernel, &b.kernel);
        self.compare("architecture", &a.arch, &b.arch);
        self.opened(here, there);
    }

    fn opened(&mut self, a: &Opened, b: &Opened) {
        self.compare("origin", &a.origin, &b.origin);
        self.compare("energy source", &source(a), &source(b));
        let knobs = |o: &Opened| o.knobs.iter().map(|k| k.id.0.clone()).collect::<Vec<_>>();
        self.compare("knobs", &knobs(a), &knobs(b));
        for (here, there) in a.knobs.iter().zip(&b.knobs).filter(|(x, y)| x.id == y.id) {
            self.compare(&format!("table of knob {}", here.id), &here.opps, &there.opps);
        }
        match (&a.engine, &b.engine) {
            (Some(here), Some(there)) => self.engines(here, there),
            (here, there) => self.compare("engine", &here.is_some(), &there.is_some()),
        }
    }

    fn engines(&mut self, a: &EngineInfo, b: &EngineInfo) {
        self.compare("engine", &a.name, &b.name);
        self.compare("engine build", &a.build, &b.build);
        self.compare("model", &a.model, &b.model);
        self.compare("model SHA-256", &a.model_sha256, &b.model_sha256);
        self.compare("quantisation", &a.quantisation, &b.quantisation);
        self.compare("threads", &a.threads, &b.threads);
        self.compare("affinity", &a.affinity, &b.affinity);
    }
}

fn source(opened: &Opened) -> String {
    let power = |attached| match attached {
        Some(true) => ", external power attached",
        Some(false) => ", no external power",
        None => "",
    };
    let named = |e: &SourceInfo| format!("{} {}{}", e.kind, e.name, power(e.external_power));
    opened.energy.as_ref().map_or("none".into(), named)
}

/// What keeps a run from going on with the device that answers now; empty: nothing.
pub fn changed_since(first: &Opened, now: &Opened) -> Vec<String> {
    let mut differences = Differences::default();
    differences.compare("serial (hashed)", &first.device.serial_hash, &now.device.serial_hash);
    differences.devices(first, now);
    differences.lines()
}
