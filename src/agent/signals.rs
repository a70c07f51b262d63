//! Signals as events of the session.

use std::future::pending;
use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end a session.
pub struct Signals(Option<[(&'static str, Signal); 3]>);

impl Signals {
    /// Listens for SIGINT, SIGTERM and SIGHUP; not at all when the process belongs to somebody else.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn new(listen: bool) -> io::Result<Signals> {
        if !listen {
            return Ok(Signals(None));
        }
        Ok(Signals(Some([
            ("SIGINT", signal(SignalKind::interrupt())?),
            ("SIGTERM", signal(SignalKind::terminate())?),
            ("SIGHUP", signal(SignalKind::hangup())?),
        ])))
    }

    /// The name of the next signal. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        let Some([(int, on_int), (term, on_term), (hup, on_hup)]) = &mut self.0 else {
            return pending().await;
        };
        tokio::select! {
            _ = on_int.recv() => int,
            _ = on_term.recv() => term,
            _ = on_hup.recv() => hup,
        }
    }
}
