//! Thermal zones. A zone may give no value (EINVAL) while its neighbours do. Source: Linux
//! drivers/thermal/thermal_sysfs.c.

use super::{Attr, Family, line, ro, rw};
use crate::twin::spec::ZoneSpec;

/// A zone.
pub struct Zone {
    spec: ZoneSpec,
    enabled: bool,
}

impl Zone {
    /// A zone, enabled.
    pub fn new(spec: ZoneSpec) -> Self {
        Zone { spec, enabled: true }
    }
}

impl Family for Zone {
    fn table(&self) -> &'static [Attr<Self>] {
        ATTRS
    }
}

const ATTRS: &[Attr<Zone>] = &[
    ro("type", |z, _| line(&z.spec.kind)),
    ro("temp", |z, soc| {
        if soc.failing_zones.contains(&z.spec.kind) {
            return Err(libc::EINVAL);
        }
        line((soc.heat.of(&z.spec) * z.spec.scale).round() as i64)
    }),
    rw(
        "mode",
        |z, _| line(if z.enabled { "enabled" } else { "disabled" }),
        |z, _, text| {
            z.enabled = super::one_of(&["disabled", "enabled"], text)? == 1;
            Ok(())
        },
    ),
    ro("policy", |_, _| line("step_wise")),
];
