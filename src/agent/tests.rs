//! Sessions over a pipe in memory, against a simulated device.

use super::{AgentError, Ended, ExitReason, Options, serve};
use crate::engine::{EngineKind, EngineSpec};
use crate::guard::Launch;
use crate::profile::{self, CompanionAction, CompanionSpec};
use crate::protocol::{
    FailureClass, HostHello, Link, OpenRequest, Opened, PROTOCOL_VERSION, ToAgent, ToHost,
};
use crate::trial::{
    Choice, Combination, GateSpec, KnobId, Measurement, Origin, Purpose, Setting, Stage, TrialId, TrialSpec,
    Verdict,
};
use crate::twin;
use crate::units::Opp;
use std::time::Duration;

/// Longest wait for a frame; reached only when something is broken.
const DEADLINE: Duration = Duration::from_secs(60);
/// A lease that no test outlives by accident.
const LONG: u64 = 120_000;

struct Host(Link<ToHost, ToAgent>);

impl Host {
    async fn say(&mut self, message: ToAgent) {
        self.0.send(&message).await.unwrap();
    }

    /// The next frame that is not about progress; `None` at the end of the stream.
    async fn hear(&mut self) -> Option<ToHost> {
        loop {
            let frame = tokio::time::timeout(DEADLINE, self.0.receive()).await.expect("no frame in time");
            match frame.unwrap() {
                Some(ToHost::Progress(_) | ToHost::Samples { .. }) => {}
                other => return other,
            }
        }
    }

    async fn hear_phase(&mut self, wanted: &str) {
        loop {
            match tokio::time::timeout(DEADLINE, self.0.receive()).await.expect("no frame in time").unwrap() {
                Some(ToHost::Progress(progress)) if progress.phase == wanted => return,
                Some(ToHost::Progress(_)) => {}
                other => panic!("{other:?} before phase {wanted}"),
            }
        }
    }

    async fn greet(&mut self, protocol: u32, lease_ms: u64) {
        assert!(
            matches!(self.hear().await, Some(ToHost::Hello(hello)) if hello.protocol == PROTOCOL_VERSION)
        );
        self.say(ToAgent::Hello(HostHello { protocol, build: "test".into(), lease_ms })).await;
    }

    async fn open(&mut self, lease_ms: u64) {
        self.open_with(request(), lease_ms).await;
    }

    async fn open_with(&mut self, request: OpenRequest, lease_ms: u64) -> Box<Opened> {
        self.greet(PROTOCOL_VERSION, lease_ms).await;
        self.say(ToAgent::Open(Box::new(request))).await;
        let answer = self.hear().await;
        let Some(ToHost::Opened(opened)) = answer else { panic!("{answer:?}") };
        assert_eq!(opened.origin, Origin::Simulated);
        opened
    }

    async fn run(&mut self, spec: TrialSpec) -> Box<Measurement> {
        self.say(ToAgent::Run(Box::new(spec))).await;
        match self.hear().await {
            Some(ToHost::Finished(measurement)) => measurement,
            other => panic!("{other:?}"),
        }
    }
}

fn request() -> OpenRequest {
    let profile = profile::load("twins/pixel-7").unwrap();
    let model = profile.twin.as_ref().unwrap().models.keys().next().unwrap().clone();
    let kind = EngineKind::Twin;
    OpenRequest {
        profile,
        engine: Some(EngineSpec { kind, model, threads: 2, affinity: Vec::new(), gpu_layers: 0 }),
        seed: 1,
        steal_from: None,
        holder: "test".into(),
        energy: None,
    }
}

/// A device that misbehaves: the twin is told through its control node, as by a companion that does not take.
fn misbehaving(command: &str) -> OpenRequest {
    let mut request = request();
    request.profile.companions = vec![CompanionSpec {
        id: "misbehave".into(),
        action: CompanionAction::Node {
            path: twin::CONTROL.into(),
            value: command.into(),
            restore: Some("calm".into()),
            bracketed: false,
        },
        optional: true,
        thermal: false,
    }];
    request
}

/// What becomes of a decode with the GPU pinned on a device that misbehaves.
fn pinned_on(command: &str) -> ToHost {
    let (_, told) = session(|mut host| async move {
        host.open_with(misbehaving(command), LONG).await;
        host.say(ToAgent::Run(Box::new(trial(Stage::Decode, 32, &[("gpu", 471_000)])))).await;
        host.hear().await
    });
    told.unwrap()
}

fn gpu_verdict(told: &ToHost) -> &Verdict {
    let ToHost::Finished(measurement) = told else { panic!("{told:?}") };
    &measurement.knobs[&KnobId("gpu".into())].verdict
}

fn trial(stage: Stage, tokens: u32, pins: &[(&str, u64)]) -> TrialSpec {
    let pin = |&(knob, opp): &(&str, u64)| (KnobId(knob.into()), Choice::Pin(Opp(opp)));
    TrialSpec {
        id: TrialId {
            setting: Setting { stage, tokens },
            combination: Combination(pins.iter().map(pin).collect()),
            purpose: Purpose::Search,
            repeat: 0,
        },
        prompt_tokens: 32,
        seed: 7,
        gate: GateSpec::default(),
        min_window_ms: 1000,
        min_updates: 10,
        max_passes: 50,
    }
}

/// A trial that ends by being cancelled only.
fn endless() -> TrialSpec {
    TrialSpec { min_window_ms: u64::MAX, max_passes: u32::MAX, ..trial(Stage::Decode, 32, &[]) }
}

fn session<F: Future>(host: impl FnOnce(Host) -> F) -> (Result<Ended, AgentError>, F::Output) {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch { program: "/nonexistent".into(), prefix: Vec::new(), root: "/".into() };
    let options = Options { launch, state_dir: dir.path().into(), signals: false };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let host = host(Host(Link::new(Box::new(near), "agent")));
        tokio::join!(serve(Box::new(far), options), host)
    })
}

#[test]
fn a_baseline_and_a_pinned_trial_come_back_measured() {
    let pins = [("cpu-big", 1_826_000), ("cpu-mid", 1_491_000), ("cpu-little", 1_197_000), ("gpu", 471_000)];
    let (ended, (baseline, pinned)) = session(|mut host| async move {
        host.open(LONG).await;
        let baseline = host.run(trial(Stage::Decode, 32, &[])).await;
        let pinned = host.run(trial(Stage::Prefill, 64, &pins)).await;
        host.say(ToAgent::Bye).await;
        let bye = host.hear().await;
        assert!(matches!(&bye, Some(ToHost::Bye(report)) if report.complete()), "{bye:?}");
        (baseline, pinned)
    });
    let gpu = KnobId("gpu".into());
    assert_eq!(ended.unwrap().reason, ExitReason::Bye);
    assert_eq!(baseline.knobs[&gpu].verdict, Verdict::Free);
    assert!(baseline.knobs[&gpu].seen_mean.is_some());
    assert!(baseline.latency.tpot.unwrap().0 > 0.0 && baseline.latency.ttft.is_none());
    assert!(baseline.passes > 0 && baseline.end.since(baseline.start) >= Duration::from_secs(1));
    let energy = baseline.energy.unwrap();
    assert!(energy.per_token.0 > 0.0 && !energy.too_short, "{energy:?}");
    assert!(baseline.heat.start.contains_key("soc_therm"));
    assert!(pinned.usable(), "{:?}", pinned.knobs);
    assert_eq!(pinned.knobs[&gpu].accepted, Some(Opp(471_000)));
    assert!(pinned.knobs[&gpu].share_on_pin >= Some(0.99));
    assert!(pinned.latency.ttft.unwrap().0 > 0.0);
}

#[test]
fn what_was_sampled_comes_before_the_measurement_and_is_small() {
    let (_, (opened, samples, next)) = session(|mut host| async move {
        let opened = host.open_with(request(), LONG).await;
        host.say(ToAgent::Run(Box::new(trial(Stage::Decode, 32, &[("gpu", 471_000)])))).await;
        let samples = loop {
            match host.0.receive().await.unwrap() {
                Some(ToHost::Progress(_)) => {}
                other => break other,
            }
        };
        (opened, samples, host.hear().await)
    });
    let Some(ToHost::Samples { id, series }) = samples else { panic!("{samples:?}") };
    let Some(ToHost::Finished(measurement)) = next else { panic!("{next:?}") };
    assert_eq!(*id, measurement.id);
    let (at_open, at_start) = (opened.start.unwrap(), measurement.heat.start["soc_therm"]);
    assert!((at_open.0..at_open.0 + 3.0).contains(&at_start.0), "{at_open} {at_start}: the warm-up warms");
    let named: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    for name in ["energy", "itl", "clock.gpu", "clock.cpu-big", "temperature.soc_therm"] {
        assert!(named.contains(&name), "no {name} among {named:?}");
    }
    assert!(series.iter().all(|s| (1..=257).contains(&s.points.len())), "{series:?}");
    let gpu = series.iter().find(|s| s.name == "clock.gpu").unwrap();
    assert!(gpu.points.iter().all(|(at, clock)| *at >= measurement.start && *clock == 471_000.0), "{gpu:?}");
}

#[test]
fn the_first_run_after_a_load_is_cold_and_the_others_are_not() {
    let (_, runs) = session(|mut host| async move {
        host.open(LONG).await;
        [host.run(trial(Stage::Decode, 32, &[])).await, host.run(trial(Stage::Prefill, 32, &[])).await]
    });
    assert_eq!(runs.each_ref().map(|m| m.warm_up.cold), [true, false]);
    assert!(runs.iter().all(|m| m.warm_up.latency.is_some_and(|latency| latency.0 > 0.0)));
}

#[test]
fn a_trial_depends_on_nothing_but_itself() {
    let pinned = || trial(Stage::Decode, 32, &[("gpu", 471_000), ("cpu-big", 1_826_000)]);
    let (_, (first, again)) = session(|mut host| async move {
        host.open(LONG).await;
        let first = host.run(pinned()).await;
        host.run(trial(Stage::Prefill, 128, &[("gpu", 848_000)])).await;
        (first, host.run(pinned()).await)
    });
    assert_eq!((first.latency, first.energy), (again.latency, again.energy));
}

#[test]
fn governors_get_their_knobs_back() {
    let (_, (before, after)) = session(|mut host| async move {
        host.open(LONG).await;
        let before = host.run(trial(Stage::Decode, 32, &[])).await;
        host.run(trial(Stage::Decode, 32, &[("gpu", 151_000), ("cpu-big", 500_000)])).await;
        (before, host.run(trial(Stage::Decode, 32, &[])).await)
    });
    assert_eq!(before.knobs, after.knobs);
}

#[test]
fn versions_that_differ_are_refused_by_name() {
    let (ended, told) = session(|mut host| async move {
        host.greet(PROTOCOL_VERSION + 1, LONG).await;
        host.hear().await
    });
    let Some(ToHost::Failed(failure)) = told else { panic!("{told:?}") };
    let (theirs, ours) = (PROTOCOL_VERSION + 1, PROTOCOL_VERSION);
    assert_eq!(failure.what, format!("the host speaks protocol {theirs}, this agent speaks {ours}"));
    assert!(matches!(ended, Err(AgentError::Mismatch { .. })));
}

#[test]
fn pings_are_answered_and_a_cancel_is_obeyed_during_a_trial() {
    let (_, told) = session(|mut host| async move {
        host.open(LONG).await;
        host.say(ToAgent::Run(Box::new(endless()))).await;
        host.hear_phase("measure").await;
        host.say(ToAgent::Ping { seq: 9 }).await;
        assert!(matches!(host.hear().await, Some(ToHost::Pong { seq: 9 })));
        host.say(ToAgent::Run(Box::new(endless()))).await;
        let busy = host.hear().await;
        assert!(matches!(&busy, Some(ToHost::TrialFailed { failure, .. }) if failure.what.contains("busy")));
        host.say(ToAgent::Cancel).await;
        let told = host.hear().await;
        host.run(trial(Stage::Decode, 32, &[])).await;
        told
    });
    let Some(ToHost::TrialFailed { failure, .. }) = told else { panic!("{told:?}") };
    assert_eq!(failure.class, FailureClass::Transient);
    assert!(failure.state.contains("back at its original"), "{failure}");
}

#[test]
fn the_end_of_the_stream_ends_a_trial_and_restores() {
    let (ended, ()) = session(|mut host| async move {
        host.open(LONG).await;
        let spec = TrialSpec { id: trial(Stage::Decode, 32, &[("gpu", 471_000)]).id, ..endless() };
        host.say(ToAgent::Run(Box::new(spec))).await;
        host.hear_phase("measure").await;
    });
    let ended = ended.unwrap();
    assert_eq!(ended.reason, ExitReason::HostGone);
    assert!(ended.restored.complete() && ended.restored.restored > 0, "{:?}", ended.restored);
}

#[test]
fn a_silent_host_loses_its_lease_in_real_time() {
    let (ended, last) = session(|mut host| async move {
        host.open(300).await;
        host.say(ToAgent::Run(Box::new(endless()))).await;
        host.hear_phase("measure").await;
        host.hear().await
    });
    assert!(last.is_none(), "{last:?}");
    assert_eq!(ended.unwrap().reason, ExitReason::LeaseLapsed(Duration::from_millis(300)));
}

#[test]
fn a_heartbeat_keeps_the_lease() {
    let (ended, ()) = session(|mut host| async move {
        host.open(400).await;
        host.say(ToAgent::Run(Box::new(endless()))).await;
        host.hear_phase("measure").await;
        let end = std::time::Instant::now() + Duration::from_millis(1000);
        for seq in 0.. {
            host.say(ToAgent::Ping { seq }).await;
            assert!(matches!(host.hear().await, Some(ToHost::Pong { .. })));
            if std::time::Instant::now() > end {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(ended.unwrap().reason, ExitReason::HostGone);
}

#[test]
fn what_was_given_back_must_be_opened_again() {
    let (ended, ()) = session(|mut host| async move {
        host.open(LONG).await;
        host.run(trial(Stage::Decode, 32, &[("gpu", 471_000)])).await;
        host.say(ToAgent::Restore { steal_from: None }).await;
        let restored = host.hear().await;
        assert!(
            matches!(&restored, Some(ToHost::Restored(r)) if r.complete() && r.restored > 0),
            "{restored:?}"
        );
        host.say(ToAgent::Run(Box::new(endless()))).await;
        let refused = host.hear().await;
        assert!(
            matches!(&refused, Some(ToHost::TrialFailed { failure, .. }) if failure.what.contains("open"))
        );
        host.say(ToAgent::Open(Box::new(request()))).await;
        assert!(matches!(host.hear().await, Some(ToHost::Opened(_))));
    });
    assert_eq!(ended.unwrap().reason, ExitReason::HostGone);
}

#[test]
fn a_value_the_driver_refuses_is_rejected_and_the_device_is_back() {
    let (_, told) = session(|mut host| async move {
        host.open(LONG).await;
        host.say(ToAgent::Run(Box::new(trial(Stage::Decode, 32, &[("gpu", 123)])))).await;
        host.hear().await
    });
    let Some(ToHost::TrialFailed { failure, .. }) = told else { panic!("{told:?}") };
    assert_eq!(failure.class, FailureClass::Rejected, "{failure}");
}

#[test]
fn a_host_that_does_not_say_hello_is_refused() {
    let (ended, ()) = session(|mut host| async move {
        host.say(ToAgent::Ping { seq: 1 }).await;
    });
    assert!(matches!(ended, Err(AgentError::NoHello)), "{ended:?}");
}

#[test]
fn a_daemon_that_keeps_rewriting_the_pin_contends() {
    let told = pinned_on("fight gpu 100");
    assert!(matches!(gpu_verdict(&told), Verdict::Contended { reapplied: 3 }), "{told:?}");
}

#[test]
fn a_clamp_is_told_with_its_source() {
    let told = pinned_on("clamp gpu 302000");
    assert!(
        matches!(gpu_verdict(&told), Verdict::Clamped { by } if by.starts_with("clock_info")),
        "{told:?}"
    );
}

#[test]
fn a_clamp_that_comes_and_goes_is_a_clamp() {
    let told = pinned_on("flap gpu 302000 300");
    assert!(matches!(gpu_verdict(&told), Verdict::Clamped { .. }), "{told:?}");
}

#[test]
fn writes_that_do_nothing_do_not_stick() {
    let told = pinned_on("deaf gpu");
    let ToHost::TrialFailed { failure, .. } = &told else { panic!("{told:?}") };
    assert_eq!(failure.class, FailureClass::Transient, "{failure}");
}
