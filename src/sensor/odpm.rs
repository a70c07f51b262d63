//! Pixel on-device power monitor: cumulative energy per power rail, read through IIO.
//!
//! `energy_value` prints `t=<ms>` and then `CH<N>(T=<ms>)[<rail>], <microwatt seconds>` per channel, on the boot
//! clock. The chip is refreshed only after 20 internal samples; before that the same numbers come back, so
//! energy over time goes by the printed times, never by ours.

use super::{EnergyReading, EnergySource, class, silent};
use crate::sysfs::{NodeError, NodePath, Nodes, read_trimmed};
use crate::trial::{EnergyKind, SourceInfo};
use crate::units::BootNanos;

/// Samples of the internal converter per refresh of the printed numbers.
const SAMPLES_PER_REFRESH: f64 = 20.0;
/// The driver's default internal rate in Hz.
const DEFAULT_RATE: f64 = 125.0;

/// Rails of all ODPM chips, summed.
pub struct Odpm {
    info: SourceInfo,
    chips: Vec<NodePath>,
    rails: Vec<String>,
}

impl Odpm {
    /// Opens the named rails (empty: all there are).
    ///
    /// # Errors
    /// When there is no chip, or a rail is not on it.
    pub fn open(rails: &[String], nodes: &dyn Nodes) -> Result<Odpm, NodeError> {
        let chips = chips(nodes)?;
        let mut present = Vec::new();
        for chip in &chips {
            present.extend(channels(chip, nodes)?.1.into_iter().map(|(rail, _)| rail));
        }
        if let Some(missing) = rails.iter().find(|rail| !present.contains(rail)) {
            let text = format!("rail {missing} is not measured here; there are {}", present.join(", "));
            return Err(silent(&chips[0], text));
        }
        let rails = if rails.is_empty() { present } else { rails.to_vec() };
        let rate = chips.iter().map(|chip| rate(chip, nodes)).fold(f64::INFINITY, f64::min);
        let info = SourceInfo {
            kind: EnergyKind::Rail,
            name: rails.join("+"),
            period_ms: SAMPLES_PER_REFRESH / rate * 1e3,
            external_power: None,
        };
        Ok(Odpm { info, chips, rails })
    }
}

impl EnergySource for Odpm {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&mut self, nodes: &dyn Nodes, _now: BootNanos) -> Result<EnergyReading, NodeError> {
        let (mut millis, mut micro_joules) = (0, 0.0);
        for chip in &self.chips {
            let (at, channels) = channels(chip, nodes)?;
            millis += at;
            let wanted = channels.iter().filter(|(rail, _)| self.rails.contains(rail));
            micro_joules += wanted.map(|(_, energy)| energy).sum::<f64>();
        }
        // Chips are refreshed one after the other, a few milliseconds apart; their sum is true in between.
        let at = BootNanos(millis * 1_000_000 / self.chips.len() as u64);
        Ok(EnergyReading::Cumulative { at, micro_joules })
    }
}

fn chips(nodes: &dyn Nodes) -> Result<Vec<NodePath>, NodeError> {
    let root = class("/sys/bus/iio/devices")?;
    let names = nodes.list(&root)?;
    let is_odpm =
        |chip: &NodePath| read_trimmed(nodes, &chip.join("name")).is_ok_and(|name| name.ends_with("-odpm"));
    let chips: Vec<NodePath> = names.iter().map(|name| root.join(name)).filter(is_odpm).collect();
    if chips.is_empty() { Err(silent(root, "no device here is an odpm")) } else { Ok(chips) }
}

fn rate(chip: &NodePath, nodes: &dyn Nodes) -> f64 {
    let text = read_trimmed(nodes, &chip.join("sampling_rate")).ok();
    text.and_then(|hz| hz.parse().ok()).filter(|hz| *hz > 0.0).unwrap_or(DEFAULT_RATE)
}

type Channels = (u64, Vec<(String, f64)>);

fn channels(chip: &NodePath, nodes: &dyn Nodes) -> Result<Channels, NodeError> {
    let node = chip.join("energy_value");
    let text = nodes.read(&node)?;
    parse(&text).ok_or_else(|| silent(node, "expected `t=<ms>` and `CH<N>(T=<ms>)[<rail>], <uWs>` lines"))
}

fn parse(text: &str) -> Option<Channels> {
    let mut lines = text.lines();
    let at = lines.next()?.trim().strip_prefix("t=")?.parse().ok()?;
    let channels = lines.filter(|line| !line.trim().is_empty()).map(|line| {
        let (_, rest) = line.split_once('[')?;
        let (rail, energy) = rest.split_once("],")?;
        Some((rail.to_owned(), energy.trim().parse().ok()?))
    });
    Some((at, channels.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::doubles::MapNodes;

    const CHIPS: &str = "/sys/bus/iio/devices";

    fn nodes() -> MapNodes {
        let at = |path: &str| format!("{CHIPS}/{path}");
        MapNodes::new(&[
            (&at("iio:device0/name"), "s2mpg12-odpm\n"),
            (
                &at("iio:device0/energy_value"),
                "t=1000\nCH0(T=1000)[S2M_VDD_CPUCL2], 5000\nCH1(T=1000)[VSYS_PWR_MODEM], 900\n",
            ),
            (&at("iio:device1/name"), "s2mpg13-odpm\n"),
            (&at("iio:device1/sampling_rate"), "250.000000\n"),
            (&at("iio:device1/energy_value"), "t=1010\nCH0(T=1010)[S2S_VDD_G3D], 7000\n"),
            (&at("iio:device2/name"), "light\n"),
        ])
    }

    #[test]
    fn rails_are_summed_over_chips_at_the_printed_time() {
        let rails = ["S2M_VDD_CPUCL2".to_owned(), "S2S_VDD_G3D".to_owned()];
        let mut odpm = Odpm::open(&rails, &nodes()).unwrap();
        assert_eq!(odpm.info().period_ms, 160.0, "the slower of the two chips");
        let wanted = EnergyReading::Cumulative { at: BootNanos(1_005_000_000), micro_joules: 12_000.0 };
        assert_eq!(odpm.read(&nodes(), BootNanos(7)).unwrap(), wanted);
    }

    #[test]
    fn a_rail_that_is_not_there_is_named_with_those_that_are() {
        let error = Odpm::open(&["NOPE".to_owned()], &nodes()).err().unwrap().to_string();
        assert!(error.contains("NOPE") && error.contains("S2S_VDD_G3D"), "{error}");
    }

    #[test]
    fn text_that_is_not_odpm_is_refused() {
        assert!(parse("CH0(T=1)[X], 5").is_none());
        assert!(parse("t=5\nCH0(T=1) X 5").is_none());
    }
}
