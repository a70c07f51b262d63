//! What a run shows while it goes on: a live bar on a terminal, plain lines elsewhere. On standard error, so that
//! standard output is the result alone.

use super::text;
use crate::campaign::{Observer, Update};
use crate::knob::KnobInfo;
use crate::profile::Profile;
use crate::protocol::{Failure, Opened};
use crate::report::rows;
use crate::search::Value;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Plain lines about trials come at most this often.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// Shows one run.
pub struct Progress {
    /// The device, where there are several.
    prefix: String,
    profile: Profile,
    knobs: Vec<KnobInfo>,
    bar: Option<ProgressBar>,
    /// Trials and time left.
    left: String,
    /// What is measured, and how far that is.
    now: String,
    phase: String,
    best: String,
    /// When the first trial of this process began, and how many were done by then.
    began: Option<(Instant, u32)>,
    spoke: Option<Instant>,
}

impl Progress {
    /// Progress of a run on the device that `profile` describes. `prefix` tells devices apart.
    pub fn new(screen: &MultiProgress, profile: Profile, prefix: String) -> Self {
        let live = std::io::stderr().is_terminal();
        let bar = live.then(|| screen.add(ProgressBar::no_length().with_style(style())));
        Progress {
            prefix,
            profile,
            knobs: Vec::new(),
            bar,
            left: String::new(),
            now: String::new(),
            phase: String::new(),
            best: String::new(),
            began: None,
            spoke: None,
        }
    }

    /// Ends the live part; what was said stays.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        for line in text.lines() {
            match &self.bar {
                Some(bar) => bar.println(format!("{}{line}", self.prefix)),
                None => eprintln!("{}{line}", self.prefix),
            }
        }
    }

    fn show(&self, bar: &ProgressBar) {
        bar.set_prefix(self.left.clone());
        bar.set_message(format!("now {}{}\n{}", self.now, self.phase, self.best));
    }

    /// A trial begins.
    fn count(&mut self, done: u32, about: u32) {
        let (began, before) = *self.began.get_or_insert_with(|| (Instant::now(), done));
        let left = about.saturating_sub(done);
        let time =
            time_left(began.elapsed(), done - before, left).map_or(String::new(), |t| format!(", about {t}"));
        self.left = format!("{left} left{time}");
        match &self.bar {
            Some(bar) => {
                bar.set_length(u64::from(about));
                bar.set_position(u64::from(done));
                self.show(bar);
            }
            None if self.spoke.is_none_or(|at| at.elapsed() >= PLAIN_EVERY) => {
                self.spoke = Some(Instant::now());
                self.say(&format!(
                    "trials: {done} of about {about} done, {}; now {}; {}",
                    self.left, self.now, self.best
                ));
            }
            None => (),
        }
    }

    /// What is worth a line of its own.
    fn line(&self, news: &Update<'_>) -> Option<String> {
        Some(match news {
            Update::Warning(text) => format!("warning: {text}"),
            Update::Resumed { settled } => format!("resuming: {settled} trials are done already"),
            Update::Opened { opened } => opened_text(&self.profile, opened),
            Update::Baseline => "measuring the default governors".into(),
            Update::Searching { setting, goal, baseline } => {
                let governors =
                    baseline.map_or(String::new(), |v| format!(" (governors: {})", value_text(v)));
                format!("{setting}: {}{governors}", rows::goal(*goal))
            }
            Update::Decided { setting, decision, unusable } => match decision.best {
                Some((point, value)) => format!(
                    "{setting}: {}: {}, {} inferences",
                    rows::point(&self.profile, &self.knobs, point),
                    value_text(value),
                    decision.inferences
                ),
                None => {
                    let why = unusable
                        .as_ref()
                        .map_or("no combination that was tried meets the budget".into(), |why| {
                            format!("no trial could be used ({why}), see: opptune doctor")
                        });
                    format!("{setting}: {why}, {} inferences", decision.inferences)
                }
            },
            Update::Failed { id, failure, given_up } => {
                failed_text(&id.setting.to_string(), failure, *given_up)
            }
            Update::Skipped { setting } => format!("{setting}: left out, its baseline could not be measured"),
            Update::LinkLost { why } => format!("the link was lost: {why}"),
            Update::Rebooted => "the device was rebooted".into(),
            Update::Waiting { why, wait } => format!("waiting {} s: {why}", wait.as_secs()),
            Update::Started { .. } | Update::Phase(_) | Update::Finished { .. } | Update::Best { .. } => {
                return None;
            }
            Update::Restored { report } if report.complete() => return None,
            Update::Restored { report } => format!("not put back: {}", report.differs.join("; ")),
        })
    }
}

impl Observer for Progress {
    fn update(&mut self, news: Update<'_>) {
        if let Some(line) = self.line(&news) {
            self.say(&line);
        }
        match news {
            Update::Opened { opened } => self.knobs = opened.knobs.clone(),
            Update::Baseline => self.best = "no search yet".into(),
            Update::Searching { .. } => self.best = "nothing within the budget yet".into(),
            Update::Best { point, value, .. } => {
                let at = rows::point(&self.profile, &self.knobs, point);
                self.best = format!("best so far {at}: {}", value_text(value));
            }
            Update::Started { id, done, about, .. } => {
                let point = rows::combination(&self.profile, &self.knobs, &id.combination);
                self.now = format!("{} {point}", id.setting);
                self.phase.clear();
                self.count(done, about);
            }
            Update::Phase(progress) => {
                self.phase = format!(": {}", [&*progress.phase, &progress.detail].join(" ").trim_end());
                self.bar.iter().for_each(|bar| self.show(bar));
            }
            Update::Finished { done, .. } => {
                if let Some(bar) = &self.bar {
                    bar.set_position(u64::from(done));
                }
            }
            _ => (),
        }
    }
}

fn style() -> ProgressStyle {
    let shape = "{bar:30} {pos}/{len} {elapsed}, {prefix}\n{msg}";
    ProgressStyle::with_template(shape).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn opened_text(profile: &Profile, opened: &Opened) -> String {
    let energy = opened.energy.as_ref().map_or("unavailable".into(), |e| format!("{} {}", e.kind, e.name));
    let engine = opened.engine.as_ref().map_or(String::new(), |e| format!(", engine {} {}", e.name, e.model));
    let head = format!(
        "device: {} ({}, profile {}), kernel {}, energy: {energy}{engine}",
        text::device(&opened.device),
        opened.origin,
        profile.name,
        opened.device.kernel
    );
    let notes = opened.notes.iter().map(|note| format!("note: {note}"));
    std::iter::once(head).chain(notes).collect::<Vec<_>>().join("\n")
}

fn failed_text(setting: &str, failure: &Failure, given_up: bool) -> String {
    let next = if given_up { "given up" } else { "tried again" };
    format!("{setting}: a trial failed ({next}): {failure}")
}

fn value_text(value: Value) -> String {
    format!("{}, {}/token", value.latency, value.energy)
}

/// Time that `left` trials take, for a person, by the mean of those that were `done` in `elapsed`.
fn time_left(elapsed: Duration, done: u32, left: u32) -> Option<String> {
    let each = elapsed.checked_div(done)?;
    let seconds = (each * left).as_secs();
    Some(match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_by_what_was_done() {
        let left = |seconds, done, left| time_left(Duration::from_secs(seconds), done, left);
        assert_eq!(left(60, 0, 10), None);
        assert_eq!(left(60, 10, 10).as_deref(), Some("60 s"));
        assert_eq!(left(60, 1, 10).as_deref(), Some("10 min"));
        assert_eq!(left(3600, 2, 3).as_deref(), Some("90 min"));
        assert_eq!(left(3600, 1, 5).as_deref(), Some("5 h 0 min"));
        assert_eq!(left(60, 30, 0).as_deref(), Some("0 s"));
    }
}
