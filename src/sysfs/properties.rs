//! Android system properties, read and set through the device's own `getprop` and `setprop`.

use super::{NodeError, NodeFault};
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for `getprop` or `setprop`.
const DEADLINE: Duration = Duration::from_secs(5);

/// Access to Android properties.
pub trait Properties: Send + Sync {
    /// The value of a property; empty if it is not set.
    ///
    /// # Errors
    /// When the device has no properties or the call failed.
    fn get(&self, name: &str) -> Result<String, NodeError>;

    /// Sets a property.
    ///
    /// # Errors
    /// When the device has no properties or the call failed.
    fn set(&self, name: &str, value: &str) -> Result<(), NodeError>;
}

/// A device without properties (any Linux that is not Android).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProperties;

impl Properties for NoProperties {
    fn get(&self, name: &str) -> Result<String, NodeError> {
        Err(failure("getprop", name, NodeFault::NotFound, "this device has no Android properties".into()))
    }

    fn set(&self, name: &str, _value: &str) -> Result<(), NodeError> {
        Err(failure("setprop", name, NodeFault::NotFound, "this device has no Android properties".into()))
    }
}

/// The properties of the Android the agent runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct AndroidProperties;

impl Properties for AndroidProperties {
    fn get(&self, name: &str) -> Result<String, NodeError> {
        Ok(run("getprop", name, &[name])?.trim_end_matches('\n').to_owned())
    }

    fn set(&self, name: &str, value: &str) -> Result<(), NodeError> {
        run("setprop", name, &[name, value]).map(drop)
    }
}

fn failure(op: &str, name: &str, fault: NodeFault, detail: String) -> NodeError {
    NodeError { op: op.into(), path: name.into(), fault, detail }
}

fn run(program: &str, name: &str, args: &[&str]) -> Result<String, NodeError> {
    let broken = |e: std::io::Error| {
        failure(program, name, NodeFault::Other(e.raw_os_error().unwrap_or(0)), e.to_string())
    };
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(broken)?;
    let end = Instant::now() + DEADLINE;
    let status = loop {
        match child.try_wait().map_err(broken)? {
            Some(status) => break status,
            None if Instant::now() > end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failure(
                    program,
                    name,
                    NodeFault::Timeout,
                    format!("no answer within {DEADLINE:?}"),
                ));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut text = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut text).map_err(broken)?;
    }
    if status.success() {
        Ok(text)
    } else {
        Err(failure(program, name, NodeFault::Denied, format!("{program} ended with {status}")))
    }
}
