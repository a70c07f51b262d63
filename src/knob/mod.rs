//! Knobs: frequency domains that can be pinned. One file per driver family; the profile chooses.
//!
//! A knob knows its driver's units, bounds, write order and read-back. It never decides *whether* to pin and
//! never remembers originals: that is the agent's and the guard's business.

mod access;
mod bounds;
mod bus_dcvs;
mod cooling;
mod cpu_quota;
mod cpufreq;
mod devfreq;
#[cfg(test)]
pub(crate) mod fake;
mod gpex;
mod gpufreq;
mod gpufreq_v1;
mod gpufreq_v2;
mod kgsl;
mod mif;
mod pixel_mali;
mod table;
#[cfg(test)]
mod tests;

use access::Access;
pub use cpufreq::all_limits as cpufreq_limits;

use crate::guard::RestoreStep;
use crate::profile::{DriverSpec, KnobSpec};
use crate::sysfs::{NodeError, NodePath, Nodes};
use crate::trial::KnobId;
use crate::units::{Opp, OppUnit};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a knob is and which operating points it has, as the device itself lists them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnobInfo {
    /// Its name in the profile.
    pub id: KnobId,
    /// The driver family, as the profile names it.
    pub family: String,
    /// The unit of its operating points.
    pub unit: OppUnit,
    /// Operating points, slowest first, without duplicates.
    pub opps: Vec<Opp>,
    /// Those of them that are boost steps.
    pub boost: Vec<Opp>,
    /// CPUs of the domain (cpufreq only).
    pub cpus: Vec<usize>,
    /// Differences between the profile's prior table and what the device lists; the device wins.
    pub table_notes: Vec<String>,
}

/// Why a knob could not be found, pinned or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KnobError {
    /// The driver refuses this value and will refuse it again.
    #[error("knob {knob}: the driver refused {asked}: {why}")]
    Rejected {
        /// The knob.
        knob: KnobId,
        /// What was asked, in its unit.
        asked: String,
        /// What the driver answered.
        why: String,
    },
    /// The write was accepted, but the node reads back something else.
    #[error("knob {knob}: asked {asked}, the node reads back {found}")]
    DidNotStick {
        /// The knob.
        knob: KnobId,
        /// What was asked, in its unit.
        asked: String,
        /// What was read back.
        found: String,
    },
    /// The domain is not there now: offline policy, missing node.
    #[error("knob {knob} is unavailable: {why}")]
    Unavailable {
        /// The knob.
        knob: KnobId,
        /// What is missing.
        why: String,
    },
    /// A node answered something this family does not print.
    #[error("knob {knob}: cannot understand `{text}` in {node}; expected {expected}")]
    Unreadable {
        /// The knob.
        knob: KnobId,
        /// The node.
        node: NodePath,
        /// What it said.
        text: String,
        /// What was expected.
        expected: String,
    },
    /// A node access failed in a way that may pass.
    #[error("knob {knob}: {error}")]
    Node {
        /// The knob.
        knob: KnobId,
        /// The failed access.
        error: NodeError,
    },
}

/// A bound on the clock that somebody else set, as one source of the family states it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The source, for example `clock_info`, `dcvsh_freq_limit`, `scaling_max_freq`, `thermal_pwrlevel`.
    pub source: String,
    /// Lower bound in the knob's unit, where stated.
    pub min: Option<Opp>,
    /// Upper bound.
    pub max: Option<Opp>,
}

/// Cumulative time at each operating point since some origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency(
    /// (operating point, time there in the source's own ticks); only differences and shares mean anything.
    pub Vec<(Opp, u64)>,
);

/// What a knob shows at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// The clock, from the most trustworthy node there is; `None` if no node tells or the domain sleeps.
    pub clock: Option<Opp>,
    /// The pin as the nodes read back now (min and max), for noticing a rewrite.
    pub range: Option<(Opp, Opp)>,
    /// Effective limits from every source the family has.
    pub limits: Vec<Limit>,
}

/// One frequency domain.
pub trait Knob: Send {
    /// What it is.
    fn info(&self) -> &KnobInfo;

    /// Writes that put the domain back to what it is *now*, in the order this driver needs, as the guard will
    /// save them. Called before the first write.
    ///
    /// # Errors
    /// When the present state cannot be read: without it nothing may be changed.
    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError>;

    /// Pins the domain: opens its range, narrows it to `opp` in the order the driver needs, reads back.
    /// Returns what the node reads back.
    ///
    /// # Errors
    /// [`KnobError::Rejected`] or [`KnobError::DidNotStick`] when it is not pinned; the caller releases.
    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError>;

    /// What it shows now. Cheap enough to be sampled every few tens of milliseconds.
    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse;

    /// CPU time used so far by what the domain bounds. Only for a family whose operating points are shares of CPU
    /// time: left to itself such a domain has no clock, but what was used in a window is a share, too.
    fn cpu_time(&self, _nodes: &dyn Nodes) -> Option<Duration> {
        None
    }

    /// Residency counters, where the driver has them.
    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency>;
}

/// Finds a knob of a profile on a device: expands its node path, reads its table, looks for its limits. Reads
/// only.
///
/// # Errors
/// [`KnobError::Unavailable`] when it is not there (or its path matches several nodes), [`KnobError::Rejected`]
/// when its table or unit cannot be used.
pub fn open(spec: &KnobSpec, nodes: &dyn Nodes) -> Result<Box<dyn Knob>, KnobError> {
    fn boxed<K: Knob + 'static>(knob: K) -> Box<dyn Knob> {
        Box::new(knob)
    }
    match &spec.driver {
        DriverSpec::Cpufreq { policy } => cpufreq::open(spec, *policy, nodes).map(boxed),
        DriverSpec::PixelMali { node } => pixel_mali::open(spec, node, nodes).map(boxed),
        DriverSpec::Kgsl { node } => kgsl::open(spec, node, nodes).map(boxed),
        DriverSpec::GpufreqV1 { node } => gpufreq_v1::open(spec, node, nodes).map(boxed),
        DriverSpec::GpufreqV2 { node } => gpufreq_v2::open(spec, node, nodes).map(boxed),
        DriverSpec::Gpex { node } => gpex::open(spec, node, nodes).map(boxed),
        DriverSpec::Devfreq { node, unit } => devfreq::open(spec, node, *unit, nodes).map(boxed),
        DriverSpec::Mif { node } => mif::open(spec, node, nodes).map(boxed),
        DriverSpec::BusDcvs { node } => bus_dcvs::open(spec, node, nodes).map(boxed),
        DriverSpec::CpuQuota { levels, period_us } => {
            cpu_quota::open(spec, levels, *period_us, nodes).map(boxed)
        }
    }
}
