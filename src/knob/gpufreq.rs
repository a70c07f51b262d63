//! What both generations of MediaTek's GPU frequency interface have in common: sentences instead of values.

use super::table::number_after;
use super::{Access, Limit};
use crate::sysfs::NodePath;
use crate::units::Opp;

/// Rows of an operating-point dump, `[03] freq: 848000, volt: ...` or `[3] freq = 848000, ...`, in kHz by
/// index (0 is the fastest).
pub(super) fn dump_rows(text: &str) -> Vec<(usize, Opp)> {
    let row = |line: &str| Some((index_of(line)?, Opp(number_after(line, "freq")?)));
    text.lines().filter_map(row).collect()
}

/// The index in `[03] ...`.
pub(super) fn index_of(line: &str) -> Option<usize> {
    let (index, _) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    index.trim().parse().ok()
}

/// The clock by the GED layer, which both generations feed: `index kHz`.
pub(super) fn ged_clock(access: &Access) -> Option<Opp> {
    let node = NodePath::fixed("/sys/kernel/ged/hal/current_freqency");
    let text = access.optional(&node);
    text.split_whitespace().last()?.parse().ok().filter(|&khz| khz > 0).map(Opp)
}

/// Enabled rows of `limit_table`: `id name priority ceiling floor c_enable f_enable`, bounds as indices.
pub(super) fn limit_rows(text: &str, opp: impl Fn(usize) -> Option<Opp>) -> Vec<Limit> {
    let row = |line: &str| -> Option<Limit> {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let [id, name, _, ceiling, floor, use_ceiling, use_floor] = cells.as_slice() else { return None };
        id.parse::<u32>().ok()?;
        let bound = |index: &str, used: &str| (used == "1").then(|| opp(index.parse().ok()?)).flatten();
        let (min, max) = (bound(floor, use_floor), bound(ceiling, use_ceiling));
        (min.is_some() || max.is_some()).then(|| Limit { source: format!("limit_table: {name}"), min, max })
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_by_name() {
        let text = "[id]  [name] [priority] [ceiling] [floor] [c_enable] [f_enable]\n\
                    0 SEGMENT 10 0 -1 1 0\n 3 THERMAL 8 2 -1 1 1\n 4 DEBUG 1 -1 -1 0 0\n";
        let opps = [Opp(900), Opp(800), Opp(700)];
        let limits = limit_rows(text, |index| opps.get(index).copied());
        assert_eq!(limits.len(), 2);
        assert_eq!(
            limits[1],
            Limit { source: "limit_table: THERMAL".into(), min: None, max: Some(Opp(700)) }
        );
    }
}
