//! Every bound of the product, with its reason. A number that limits something stands here and nowhere else.

use std::time::Duration;

/// Longest id a caller may give: it fits a column of `ps` and a file name everywhere (C-7).
pub const ID_BYTES_MAX: usize = 64;

/// Longest label: one line of a terminal, also with wide characters (SC-12).
pub const LABEL_BYTES_MAX: usize = 200;

/// Largest group of the operator profile: what the whole machine was measured with (14.14).
pub const GROUP_MEMBERS_MAX: usize = 1_000_000;

/// Smallest fan-out of the agent profile: a single job is a `start` (14.14).
pub const AGENT_GROUP_MIN: usize = 2;

/// Largest group of the agent profile: what a model can keep in view (14.14).
pub const AGENT_GROUP_MAX: usize = 7;

/// Deepest job below its session, agent profile: workers launch no workers (14.14, SC-8).
pub const AGENT_DEPTH_MAX: u32 = 1;

/// Deepest job below its session, operator profile: deeper trees are recursion gone wrong (14.14, SC-8).
pub const DEPTH_MAX: u32 = 8;

/// Largest value for a session's own depth: each launch, stop and start walks up the tree.
pub const DEPTH_MAX_MAX: u32 = 64;

/// Jobs of a session's tree for life, agent profile: a model in a loop stops here (SC-21, 14.14).
pub const AGENT_SPAWN_TOTAL: u32 = 64;

/// Wakes of a session's tree that its user has said nothing between, agent profile: a chain of turns that nobody looks at
/// ends here (W-7).
pub const AGENT_WAKES: u32 = 50;

/// Wakes of a session's tree in [`WAKES_WINDOW`], agent profile: more is a loop (W-7).
pub const AGENT_WAKES_PER_MINUTE: u32 = 10;

/// The time in which wakes are counted (W-7).
pub const WAKES_WINDOW: Duration = Duration::from_secs(60);

/// Jobs of a tree that hold a slot at once, agent profile: what a provider's rate limit and a laptop bear (14.14).
pub const AGENT_SLOTS: u32 = 10;

/// Jobs of a tree that may wait for a slot, agent profile: four times its total, for sessions that raise that
/// (14.14, SC-12).
pub const AGENT_QUEUE_JOBS_MAX: usize = 256;

/// Jobs of all trees that may wait for a slot, agent profile: 40 full trees (14.14, SC-12).
pub const AGENT_QUEUE_JOBS_ALL_MAX: usize = 10_000;

/// Longest prompt of an agent job, agent profile: two pages; more belongs in a file (14.14).
pub const AGENT_PROMPT_BYTES_MAX: usize = 8_000;

/// Jobs below a node that goes which one step stops at the most: the one record above counts for the others until
/// their own follow (SC-2).
pub const STOPS_PER_STEP: usize = 1_000;

/// Open tool calls and runs of a dead supervisor that one step of a recovery closes at the most: however many it left, no
/// step holds the gate for long, and no batch of the journal is larger (RE-8).
pub const ORPHANS_PER_STEP: usize = 1_000;

/// Jobs that may wait for a slot, operator profile: bounds memory at about 1 GiB (14.14, SC-12).
pub const QUEUE_JOBS_MAX: usize = 1_000_000;

/// Longest prompt of an agent job, operator profile: a large file fits, a runaway paste does not (14.14).
pub const PROMPT_BYTES_MAX: usize = 256 * 1024;

/// Longest command line with its environment: below the 2 MiB that Linux gives `execve` (SC-12).
pub const COMMAND_BYTES_MAX: usize = 1024 * 1024;

/// Time between the polite stop and the forced one: long enough for a build tool to clean up (SC-2).
pub const GRACE: Duration = Duration::from_secs(10);

/// Longest grace: a stop that waits longer is no stop (B56).
pub const GRACE_MAX: Duration = Duration::from_secs(3600);

/// Grace once a second signal asked to stop now (SH-2).
pub const GRACE_NOW: Duration = Duration::from_secs(2);

/// From the forced stop to `unreaped`: what a kernel needs to end a killed tree under load (SC-2).
pub const KILL_WAIT: Duration = Duration::from_secs(3);

/// From the KILL of a job's processes until what is left of them is named: sooner than `KILL_WAIT`, so that the record
/// of the run can still name it.
pub const KILL_REPORT: Duration = Duration::from_millis(2000);

/// How much longer than `KILL_REPORT` a shim may take to answer before it counts as lost: one that is stopped or
/// starved must not keep a job from settling within `KILL_WAIT`.
pub const SHIM_SLACK: Duration = Duration::from_millis(300);

/// Once a shim is lost: how long what carries the run's mark is looked for and killed. With the two above it ends
/// before `KILL_WAIT` does.
pub const SWEEP_WAIT: Duration = Duration::from_millis(500);

/// Once its supervisor is gone: how long a job may take to follow a TERM before the KILL (RE-2).
pub const ORPHAN_GRACE: Duration = Duration::from_secs(2);

/// Processes that a record names as left over: more would say nothing new, and a fork bomb has thousands.
pub const LEFT_NAMED_MAX: usize = 16;

/// How long a drain waits for running jobs after a first signal (SH-1).
pub const DRAIN: Duration = Duration::from_secs(30);

/// After a command ended: how long its pipes may stay open before its output counts as whole.
///
/// Semantics 14.6 allows 2 s for drain and the stop of leftovers together; this leaves room for both.
pub const PIPE_DRAIN: Duration = Duration::from_millis(1000);

/// After a command ended: how long what it left in its group may take to follow a TERM before the KILL.
pub const LEFTOVER_GRACE: Duration = Duration::from_millis(500);

/// Longest limit of time a caller may set: ten years, far below where arithmetic could overflow (B56).
pub const LIMIT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// From the start of a run of a command or an agent until its runner has it in hand: a cold start of an agent's
/// program fits (SC-14).
pub const START_WAIT: Duration = Duration::from_secs(60);

/// One run of an agent that sets no limit: a long piece of work fits, a loop does not run all night (SC-14).
pub const AGENT_RUN: Duration = Duration::from_secs(30 * 60);

/// An agent without a sign of work that sets no limit: a slow model answers within it (SC-14).
pub const AGENT_IDLE: Duration = Duration::from_secs(10 * 60);

/// How long an agent may take to answer `initialize`, and then to open a session: a cold start on a busy machine took
/// 20 s, and it is less than `START_WAIT`, so that what did not come is named.
pub const AGENT_ANSWER_WAIT: Duration = Duration::from_secs(45);

/// How long an agent that was asked to cancel may take to end its turn, before its program is asked to end: those that
/// do so took a second (B100).
pub const AGENT_CANCEL_WAIT: Duration = Duration::from_secs(5);

/// How long an agent's program may take to end by itself once its input is closed, before it is asked to.
pub const AGENT_EXIT_WAIT: Duration = Duration::from_millis(500);

/// One message of an agent: the content of a large file fits, and one without end does not fill the memory.
pub const AGENT_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Lines of an agent that are no messages: some print a few words before they begin, and no more.
pub const AGENT_GARBAGE_LINES_MAX: usize = 100;

/// Requests of an agent that wait for it to read their answers: one that reads none is no client of ours.
pub const AGENT_REQUESTS_OPEN_MAX: usize = 64;

/// The end of what an agent wrote to its standard error, for the words of a failure: the last lines say why.
pub const AGENT_STDERR_BYTES_MAX: usize = 2 * 1024;

/// Agents that `fanin doctor` asks at once: each is a heavy program that starts.
pub const DOCTOR_AT_ONCE: usize = 4;

/// Time between two records of what an agent has used: it may tell of each token.
pub const USAGE_EVERY: Duration = Duration::from_secs(5);

/// Money that is set aside for a start of an agent that declares no estimate, in millionths of a US dollar: a long piece
/// of work of a large model costs about that (BU-3, M30).
pub const DISPATCH_USD_MICROS: u64 = 500_000;

/// The largest budget of money, in millionths of a US dollar: a million dollars, far below where sums would end.
pub const USD_MICROS_MAX: u64 = 1_000_000_000_000;

/// Meters of a run at the most: a runner has one or two, and one that names another in each report fills no memory.
pub const METERS_PER_RUN_MAX: usize = 16;

/// Calls of one tool with the same arguments in a row that are worth a note (SC-15).
pub const REPEATS_NOTED: u32 = 5;

/// Such calls of an agent that sets no limit: it makes no progress any more (SC-15).
pub const AGENT_REPEATS_MAX: u32 = 50;

/// A gap in which neither machine nor host ran: idle clocks start again after it (SC-16).
pub const GAP: Duration = Duration::from_secs(30);

/// A sealed group without a record: long enough that somebody may want to look (BAR-14).
pub const GROUP_QUIET: Duration = Duration::from_secs(600);

/// Time between two looks for quiet groups at the least: a look goes over all that have not fired (BAR-14).
pub const GROUP_LOOK: Duration = Duration::from_secs(60);

/// Tries after the first one at the most: with the growing gaps a job that always fails is over within the hour (B81).
pub const RETRIES_MAX: u32 = 50;

/// Tries after the first one of an agent that nobody asked for, where nothing had taken effect yet (SC-17).
pub const SAFE_RETRIES: u32 = 2;

/// Gap before the second try; it doubles from try to try (SC-17).
pub const RETRY_GAP: Duration = Duration::from_secs(1);

/// Longest gap before a try: at most 16 tries of a job start in 10 minutes (SC-17, B81).
pub const RETRY_GAP_MAX: Duration = Duration::from_secs(60);

/// A gap is this many hundredths longer or shorter by chance, so that jobs that failed at once do not come back at
/// once (SC-17).
pub const RETRY_JITTER: u64 = 20;

/// Failed starts of one kind of job in `CIRCUIT_WINDOW` that are borne; one more pauses the kind (SC-18).
pub const CIRCUIT_FAILURES_MAX: usize = 20;

/// The time in which failed starts of a kind are counted (SC-18).
pub const CIRCUIT_WINDOW: Duration = Duration::from_secs(60);

/// How long a kind is paused after too many failed starts (SC-18).
pub const CIRCUIT_PAUSE: Duration = Duration::from_secs(60);

/// Starts of one kind in one interval of a rate at the most: each of them is remembered for that long.
pub const RATE_STARTS_MAX: usize = 10_000;

/// Output kept of one command, head and tail together: a long build log fits (B59).
pub const OUTPUT_BYTES_MAX: u64 = 1024 * 1024;

/// Largest value for a job's own output cap: keeps a store of a thousand jobs below a disk (B59).
pub const OUTPUT_BYTES_MAX_MAX: u64 = 64 * 1024 * 1024;

/// An unfinished line of one stream that is held back while the other stream goes on: most lines of a log stay
/// whole, and what has no line ends costs no more than this.
pub const LINE_HELD_BYTES_MAX: usize = 8 * 1024;

/// One read from a pipe: half of what a pipe holds, and small on a thread's stack.
pub const READ_BYTES: usize = 32 * 1024;

/// Reads of one command before other work of its thread has a turn: a runaway writer starves nobody (B59).
pub const READS_IN_A_ROW: usize = 16;

/// Read from a pipe at the end, where somebody outside still holds it: the most a pipe can hold (B26).
pub const PIPE_BYTES_MAX: usize = 1024 * 1024;

/// Rounds in which new processes of a tree are frozen before all of them are killed: a walk can miss a child that is
/// just being made, and each round leaves fewer that can make any.
pub const FREEZE_ROUNDS: usize = 8;

/// A message between supervisor and shim: the longest command line in words of one byte, each with its length.
pub const SHIM_MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Longest pause between two looks whether what a command left is gone; the first ones are shorter.
pub const LEFTOVER_LOOK: Duration = Duration::from_millis(50);

/// Full outputs that one supervisor keeps in memory; of older ones the excerpt of 32 KiB is left (B59).
pub const OUTPUTS_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// One page of an output: many screens, and copied in a moment, in which its job cannot write.
pub const OUTPUT_PAGE_BYTES_MAX: usize = 256 * 1024;

/// Output of one entry in a combined result at the most.
pub const RESULT_ENTRY_BYTES_MAX: usize = 32 * 1024;

/// Output of all entries of a combined result together: what a model's context takes at once.
pub const RESULT_BYTES_MAX: usize = 256 * 1024;

/// Entries of a combined result; above, only members that did not complete are listed.
pub const RESULT_ENTRIES_MAX: usize = 1_000;

/// Dependencies of a plan in all: what one step may have to follow where the first job fails (T-4).
pub const EDGES_MAX: usize = 100_000;

/// Names of a circle that a refusal shows: a longer one is told by its beginning.
pub const CYCLE_NAMES_MAX: usize = 20;

/// Jobs of which a job is told that needs them; beyond it those that completed are counted alone (T-3).
pub const HANDED_JOBS_MAX: usize = 256;

/// Output of all jobs that one needs, as it is handed over: a model reads it, and a variable of a command holds it (T-3).
pub const HANDED_BYTES_MAX: usize = 64 * 1024;

/// All that a command is told of the jobs that it needs, as JSON: below [`VARIABLE_BYTES_MAX`] with its name (T-3).
pub const HANDED_JSON_BYTES_MAX: usize = 96 * 1024;

/// Mail that waits for one member of a team: what does not fit is refused at once, so that no sender waits (T-6).
pub const MAIL_INBOX_MAX: usize = 64;

/// One mail: a finding or an answer fits; what is longer belongs in a file (T-6).
pub const MAIL_BYTES_MAX: usize = 16 * 1024;

/// All mail that waits in one team (T-6).
pub const MAIL_TEAM_BYTES_MAX: usize = 1024 * 1024;

/// Mail that one member may send in its life, unless `sends_per_member` says otherwise: a long piece of work needs less,
/// and two that only acknowledge each other come to an end (T-6).
pub const MAIL_SENDS_MAX: u32 = 256;

/// Longest wait for mail: a model that waits longer loses its place in the work (T-7).
pub const MAIL_WAIT_MAX: Duration = Duration::from_secs(60);

/// Messages that wait in one inbox, or follow-ups that wait for one run: with the longest text each, 64 MiB (SC-12).
pub const INBOX_MESSAGES_MAX: usize = 256;

/// Keys of posted messages that are remembered, so that one that is posted again is known: far longer than anybody
/// repeats a call (J-21).
pub const MESSAGE_KEYS_MAX: usize = 65_536;

/// Firings of one watch: whoever is told more often of one thing is not watching, it is flooded (SC-22).
pub const WATCH_FIRINGS_MAX: u32 = 10;

/// Longest life of a watch: it is forgotten by then (SC-22).
pub const WATCH_LIFE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Shortest time between two checks of a watch, and between two of its firings: a shorter one is a loop (SC-22).
pub const WATCH_EVERY_MIN: Duration = Duration::from_secs(1);

/// Time between two checks of a watch, unless it says otherwise: soon enough for people, and cheap.
pub const WATCH_EVERY: Duration = Duration::from_secs(30);

/// Time between two firings of a watch, unless it says otherwise: what comes meanwhile is told with the next one.
pub const WATCH_GAP: Duration = Duration::from_secs(10);

/// How long one check of a watch may take, unless it says otherwise (SC-22).
pub const WATCH_CHECK: Duration = Duration::from_secs(60);

/// Checks of a watch in a row that could not be made, and then it gives up: once may be chance, three times is none.
pub const WATCH_BAD_CHECKS_MAX: u32 = 3;

/// Text of one firing: what a model reads of it without losing its thread.
pub const WATCH_TEXT_BYTES_MAX: usize = 4_096;

/// Lines that one firing quotes; the others are counted.
pub const WATCH_LINES_MAX: usize = 20;

/// Of one line of what is watched; the rest of a longer one is not looked at.
pub const WATCH_LINE_BYTES_MAX: usize = 4_096;

/// What a check puts out and is looked at, its end: longer ones belong into a file.
pub const WATCH_CHECK_BYTES_MAX: usize = 262_144;

/// Longest pattern of a watch: more is a program.
pub const WATCH_PATTERN_BYTES_MAX: usize = 1_024;

/// A panic's text, cut to what a screen shows (SC-7).
pub const PANIC_BYTES_MAX: usize = 4 * 1024;

/// A failure's message, for the same reason.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// A progress line: one line of a terminal (B-1).
pub const PROGRESS_BYTES_MAX: usize = 400;

/// Time between two progress lines of a command: more than an eye follows (B-1).
pub const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Tool parts one run may report: bounds what a runaway loop can write into the log (SC-12).
pub const PARTS_PER_RUN_MAX: usize = 10_000;

/// A tool call's name or id.
pub const CALL_BYTES_MAX: usize = 200;

/// Records kept in memory for subscribers: at least this many, and at most one segment more (B-8).
pub const TAIL_RECORDS: usize = 65_536;

/// Readers that an append wakes by itself: a few cost the writer less than waking one who wakes them.
pub const WAKES_AT_ONCE: usize = 2;

/// Records of one segment of the log. A subscriber takes over that many in one lock of the log, and one that sleeps
/// keeps that many from being freed.
pub const READ_BATCH: usize = 256;

/// Batches of records a subscriber passes over before it lets others have its thread: a filter that lets little
/// through would hold it for a whole tail.
pub const SKIP_BATCHES: usize = 32;

/// Effects whose room a pump keeps for the next change: more came from a burst, and its memory goes back.
pub const EFFECTS_ROOM: usize = 1_024;

/// Changes that were left at a held gate and are carried out in one hold of it: few enough that their effects do not wait
/// for long, and many enough that the hold is worth it.
pub const LATE_SLICE: usize = 32;

/// How long a call waits for its turn at the gate before it answers `busy`; a step takes microseconds, so that long
/// means that something is wrong (C-2).
pub const GATE_WAIT: Duration = Duration::from_secs(5);

/// How long a call holds its thread for the gate before it lets others have it: longer than a step that is not huge.
pub const GATE_TRY: Duration = Duration::from_millis(1);

/// Pause between two such tries: short for a person, and little work while the gate is stuck.
pub const GATE_PAUSE: Duration = Duration::from_millis(5);

/// How long a look at the state holds its thread for the gate before it answers `busy`: a look is not awaited, so it
/// gives up earlier than a call (C-2).
pub const LOOK_WAIT: Duration = Duration::from_millis(100);

/// Runs of one life of a job that an end of the supervisor interrupted, before it is not started again: one that brings
/// its supervisor down must not do so for ever (RE-5).
pub const CRASHED_RUNS_MAX: u32 = 3;

/// How long what outlived its supervisor has to end after SIGTERM, before it is killed (RE-2).
pub const SURVIVOR_GRACE: Duration = Duration::from_secs(2);

/// How long a recovery waits for what outlived its supervisor, before it counts as out of reach (RE-2).
pub const SURVIVOR_WAIT: Duration = Duration::from_secs(10);

/// How long a part of `fanin demo` may say nothing: more than a recovery takes on a slow machine.
pub const DEMO_WAIT: Duration = Duration::from_secs(20);

/// How far back a store looks at its records when it is opened: what a crash can have touched, in a few milliseconds
/// (RE-0).
pub const TAIL_CHECKED: u64 = 10_000;

/// Pages that a store's writer keeps in memory, in KiB: a batch of 4,096 records with their rows fits, and none of it is
/// written twice.
pub const STORE_CACHE_KIB: u32 = 16 * 1024;

/// How old the high-water mark on disk may be: a second of records is what a loss of power can hide from it (ST-4).
pub const MARK_SYNC: Duration = Duration::from_secs(1);

/// Space that is kept for stops and ends on a full disk: some ten thousand records (ST-9).
pub const BALLAST_BYTES: u64 = 4 * 1024 * 1024;

/// With less free than this nothing new is taken on: what runs has room to end (ST-9).
pub const LOW_SPACE_BYTES: u64 = 64 * 1024 * 1024;

/// Time between two notes that say so: a disk at the edge must not be filled with them.
pub const LOW_SPACE_TOLD: Duration = Duration::from_secs(60);

/// Records that a store keeps at the least, and how long it keeps each (B-9).
pub const KEEP_RECORDS: u64 = 100_000;
/// As [`KEEP_RECORDS`]: a week, so that Monday can ask what happened on Friday.
pub const KEEP_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What a store may hold; beyond it the oldest of what is over goes, however young it is: the state folder lies in
/// somebody's home (B-9).
pub const KEEP_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Old records that go with one batch at the most, so that no commit takes long for it.
pub const PRUNE_STEP: u64 = 1_000;
/// Batches between two looks for what is old.
pub const PRUNE_EVERY: u64 = 256;

/// Time between two commits of what jobs put out that run: what a crash may take of it, and no burden for a disk
/// (P1 is about records, not about text).
pub const OUTPUT_SAVE_EVERY: Duration = Duration::from_millis(250);

/// What one job put out that is taken into one such commit at the most: one that puts out more for long has its middle
/// dropped anyway.
pub const OUTPUT_SAVE_BYTES_MAX: usize = 256 * 1024;

/// And of all jobs together, so that no record waits long behind their text.
pub const OUTPUTS_SAVE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a commit that found no room waits before it is tried again (ST-9).
pub const FULL_RETRY: Duration = Duration::from_secs(1);

/// Jobs that are over and handed over, in memory at the most: what a person or a page looks back at, at about 1 kB each
/// (SC-23).
pub const FINISHED_JOBS: usize = 10_000;

/// How long what is over and handed over stays in memory: a parent that was woken asks for outputs soon (SC-23).
pub const FINISHED_AGE: Duration = Duration::from_secs(60 * 60);

/// What is over leaves the memory on full steps of this length: an idle supervisor wakes up once for many.
pub const EVICT_STEP: Duration = Duration::from_secs(60);

/// Ids of jobs that have left the memory and are still told from unknown ones; 16 bytes each (SC-23).
pub const EVICTED_IDS: usize = 65_536;

/// Jobs that one step lets go at the most, but for a single group that is larger: the gate is free again in a moment.
pub const EVICTS_PER_STEP: usize = 1_000;

/// Jobs that one step starts at the most: the first of a large fan-out run while the last are still being started,
/// and no step holds the gate for long.
pub const STARTS_PER_STEP: usize = 1_024;

/// A step of the wall clock against the monotonic one that is worth a note (C-8).
pub const CLOCK_JUMP: Duration = Duration::from_secs(3600);

/// Slots of `fanin run` unless `--concurrency` says otherwise (14.14).
pub const RUN_SLOTS: usize = 10;

/// The mark of a job in an environment: two ids, three numbers, and the slashes between them.
pub const PARENT_MARK_BYTES_MAX: usize = 256;

/// The token of a run: an id, a slash, and its digits. A longer text is none.
pub const RUN_TOKEN_BYTES_MAX: usize = 160;

/// Earlier runs that `fanin run` keeps for `--again`: a working day of a busy hand. The newest stay.
pub const KEPT_RUNS_MAX: usize = 100;

/// How long an earlier run is kept: a failure of before the holidays can still be run again.
pub const KEPT_RUNS_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// One document of a kept run. A larger one is not kept, and that is said.
pub const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Earlier runs that are named where an id is not known: what a screen shows with room to spare.
pub const KNOWN_RUNS_SHOWN_MAX: usize = 10;

/// Hex digits that the start of an id must have: fewer would soon stand for several.
pub const ID_PREFIX_DIGITS_MIN: usize = 4;

/// Output of one task in a JUnit report: what a person reads there, twice what a result has.
pub const JUNIT_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Output of all tasks in a JUnit report together: servers of CI refuse or drop very large reports.
pub const JUNIT_OUTPUTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A step's summary on GitHub, with what the step has written before: GitHub drops a larger one whole.
pub const SUMMARY_BYTES_MAX: u64 = 1024 * 1024;

/// Error annotations of one run: GitHub shows ten of a step and drops the others.
pub const ANNOTATIONS_MAX: usize = 10;

/// How long a command of `--on-done` may take before it is stopped.
pub const ON_DONE_TIME: Duration = Duration::from_secs(60);

/// The same where a signal ended the run: somebody waits for the program to go.
pub const ON_DONE_TIME_STOPPED: Duration = Duration::from_secs(5);

/// From the polite stop of such a command to the forced one.
pub const ON_DONE_GRACE: Duration = Duration::from_secs(1);

/// What such a command may put out: only the end of it is ever shown.
pub const ON_DONE_OUTPUT_BYTES_MAX: u64 = 16 * 1024;

/// A run that took longer ends with a notice on its terminal: its reader has turned to something else by then.
pub const NOTIFY_AFTER: Duration = Duration::from_secs(10);

/// Times a store is read again where its owner wrote meanwhile: what is shown after that is of moments close together.
pub const STORED_LOOKS_MAX: u32 = 3;

/// How often a command that follows a store looks at it again: quick for people, and nothing for a disk.
pub const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// An escape sequence without an end that `fanin output --follow` holds back: the longest are links, and a page long.
pub const ESCAPE_HELD_BYTES_MAX: usize = 4 * 1024;

/// Jobs of a page unless somebody says otherwise: a screen or two.
pub const PAGE_JOBS: usize = 100;

/// Ids that a reason names at the most: enough to act on, short enough to read.
pub const REASON_IDS_MAX: usize = 8;

/// Stale runs that are remembered, so that each is noted once; beyond, the oldest may be noted again (J-16).
pub const STALE_RUNS_MAX: usize = 4_096;

/// Deepest nesting a frame may have: ours has 6, a hostile one would exhaust the stack (SEC-8).
pub const NESTING_MAX: usize = 64;

/// A manifest, or the lines on standard input of `fanin run --each`: a million file names fit (SC-12).
pub const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Problems of one manifest told at once: more would scroll the first ones away.
pub const PROBLEMS_SHOWN_MAX: usize = 50;

/// Lines of a task's output that `fanin run` prints for people: one screen of them says why a program failed.
pub const SHOWN_LINES_MAX: usize = 20;

/// Bytes of one such line: a program that prints a megabyte without a line feed must not fill the screen.
pub const SHOWN_LINE_BYTES_MAX: usize = 1_000;

/// Time between two drawings of live progress: quick enough to look alive, slow enough to cost nothing.
pub const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// After a third signal: how much longer than `KILL_WAIT` `fanin run` waits for the result before it gives up.
pub const KILL_SLACK: Duration = Duration::from_secs(2);

/// Notices about signals that wait to be shown: the four that change something, and a few impatient ones.
pub const SIGNALS_TOLD_MAX: usize = 16;

/// Lines of progress that wait for a reader of standard error: four times what a pipe holds. A reader that falls
/// further behind is told how many were left out.
pub const STDERR_HELD_BYTES_MAX: usize = 256 * 1024;

/// What a log line has of a prompt, a command line or an output at the most, where `log_content` is on: a screen.
pub const LOG_CONTENT_BYTES_MAX: usize = 2 * 1024;

/// Shortest value of a variable that is taken for a secret: what is shorter stands in half of all texts.
pub const SECRET_BYTES_MIN: usize = 6;

/// At the end of `fanin run`: how long its last words may take to reach a slow reader of standard error.
pub const STDERR_WAIT: Duration = Duration::from_secs(1);

/// One variable of a command: its name, `=`, its value and a NUL byte. Linux takes no longer text (SC-12).
pub const VARIABLE_BYTES_MAX: usize = 128 * 1024;

/// How long a blocking call over MCP may take where its client asked for progress: below the flat 300 s that Codex gives a
/// call (14.3).
pub const MCP_BLOCK: Duration = Duration::from_secs(240);

/// The same for a client that did not: below the 60 s after which most give up (14.3).
pub const MCP_BLOCK_SILENT: Duration = Duration::from_secs(50);

/// Time between two notes of progress of such a call: often enough for a client that gives up after 60 s (14.3).
pub const MCP_PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// One message of an MCP client: seven of the longest command lines fit, escaped. A longer one is dropped.
pub const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Calls of one MCP client that are not answered yet (SEC-8).
pub const MCP_CALLS_MAX: usize = 64;

/// Calls of one client in a minute that launch, also where nothing was launched: no model works so fast, and a loop does
/// (SEC-8).
pub const LAUNCH_CALLS_MAX: usize = 1_000;

/// The time of that bound (SEC-8).
pub const LAUNCH_CALLS_PER: Duration = Duration::from_secs(60);

/// How long an MCP client may take nothing of what is written to it; it counts as gone then. No client waits as long for an
/// answer, so it has stopped reading.
pub const MCP_WRITE_WAIT: Duration = Duration::from_secs(300);

/// Output of all jobs together in one answer to an MCP client: harnesses cut longer answers, or put them into a file. The
/// rest is read in pages.
pub const MCP_REPLY_BYTES_MAX: usize = 32 * 1024;

/// One page of an output over MCP, for the same reason.
pub const MCP_PAGE_BYTES_MAX: usize = 32 * 1024;

/// Such a page unless its size was asked for: a few screens.
pub const MCP_PAGE_BYTES: usize = 8 * 1024;

/// Ids that one call of a tool may name: as many as a session of a model has jobs.
pub const MCP_IDS_MAX: usize = 64;

/// How long an answer waits for a result that is owed and on its way: a commit takes milliseconds, and it comes with the
/// next answer otherwise.
pub const MCP_TELL_WAIT: Duration = Duration::from_millis(250);

/// Once an MCP client is gone: how long calls that it had made may still be answered (14.10).
pub const MCP_DRAIN: Duration = Duration::from_millis(500);

/// From the polite stop of its jobs to the forced one (14.10).
pub const MCP_GRACE: Duration = Duration::from_millis(500);

/// From the forced stop until their ends are recorded, or the program goes without; longer where no call was open (14.10).
pub const MCP_RECORDS: Duration = Duration::from_millis(600);

/// For the last answers and the close of the store after that (14.10).
pub const MCP_CLOSE: Duration = Duration::from_millis(200);

/// Clients of the tools of a hosted parent at once: its agent has one, and what it starts may have others.
pub const DOOR_CLIENTS_MAX: usize = 32;

/// Programs of jobs at once at the door of their mail; one more is told to come again (SEC-8).
pub const MAIL_CLIENTS_MAX: usize = 256;

/// How long a program at the door of the mail may take to say who it is, and to take the mail that is there for it.
pub const MAIL_HELLO_WAIT: Duration = Duration::from_secs(5);

/// One line of such a program: a mail with every byte escaped, and who sends it to whom.
pub const MAIL_LINE_BYTES_MAX: usize = 104 * 1024;

/// Longest path of a socket: those of the systems hold 104 bytes and more.
pub const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Tries of a turn of a hosted parent that wakes it, before it is given up: the wake stays owed, and `fanin resume` brings it
/// again (W-3).
pub const PARENT_TRIES: u32 = 3;

/// One frame of the protocol: a thousand jobs of a launch fit, and nobody makes room for what nobody sends (SEC-8).
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Clients of a service at once: terminals, editors and agents of one user, and a hundred more (SEC-8).
pub const SERVICE_CLIENTS_MAX: usize = 256;

/// Requests of one client that are not answered yet, streams among them (SEC-8).
pub const SERVICE_CALLS_MAX: usize = 64;

/// Offers, turns and fan-outs in parts that a client holds at once: more than it can have asked for in one go.
pub const SERVICE_HELD_MAX: usize = 256;

/// The jobs of all fan-outs in parts that a client has begun, encoded (SEC-8).
pub const FAN_OUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How long a client may take to say who it is, and a service to answer that.
pub const HELLO_WAIT: Duration = Duration::from_secs(10);

/// How long a client may take nothing of what is written to it, and send nothing of a frame that it has begun; then it is
/// cut off (B-8).
pub const SERVICE_IDLE_WAIT: Duration = Duration::from_secs(60);

/// How long clients of a service that ends may take to read what is left for them.
pub const SERVICE_CLOSE_WAIT: Duration = Duration::from_secs(1);

/// What waits to be written to a client before those who write for it wait themselves: a few hundred events.
pub const SERVICE_ROOM_BYTES: usize = 256 * 1024;

/// Time between two marks of a stream whose filter lets nothing through (B-6).
pub const MARK_EVERY: Duration = Duration::from_secs(5);

/// Jobs of one page of a list at the most: with the longest messages they fit into a frame.
pub const LIST_JOBS_MAX: usize = 500;

/// How long a client waits before it tries again to reach a service that it has lost, at the most.
pub const RECONNECT_EVERY: Duration = Duration::from_secs(1);
