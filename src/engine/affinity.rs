//! CPU affinity, really applied: to every task of the process, and verified in what the kernel says of each.
//!
//! llama.cpp's own CPU mask was silently ignored on Android for a long time, so it is never used. New threads
//! inherit the mask of the thread that starts them, so that workers made later are covered too.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs;

/// What became of a wanted affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// CPUs that every task of this process may run on, as the kernel says it.
    pub cpus: Vec<usize>,
    /// Why the wanted affinity does not hold, if it does not.
    pub problem: Option<String>,
}

/// Puts every task of this process on `cpus` (empty: leaves them where they are) and reads back.
pub fn apply(cpus: &[usize]) -> Applied {
    let refused = if cpus.is_empty() { None } else { set_all(cpus).err() };
    let mut wanted = cpus.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    match allowed() {
        Err(why) => Applied { cpus: Vec::new(), problem: Some(refused.unwrap_or(why)) },
        Ok(found) => {
            let differs = (!wanted.is_empty() && found != wanted)
                .then(|| format!("wanted CPUs {wanted:?}, the kernel allows {found:?}"));
            Applied { cpus: found, problem: refused.or(differs) }
        }
    }
}

fn set_all(cpus: &[usize]) -> Result<(), String> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).map_err(|_| format!("CPU {cpu} is beyond what this kernel interface can name"))?;
    }
    for task in tasks()? {
        // EINVAL: not one of the CPUs is in the cpuset of this process (a shell of Android is in a small one).
        sched_setaffinity(Pid::from_raw(task), &set)
            .or_else(|errno| if errno == nix::Error::ESRCH { Ok(()) } else { Err(errno) })
            .map_err(|errno| format!("sched_setaffinity to {cpus:?}: {errno}"))?;
    }
    Ok(())
}

/// CPUs that every task may run on; the intersection, should tasks differ.
fn allowed() -> Result<Vec<usize>, String> {
    let mut common: Option<Vec<usize>> = None;
    for task in tasks()? {
        // A thread that ended meanwhile has no say.
        let Ok(status) = fs::read_to_string(format!("/proc/self/task/{task}/status")) else { continue };
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let here = list.and_then(parse_list).ok_or("/proc/self/task/*/status names no Cpus_allowed_list")?;
        common = Some(match common {
            None => here,
            Some(common) => common.into_iter().filter(|cpu| here.contains(cpu)).collect(),
        });
    }
    common.ok_or_else(|| "no task of this process could be looked at".into())
}

fn tasks() -> Result<Vec<i32>, String> {
    let entries = fs::read_dir("/proc/self/task").map_err(|e| format!("/proc/self/task: {e}"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// A kernel CPU list such as `0-3,6`.
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_cpu_lists_are_read() {
        assert_eq!(parse_list("0-3,6\n"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse_list("4"), Some(vec![4]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("0-x"), None);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_a_problem_and_no_affinity_is_none() {
        let free = apply(&[]);
        assert!(free.problem.is_none() && !free.cpus.is_empty(), "{free:?}");
        let refused = apply(&[1000]);
        assert!(refused.problem.is_some_and(|why| why.contains("1000")));
    }
}
