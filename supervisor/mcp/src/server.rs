//! One client's server: which tools there are, and what becomes of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fanin_supervisor::CallRate;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::arguments::{self, Arguments};
use crate::calls::{Calls, Delivery};
use crate::fault::ToolError;
use crate::host::Host;
use crate::parent::Parent;
use crate::reply::Reply;
use crate::running::{Running, Started};
use crate::tools::{self, Name};
use crate::{launch, look, steer, wait, watch};

/// The server of one client.
pub(crate) struct Server<H> {
    shared: Arc<Shared<H>>,
}

struct Shared<H> {
    host: H,
    calls: Arc<Calls>,
    started: Started,
    rate: CallRate,
    /// What was launched is its parent's, and goes on without this connection.
    is_shared: bool,
    /// Nothing is launched any more.
    is_ending: AtomicBool,
}

impl<H> Clone for Server<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<H: Host> Server<H> {
    /// A server that starts what it launches with, or one of a parent that has it already.
    pub(crate) fn new(host: H, calls: Arc<Calls>, parent: Option<&Parent>) -> Self {
        let started = Started::new_with(parent.map(|parent| Arc::clone(&parent.running)));
        let (is_shared, rate, is_ending) = (parent.is_some(), CallRate::default(), AtomicBool::new(false));
        Self { shared: Arc::new(Shared { host, calls, started, rate, is_shared, is_ending }) }
    }

    pub(crate) fn host(&self) -> &H {
        &self.shared.host
    }

    /// What was launched runs here; `None` before the first launch.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        self.shared.started.get().cloned()
    }

    /// As [`Server::running`], which it starts.
    ///
    /// # Errors
    ///
    /// [`ToolError::Worker`], [`ToolError::Ending`], and those of a start.
    pub(crate) async fn start(&self) -> Result<Arc<Running>, ToolError> {
        if !self.host().may_launch() {
            return Err(ToolError::Worker);
        }
        if self.is_ending() {
            return Err(ToolError::Ending);
        }
        let start = || async { Running::start(self.host()).await.map(Arc::new) };
        let running = self.shared.started.get_or_try_init(start).await?;
        if self.is_ending() {
            if !self.shared.is_shared {
                // Whoever ended this meanwhile may not have found it.
                running.supervisor.shutdown().await;
            }
            return Err(ToolError::Ending);
        }
        Ok(Arc::clone(running))
    }

    /// True once nothing is launched any more.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.is_ending.load(Ordering::Acquire)
    }

    /// Launches nothing more.
    pub(crate) fn end(&self) {
        self.shared.is_ending.store(true, Ordering::Release);
    }

    async fn carry_out(
        &self,
        name: Name,
        arguments: Arguments,
        context: &RequestContext<RoleServer>,
        delivery: &mut Delivery,
    ) -> Result<Reply, ToolError> {
        match name {
            // Before its arguments: no way of asking makes a worker a parent.
            Name::Subagent | Name::TaskParallel | Name::Watch if !self.host().may_launch() => {
                Err(ToolError::Worker)
            }
            Name::Subagent => {
                self.shared.rate.enter().map_err(ToolError::TooFast)?;
                launch::launch(self, arguments::Launch::one(arguments)?, context, delivery).await
            }
            Name::TaskParallel => {
                self.shared.rate.enter().map_err(ToolError::TooFast)?;
                launch::launch(self, arguments::Launch::several(arguments)?, context, delivery).await
            }
            Name::Watch => {
                self.shared.rate.enter().map_err(ToolError::TooFast)?;
                watch::watch(self, arguments::Watch::read(arguments)?).await
            }
            Name::Wait => wait::wait(self, arguments::Wait::read(arguments)?, context, delivery).await,
            Name::Jobs => look::jobs(self, &arguments::Jobs::read(arguments)?).await,
            Name::Message => steer::message(self, arguments::Message::read(arguments)?).await,
            Name::Cancel => steer::cancel(self, arguments::Cancel::read(arguments)?).await,
        }
    }
}

impl<H: Host> ServerHandler for Server<H> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("fanin", env!("CARGO_PKG_VERSION")))
            .with_instructions(tools::instructions(self.host().is_woken()))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let is_woken = self.host().is_woken();
        let tools = Name::known(self.host().may_launch()).map(|name| name.tool(is_woken)).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Name::of(name).map(|name| name.tool(self.host().is_woken()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(name) = Name::of(&request.name) else {
            let known: Vec<_> = Name::known(self.host().may_launch()).map(Name::as_str).collect();
            let asked = arguments::shown(&request.name);
            let message = format!("there is no tool `{asked}`; there are {}", known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let calls = &self.shared.calls;
        let number = match calls.number(&context.id) {
            Ok(number) => number,
            Err(count) => return Ok(refused(&ToolError::TooManyCalls(count))),
        };
        if number.is_none() {
            // Cancelled before anything of it was done, and nobody reads this.
            return Ok(Reply::new("the call was cancelled before anything was done").finish().into());
        }
        let mut delivery = Delivery::new();
        let done = self.carry_out(name, request.arguments.unwrap_or_default(), &context, &mut delivery).await;
        let mut reply = done.unwrap_or_else(|error| Reply::fault(error.fault()));
        // A parent that is woken has its results after its turn, and not here.
        let tells = !self.host().is_woken() && !context.ct.is_cancelled();
        if let Some(running) = self.running().filter(|_| tells) {
            reply.fired.extend(running.tell_hits(&mut delivery).await);
            reply.over_since = running.tell(&mut delivery).await;
        }
        calls.answer(&context.id, number, delivery);
        Ok(reply.finish().into())
    }
}

fn refused(error: &ToolError) -> CallToolResponse {
    Reply::fault(error.fault()).finish().into()
}
