//! The two ends of a client: messages in, answers out. It notes which calls are open, and when an answer was written; the
//! end of the input is told, and shown to the protocol only when the server is done with it.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::calls::{self, Calls};

/// A client.
pub(crate) struct Pipe<R: AsyncRead, W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, R, W>,
    calls: Arc<Calls>,
    /// Set once the input has ended, or nobody reads what is written.
    gone: watch::Sender<bool>,
    /// Set once the protocol shall end.
    over: watch::Receiver<bool>,
}

impl<R, W> Pipe<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(crate) const fn new(
        inner: AsyncRwTransport<RoleServer, R, W>,
        calls: Arc<Calls>,
        gone: watch::Sender<bool>,
        over: watch::Receiver<bool>,
    ) -> Self {
        Self { inner, calls, gone, over }
    }

    fn note(&self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::CallToolRequest(_) = request.request {
                    self.calls.arrive(&request.id);
                }
            }
            JsonRpcMessage::Notification(note) => {
                if let ClientNotification::CancelledNotification(cancelled) = &note.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.calls.forget(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl<R, W> Transport<RoleServer> for Pipe<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &item {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let calls = Arc::clone(&self.calls);
        let delivery = id.and_then(|id| calls.write(id));
        let sent = self.inner.send(item);
        let gone = self.gone.clone();
        async move {
            let sent = sent.await;
            if sent.is_err() {
                gone.send_replace(true);
            }
            if let Some(delivery) = delivery {
                match &sent {
                    Ok(()) => calls::take(delivery).await,
                    Err(_) => drop(delivery),
                }
                calls.written();
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if !*self.gone.borrow() {
            let message = tokio::select! {
                biased;
                _ = self.over.wait_for(|is_over| *is_over) => return None,
                message = self.inner.receive() => message,
            };
            if let Some(message) = message {
                self.note(&message);
                return Some(message);
            }
            self.gone.send_replace(true);
        }
        // Where nobody is left who could say so, it is over as well.
        let _ = self.over.wait_for(|is_over| *is_over).await;
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
