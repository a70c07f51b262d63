//! Framing: length-prefixed JSON over any byte stream.

use bytes::Bytes;
use futures_util::SinkExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

/// Largest frame either side accepts. The largest honest one is a measurement with a long knob list.
pub const MAX_FRAME_BYTES: usize = 4 << 20;

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream broke.
    #[error("the link broke: {0}")]
    Broken(#[from] io::Error),
    /// A frame is not what this side expects.
    #[error("a frame from the {peer} is not understood at byte {at}: {why}; expected {expected}")]
    Malformed {
        /// `host` or `agent`.
        peer: &'static str,
        /// Where in the frame.
        at: usize,
        /// What is wrong.
        why: String,
        /// The type expected.
        expected: &'static str,
    },
}

/// One end of the link: sends `Out`, receives `In`.
pub struct Link<In, Out> {
    reader: LinkReader<In>,
    writer: LinkWriter<Out>,
}

type Stream = Box<dyn Duplex>;

/// Any byte stream in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The receiving half of a [`Link`].
pub struct LinkReader<In> {
    frames: FramedRead<ReadHalf<Stream>, LengthDelimitedCodec>,
    peer: &'static str,
    expects: std::marker::PhantomData<fn() -> In>,
}

/// The sending half of a [`Link`].
pub struct LinkWriter<Out> {
    frames: FramedWrite<WriteHalf<Stream>, LengthDelimitedCodec>,
    says: std::marker::PhantomData<fn(Out)>,
}

impl<In: DeserializeOwned, Out: Serialize> Link<In, Out> {
    /// A link over `stream`; `peer` names the other side in errors.
    pub fn new(stream: Box<dyn Duplex>, peer: &'static str) -> Self {
        let (read, write) = split(stream);
        let codec = || LengthDelimitedCodec::builder().max_frame_length(MAX_FRAME_BYTES).new_codec();
        Link {
            reader: LinkReader {
                frames: FramedRead::new(read, codec()),
                peer,
                expects: std::marker::PhantomData,
            },
            writer: LinkWriter { frames: FramedWrite::new(write, codec()), says: std::marker::PhantomData },
        }
    }

    /// Both halves, for sides that read and write at the same time.
    pub fn split(self) -> (LinkReader<In>, LinkWriter<Out>) {
        (self.reader, self.writer)
    }

    /// See [`LinkReader::receive`].
    ///
    /// # Errors
    /// As there.
    pub async fn receive(&mut self) -> Result<Option<In>, FrameError> {
        self.reader.receive().await
    }

    /// See [`LinkWriter::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&mut self, message: &Out) -> Result<(), FrameError> {
        self.writer.send(message).await
    }
}

impl<In: DeserializeOwned> LinkReader<In> {
    /// The next message; `None` when the other side closed the stream between frames. Cancel-safe.
    ///
    /// # Errors
    /// [`FrameError::Broken`] when the stream ends inside a frame or a length is over [`MAX_FRAME_BYTES`];
    /// [`FrameError::Malformed`] when the frame is not an `In`.
    pub async fn receive(&mut self) -> Result<Option<In>, FrameError> {
        use futures_util::StreamExt;
        match self.frames.next().await {
            None => Ok(None),
            Some(frame) => decode(&frame?, self.peer).map(Some),
        }
    }
}

impl<Out: Serialize> LinkWriter<Out> {
    /// Sends a message and flushes it.
    ///
    /// # Errors
    /// [`FrameError::Broken`] when the stream is closed.
    pub async fn send(&mut self, message: &Out) -> Result<(), FrameError> {
        let body = serde_json::to_vec(message).map_err(io::Error::other)?;
        Ok(self.frames.send(Bytes::from(body)).await?)
    }
}

fn decode<In: DeserializeOwned>(frame: &[u8], peer: &'static str) -> Result<In, FrameError> {
    serde_json::from_slice(frame).map_err(|e| FrameError::Malformed {
        peer,
        at: e.column(),
        why: e.to_string(),
        expected: std::any::type_name::<In>().rsplit("::").next().unwrap_or("a message"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ToAgent, ToHost};
    use tokio::io::AsyncWriteExt;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn messages_cross_a_stream_whole() {
        runtime().block_on(async {
            let (near, far) = tokio::io::duplex(64);
            let mut host: Link<ToHost, ToAgent> = Link::new(Box::new(near), "agent");
            let mut agent: Link<ToAgent, ToHost> = Link::new(Box::new(far), "host");
            host.send(&ToAgent::Ping { seq: 7 }).await.unwrap();
            assert!(matches!(agent.receive().await.unwrap(), Some(ToAgent::Ping { seq: 7 })));
            drop(host);
            assert!(agent.receive().await.unwrap().is_none());
        });
    }

    #[test]
    fn oversized_torn_and_foreign_frames_are_errors() {
        runtime().block_on(async {
            for (bytes, text) in [
                (&b"\xff\xff\xff\xff"[..], "frame size"),
                (&b"\x00\x00\x00\x09{\"say\""[..], "bytes remaining"),
                (&b"\x00\x00\x00\x04null"[..], "not understood"),
            ] {
                let (mut near, far) = tokio::io::duplex(64);
                let mut agent: Link<ToAgent, ToHost> = Link::new(Box::new(far), "host");
                near.write_all(bytes).await.unwrap();
                drop(near);
                let error = agent.receive().await.unwrap_err().to_string();
                assert!(error.contains(text), "{error}");
            }
        });
    }
}
