//! From the search's two axes to choices for every knob, and back.

use crate::knob::KnobInfo;
use crate::profile::{Axis, Follow, Profile, Use};
use crate::search::{Effective, Point, Space};
use crate::trial::{Choice, Combination, KnobId, Measurement};
use crate::units::{Opp, OppUnit};
use std::collections::BTreeMap;

/// Why a profile's axes do not fit a device.
#[derive(Debug, thiserror::Error)]
pub enum AxesError {
    /// A knob that the search needs is not there.
    #[error(
        "profile {profile}: {needs} needs knob `{knob}`, but the device shows no operating points of it. \
         `opptune probe` tells what it has; correct `axes` in the profile"
    )]
    Missing {
        /// The profile.
        profile: String,
        /// What needs it.
        needs: &'static str,
        /// The knob.
        knob: KnobId,
    },
    /// A fixed operating point is not in the device's table.
    #[error(
        "profile {profile}: {needs} puts knob `{knob}` at {asked}, which the device does not list. \
         It lists {listed}"
    )]
    NotListed {
        /// The profile.
        profile: String,
        /// What needs it.
        needs: &'static str,
        /// The knob.
        knob: KnobId,
        /// The operating point asked for.
        asked: String,
        /// Those there are.
        listed: String,
    },
}

/// One axis with the tables of its knobs.
#[derive(Clone, Debug)]
struct Lane {
    lead: KnobInfo,
    follow: Vec<(KnobInfo, Follow)>,
}

/// The axes of a device.
#[derive(Clone, Debug)]
pub struct DeviceAxes {
    gpu: Option<Lane>,
    cpu: Option<Lane>,
    /// What holds in every trial, the baseline's included.
    fixed: BTreeMap<KnobId, Choice>,
}

/// Looks knobs up and words what is wrong with them.
struct Tables<'a> {
    profile: &'a str,
    knobs: &'a [KnobInfo],
}

impl Tables<'_> {
    fn get(&self, knob: &KnobId, needs: &'static str) -> Result<KnobInfo, AxesError> {
        let found = self.knobs.iter().find(|info| info.id == *knob && !info.opps.is_empty());
        let missing = || AxesError::Missing { profile: self.profile.into(), needs, knob: knob.clone() };
        found.cloned().ok_or_else(missing)
    }

    fn listed(&self, info: &KnobInfo, opp: Opp, needs: &'static str) -> Result<(), AxesError> {
        if info.opps.contains(&opp) {
            return Ok(());
        }
        let listed: Vec<String> = info.opps.iter().map(|o| o.show(info.unit)).collect();
        Err(AxesError::NotListed {
            profile: self.profile.into(),
            needs,
            knob: info.id.clone(),
            asked: opp.show(info.unit),
            listed: listed.join(", "),
        })
    }

    fn lane(&self, axis: &Axis) -> Result<Lane, AxesError> {
        let lead = self.get(&axis.lead, "a search axis")?;
        let mut follow = Vec::new();
        for (id, how) in &axis.follow {
            let info = self.get(id, "a follower of an axis")?;
            if let Follow::At(opp) = how {
                self.listed(&info, *opp, "a follower of an axis")?;
            }
            follow.push((info, *how));
        }
        Ok(Lane { lead, follow })
    }

    fn pin(&self, knob: &KnobId, opp: Opp) -> Result<(KnobId, Choice), AxesError> {
        let info = self.get(knob, "`use = { pin = ... }`")?;
        self.listed(&info, opp, "`use = { pin = ... }`")?;
        Ok((knob.clone(), Choice::Pin(opp)))
    }
}

impl Lane {
    /// The choices that put this axis at `opp`.
    fn choices(&self, opp: Opp) -> Vec<(KnobId, Choice)> {
        let fraction = fraction_of_max(&self.lead, opp);
        let followers = self.follow.iter().map(|(info, how)| {
            let at = match how {
                Follow::Proportional => nearest_fraction(info, fraction),
                Follow::Max => info.opps.last().copied(),
                Follow::Min => info.opps.first().copied(),
                Follow::At(opp) => Some(*opp),
            };
            (info.id.clone(), at.map_or(Choice::Governor, Choice::Pin))
        });
        std::iter::once((self.lead.id.clone(), Choice::Pin(opp))).chain(followers).collect()
    }

    fn point(&self, combination: &Combination) -> Option<Opp> {
        match combination.of(&self.lead.id) {
            Choice::Pin(opp) => Some(opp),
            Choice::Governor => None,
        }
    }

    /// Mean over trials of the clock the lead knob was seen at.
    fn effective<'m>(&self, trials: impl Iterator<Item = &'m Measurement>) -> Option<f64> {
        let seen = trials.filter_map(|m| m.knobs.get(&self.lead.id)?.seen_mean);
        seen.collect::<crate::stats::Sample>().mean()
    }
}

/// How fast `opp` is within its knob's table, 0..=1. A bare index says nothing about speed, so its place in
/// the table stands for it.
fn fraction_of_max(info: &KnobInfo, opp: Opp) -> f64 {
    let part = |value: u64, of: u64| value as f64 / of.max(1) as f64;
    match info.unit {
        OppUnit::Index => {
            let place = info.opps.iter().position(|&o| o == opp).unwrap_or(0);
            part(place as u64 + 1, info.opps.len() as u64)
        }
        _ => part(opp.0, info.opps.last().map_or(0, |o| o.0)),
    }
}

/// The operating point nearest to a fraction of the knob's maximum, the faster of two equally near ones.
fn nearest_fraction(info: &KnobInfo, fraction: f64) -> Option<Opp> {
    let off = |opp: &Opp| (fraction_of_max(info, *opp) - fraction).abs();
    info.opps.iter().rev().copied().min_by(|a, b| off(a).total_cmp(&off(b)))
}

impl DeviceAxes {
    /// The axes of `profile` on a device with these knobs.
    ///
    /// # Errors
    /// [`AxesError`] when a knob or an operating point the profile names is not there.
    pub fn new(profile: &Profile, knobs: &[KnobInfo]) -> Result<Self, AxesError> {
        let tables = Tables { profile: &profile.name, knobs };
        let lane = |axis: &Option<Axis>| axis.as_ref().map(|a| tables.lane(a)).transpose();
        let pins = profile.knobs.iter().filter_map(|knob| match knob.usage {
            Use::Pin(opp) => Some(tables.pin(&knob.id, opp)),
            Use::Search | Use::Record => None,
        });
        let (gpu, cpu) = (lane(&profile.axes.gpu)?, lane(&profile.axes.cpu)?);
        Ok(DeviceAxes { gpu, cpu, fixed: pins.collect::<Result<_, _>>()? })
    }

    /// The operating points of the axes.
    pub fn space(&self) -> Space {
        let opps = |lane: &Option<Lane>| lane.as_ref().map_or_else(Vec::new, |l| l.lead.opps.clone());
        Space { gpu: opps(&self.gpu), cpu: opps(&self.cpu) }
    }

    /// The default governors: nothing is pinned but what the profile pins in every trial.
    pub fn baseline(&self) -> Combination {
        Combination(self.fixed.clone())
    }

    /// The choices that put the device at `point`.
    pub fn combination(&self, point: Point) -> Combination {
        let at = |lane: &Option<Lane>, opp: Option<Opp>| match (lane, opp) {
            (Some(lane), Some(opp)) => lane.choices(opp),
            _ => Vec::new(),
        };
        let mut all = self.fixed.clone();
        all.extend(at(&self.gpu, point.gpu));
        all.extend(at(&self.cpu, point.cpu));
        Combination(all)
    }

    /// The point whose combination this is.
    pub fn point(&self, combination: &Combination) -> Point {
        let of = |lane: &Option<Lane>| lane.as_ref().and_then(|l| l.point(combination));
        Point { gpu: of(&self.gpu), cpu: of(&self.cpu) }
    }

    /// Where the axes ran on average in `trials`.
    pub fn effective<'m>(&self, trials: impl Iterator<Item = &'m Measurement> + Clone) -> Effective {
        let of = |lane: &Option<Lane>| lane.as_ref().and_then(|l| l.effective(trials.clone()));
        Effective { gpu: of(&self.gpu), cpu: of(&self.cpu) }
    }
}
