//! An agent in this process: a pipe in memory, with the real session at its other end.
//!
//! Untethered runs use it on the device, and twins on the host.

use super::{AgentLog, AgentStream, Connector, TransportError};
use crate::protocol::Duplex;
use async_trait::async_trait;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

/// Bytes the pipe holds each way before the writer waits.
const PIPE_BYTES: usize = 64 << 10;

type Session = Pin<Box<dyn Future<Output = ()>>>;

/// Starts agents beside the caller, each on a thread of its own so that neither side's blocking work (an
/// inference, a journal write) holds up the other's heartbeat.
#[derive(Clone)]
pub struct Memory {
    device: String,
    serve: Arc<dyn Fn(Box<dyn Duplex>, AgentLog) -> Session + Send + Sync>,
}

impl Memory {
    /// `serve` is called on the agent's thread with the agent's end of the pipe, once per connection.
    pub fn new<F, S>(device: impl Into<String>, serve: F) -> Self
    where
        F: Fn(Box<dyn Duplex>, AgentLog) -> S + Send + Sync + 'static,
        S: Future<Output = ()> + 'static,
    {
        Memory { device: device.into(), serve: Arc::new(move |stream, log| Box::pin(serve(stream, log))) }
    }

    fn start(&self) -> io::Result<AgentStream> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let log = AgentLog::default();
        let (serve, heard) = (self.serve.clone(), log.clone());
        std::thread::Builder::new()
            .name("agent".into())
            .spawn(move || runtime.block_on(serve(Box::new(far), heard)))?;
        Ok(AgentStream { stream: Box::new(near), log, keep: Box::new(()) })
    }
}

#[async_trait]
impl Connector for Memory {
    fn device(&self) -> String {
        self.device.clone()
    }

    async fn connect(&self) -> Result<AgentStream, TransportError> {
        self.start().map_err(|e| TransportError::lost(&self.device, "starting an agent in this process", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn each_connection_is_a_session_that_ends_with_the_stream() {
        let (ended, sessions) = mpsc::channel();
        let memory = Memory::new("twin", move |mut stream, log| {
            let ended = ended.clone();
            async move {
                log.add(b"up\n");
                let mut heard = Vec::new();
                while let Ok(byte) = stream.read_u8().await {
                    heard.push(byte);
                    stream.write_u8(byte).await.unwrap();
                }
                ended.send(heard).unwrap();
            }
        });
        for round in [b"one", b"two"] {
            let mut agent = memory.connect().await.unwrap();
            agent.stream.write_all(round).await.unwrap();
            let mut back = [0; 3];
            agent.stream.read_exact(&mut back).await.unwrap();
            assert_eq!((&back, agent.log.text().as_str()), (round, "up"));
            drop(agent);
            assert_eq!(sessions.recv_timeout(Duration::from_secs(5)).unwrap(), round);
        }
    }
}
