use super::*;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generate;
use std::collections::BTreeSet;

const ROOF: f64 = 1e6;

fn space(gpu: &[u64], cpu: &[u64]) -> Space {
    let opps = |list: &[u64]| list.iter().copied().map(Opp).collect();
    Space { gpu: opps(gpu), cpu: opps(cpu) }
}

fn at(gpu: u64, cpu: u64) -> Point {
    Point { gpu: Some(Opp(gpu)), cpu: Some(Opp(cpu)) }
}

fn value(latency: f64, energy: f64) -> Value {
    Value { latency: Millis(latency), energy: MilliJoule(energy) }
}

fn budget(mj: f64) -> Goal {
    Goal::LowestLatency { within: MilliJoule(mj) }
}

fn target(ms: f64) -> Goal {
    Goal::LowestEnergy { within: Millis(ms) }
}

/// Runs a strategy against a surface; returns its asks, batch by batch.
fn play(strategy: &mut dyn Strategy, surface: impl Fn(Point) -> Option<Value>) -> Vec<Vec<Point>> {
    let mut batches = Vec::new();
    loop {
        let batch = strategy.ask();
        if batch.is_empty() {
            return batches;
        }
        for &point in &batch {
            strategy.tell(Told { point, value: surface(point) });
        }
        batches.push(batch);
        assert!(batches.len() < 10_000, "the search does not end");
    }
}

/// Latency 1000/gpu + 1000/cpu, energy gpu + cpu: everything can be worked out by hand.
fn plain(point: Point) -> Option<Value> {
    let of = |opp: Option<Opp>| opp.map(|o| o.0 as f64);
    let slow = |opp| of(opp).map_or(0.0, |f| 1000.0 / f);
    let power = |opp| of(opp).unwrap_or(0.0);
    Some(value(slow(point.gpu) + slow(point.cpu), power(point.gpu) + power(point.cpu)))
}

const GPU: [u64; 4] = [10, 20, 30, 40];
const CPU: [u64; 3] = [5, 10, 20];

#[test]
fn g1_goes_down_to_the_budget_and_tries_two_gpu_clocks() {
    let effective = Effective { gpu: None, cpu: Some(9.0) };
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(45.0), effective);
    let batches = play(&mut search, plain);
    // Step 1 at CPU 10: 50 is over the budget, 40 within. Step 2 for GPU 30 and 40 from CPU 20 down: at GPU 30
    // 50 is over and (30, 10) known; at GPU 40 60 is over, (40, 10) known, (40, 5) is 45 and within.
    let expected = vec![vec![at(40, 10)], vec![at(30, 10)], vec![at(40, 20), at(30, 20)], vec![at(40, 5)]];
    assert_eq!(batches, expected);
    // (30, 10) takes 133 ms, (40, 5) takes 225 ms.
    assert_eq!(search.best(), Some((at(30, 10), plain(at(30, 10)).unwrap())));
}

#[test]
fn g1_takes_the_highest_gpu_clock_alone_when_it_is_within_the_budget() {
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(55.0), Effective { gpu: None, cpu: Some(10.0) });
    assert_eq!(play(&mut search, plain), vec![vec![at(40, 10)], vec![at(40, 20)]]);
    assert_eq!(search.best().unwrap().0, at(40, 10));
}

#[test]
fn g1_tries_other_cpu_clocks_at_the_lowest_gpu_clock_when_nothing_was_within() {
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(16.0), Effective { gpu: None, cpu: Some(11.0) });
    let batches = play(&mut search, plain);
    let expected: Vec<_> =
        [at(40, 10), at(30, 10), at(20, 10), at(10, 10), at(10, 20), at(10, 5)].map(|p| vec![p]).into();
    assert_eq!(batches, expected);
    assert_eq!(search.best().unwrap().0, at(10, 5));
}

#[test]
fn g1_goes_on_at_the_gpu_clock_that_draws_least_when_nothing_was_within() {
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(58.0), Effective { gpu: None, cpu: Some(10.0) });
    // Step 1: 100, 70, 60, 80 are all over. 60 is the least, and (20, 5) draws 55.
    play(&mut search, bowl);
    assert_eq!(search.best().unwrap().0, at(20, 5));
}

#[test]
fn an_unreachable_budget_ends_without_an_answer() {
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(1.0), Effective::default());
    play(&mut search, plain);
    assert_eq!(search.best(), None);
}

/// Energy over the GPU clock has its minimum at 20; the CPU costs its clock.
fn bowl(point: Point) -> Option<Value> {
    let Value { latency, .. } = plain(point)?;
    let gpu = match point.gpu?.0 {
        10 => 70.0,
        20 => 50.0,
        30 => 60.0,
        _ => 90.0,
    };
    Some(value(latency.0, gpu + point.cpu?.0 as f64))
}

#[test]
fn g2_takes_the_minimum_alone_when_the_target_is_loose() {
    let mut search =
        TwoStep::new(&space(&GPU, &CPU), target(250.0), Effective { gpu: None, cpu: Some(10.0) });
    // Step 1: 100, 70, 60, then 80 > 60: the minimum is 20, and its 150 ms are within 250 ms. Step 2: 100 ms,
    // 150 ms (known), 250 ms: all within.
    let expected: Vec<_> =
        [at(40, 10), at(30, 10), at(20, 10), at(10, 10), at(20, 20), at(20, 5)].map(|p| vec![p]).into();
    assert_eq!(play(&mut search, bowl), expected);
    assert_eq!(search.best().unwrap().0, at(20, 5));
}

#[test]
fn g2_brackets_a_tight_target_and_ends_each_scan_at_the_first_miss() {
    let mut search =
        TwoStep::new(&space(&GPU, &CPU), target(130.0), Effective { gpu: None, cpu: Some(10.0) });
    // Latencies at CPU 10: 125, 133, 150: the bracket is 40 and 30. Step 2: (40, 20) 75 ms, (40, 10) known,
    // (40, 5) 225 ms misses; (30, 20) 83 ms, (30, 10) known, misses.
    let mut expected: Vec<_> = [at(40, 10), at(30, 10), at(20, 10), at(10, 10)].map(|p| vec![p]).into();
    expected.extend([vec![at(40, 20), at(30, 20)], vec![at(40, 5)]]);
    assert_eq!(play(&mut search, bowl), expected);
    assert_eq!(search.best().unwrap().0, at(30, 20), "80 mJ against 100 and 110");
}

#[test]
fn g2_takes_the_highest_gpu_clock_when_even_that_misses_at_the_resting_cpu_clock() {
    let mut search = TwoStep::new(&space(&GPU, &CPU), target(80.0), Effective { gpu: None, cpu: Some(10.0) });
    play(&mut search, bowl);
    assert_eq!(search.best().unwrap().0, at(40, 20));
}

#[test]
fn points_that_cannot_be_measured_are_passed_over() {
    let holes = [at(40, 10), at(30, 20)];
    let surface = |p: Point| if holes.contains(&p) { None } else { plain(p) };
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(45.0), Effective { gpu: None, cpu: Some(10.0) });
    play(&mut search, surface);
    assert_eq!(search.best().unwrap().0, at(30, 10), "the hole at 40 did not end step 1");
}

#[test]
fn a_cpu_clock_where_nothing_can_be_measured_does_not_end_the_search() {
    let surface = |p: Point| if p.cpu == Some(Opp(10)) { None } else { plain(p) };
    let mut search = TwoStep::new(&space(&GPU, &CPU), budget(45.0), Effective { gpu: None, cpu: Some(10.0) });
    play(&mut search, surface);
    assert!(search.best().is_some());
}

#[test]
fn missing_axes_are_left_out() {
    let cpu_only = |cpu| Point { gpu: None, cpu: Some(Opp(cpu)) };
    let mut host = TwoStep::new(&space(&[], &CPU), budget(12.0), Effective { gpu: None, cpu: Some(20.0) });
    play(&mut host, plain);
    assert_eq!(host.best().unwrap().0, cpu_only(10));

    let mut gpu_only = TwoStep::new(&space(&GPU, &[]), budget(25.0), Effective::default());
    assert_eq!(play(&mut gpu_only, plain).len(), 3);
    assert_eq!(gpu_only.best().unwrap().0, Point { gpu: Some(Opp(20)), cpu: None });

    let nothing = Point { gpu: None, cpu: None };
    let mut fixed = TwoStep::new(&space(&[], &[]), budget(25.0), Effective::default());
    assert_eq!(play(&mut fixed, plain), vec![vec![nothing]]);
}

#[test]
fn a_bound_ends_any_strategy() {
    let mut search = Bounded::new(Exhaustive::new(space(&GPU, &CPU), budget(45.0)), 5);
    let batches = play(&mut search, plain);
    assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 5);
    let inner = TwoStep::new(&space(&GPU, &CPU), budget(45.0), Effective { gpu: None, cpu: Some(10.0) });
    let mut search = Bounded::new(inner, 3);
    assert_eq!(play(&mut search, plain), vec![vec![at(40, 10)], vec![at(30, 10)], vec![at(40, 20)]]);
    assert_eq!(search.best().unwrap().0, at(30, 10));
}

/// Cumulated steps per axis make a surface: latency falls and energy rises with both clocks (`dip` = 0), or
/// energy falls before it rises along the GPU axis.
#[derive(Debug)]
struct Surface {
    latency: [Vec<f64>; 2],
    energy: [Vec<f64>; 2],
    dip: usize,
}

impl Surface {
    fn space(&self) -> Space {
        let axis = |steps: &Vec<f64>| (1..=steps.len() as u64).collect::<Vec<_>>();
        space(&axis(&self.latency[0]), &axis(&self.latency[1]))
    }

    /// Makes every step of the GPU larger than all steps of the CPU together.
    fn let_the_gpu_decide(&mut self) {
        for axes in [&mut self.latency, &mut self.energy] {
            let whole: f64 = axes[1].iter().sum();
            axes[0].iter_mut().for_each(|step| *step += whole);
        }
    }

    /// A goal whose bound lies a `share` of the way from the least to the greatest there is.
    fn goal(&self, fastest: bool, share: f64) -> Goal {
        let all = self.space().points().into_iter().map(|point| self.value(point));
        match fastest {
            true => budget(between(all.map(|v| v.energy.0), share)),
            false => target(between(all.map(|v| v.latency.0), share)),
        }
    }

    fn value(&self, point: Point) -> Value {
        let index = |opp: Option<Opp>| opp.map_or(0, |o| o.0 as usize);
        let (gpu, cpu) = (index(point.gpu), index(point.cpu));
        let below = |steps: &[f64], n: usize| steps[..n].iter().sum::<f64>();
        let latency = below(&self.latency[0], gpu) + below(&self.latency[1], cpu);
        let dip = self.dip.min(gpu);
        let fall = 2.0 * below(&self.energy[0], dip);
        value(ROOF - latency, ROOF + below(&self.energy[0], gpu) + below(&self.energy[1], cpu) - fall)
    }
}

fn surfaces() -> impl Generate<Value = Surface> {
    (1usize..9, 1usize..9, 0usize..9).prop_flat_map(|(gpus, cpus, dip)| {
        let steps = |n| vec(0.01f64..10.0, n);
        let both = || (steps(gpus), steps(cpus));
        (both(), both()).prop_map(move |(l, e)| Surface { latency: [l.0, l.1], energy: [e.0, e.1], dip })
    })
}

fn asked_once(batches: &[Vec<Point>]) -> bool {
    let all: Vec<Point> = batches.iter().flatten().copied().collect();
    all.iter().collect::<BTreeSet<_>>().len() == all.len()
}

proptest! {
    #[test]
    fn two_step_keeps_the_bound_asks_once_and_ends(
        surface in surfaces(), resting in 0.0f64..10.0, share in 0.0f64..1.0, fastest: bool,
    ) {
        let space = surface.space();
        let goal = surface.goal(fastest, share);
        let mut search = TwoStep::new(&space, goal, Effective { gpu: None, cpu: Some(resting) });
        let batches = play(&mut search, |p| Some(surface.value(p)));
        prop_assert!(asked_once(&batches));
        if let Some((point, value)) = search.best() {
            prop_assert!(goal.admits(&value));
            prop_assert_eq!(value, surface.value(point));
        }
    }

    #[test]
    fn g1_finds_an_answer_on_a_monotone_surface_whenever_there_is_one_at_its_candidates(
        mut surface in surfaces(), resting in 0.0f64..10.0, share in 0.0f64..1.0,
    ) {
        surface.dip = 0;
        let space = surface.space();
        let goal = surface.goal(true, share);
        let mut search = TwoStep::new(&space, goal, Effective { gpu: None, cpu: Some(resting) });
        play(&mut search, |p| Some(surface.value(p)));
        // The slowest point draws least, so a budget it keeps always has an answer.
        prop_assert!(search.best().is_some());
    }

    /// What the procedure rests on: where one step of the GPU weighs more than the whole CPU axis, at most two GPU
    /// clocks can hold the answer. There it loses nothing, for either goal.
    #[test]
    fn two_step_is_the_brute_force_optimum_where_the_gpu_decides(
        mut surface in surfaces(), resting in 0.0f64..10.0, share in 0.0f64..1.0, fastest: bool,
    ) {
        surface.let_the_gpu_decide();
        let space = surface.space();
        let goal = surface.goal(fastest, share);
        let mut two_step = TwoStep::new(&space, goal, Effective { gpu: None, cpu: Some(resting) });
        let batches = play(&mut two_step, |p| Some(surface.value(p)));
        let all = space.points().into_iter().map(|p| (p, surface.value(p)));
        prop_assert_eq!(two_step.best(), goal.best(all));
        let points: usize = batches.iter().map(Vec::len).sum();
        prop_assert!(points <= space.gpu.len() + 2 * space.cpu.len());
    }

    #[test]
    fn a_bound_holds_and_what_is_within_it_is_asked_as_without(
        surface in surfaces(), resting in 0.0f64..10.0, share in 0.0f64..1.0, fastest: bool, most in 0usize..20,
    ) {
        let space = surface.space();
        let goal = surface.goal(fastest, share);
        let resting = Effective { gpu: None, cpu: Some(resting) };
        let value = |p| Some(surface.value(p));
        let free = play(&mut TwoStep::new(&space, goal, resting), value).concat();
        let mut bounded = Bounded::new(TwoStep::new(&space, goal, resting), most);
        let asked = play(&mut bounded, value).concat();
        prop_assert_eq!(&asked[..], &free[..most.min(free.len())]);
        prop_assert_eq!(bounded.best(), goal.best(asked.iter().map(|&p| (p, surface.value(p)))));
    }

    /// Clamped and rejected points are told without a value. Whatever is missing, no point without a value is the
    /// answer, none is asked twice, and what can be measured at a GPU clock that step 2 looks at is found.
    #[test]
    fn holes_end_no_search_and_are_no_answer(
        surface in surfaces(), holes in vec(proptest::bool::ANY, 64), resting in 0.0f64..10.0,
        share in 0.0f64..1.0, fastest: bool,
    ) {
        let space = surface.space();
        let goal = surface.goal(fastest, share);
        let hole = |p: Point| holes[(p.gpu.unwrap().0 * 8 + p.cpu.unwrap().0) as usize % 64];
        let value = |p: Point| (!hole(p)).then(|| surface.value(p));
        let mut search = TwoStep::new(&space, goal, Effective { gpu: None, cpu: Some(resting) });
        let batches = play(&mut search, value);
        prop_assert!(asked_once(&batches));
        let told = batches.concat().into_iter().filter_map(|p| Some((p, value(p)?)));
        prop_assert_eq!(search.best(), goal.best(told.clone()));
        prop_assert!(told.count() > 0 || space.points().into_iter().all(hole));
    }

    #[test]
    fn exhaustive_is_the_brute_force_optimum(surface in surfaces(), share in 0.0f64..1.0) {
        let space = surface.space();
        let goal = surface.goal(true, share);
        let mut search = Exhaustive::new(space.clone(), goal);
        let batches = play(&mut search, |p| Some(surface.value(p)));
        prop_assert_eq!(batches.len(), 1);
        let mut least: Option<f64> = None;
        for gpu in 1..=space.gpu.len() as u64 {
            for cpu in 1..=space.cpu.len() as u64 {
                let v = surface.value(at(gpu, cpu));
                if goal.admits(&v) {
                    least = Some(least.map_or(v.latency.0, |l| l.min(v.latency.0)));
                }
            }
        }
        prop_assert_eq!(search.best().map(|(_, v)| v.latency.0), least);
    }
}

/// A bound a `share` of the way from the least to the greatest of `values`.
fn between(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let (least, greatest) = values.fold((f64::MAX, f64::MIN), |(l, g), v| (l.min(v), g.max(v)));
    least + share * (greatest - least)
}
