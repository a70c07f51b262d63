//! The report of a run: one self-contained HTML page with its plots inline. It loads nothing from anywhere.

mod data;
mod plot;
pub mod rows;

use crate::campaign::config::SweepConfig;
use crate::campaign::journal::{Event, Line};
use crate::knob::KnobInfo;
use crate::profile::Profile;
use crate::table::Table;
use crate::trial::Origin;
use crate::units::OppUnit;
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Everything a report is made of.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Name of the run.
    pub name: &'a str,
    /// Its configuration.
    pub config: &'a SweepConfig,
    /// Its profile.
    pub profile: &'a Profile,
    /// Its journal.
    pub events: &'a [Line],
    /// Its table, if it is complete.
    pub table: Option<&'a Table>,
}

/// The page. All text from devices and configurations is escaped.
pub fn render(run: &Run) -> String {
    let warnings = rows::warnings_of(data::measurements(run.events));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (run.name) " - opptune" }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                header {
                    h1 { (run.name) }
                    p { (run.profile.title) " · " (origin(run)) " · opptune " (env!("CARGO_PKG_VERSION")) }
                }
                @for warning in warnings { p.warning { (warning) } }
                (answer(run))
                (searches(run))
                (over_the_run(run))
                (quality(run))
                (conditions(run))
            }
        }
    }
    .into_string()
}

fn origin(run: &Run) -> Origin {
    if run.profile.twin.is_some() { Origin::Simulated } else { Origin::Measured }
}

fn answer(run: &Run) -> Markup {
    html! {
        h2 { "Frequency table" }
        @match run.table {
            None => p { "The run is not complete: there is no table yet. Go on with " code { "opptune resume" } "." },
            Some(table) => {
                div.wide { table {
                    thead { tr { @for heading in rows::headings(table) { th { (heading) } } } }
                    tbody { @for entry in &table.entries { tr {
                        @for cell in rows::cells(table, entry) { td { (cell) } }
                    } } }
                } }
                @for note in table.entries.iter().filter_map(rows::note) { p.warning { (note) } }
                p.fine { (rows::LEGEND) }
            }
        }
    }
}

fn searches(run: &Run) -> Markup {
    html! {
        h2 { "Searches" }
        @for search in data::searches(run.config, run.profile, run.events) { (one_search(run, &search)) }
    }
}

fn one_search(run: &Run, search: &data::Search) -> Markup {
    let knobs = knobs(run);
    html! {
        section {
            h3 { (search.setting) }
            p {
                @if let Some(goal) = search.goal { "Goal: " (rows::goal(goal)) ". " }
                @match search.best {
                    Some(best) => { "Chosen: " strong { (rows::point(run.profile, knobs, best)) } ". " }
                    None if search.goal.is_some() => { strong { "No combination meets the goal. " } }
                    None => { "Not decided yet. " }
                }
                (search.spots.len()) " combinations measured."
            }
            @match plot::scatter(search) {
                Some(plot) => (with_legend(plot)),
                None => p.fine { "No plot: no energy was available, or nothing was measured." },
            }
            @for (gpu, axis) in [(true, &run.profile.axes.gpu), (false, &run.profile.axes.cpu)] {
                @if let Some(axis) = axis {
                    @let label = format!("{}, {}", axis.lead, unit_label(knobs.iter().find(|k| k.id == axis.lead)));
                    @for svg in plot::curves(search, gpu, &label) { (PreEscaped(svg)) }
                }
            }
        }
    }
}

/// The knobs, as the device said when it was last opened.
fn knobs<'a>(run: &Run<'a>) -> &'a [KnobInfo] {
    let opened = run.events.iter().rev().find_map(|line| match &line.event {
        Event::Opened { opened } => Some(opened),
        _ => None,
    });
    opened.map_or(&[], |o| &o.knobs)
}

/// Plots divide operating points by 1000, whatever they count.
fn unit_label(knob: Option<&KnobInfo>) -> &'static str {
    match knob.map(|k| k.unit) {
        Some(OppUnit::KiloHertz) => "MHz",
        Some(OppUnit::MegaBytesPerSecond) => "GB/s",
        Some(OppUnit::CpuPermille) => "CPUs",
        Some(OppUnit::Index) | None => "thousands",
    }
}

fn with_legend(plot: plot::Plot) -> Markup {
    html! {
        (PreEscaped(plot.svg))
        p.legend { @for (name, colour) in plot.legend {
            span style=(format!("color:{colour}")) { "●" } " " (name) " "
        } }
    }
}

fn over_the_run(run: &Run) -> Markup {
    let x = "trial";
    let heat = plot::Labels { title: "temperature at the start of each trial", x, y: "°C" };
    let clock = plot::Labels { title: "mean clock of the leading knobs", x, y: "MHz (CPUs for a quota)" };
    html! {
        h2 { "Over the run" }
        @for plot in [
            plot::over_run(&heat, &data::temperatures(run.events)),
            plot::over_run(&clock, &data::clocks(run.profile, run.events)),
        ].into_iter().flatten() { (with_legend(plot)) }
    }
}

fn quality(run: &Run) -> Markup {
    let verdicts = data::verdicts(run.events);
    let failures: Vec<_> = data::failures(run.events).collect();
    let drift = data::drift(run.events);
    let remarks = data::remarks(run.events);
    html! {
        h2 { "Pins, failures, drift" }
        (pairs(verdicts.iter().map(|(verdict, n)| (verdict.clone(), format!("{n} knob-trials")))))
        (pairs(remarks.iter().map(|(remark, n)| (remark.clone(), format!("{n} trials")))))
        (pairs(data::cold(run.events).map(|(setting, ms)| {
            (format!("first run after load (cold), {setting}"), format!("{ms:.1} ms"))
        })))
        @if failures.is_empty() { p { "No attempt failed." } } @else {
            p { "Failed attempts: " (failures.len()) }
            ul { @for (id, failure, given_up) in failures {
                li { (id.setting) ", repeat " (id.repeat) ": " (failure) @if given_up { strong { " (given up)" } } }
            } }
        }
        @if drift.is_empty() { p { "No drift control was run (" code { "measure.drift-every" } ")." } } @else {
            (pairs(drift.iter().map(|(id, ratio)| {
                (format!("{} drift {}", id.setting, id.repeat), format!("{:+.1} %", (ratio - 1.0) * 100.0))
            })))
        }
        @for report in restores(run) { p { (report) } }
    }
}

fn restores(run: &Run) -> impl Iterator<Item = String> {
    run.events.iter().filter_map(|line| match &line.event {
        Event::Restored { report } if report.complete() => {
            Some(format!("Device put back: {} values verified in {} ms.", report.restored, report.took_ms))
        }
        Event::Restored { report } => Some(format!("Device NOT put back: {}", report.differs.join("; "))),
        _ => None,
    })
}

fn conditions(run: &Run) -> Markup {
    let opened = run.events.iter().filter_map(|line| match &line.event {
        Event::Opened { opened } => Some(opened),
        _ => None,
    });
    let c = run.config;
    html! {
        h2 { "Conditions" }
        (pairs([
            ("strategy".into(), format!("{:?}, goal {:?}, budget {:?}", c.search.strategy, c.search.goal, c.search.budget)),
            ("seed".into(), c.search.seed.to_string()),
            ("repeats".into(), format!("{} per point, {} per baseline", c.measure.repeats, c.measure.baseline_repeats)),
            ("profile".into(), format!("{} ({:?})", run.profile.name, run.profile.accuracy)),
        ].into_iter()))
        @for opened in opened {
            @let device = &opened.device;
            h3 { "Device" }
            (pairs([
                ("model".into(), device.model.clone()), ("SoC".into(), device.soc.clone()),
                ("system".into(), device.os.clone()), ("kernel".into(), device.kernel.clone()),
                ("energy source".into(), opened.energy.as_ref().map_or("unavailable".into(), |e| {
                    format!("{} {}, period {} ms", e.kind, e.name, e.period_ms)
                })),
                ("engine".into(), opened.engine.as_ref().map_or("none".into(), |e| {
                    format!("{} {}, {}, {} threads, loaded in {:.0} ms", e.name, e.build, e.model, e.threads, e.load_ms)
                })),
            ].into_iter().chain(opened.conditions.clone())))
            @for note in &opened.notes { p { (note) } }
        }
    }
}

fn pairs(rows: impl Iterator<Item = (String, String)>) -> Markup {
    html! { table.pairs { tbody { @for (key, value) in rows { tr { th { (key) } td { (value) } } } } } }
}

#[cfg(test)]
mod tests;
