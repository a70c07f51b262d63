use super::*;
use crate::engine::EngineInfo;
use crate::knob::KnobInfo;
use crate::protocol::{Failure, FailureClass, Fingerprint, Opened, RestoreReport};
use crate::search::{Goal, Point, Value};
use crate::trial::*;
use crate::units::*;
use std::path::Path;

const CONFIG: &str =
    "schema = 1\nname = \"night\"\ndevice = { profile = \"pixel-7\" }\nengine = { kind = \"twin\" }\n";
const GPUS: [u64; 4] = [302_000, 471_000, 701_000, 848_000];
const CPUS: [u64; 3] = [1_106_000, 1_826_000, 2_802_000];
const DECODE: Setting = Setting { stage: Stage::Decode, tokens: 32 };

fn pins(at: Option<(u64, u64)>) -> Combination {
    let knobs = |(gpu, cpu)| [("gpu", gpu), ("cpu-big", cpu)];
    let pin = |(id, khz): (&str, u64)| (KnobId(id.into()), Choice::Pin(Opp(khz)));
    Combination(at.into_iter().flat_map(knobs).map(pin).collect())
}

fn measured(at: Option<(u64, u64)>, purpose: Purpose, repeat: u32) -> Event {
    let (gpu, cpu) = at.map_or((350.0, 900.0), |(g, c)| (g as f64 / 1e3, c as f64 / 1e3));
    let tpot = 40.0 + 50_000.0 / gpu + 20_000.0 / cpu + f64::from(repeat);
    let mj = tpot * (1.2 + gpu * gpu / 4e5 + cpu * cpu / 9e6);
    let source =
        SourceInfo { kind: EnergyKind::Gauge, name: "maxfg".into(), period_ms: 250.0, external_power: None };
    let seen = |asked: Choice, mean: f64| KnobSeen {
        asked,
        accepted: None,
        seen_mean: Some(mean * 1e3),
        share_on_pin: Some(1.0),
        verdict: if at.is_some() { Verdict::Held } else { Verdict::Free },
    };
    let id = TrialId { setting: DECODE, combination: pins(at), purpose, repeat };
    let knobs = [("gpu", gpu), ("cpu-big", cpu)]
        .map(|(id, mean)| (KnobId(id.into()), seen(pins(at).of(&KnobId(id.into())), mean)));
    Event::Finished {
        measurement: Box::new(Measurement {
            id,
            origin: Origin::Simulated,
            start: BootNanos(0),
            end: BootNanos(1),
            passes: 1,
            latency: Latency { tpot: Some(Millis(tpot)), ..Default::default() },
            energy: Some(Energy {
                source,
                total: MilliJoule(mj * 32.0),
                per_token: MilliJoule(mj),
                mean_power: MilliWatt(2000.0),
                updates: 20,
                too_short: false,
            }),
            knobs: knobs.into(),
            heat: Heat {
                start: [("soc_therm".into(), Celsius(34.0 + gpu / 900.0))].into(),
                end: Default::default(),
            },
            rss_bytes: None,
            flags: Vec::new(),
        }),
    }
}

fn opened() -> Event {
    let knob = |id: &str, opps: &[u64]| KnobInfo {
        id: KnobId(id.into()),
        family: "test".into(),
        unit: OppUnit::KiloHertz,
        opps: opps.iter().copied().map(Opp).collect(),
        boost: Vec::new(),
        cpus: Vec::new(),
        table_notes: Vec::new(),
    };
    let device = Fingerprint { model: "Pixel <script>alert(7)</script>".into(), ..Default::default() };
    let opened = Opened {
        device: None,
        origin: Origin::Simulated,
        knobs: vec![knob("gpu", &GPUS), knob("cpu-big", &CPUS)],
        energy: None,
        engine: Some(EngineInfo { name: "twin".into(), ..Default::default() }),
        conditions: [("screen".to_owned(), "off".to_owned())].into(),
        restored_first: None,
        notes: Vec::new(),
    };
    Event::Opened { device: Box::new(device), opened: Box::new(opened) }
}

fn journal() -> Vec<Line> {
    let mut events = vec![Event::Created { version: 1, build: "test".into() }, opened()];
    events.extend((0..3).map(|repeat| measured(None, Purpose::Baseline, repeat)));
    for gpu in GPUS {
        for cpu in CPUS {
            events.extend((0..3).map(|repeat| measured(Some((gpu, cpu)), Purpose::Search, repeat)));
        }
    }
    events.extend([0, 9].map(|repeat| measured(Some((848_000, 1_826_000)), Purpose::Drift, repeat)));
    let id = TrialId { setting: DECODE, combination: pins(None), purpose: Purpose::Search, repeat: 1 };
    let failure = Failure {
        class: FailureClass::Transient,
        what: "the gauge gave no value".into(),
        state: "The device is as it was".into(),
        next: "It is tried again".into(),
    };
    events.push(Event::Failed { id, failure, given_up: false });
    let best = Point { gpu: Some(Opp(701_000)), cpu: Some(Opp(1_826_000)) };
    let value = Value { latency: Millis(120.0), energy: MilliJoule(400.0) };
    let goal = Goal::LowestLatency { within: MilliJoule(330.0) };
    events.push(Event::Decided { setting: DECODE, goal, best: Some((best, value)), inferences: 12 });
    events.push(Event::Restored { report: RestoreReport { restored: 7, differs: Vec::new(), took_ms: 3 } });
    let line = |(seq, event): (usize, Event)| Line { seq: seq as u64, at: String::new(), event };
    events.into_iter().enumerate().map(line).collect()
}

fn page() -> String {
    let config = SweepConfig::parse(CONFIG, Path::new("night.toml")).unwrap();
    let profile = crate::profile::load("pixel-7").unwrap();
    render(&Run { name: "night", config: &config, profile: &profile, events: &journal(), table: None })
}

#[test]
fn the_page_stands_alone_and_says_what_it_shows() {
    let page = page();
    assert!(page.contains("SIMULATED"), "simulated numbers are unmistakable");
    assert_eq!(page.matches("<svg").count(), 7, "a scatter, two curves per axis, temperature, clocks");
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(
        !links.contains("http") && !links.contains("<link") && !links.contains("src="),
        "nothing is loaded"
    );
    for text in
        ["gpu 701 MHz, cpu-big 1826 MHz", "76 knob-trials", "the gauge gave no value", "7 values verified"]
    {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn text_from_a_device_is_escaped() {
    let page = page();
    assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"));
}

#[test]
fn points_are_medians_over_usable_trials() {
    let config = SweepConfig::parse(CONFIG, Path::new("night.toml")).unwrap();
    let profile = crate::profile::load("pixel-7").unwrap();
    let mut events = journal();
    let searches = data::searches(&config, &profile, &events);
    assert_eq!((searches.len(), searches[0].spots.len()), (1, GPUS.len() * CPUS.len()));
    let slowest = &searches[0].spots[0];
    assert_eq!(slowest.n, 3);
    assert!((slowest.latency - (40.0 + 50_000.0 / 302.0 + 20_000.0 / 1106.0 + 1.0)).abs() < 1e-9);

    for line in &mut events {
        if let Event::Finished { measurement } = &mut line.event {
            let clamp = || Verdict::Clamped { by: "dcvsh_freq_limit".into() };
            measurement.knobs.values_mut().for_each(|seen| seen.verdict = clamp());
        }
    }
    assert!(
        data::searches(&config, &profile, &events).is_empty(),
        "clamped trials say nothing about a combination"
    );
    assert!(data::verdicts(&events).contains_key("clamped by dcvsh_freq_limit"));
}

#[test]
fn drift_is_against_the_first_of_its_kind() {
    let drift = data::drift(&journal());
    assert_eq!(drift[0].1, 1.0);
    assert!(drift[1].1 > 1.05, "{drift:?}");
}
