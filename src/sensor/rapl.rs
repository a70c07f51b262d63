//! RAPL through powercap: energy counters of the processor packages. They wrap.

use super::{EnergyReading, EnergySource, class, silent};
use crate::sysfs::{NodeError, NodePath, Nodes, read_trimmed, read_u64};
use crate::trial::{EnergyKind, SourceInfo};
use crate::units::BootNanos;

/// The counters are updated about every millisecond (Intel SDM vol. 3, "RAPL interfaces").
const PERIOD_MS: f64 = 1.0;

struct Package {
    counter: NodePath,
    range: u64,
    last: u64,
    total: u64,
}

impl Package {
    fn open(dir: &NodePath, nodes: &dyn Nodes) -> Result<Package, NodeError> {
        let counter = dir.join("energy_uj");
        let range = read_u64(nodes, &dir.join("max_energy_range_uj"))?;
        let last = read_u64(nodes, &counter)?;
        Ok(Package { counter, range, last, total: 0 })
    }

    fn read(&mut self, nodes: &dyn Nodes) -> Result<u64, NodeError> {
        let raw = read_u64(nodes, &self.counter)?;
        let wrapped = if raw < self.last { self.range } else { 0 };
        self.total += raw + wrapped - self.last;
        self.last = raw;
        Ok(self.total)
    }
}

/// All packages, summed.
pub struct Rapl {
    info: SourceInfo,
    packages: Vec<Package>,
}

impl Rapl {
    /// Opens every top-level package.
    ///
    /// # Errors
    /// When there is none, or its counter is not readable (it is root's).
    pub fn open(nodes: &dyn Nodes) -> Result<Rapl, NodeError> {
        let root = class("/sys/class/powercap")?;
        let dirs = packages(&root, nodes)?;
        let packages: Vec<_> = dirs.iter().map(|dir| Package::open(dir, nodes)).collect::<Result<_, _>>()?;
        if packages.is_empty() {
            return Err(silent(root, "there is no processor package"));
        }
        let name = format!("{} package(s)", packages.len());
        let info = SourceInfo { kind: EnergyKind::Rapl, name, period_ms: PERIOD_MS, external_power: None };
        Ok(Rapl { info, packages })
    }
}

impl EnergySource for Rapl {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&mut self, nodes: &dyn Nodes, now: BootNanos) -> Result<EnergyReading, NodeError> {
        let mut micro_joules = 0;
        for package in &mut self.packages {
            micro_joules += package.read(nodes)?;
        }
        Ok(EnergyReading::Cumulative { at: now, micro_joules: micro_joules as f64 })
    }
}

/// Top-level zones named `package-N`. `psys` and the mmio twins of a package would count energy twice.
fn packages(root: &NodePath, nodes: &dyn Nodes) -> Result<Vec<NodePath>, NodeError> {
    let is_package = |dir: &NodePath| {
        dir.name().strip_prefix("intel-rapl:").is_some_and(|number| !number.contains(':'))
            && read_trimmed(nodes, &dir.join("name")).is_ok_and(|name| name.starts_with("package"))
    };
    Ok(nodes.list(root)?.iter().map(|name| root.join(name)).filter(is_package).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::MapNodes;

    fn zone(nodes: &MapNodes, dir: &str, name: &str, energy: &str) {
        nodes.set(&format!("/sys/class/powercap/{dir}/name"), name);
        nodes.set(&format!("/sys/class/powercap/{dir}/max_energy_range_uj"), "1000");
        nodes.set(&format!("/sys/class/powercap/{dir}/energy_uj"), energy);
    }

    #[test]
    fn packages_are_summed_across_their_wrap_and_nothing_is_counted_twice() {
        let nodes = MapNodes::default();
        zone(&nodes, "intel-rapl:0", "package-0", "900");
        zone(&nodes, "intel-rapl:0:0", "core", "1");
        zone(&nodes, "intel-rapl:1", "package-1", "100");
        zone(&nodes, "intel-rapl:2", "psys", "5");
        zone(&nodes, "intel-rapl-mmio:0", "package-0", "900");
        let mut rapl = Rapl::open(&nodes).unwrap();
        zone(&nodes, "intel-rapl:0", "package-0", "50");
        zone(&nodes, "intel-rapl:1", "package-1", "130");
        let wanted = EnergyReading::Cumulative { at: BootNanos(9), micro_joules: 150.0 + 30.0 };
        assert_eq!(rapl.read(&nodes, BootNanos(9)).unwrap(), wanted);
    }

    #[test]
    fn a_counter_that_only_root_reads_is_unavailable() {
        let nodes = MapNodes::default();
        zone(&nodes, "intel-rapl:0", "package-0", "!13");
        assert!(Rapl::open(&nodes).is_err());
    }
}
