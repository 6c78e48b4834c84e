//! The one tree: session above job above job. Cancel, depth, rights and charge all walk `ancestors`; nothing here
//! changes anything.

use fanin_protocol::NodeId;
use fanin_protocol::record::RunOutcome;

use crate::command::{Parent, Refusal, RunNode};
use crate::fence;
use crate::session;
use crate::state::{Below, Facts, JobKey, Node, SessionKey, State};

impl Facts {
    /// Who launched the node; `None` for a session.
    pub(crate) fn parent(&self, node: Node) -> Option<Node> {
        let Node::Job(key) = node else { return None };
        let job = self.jobs.get(key.index())?;
        self.groups.get(job.group.index()).map(|group| group.parent)
    }

    /// The node, and those above it up to its session.
    pub(crate) fn ancestors(&self, node: Node) -> impl Iterator<Item = Node> {
        std::iter::successors(Some(node), |node| self.parent(*node))
    }

    /// The session of the node's tree.
    pub(crate) fn root(&self, node: Node) -> Option<SessionKey> {
        match node {
            Node::Session(key) => Some(key),
            Node::Job(key) => self.jobs.get(key.index()).map(|job| job.session),
        }
    }

    /// How far below its session the node is (SC-8).
    pub(crate) fn depth(&self, node: Node) -> u32 {
        u32::try_from(self.ancestors(node).skip(1).count()).unwrap_or(u32::MAX)
    }

    /// True where the node launched the job, in this life or in one before.
    pub(crate) fn is_child_of(&self, key: JobKey, parent: Node) -> bool {
        let id = |node: Node| match node {
            Node::Session(_) => None,
            Node::Job(key) => self.jobs.get(key.index()).map(|job| &job.id),
        };
        self.parent(Node::Job(key))
            .is_some_and(|own| own == parent || (id(own).is_some() && id(own) == id(parent)))
    }

    /// What hangs below a node; `None` for a job that has launched nothing.
    pub(crate) fn below(&self, node: Node) -> Option<&Below> {
        match node {
            Node::Session(key) => self.sessions.get(key.index()).map(|session| &session.below),
            Node::Job(key) => self.jobs.get(key.index())?.below.as_deref(),
        }
    }

    /// The same, to be changed by the fold.
    pub(crate) fn below_mut(&mut self, node: Node) -> Option<&mut Below> {
        match node {
            Node::Session(key) => self.sessions.get_mut(key.index()).map(|session| &mut session.below),
            Node::Job(key) => self.jobs.get_mut(key.index())?.below.as_deref_mut(),
        }
    }

    /// True where nothing below the node is alive.
    pub(crate) fn is_subtree_over(&self, node: Node) -> bool {
        self.below(node).is_none_or(|below| below.open.is_empty())
    }

    /// True where the node takes its children with it: it is closed, told to stop, over, or its body ended badly.
    pub(crate) fn is_going(&self, node: Node) -> bool {
        match node {
            Node::Session(key) => self.sessions.get(key.index()).is_none_or(|session| session.closed),
            Node::Job(key) => self.jobs.get(key.index()).is_none_or(|job| {
                job.stop.is_some() || job.ended.is_some() || (job.run.is_none() && job.has_failed())
            }),
        }
    }

    /// The nearest node above the job that is going: the job is stopping with it, also before a record says so
    /// (SC-2).
    pub(crate) fn going_above(&self, key: JobKey) -> Option<Node> {
        self.ancestors(Node::Job(key)).skip(1).find(|node| self.is_going(*node))
    }

    /// True where a node above the job is going for another reason than that its own run was interrupted.
    pub(crate) fn is_told_above(&self, key: JobKey) -> bool {
        self.ancestors(Node::Job(key)).skip(1).any(|node| {
            self.is_going(node)
                && match node {
                    Node::Session(_) => true,
                    Node::Job(key) => self.jobs.get(key.index()).is_some_and(|job| {
                        let interrupted =
                            job.last.as_ref().is_some_and(|last| last.outcome == RunOutcome::Interrupted);
                        job.stop.is_some() || !interrupted
                    }),
                }
        })
    }

    /// The node by its public name.
    pub(crate) fn node_id(&self, node: Node) -> Option<NodeId> {
        match node {
            Node::Session(key) => {
                self.sessions.get(key.index()).map(|session| NodeId::Session(session.id.clone()))
            }
            Node::Job(key) => self.jobs.get(key.index()).map(|job| NodeId::Job(job.id.clone())),
        }
    }
}

/// Finds who speaks: an open session, or the open run of a job. A run that is over has no say (P5).
pub(crate) fn find(state: &State, parent: &Parent) -> Result<Node, Refusal> {
    match parent {
        Parent::Session(id) => session::find(state, id).map(Node::Session),
        Parent::Run(run) if !fence::is_open(state, *run) => Err(Refusal::RunOver(run.fence)),
        Parent::Run(run) => Ok(node_of(run.node)),
    }
}

/// As [`find`], also for a session that is closed: results stay readable (BAR-9).
pub(crate) fn find_reader(state: &State, parent: &Parent) -> Result<Node, Refusal> {
    match parent {
        Parent::Session(id) => {
            let known = state.facts.session_key(id).map(Node::Session);
            known.ok_or_else(|| Refusal::UnknownSession(id.clone()))
        }
        Parent::Run(_) => find(state, parent),
    }
}

/// Whose run it is.
pub(crate) const fn node_of(run: RunNode) -> Node {
    match run {
        RunNode::Job(key) => Node::Job(key),
        RunNode::Turn(key) => Node::Session(key),
    }
}

/// Refuses a wait for the one who waits, or for one above it: neither can end before the wait does (SC-10).
pub(crate) fn check_waits(state: &State, by: Node, wanted: impl Fn(JobKey) -> bool) -> Result<(), Refusal> {
    let own = state.facts.ancestors(by).find_map(|node| match node {
        Node::Job(key) => state.job(key).filter(|_| wanted(key)),
        Node::Session(_) => None,
    });
    own.map_or(Ok(()), |job| Err(Refusal::OwnAncestor(job.id.clone())))
}

/// Refuses new work and wakes below a node that is going, or that hangs below one (SC-2).
pub(crate) fn check_stays(state: &State, node: Node) -> Result<(), Refusal> {
    let going = state.facts.ancestors(node).find(|node| state.facts.is_going(*node));
    match going.and_then(|going| state.facts.node_id(going)) {
        None => Ok(()),
        Some(NodeId::Session(id)) => Err(Refusal::SessionClosed(id)),
        Some(NodeId::Job(id)) => Err(Refusal::Stopping(id)),
    }
}
