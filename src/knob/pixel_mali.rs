//! Mali GPUs of Pixel phones, in kHz of the shader clock.
//!
//! Source: the platform part of the driver (`pixel_gpu_sysfs.c`, `pixel_gpu_dvfs.c`). Only table values are
//! taken; a minimum above the maximum (or the reverse) succeeds and resets the other lock; the scaling nodes
//! show our own lock only, so clamps are read from `clock_info`. A lock equal to the hardware's end of the
//! range counts as not set, which is why the minimum is pinned too when the top step is wanted.

use super::bounds::Bounds;
use super::cooling::{self, Cooling};
use super::table::{Steps, describe, listed_or_prior, must_list, residency_rows};
use super::{Access, Glimpse, Knob, KnobError, KnobInfo, Limit, Residency};
use crate::guard::RestoreStep;
use crate::profile::KnobSpec;
use crate::sysfs::{NodePath, Nodes};
use crate::units::{Opp, OppUnit};

/// A Pixel GPU.
pub(super) struct PixelMali {
    info: KnobInfo,
    clock_info: NodePath,
    clock: NodePath,
    time_in_state: NodePath,
    steps: Steps,
    bounds: Bounds,
    cooling: Option<Cooling>,
}

/// Finds the GPU below `node` and its table.
///
/// # Errors
/// [`KnobError::Unavailable`] when the directory is not there.
pub(super) fn open(spec: &KnobSpec, node: &str, nodes: &dyn Nodes) -> Result<PixelMali, KnobError> {
    let access = Access::new(&spec.id, nodes);
    let dir = access.dir(node)?;
    let steps = Steps::new(listed_or_prior(&access, spec, &dir, "available_frequencies")?, 1);
    let info = describe(spec, "pixel-mali", OppUnit::KiloHertz, steps.opps());
    let bounds = Bounds::below(&dir, "scaling_min_freq", "scaling_max_freq", steps.lowest());
    let cooling = cooling::of_gpu(nodes).and_then(|kind| cooling::map(nodes, &kind, &info.opps, &[]));
    let [clock_info, clock, time_in_state] =
        ["clock_info", "cur_freq", "time_in_state"].map(|name| dir.join(name));
    Ok(PixelMali { info, clock_info, clock, time_in_state, steps, bounds, cooling })
}

/// What `clock_info` tells.
#[derive(Debug, Default, PartialEq, Eq)]
struct ClockInfo {
    powered: bool,
    shader_khz: Option<u64>,
    limit: Option<Limit>,
}

const EFFECTIVE: &str = "Effective Range";

/// The lock of ours, which is no limit by somebody else.
const OWN_LOCK: &str = "sysfs";

/// A lock: a row of `clock_info`.
struct Lock<'t> {
    source: &'t str,
    min: Option<Opp>,
    max: Option<Opp>,
}

/// Goes over the text once: it is read with every look at the GPU.
fn parse_clock_info(text: &str) -> ClockInfo {
    let (mut power, mut clock, mut locks) = (None, None, Vec::with_capacity(8));
    for line in text.lines().map(str::trim_start) {
        if let Some(rest) = line.strip_prefix("Power status") {
            power = power.or(value(rest));
        } else if let Some(rest) = line.strip_prefix("gpu1 clock") {
            clock = clock.or(value(rest));
        } else {
            locks.extend(lock_row(line));
        }
    }
    let shader_khz = clock.and_then(|v| v.split_whitespace().next()?.parse().ok());
    ClockInfo { powered: power != Some("off"), shader_khz, limit: effective(&locks) }
}

fn value(rest: &str) -> Option<&str> {
    rest.split_once(':').map(|(_, value)| value.trim())
}

/// The range in force, named after the lock that set its upper end. Single locks are no limits by themselves:
/// a later lock lifts an earlier one (our minimum lifts the device tree's maximum), and only thermal and
/// battery locks come after ours. Of several locks at the same value the later one won.
fn effective(locks: &[Lock]) -> Option<Limit> {
    let range = locks.iter().find(|lock| lock.source == EFFECTIVE)?;
    let setter = locks.iter().rev().find(|lock| {
        lock.source != EFFECTIVE && lock.source != OWN_LOCK && lock.max.is_some() && lock.max == range.max
    });
    let source = setter.map_or("clock_info".into(), |lock| format!("clock_info: {}", lock.source));
    Some(Limit { source, min: range.min, max: range.max })
}

/// ` thermal         | -         | 762000`: the minimum and maximum of one lock source; `-` is not set.
fn lock_row(line: &str) -> Option<Lock<'_>> {
    let mut cells = line.split('|').map(str::trim);
    let (source, min, max) = (cells.next()?, cells.next()?, cells.next()?);
    let bound = |cell: &str| cell.parse().ok().map(Opp);
    let lock = Lock { source, min: bound(min), max: bound(max) };
    (lock.min.is_some() || lock.max.is_some()).then_some(lock)
}

impl Knob for PixelMali {
    fn info(&self) -> &KnobInfo {
        &self.info
    }

    fn snapshot(&self, nodes: &dyn Nodes) -> Result<Vec<RestoreStep>, KnobError> {
        self.bounds.snapshot(&Access::new(&self.info.id, nodes), &self.steps, None)
    }

    fn pin(&mut self, nodes: &dyn Nodes, opp: Opp) -> Result<Opp, KnobError> {
        let access = Access::new(&self.info.id, nodes);
        let asked = must_list(&access, &self.info, opp)?;
        self.bounds.pin(&access, opp.0, &self.steps, &asked)
    }

    fn glimpse(&self, nodes: &dyn Nodes) -> Glimpse {
        let access = Access::new(&self.info.id, nodes);
        let told = nodes.read(&self.clock_info).map(|text| parse_clock_info(&text)).ok();
        let clock = match &told {
            Some(told) if !told.powered => None,
            Some(ClockInfo { shader_khz: Some(khz), .. }) => Some(Opp(*khz)),
            _ => access.positive(&self.clock).map(Opp),
        };
        let thermal = self.cooling.as_ref().and_then(|cooling| cooling.limit(nodes));
        let limits = told.and_then(|told| told.limit).into_iter().chain(thermal).collect();
        Glimpse { clock, range: self.bounds.range(&access, &self.steps), limits }
    }

    fn residency(&self, nodes: &dyn Nodes) -> Option<Residency> {
        residency_rows(&nodes.read(&self.time_in_state).ok()?, &self.steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knob::fake::{Fake, spec};
    use crate::profile::DriverSpec;

    const DIR: &str = "/sys/devices/platform/28000000.mali";
    const CLOCK_INFO: &str = "BASIC STATUS\n Power status            : on\n \
        gpu0 clock (top level)  : 996000 kHz\n gpu1 clock (shaders)    : 762000 kHz\n\nLEVEL LOCK STATUS\n \
        Type            | Min (kHz) | Max (kHz)\n ----------------+-----------+-----------\n \
        devicetree      | 202000    | 848000\n hint            | -         | -\n sysfs           | 848000    | 848000\n \
        thermal         | -         | 762000\n Effective Range | 762000    | 762000\n\nQOS STATUS\n \
        QOS enabled             : yes\n CPU cluster 2 max clock : none set\n";

    fn gpu(fake: &Fake) -> PixelMali {
        fake.text(&format!("{DIR}/available_frequencies"), "848000 762000 202000 \n");
        fake.resetting_pair(
            &format!("{DIR}/scaling_min_freq"),
            &format!("{DIR}/scaling_max_freq"),
            202_000,
            848_000,
        );
        let node = "/sys/devices/platform/*.mali";
        open(&spec("gpu", DriverSpec::PixelMali { node: node.into() }), node, fake).unwrap()
    }

    #[test]
    fn every_step_can_be_pinned_from_every_other() {
        let fake = Fake::default();
        let mut knob = gpu(&fake);
        let steps = knob.info.opps.clone();
        assert_eq!(steps, [Opp(202_000), Opp(762_000), Opp(848_000)]);
        for from in &steps {
            for to in &steps {
                knob.pin(&fake, *from).unwrap();
                assert_eq!(knob.pin(&fake, *to).unwrap(), *to);
            }
        }
    }

    #[test]
    fn clock_info_tells_the_clock_and_who_clamps() {
        let told = parse_clock_info(CLOCK_INFO);
        assert!(told.powered);
        assert_eq!(told.shader_khz, Some(762_000), "the shader clock, not the top level's");
        let limit = told.limit.unwrap();
        assert_eq!(limit.source, "clock_info: thermal");
        assert_eq!((limit.min, limit.max), (Some(Opp(762_000)), Some(Opp(762_000))));
        let free = parse_clock_info(&CLOCK_INFO.replace("762000", "848000"));
        assert_eq!(free.limit.unwrap().max, Some(Opp(848_000)));
        let lifted =
            " devicetree | 250000 | 800000\n sysfs | 848000 | 848000\n Effective Range | 848000 | 848000\n";
        assert_eq!(
            parse_clock_info(lifted).limit.unwrap().max,
            Some(Opp(848_000)),
            "no clamp by the lifted lock"
        );
        let fake = Fake::default();
        let knob = gpu(&fake);
        fake.text(&format!("{DIR}/clock_info"), &CLOCK_INFO.replace(": on", ": off"));
        assert_eq!(knob.glimpse(&fake).clock, None, "asleep");
    }
}
