//! The node files of the machine the agent runs on, below a prefix (`/` in production, a directory in tests).

use super::{NodeError, NodeFault, NodePath, Nodes};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Longest text read from one node. The largest real ones (trans_stat, clock_info) are a few pages.
const MAX_NODE_BYTES: u64 = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Real node files. Accesses run on a helper thread so that a driver that hangs costs a deadline, not the
/// agent; a thread stuck in a driver is left behind and replaced.
pub struct RootedNodes {
    prefix: PathBuf,
    deadline: Duration,
    helper: Mutex<Option<SyncSender<Job>>>,
}

impl RootedNodes {
    /// Node files below `prefix`, each access bounded by `deadline`.
    pub fn new(prefix: impl Into<PathBuf>, deadline: Duration) -> Self {
        RootedNodes { prefix: prefix.into(), deadline, helper: Mutex::new(None) }
    }

    /// The nodes of this machine with the default deadline of 2 s (an I2C gauge may take 100 ms).
    pub fn system() -> Self {
        RootedNodes::new("/", Duration::from_secs(2))
    }

    fn locate(&self, path: &NodePath) -> PathBuf {
        self.prefix.join(path.as_str().trim_start_matches('/'))
    }

    fn bounded<T: Send + 'static>(
        &self,
        op: &str,
        path: &NodePath,
        call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> Result<T, NodeError> {
        let file = self.locate(path);
        let (answer, answered) = sync_channel(1);
        self.submit(Box::new(move || {
            let _ = answer.send(call(&file));
        }));
        match answered.recv_timeout(self.deadline) {
            Ok(result) => result.map_err(|e| NodeError::from_io(op, path, &e)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                self.abandon();
                Err(NodeError {
                    op: op.into(),
                    path: path.to_string(),
                    fault: NodeFault::Timeout,
                    detail: format!("no answer from the driver within {:?}", self.deadline),
                })
            }
        }
    }

    fn submit(&self, job: Job) {
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = helper.get_or_insert_with(start_helper);
        if let Err(returned) = sender.send(job) {
            let fresh = start_helper();
            let _ = fresh.send(returned.0);
            *helper = Some(fresh);
        }
    }

    fn abandon(&self) {
        *self.helper.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn start_helper() -> SyncSender<Job> {
    let (jobs, queue) = sync_channel::<Job>(1);
    std::thread::spawn(move || queue.into_iter().for_each(|job| job()));
    jobs
}

fn unless(fine: io::ErrorKind, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == fine => Ok(()),
        other => other,
    }
}

impl Nodes for RootedNodes {
    fn read(&self, path: &NodePath) -> Result<String, NodeError> {
        self.bounded("read", path, |file| {
            let mut bytes = Vec::with_capacity(128);
            File::open(file)?.take(MAX_NODE_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    fn write(&self, path: &NodePath, text: &str) -> Result<(), NodeError> {
        let line = format!("{text}\n");
        self.bounded("write", path, move |file| {
            // No O_CREAT: a node that is not there must fail. O_TRUNC only matters for plain files in tests.
            let mut node = OpenOptions::new().write(true).truncate(true).open(file)?;
            let sent = node.write(line.as_bytes())?;
            if sent == line.len() { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EIO)) }
        })
    }

    fn list(&self, dir: &NodePath) -> Result<Vec<String>, NodeError> {
        self.bounded("list", dir, |file| {
            let mut names: Vec<String> =
                fs::read_dir(file)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
            names.sort();
            Ok(names)
        })
    }

    fn exists(&self, path: &NodePath) -> bool {
        self.bounded("stat", path, |file| file.symlink_metadata()).is_ok()
    }

    fn make_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        self.bounded("make", dir, |file| unless(io::ErrorKind::AlreadyExists, fs::create_dir(file)))
    }

    fn remove_dir(&self, dir: &NodePath) -> Result<(), NodeError> {
        self.bounded("remove", dir, |file| unless(io::ErrorKind::NotFound, fs::remove_dir(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NodePath {
        NodePath::new(text).unwrap()
    }

    #[test]
    fn reads_and_writes_below_its_prefix_and_never_creates() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sys")).unwrap();
        fs::write(dir.path().join("sys/min_freq"), "100\n").unwrap();
        let nodes = RootedNodes::new(dir.path(), Duration::from_secs(5));
        nodes.write(&path("/sys/min_freq"), "200").unwrap();
        assert_eq!(nodes.read(&path("/sys/min_freq")).unwrap(), "200\n");
        let missing = nodes.write(&path("/sys/none"), "1").unwrap_err();
        assert_eq!(missing.fault, NodeFault::NotFound);
        assert!(!nodes.exists(&path("/sys/none")));
    }

    #[test]
    fn a_node_that_never_answers_costs_its_deadline_only() {
        let dir = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&dir.path().join("stuck"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(dir.path().join("fine"), "7\n").unwrap();
        let nodes = RootedNodes::new(dir.path(), Duration::from_millis(50));
        let stuck = nodes.read(&path("/stuck")).unwrap_err();
        assert_eq!(stuck.fault, NodeFault::Timeout);
        assert_eq!(nodes.read(&path("/fine")).unwrap(), "7\n");
    }

    #[test]
    fn paths_that_leave_the_device_are_refused() {
        assert!(NodePath::new("sys/x").is_err());
        assert!(NodePath::new("/sys/../etc/passwd").is_err());
    }
}
