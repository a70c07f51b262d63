//! An agent that keeps to a script: the protocol is real, the physics is one line, faults come on command.

use crate::campaign::config::SweepConfig;
use crate::engine::EngineInfo;
use crate::knob::KnobInfo;
use crate::profile::Profile;
use crate::protocol::*;
use crate::transport::{AgentLog, AgentStream, Connector, TransportError};
use crate::trial::*;
use crate::units::*;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub const GPU: [u64; 4] = [100_000, 200_000, 300_000, 400_000];
pub const CPU: [u64; 4] = [500_000, 1_000_000, 1_500_000, 2_000_000];
pub const LITTLE: [u64; 3] = [300_000, 900_000, 1_200_000];

/// What the agent does with a trial.
#[derive(Clone, Debug)]
pub enum Act {
    /// Measures it.
    Measure,
    /// Measures it, but the pin did not hold.
    Clamped,
    /// Fails.
    Fail(FailureClass),
    /// Breaks and gives the device back.
    Fall,
    /// The link ends.
    HangUp,
    /// The agent says nothing any more.
    FallSilent,
    /// Runs until it is cancelled.
    Linger,
}

type Script = Box<dyn FnMut(&TrialSpec) -> Act + Send>;

/// The state of the device, and what happened to it.
pub struct World {
    pub script: Script,
    /// Trials measured, in order.
    pub ran: Vec<TrialId>,
    pub opens: u32,
    pub byes: u32,
    pub restores: u32,
    pub pings: u32,
    pub model: String,
    pub boot_id: String,
    /// Of the machine that the agent runs on.
    pub agent_boot_id: String,
    pub serial: String,
    pub energy: bool,
    /// Of the gate's zone.
    pub celsius: Celsius,
    /// Start temperatures that trials asked for, in order.
    pub starts: Vec<Option<Celsius>>,
    pub differs: Vec<String>,
    /// What happens to the device while the link is down.
    pub meanwhile: fn(&mut World),
    /// The next connections fail like this.
    pub unreachable: Vec<TransportError>,
    /// The next opens fail like this.
    pub refuses: Vec<FailureClass>,
}

#[derive(Clone)]
pub struct Device(pub Arc<Mutex<World>>);

impl Device {
    pub fn new(script: impl FnMut(&TrialSpec) -> Act + Send + 'static) -> Self {
        Device(Arc::new(Mutex::new(World {
            script: Box::new(script),
            ran: Vec::new(),
            opens: 0,
            byes: 0,
            restores: 0,
            pings: 0,
            model: "script".into(),
            boot_id: "boot-1".into(),
            agent_boot_id: "host-1".into(),
            serial: "serial".into(),
            energy: true,
            celsius: Celsius(30.0),
            starts: Vec::new(),
            differs: Vec::new(),
            meanwhile: |_| (),
            unreachable: Vec::new(),
            refuses: Vec::new(),
        })))
    }

    pub fn honest() -> Self {
        Device::new(|_| Act::Measure)
    }

    pub fn with<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Connector for Device {
    fn device(&self) -> String {
        "script".into()
    }

    async fn connect(&self) -> Result<AgentStream, TransportError> {
        if let Some(error) = self.with(|w| w.unreachable.pop()) {
            return Err(error);
        }
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(self.clone(), Link::new(Box::new(far), "host")));
        Ok(AgentStream { stream: Box::new(near), log: AgentLog::default(), keep: Box::new(()) })
    }
}

pub fn failure(class: FailureClass) -> Failure {
    Failure { class, what: format!("a {class:?} failure"), state: "restored".into(), next: "nothing".into() }
}

async fn serve(device: Device, mut link: Link<ToAgent, ToHost>) {
    let mut lingering: Option<TrialId> = None;
    while let Ok(Some(message)) = link.receive().await {
        if let ToAgent::Run(spec) = &message
            && link.send(&samples(spec)).await.is_err()
        {
            return;
        }
        let answer = match message {
            ToAgent::Hello(_) => ToHost::Hello(hello(&device)),
            ToAgent::Open(_) => open(&device),
            ToAgent::Ping { seq } => {
                device.with(|w| w.pings += 1);
                ToHost::Pong { seq }
            }
            ToAgent::Run(spec) => match run(&device, *spec, &mut lingering).await {
                Some(answer) => answer,
                None => return,
            },
            ToAgent::Cancel => match lingering.take() {
                Some(id) => {
                    ToHost::TrialFailed { id: Box::new(id), failure: failure(FailureClass::Permanent) }
                }
                None => continue,
            },
            ToAgent::Restore { .. } => {
                device.with(|w| w.restores += 1);
                ToHost::Restored(report(&device))
            }
            ToAgent::Bye => {
                device.with(|w| w.byes += 1);
                let _ = link.send(&ToHost::Bye(report(&device))).await;
                return;
            }
            other => panic!("not in the script: {other:?}"),
        };
        if link.send(&answer).await.is_err() {
            return;
        }
    }
}

/// The answer to a trial; `None`: the link ends.
async fn run(device: &Device, spec: TrialSpec, lingering: &mut Option<TrialId>) -> Option<ToHost> {
    Some(match act(device, &spec) {
        Act::Measure => ToHost::Finished(Box::new(measure(&spec, Verdict::Held))),
        Act::Clamped => ToHost::Finished(Box::new(measure(&spec, Verdict::Clamped { by: "script".into() }))),
        Act::Fail(class) => ToHost::TrialFailed { id: Box::new(spec.id), failure: failure(class) },
        Act::Fall => ToHost::Failed(failure(FailureClass::Transient)),
        Act::HangUp => {
            device.with(|w| (w.meanwhile)(w));
            return None;
        }
        Act::FallSilent => std::future::pending().await,
        Act::Linger => {
            *lingering = Some(spec.id);
            ToHost::Progress(Progress { phase: "measure".into(), detail: String::new() })
        }
    })
}

fn samples(spec: &TrialSpec) -> ToHost {
    let points = vec![(BootNanos(1_000_000), 1000.0)];
    let series = vec![Series { name: "power".into(), unit: "mW".into(), points }];
    ToHost::Samples { id: Box::new(spec.id.clone()), series }
}

fn act(device: &Device, spec: &TrialSpec) -> Act {
    device.with(|w| {
        w.starts.push(spec.gate.start_celsius);
        let act = (w.script)(spec);
        if matches!(act, Act::Measure | Act::Clamped) {
            w.ran.push(spec.id.clone());
        }
        act
    })
}

fn report(device: &Device) -> RestoreReport {
    RestoreReport { restored: 7, differs: device.with(|w| w.differs.clone()), took_ms: 1 }
}

fn hello(device: &Device) -> AgentHello {
    let boot_id = device.with(|w| w.agent_boot_id.clone());
    let machine = Fingerprint { model: "where the agent runs".into(), boot_id, ..Fingerprint::default() };
    AgentHello { protocol: PROTOCOL_VERSION, build: "test".into(), device: machine }
}

fn fingerprint(device: &Device) -> Fingerprint {
    device.with(|w| Fingerprint {
        model: w.model.clone(),
        boot_id: w.boot_id.clone(),
        serial_hash: w.serial.clone(),
        ..Fingerprint::default()
    })
}

fn open(device: &Device) -> ToHost {
    if let Some(class) = device.with(|w| w.refuses.pop()) {
        return ToHost::Failed(failure(class));
    }
    device.with(|w| w.opens += 1);
    ToHost::Opened(Box::new(Opened {
        device: fingerprint(device),
        origin: Origin::Simulated,
        knobs: vec![knob("gpu", &GPU), knob("cpu-big", &CPU), knob("cpu-little", &LITTLE), knob("mem", &GPU)],
        energy: device.with(|w| w.energy).then(source),
        engine: Some(EngineInfo { name: "script".into(), ..EngineInfo::default() }),
        start: Some(device.with(|w| w.celsius)),
        conditions: [("screen".to_owned(), "off".to_owned())].into(),
        restored_first: None,
        notes: vec!["no gauge".into()],
    }))
}

pub fn knob(id: &str, opps: &[u64]) -> KnobInfo {
    KnobInfo {
        id: KnobId(id.into()),
        family: "cpufreq".into(),
        unit: OppUnit::KiloHertz,
        opps: opps.iter().copied().map(Opp).collect(),
        boost: Vec::new(),
        cpus: Vec::new(),
        table_notes: Vec::new(),
    }
}

fn source() -> SourceInfo {
    SourceInfo {
        kind: EnergyKind::Gauge,
        name: "battery".into(),
        period_ms: 100.0,
        external_power: Some(false),
    }
}

/// Latency falls and energy rises with both clocks; one percent of noise that depends on the seed alone.
pub fn measure(spec: &TrialSpec, pinned: Verdict) -> Measurement {
    let clock = |id: &str, governor: f64| match spec.id.combination.of(&KnobId(id.into())) {
        Choice::Pin(opp) => opp.0 as f64,
        Choice::Governor => governor,
    };
    let (gpu, cpu) = (clock("gpu", 210_000.0), clock("cpu-big", 990_000.0));
    let noise = 1.0 + (spec.seed % 2001) as f64 / 1e5 - 0.01;
    let tokens = f64::from(spec.id.setting.tokens);
    let latency = Millis(noise * (2e7 / gpu + 3e7 / cpu + tokens / 100.0));
    // Governors waste: at equal energy a pinned pair is faster.
    let waste = if spec.id.purpose == Purpose::Search { 1.0 } else { 1.3 };
    let per_token = MilliJoule(noise * waste * (gpu / 1e3 + cpu / 1e4));
    let (ttft, tpot) = match spec.id.setting.stage {
        Stage::Prefill => (Some(latency), None),
        Stage::Decode => (None, Some(latency)),
    };
    Measurement {
        id: spec.id.clone(),
        origin: Origin::Simulated,
        start: BootNanos(0),
        end: BootNanos(1_000_000_000),
        passes: 1,
        latency: Latency { ttft, tpot, ..Latency::default() },
        energy: Some(Energy {
            source: source(),
            total: MilliJoule(per_token.0 * tokens),
            per_token,
            mean_power: MilliWatt(1000.0),
            updates: 10,
            too_short: false,
        }),
        knobs: [("gpu", gpu), ("cpu-big", cpu)].map(|(id, mean)| seen(spec, id, mean, &pinned)).into(),
        heat: Heat::default(),
        warm_up: WarmUp::default(),
        rss_bytes: None,
        flags: Vec::new(),
    }
}

fn seen(spec: &TrialSpec, id: &str, mean: f64, pinned: &Verdict) -> (KnobId, KnobSeen) {
    let asked = spec.id.combination.of(&KnobId(id.into()));
    let (accepted, verdict) = match asked {
        Choice::Governor => (None, Verdict::Free),
        Choice::Pin(opp) => (Some(opp), pinned.clone()),
    };
    (KnobId(id.into()), KnobSeen { asked, accepted, seen_mean: Some(mean), share_on_pin: None, verdict })
}

pub fn profile() -> Profile {
    let text = r#"
        schema = 1
        name = "script"
        title = "A script"
        accuracy = "from-reports"
        provenance = ["written for the tests"]
        [[knob]]
        id = "gpu"
        role = "gpu"
        driver = { kgsl = { node = "/sys/class/kgsl/kgsl-3d0" } }
        [[knob]]
        id = "cpu-big"
        role = "cpu"
        driver = { cpufreq = { policy = 4 } }
        [[knob]]
        id = "cpu-little"
        role = "cpu"
        driver = { cpufreq = { policy = 0 } }
        [[knob]]
        id = "mem"
        role = "memory"
        use = { pin = 300000 }
        driver = { devfreq = { node = "/sys/class/devfreq/mif" } }
        [axes.gpu]
        lead = "gpu"
        [axes.cpu]
        lead = "cpu-big"
        follow = { cpu-little = "proportional" }
        [[energy]]
        gauge = {}
    "#;
    crate::profile::parse(text, Path::new("script.toml")).unwrap()
}

/// A small sweep: one decode and two prefill settings; `more` is appended.
pub fn config(more: &str) -> SweepConfig {
    let text = format!(
        r#"
        schema = 1
        name = "night"
        device = {{ profile = "script" }}
        engine = {{ kind = "twin", model = "tiny" }}
        settings = {{ decode = [32], prefill = [64, 128] }}
        {more}
        "#
    );
    SweepConfig::parse(&text, Path::new("night.toml")).unwrap()
}

/// Counts how often each trial was run.
pub fn times(ran: &[TrialId]) -> BTreeMap<&TrialId, u32> {
    let mut times = BTreeMap::new();
    ran.iter().for_each(|id| *times.entry(id).or_default() += 1);
    times
}
