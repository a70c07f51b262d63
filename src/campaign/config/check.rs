//! What a configuration must satisfy beyond its schema.

use super::{Budget, SCHEMA, SweepConfig};
use std::collections::BTreeSet;

impl SweepConfig {
    /// The first key whose value makes no sense, and why.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let wrong = [self.settings_checks(), self.search_checks(), self.measure_checks()];
        wrong.into_iter().flatten().find(|(fine, ..)| !fine).map(|(_, key, why)| (key, why))
    }

    fn settings_checks(&self) -> Vec<Check> {
        let settings = self.settings.list();
        let distinct: BTreeSet<_> = settings.iter().collect();
        let decodes = self.settings.decode.iter().all(|&tokens| tokens > 1);
        vec![
            (self.schema == SCHEMA, "schema", format!("is {}, this build reads {SCHEMA}", self.schema)),
            (is_plain_name(&self.name), "name", "must be 1 to 64 letters, digits, `-`, `_` or `.`".into()),
            (!settings.is_empty(), "settings", "names no decode and no prefill length; give one".into()),
            (
                settings.iter().all(|s| s.tokens > 0),
                "settings",
                "has a length of 0 tokens; give 1 or more".into(),
            ),
            (distinct.len() == settings.len(), "settings", "names a length twice".into()),
            (self.settings.decode_prompt > 0, "settings.decode-prompt", AT_LEAST_ONE.into()),
            (
                decodes,
                "settings.decode",
                "has a length of 1; time per output token is defined from 2 on".into(),
            ),
        ]
    }

    fn search_checks(&self) -> Vec<Check> {
        let bound = match self.search.budget {
            Budget::Baseline => 1.0,
            Budget::Factor(x) | Budget::Absolute(x) => x,
        };
        let (most, repeats) = (self.search.max_inferences, self.measure.repeats);
        let too_few = format!("is below measure.repeats ({repeats}), so no point could be measured");
        vec![
            (
                bound.is_finite() && bound > 0.0,
                "search.budget",
                format!("is {bound}, must be a number above 0"),
            ),
            (most != Some(0), "search.max-inferences", "is 0; leave it out for no limit".into()),
            (most.is_none_or(|most| most >= repeats), "search.max-inferences", too_few),
        ]
    }

    fn measure_checks(&self) -> Vec<Check> {
        let (measure, retry) = (&self.measure, &self.retry);
        let repeats = 1..=1000;
        vec![
            (repeats.contains(&measure.repeats), "measure.repeats", "must be 1 to 1000".into()),
            (
                repeats.contains(&measure.baseline_repeats),
                "measure.baseline-repeats",
                "must be 1 to 1000".into(),
            ),
            (measure.max_passes > 0, "measure.max-passes", AT_LEAST_ONE.into()),
            (retry.attempts > 0, "retry.attempts", AT_LEAST_ONE.into()),
            (
                retry.wait_for_device_s <= 30 * 24 * 3600,
                "retry.wait-for-device-s",
                "is longer than 30 days".into(),
            ),
            (retry.lease_ms >= 500, "retry.lease-ms", "is under 500; a busy host cannot keep that".into()),
            (
                retry.lease_ms <= 3_600_000,
                "retry.lease-ms",
                "is over an hour; a device that is left would stay pinned that long".into(),
            ),
            (self.gate.tolerance_celsius > 0.0, "gate.tolerance-celsius", "must be above 0".into()),
            (self.engine.threads > 0, "engine.threads", AT_LEAST_ONE.into()),
        ]
    }
}

/// Whether it is fine, the key, and what is wrong if not.
type Check = (bool, &'static str, String);
const AT_LEAST_ONE: &str = "is 0; give at least 1";

fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
