// The answers of the API, made from the server's models by .ci/page_types.py (`make page`).
// Times are ISO-8601 UTC texts, sizes bytes, durations seconds, shares 0 to 1. `null` is
// "not known" or "does not apply", and is never drawn as zero.

/** An action on a table. */
export interface ActionRequest {
  table: string;
  action: string;
  arguments: Record<string, string | number | boolean | string[] | null>;
}

/** What an action did: an event of the table's log, or a DAG run. */
export interface ActionsOutcome {
  sentence: string;
  event: number | null;
  dag_id: string | null;
  run_id: string | null;
  href: string | null;
}

/** An aim of the objective beside what readers meet; durations in seconds. */
export interface Aim {
  name: string;
  found: number;
  aim: number;
  missed: boolean;
  sentence: string;
}

/** Whether the user may do something to a table. */
export interface Allowed {
  name: string;
  allowed: boolean;
  /** why not; empty if it is allowed */
  refusal: string;
}

/** The actions on a table. */
export interface AllowedActions {
  actions: Allowed[];
}

/** A bucket of the log store. */
export interface BucketLine {
  bucket: number;
  epoch: number;
  owner: string | null;
  /** offset of the first record that is not committed */
  committed: number;
  /** offset after the last record of the service */
  end: number | null;
  uncommitted: number | null;
  /** age of the oldest uncommitted record */
  lag_seconds: number | null;
  address: string;
  trouble: string;
  /** (epoch, first offset), oldest first */
  epochs: [number, number][];
}

/** Build what an index lacks. */
export interface BuildMissing {
  name: string;
}

/** One rectangle: a segment, or the chunks of a lane and state in a run of time chunks. */
export interface Cell {
  /** of the segment; of aggregated chunks, unique in the map */
  id: string;
  /** one segment, a run of segments of one time chunk, or chunks */
  kind: "segment" | "run" | "chunks";
  /** first event time of its time chunks, ISO-8601 UTC */
  start: string;
  /** first event time after them */
  end: string;
  /** where it begins in its interval, 0 to 1 */
  left: number;
  /** where it ends in its interval, 0 to 1 */
  right: number;
  /** index of its lane */
  lane: number;
  /** version of its chunk, microseconds; the newest of several */
  version: number;
  bucket: number | null;
  state: "visible" | "hidden" | "standby";
  /** number of time chunks (or their buckets) that it sums up */
  chunks: number;
  /** number of segments with the cell's state */
  segments: number;
  /** number of further segments of the same chunks that are hidden */
  hidden: number;
  rows: number;
  bytes: number;
  /** highest minor version; 0: as appended */
  generation: number;
  /** appended partitions that a segment covers */
  roots: [number, number] | null;
  /** in a primary-key table */
  base: "base" | "log" | null;
  /** the order of rows; empty if none or several */
  clustering: string;
  /** bytes that have a clustering, 0 to 1 */
  sorted_share: number;
  /** estimated deleted rows, 0 to 1 */
  deleted_share: number;
  /** number of files below the policy's small size */
  small: number;
  /** whether it has no rows and hides lower versions */
  tombstone: boolean;
  /** when the newest segment was written, ISO-8601 UTC */
  created: string | null;
  /** when the oldest segment was written, ISO-8601 UTC */
  oldest: string | null;
}

/** An event that changed segments of a range. */
export interface ChunkChange {
  n: number;
  at: string;
  kind: string;
  sentence: string;
  author: string;
}

/** The newest events that changed segments of a range, newest first, for the slider. */
export interface ChunkChanges {
  changes: ChunkChange[];
  /** oldest event that was looked at */
  scanned_from: number;
  /** oldest version that can be shown */
  first: number;
  last: number;
  limit: number;
}

/** Delete what the retention lets go. */
export interface CleanTable {
  hours: number | null;
  versions: number | null;
  orphan_hours: number | null;
}

/** A change of a column, and the number of the schema that it led to. */
export interface ColumnChange {
  schema_number: number;
  change: string;
}

/** The statistics of a column in a row group; values as text, None if unknown. */
export interface ColumnRange {
  column: string;
  least: string | null;
  greatest: string | null;
  nulls: number | null;
  bytes: number;
}

/** A column of any time. */
export interface ColumnShown {
  id: number;
  name: string;
  type: string;
  nullable: boolean;
  /** in rows that were written before it was added */
  default: string | null;
  dropped: boolean;
  changes: ColumnChange[];
}

/** Compact chosen segments, or an interval, by one kind, whatever the policy. */
export interface CompactSegments {
  kind: string;
  segments: string[] | null;
  interval: string | null;
}

/** A reader that keeps its position. */
export interface ConsumerLine {
  name: string;
  position: string;
  version: number | null;
  behind_events: number | null;
  behind_seconds: number | null;
  records_behind: number | null;
  sentence: string;
}

/** A reader of changes, whose position the log keeps. */
export interface ConsumerShown {
  name: string;
  /** the last version that it has read */
  version: number;
  /** when it said so */
  advanced: string;
  /** time of the first change not read */
  unread_since: string | null;
  lag_seconds: number;
  /** its position is no longer kept */
  lost: boolean;
}

/** Sizes of the newest version. */
export interface Counts {
  chunks: number;
  /** visible files */
  segments: number;
  rows: number;
  /** rows in files that are deleted already; about */
  deleted_rows: number;
  /** ingested rows that the rows stand for */
  events: number;
  bytes: number;
  hidden_segments: number;
  tombstones: number;
  small_segments: number;
  small_below_bytes: number;
  /** the chunk with most small files */
  worst_interval: string | null;
  worst_small_segments: number;
}

/** The difference between two outcomes. */
export interface Difference {
  properties: PropertyChange[];
  /** plans of the second outcome alone */
  begun: PlanOffer[];
  /** plans of the first outcome alone */
  dropped: PlanOffer[];
  same: number;
  places: ReasonChange[];
  places_total: number;
  sentence: string;
}

/** An event as a sentence and as JSON; long lists are cut. */
export interface EventInFull {
  line: EventLine;
  body: Record<string, unknown>;
  /** number of list entries that were left out of the body */
  cut: number;
  /** intervals whose segments it may change; empty: none */
  touches: string[];
  /** whether it may change segments anywhere */
  everywhere: boolean;
}

/** An event of the log in a line. */
export interface EventLine {
  n: number;
  /** ISO-8601 UTC */
  at: string;
  /** stable name, e.g. PlanCompleted */
  kind: string;
  sentence: string;
  author: string;
  task: TaskName | null;
  commit: string;
  plans: string[];
  /** names of the tags on this version */
  tags: string[];
  rows_added: number;
  /** None: unknown before reading */
  rows_deleted: number | null;
  files_added: number;
  /** None: unknown */
  files_removed: number | null;
  bytes_added: number;
  /** None: unknown */
  bytes_removed: number | null;
  /** whether it only moves rows that the table had */
  moved: boolean;
  /** whether the version can be read, or restored */
  readable: boolean;
}

/** A condition explained. */
export interface Explained {
  where: string;
  files: number;
  files_opened: number;
  bytes: number;
  bytes_read: number;
  steps: Step[];
  chunks: ExplainedChunk[];
  chunks_total: number;
  opened: ExplainedFile[];
  left_out: ExplainedFile[];
  opened_total: number;
  left_out_total: number;
  savings: Savings[];
  notes: string[];
}

/** A time chunk in a read. */
export interface ExplainedChunk {
  interval: string;
  files: number;
  opened: number;
  bytes: number;
  bytes_read: number;
  /** number of files by step */
  left_out_by: Record<string, number>;
}

/** A file of the table in a read. */
export interface ExplainedFile {
  path: string;
  bytes: number;
  rows: number;
  opened: boolean;
  /** the step that left it out; empty if it is opened */
  left_out_by: string;
  index: string;
  row_groups: number;
  row_groups_read: number | null;
  bytes_read: number;
}

/** A problem, why it matters, and the way out. */
export interface FindingShown {
  code: string;
  severity: Severity;
  where: string;
  what: string;
  why: string;
  do: string;
}

/** Tables, and sums over the whole lake. */
export interface FleetLines {
  /** tables that the search found */
  total: number;
  ill: number;
  /** tables that miss their objective */
  missed: number;
  offset: number;
  limit: number;
  lines: Line[];
  totals: Totals;
}

/** An interval that an index lacks. */
export interface Gap {
  interval: string;
  /** the event whose files it lacks */
  event: number;
  /** time of that event, ISO-8601 UTC */
  since: string;
}

/** The size over time, ascending; at most 200 points. */
export interface Growth {
  points: GrowthShown[];
}

/** The size after a version. */
export interface GrowthShown {
  at: string;
  version: number;
  files: number;
  bytes: number;
  rows: number;
  small: number;
}

/** The newest known version of each table; without those that were not looked at yet. */
export interface Heads {
  heads: Record<string, number>;
}

/** Findings, the worst first. */
export interface HealthShown {
  examined: "by the doctor" | "at a glance";
  as_of: string | null;
  /** why the doctor did not answer; empty if it did */
  late: string;
  findings: FindingShown[];
}

/** An index with its progress. */
export interface IndexLine {
  name: string;
  id: string;
  kind: string;
  columns: string[];
  settings: Record<string, string>;
  status: string;
  sentence: string;
  /** whether reads use it for all files */
  current: boolean;
  lag_commits: number;
  lag_seconds: number;
  /** at most 1000 */
  lacking: Gap[];
  lacking_total: number;
  waiting_feeds: number;
  plan: string | null;
  plan_status: string | null;
  plan_age_seconds: number | null;
  /** files that reads see; None: not known */
  files: number | null;
  /** of these, files with entries */
  indexed: number | null;
  entries: number | null;
  own_files: number | null;
  own_bytes: number | null;
  history: LagPoint[];
  trouble: string;
}

/** The indexes of a table. */
export interface Indexes {
  indexes: IndexLine[];
  /** whether the planner builds what is lacking */
  planner_builds: boolean;
}

/** The lag of an index at a version. */
export interface LagPoint {
  at: string;
  version: number;
  lag_seconds: number;
  /** number of lacked commits */
  gaps: number;
}

/** Seconds by which readers of a table are behind; null: there is none, or it is not known. */
export interface Lags {
  /** age of the oldest commit that an index lacks */
  index: number | null;
  /** not known without asking its services */
  log_store: number | null;
  /** age of the oldest commit not published */
  publication: number | null;
  /** age of the oldest event not read */
  consumer: number | null;
}

/** A row of the map; lanes are listed from the bottom to the top. */
export interface Lane {
  index: number;
  /** the bucket, in a primary-key table shown by buckets */
  bucket: number | null;
  /** rank of the version in its time chunk, 0 is the oldest */
  level: number;
  /** rank of the generation in its version, 0 is the lowest */
  generation: number;
}

/** A part of the table that no plan is made for. */
export interface LeftAlone {
  place: Place;
  /** number of time chunks or buckets with equal reasons */
  places: number;
  kind: string;
  /** stable word */
  code: string;
  sentence: string;
  number: Limit | null;
  /** when the reason ends by itself, ISO-8601 UTC */
  until: string | null;
}

/** The number that would change a decision: the present value, and the bound. */
export interface Limit {
  /** the property, e.g. compaction.min_segments */
  name: string;
  value: number | null;
  bound: number | null;
  /** bytes, seconds, segments, share, plans; empty: a count */
  unit: string;
}

/** A table. */
export interface Line {
  table: string;
  /** of the fleet file */
  group: string | null;
  /** why it could not be looked at */
  error: string | null;
  health: "ill" | "warning" | "unknown" | "ok";
  /** the worst thing, in a sentence */
  reason: string;
  /** aims that it misses, the worst first */
  misses: string[];
  /** whether it has an objective */
  objective: boolean;
  version: number | null;
  /** time of the newest event */
  committed: string | null;
  files: number;
  bytes: number;
  rows: number;
  small_files: number;
  /** for so long the oldest worthwhile plan has waited */
  backlog_seconds: number;
  /** worthwhile plans */
  offers: number;
  /** plans that are pending or running */
  pending: number;
  lags: Lags;
  /** the best plan: its kind, time and files; empty: none */
  next_plan: string;
  /** when it begins, why it waits, or why there is none */
  next_when: string;
  last_run: LineRun | null;
  spark: Spark;
}

/** The plan that changed last. */
export interface LineRun {
  kind: string;
  at: string;
  state: PlanStatus;
}

/** A lock, or a place in the queue for one. */
export interface LockLine {
  group: string;
  purpose: string;
  holder: string;
  /** held, publishing, revoked, waiting */
  state: string;
  mode: string;
  granularity: string;
  priority: number;
  yields: number;
  since: string;
  age_seconds: number;
  intervals: string[];
  segments: number;
  /** locked places in words, at most 100 */
  places: string[];
  revoked_by: string | null;
  progress: Record<string, string>;
  /** groups whose locks are in the way of a waiter */
  waits_for: string[];
}

/** The locks of a table, and the queue for them. */
export interface Locks {
  /** address without credentials; empty without one */
  coordinator: string;
  held: LockLine[];
  waiting: LockLine[];
  unreadable: string[];
  trouble: string;
}

/** The log store of a table. */
export interface LogStore {
  /** whether the table ever had one */
  has: boolean;
  buckets: BucketLine[];
  consumers: ConsumerLine[];
  uncommitted: number | null;
  trouble: string;
}

/** Who would miss the table, a sentence each; and the command that lists what a drop deletes. */
export interface Needs {
  sentences: string[];
  /** deletes nothing */
  command: string;
}

/** A value that another one wins over, and what gives it. */
export interface Over {
  value: string;
  origin: string;
}

/** A part of a table: an interval, a bucket of it, or partitions of either. */
export interface Place {
  interval: string;
  bucket: number | null;
  /** ranges, e.g. 0-15, 17; empty: all */
  partitions: string;
}

/** A plan as a bar over time. */
export interface PlanBar {
  id: string;
  kind: string;
  status: "requested" | "inflight" | "completed" | "aborted";
  interval: string;
  reason: string;
  note: string;
  /** ISO-8601 UTC */
  requested: string;
  /** begin of its latest attempt */
  inflight: string | null;
  /** when it was completed or aborted */
  completed: string | null;
  waited_seconds: number;
  worked_seconds: number | null;
  attempts: number;
  yields: number;
  /** of its newest event */
  author: string;
  task: TaskName | null;
  /** its newest event */
  event: number;
  rows: number;
  /** of its inputs */
  bytes: number;
  files_read: number;
  files_written: number | null;
  bytes_written: number | null;
}

/** A completed or aborted plan: expected and measured. */
export interface PlanDone {
  bar: PlanBar;
  place: Place;
  expected_outputs: number;
  expected_files_removed: number;
  files_removed: number | null;
  expected_seconds: number;
  /** share of the possible gain, 0 to 1; None: unknown */
  gained: number | null;
  /** files over one instant, on average */
  overlap_before: number | null;
  overlap_after: number | null;
  bytes_reordered: number | null;
}

/** A plan that would begin now. */
export interface PlanOffer {
  id: string;
  kind: string;
  place: Place;
  segments: number;
  rows: number;
  /** of its inputs: the cost */
  bytes: number;
  outputs: number;
  /** segments that it removes or tidies */
  gain: number;
  expected_seconds: number;
  reason: string;
  clustering: string;
  granularity: string | null;
  index: string;
}

/** A pending or running plan. */
export interface PlanProgress {
  bar: PlanBar;
  place: Place;
  outputs: number;
  expected_seconds: number;
  /** since its request */
  age_seconds: number;
  /** holder of its locks, or waiter for them; empty if none */
  holder: string;
  /** whether its worker waits for locks */
  waiting: boolean;
  /** as its worker reports it */
  progress: Record<string, string>;
  /** of the work, 0 to 1; None if not reported */
  share: number | null;
}

export type PlanStatus = "requested" | "inflight" | "completed" | "aborted";

/** All work of a table at one version. */
export interface Plans {
  pending: PlanProgress[];
  running: PlanProgress[];
  /** newest first */
  done: PlanDone[];
  /** best first */
  chosen: PlanOffer[];
  left: LeftAlone[];
  done_total: number;
  left_total: number;
  /** the version that chosen and left are of */
  planned_version: number;
  /** when they were found, ISO-8601 UTC */
  planned_at: string;
  /** whether all places were looked at */
  whole: boolean;
  /** when another look may differ by itself */
  due: string | null;
  /** why progress is not known; empty if it is */
  trouble: string;
}

/** What an action would do. */
export interface Preview {
  sentence: string;
  /** in numbers, a sentence each */
  effects: string[];
  /** the command line that does the same */
  command: string;
  /** the question to ask before */
  confirm: string;
  /** for the run: what the user agrees to */
  seal: string;
}

/** An error: its kind, a sentence, and the way out. */
export interface Problem {
  error: string;
  message: string;
  way_out: string;
}

/** A setting by which the table is served. */
export interface Property {
  name: string;
  value: string;
  /** default, the table with its event, or file, line and scope */
  origin: string;
  /** null: there is none */
  default: string | null;
  /** what it wins over, the strongest first */
  over: Over[];
}

/** A property with its value before and after. */
export interface PropertyChange {
  name: string;
  before: string;
  after: string;
}

/** The publications of a table. */
export interface Publications {
  formats: PublishedLine[];
}

/** Publish the newest version in other formats. */
export interface PublishTable {
  formats: string[] | null;
  full: boolean;
}

/** A format in which versions are published. */
export interface PublishedLine {
  format: string;
  enabled: boolean;
  event: number | null;
  at: string | null;
  address: string;
  lag_events: number | null;
  lag_seconds: number | null;
  sentence: string;
  refusal: string;
  error: string;
}

/** Who reads the table, as far as its log knows. */
export interface Readers {
  tags: Tag[];
  consumers: ConsumerShown[];
}

/** A place whose treatment differs. */
export interface ReasonChange {
  place: Place;
  /** plan or reason, one sentence; empty: none */
  before: string;
  after: string;
  /** whether a plan begins there after, and none before */
  begins: boolean;
  /** whether a plan began there before, and none after */
  ends: boolean;
}

/** Begin an index anew. */
export interface RebuildIndex {
  name: string;
}

/** Release a lock of a holder that hangs. */
export interface ReleaseLock {
  group: string;
}

/** Remove the name of a version. */
export interface RemoveTag {
  name: string;
}

/** Add an index. */
export interface RequestIndex {
  name: string;
  kind: string;
  columns: string[];
}

/** Show the rows of an earlier version again. */
export interface RestoreVersion {
  version: number | null;
  as_of: string | null;
  tag: string | null;
  columns: boolean;
}

/** One row group of a segment's file. */
export interface RowGroup {
  number: number;
  rows: number;
  bytes: number;
  columns: ColumnRange[];
}

/** A completed plan. */
export interface Run {
  table: string;
  plan: string;
  kind: string;
  /** UTC day of its end, YYYY-MM-DD */
  day: string;
  interval: string;
  requested: string;
  began: string | null;
  ended: string;
  waited_seconds: number;
  /** from the begin of the last attempt to the end; 0: unknown */
  seconds: number;
  /** files read */
  inputs: number;
  /** files written */
  outputs: number;
  bytes_read: number;
  bytes_written: number;
  rows: number;
  /** share of the possible gain, 0 to 1; None: unknown */
  gain: number | null;
  files_removed: number;
  overlap_before: number | null;
  overlap_after: number | null;
  sentence: string;
  owner: string;
  author: string;
  task: TaskName | null;
  attempts: number;
  event: number;
}

/** An action that the user has confirmed. */
export interface RunRequest {
  table: string;
  action: string;
  arguments: Record<string, string | number | boolean | string[] | null>;
  /** of the preview that was confirmed */
  seal: string;
}

/** Sums over runs; ``name`` is the day or the owner. */
export interface RunSum {
  name: string;
  runs: number;
  seconds: number;
  inputs: number;
  outputs: number;
  files_removed: number;
  bytes_read: number;
  bytes_written: number;
  /** bytes read less bytes written */
  bytes_saved: number;
  /** mean gain, by bytes read */
  gain: number | null;
}

/** The runs of some days, newest first, with sums over all of them. */
export interface Runs {
  runs: Run[];
  total: number;
  all: RunSum;
  /** each day, oldest first, also those without runs */
  by_day: RunSum[];
  /** most seconds first */
  by_owner: RunSum[];
  by_kind: RunSum[];
  days: number;
  /** tables that could not be read, with the reason */
  missing: string[];
}

/** The read with some indexes. */
export interface Savings {
  indexes: string[];
  files_opened: number;
  row_groups_read: number | null;
  bytes_read: number;
  notes: string[];
}

/** A segment, its row groups, and its place among the others. */
export interface SegmentInFull {
  cell: Cell;
  /** below the table's folder; empty for a tombstone */
  path: string;
  /** ingested rows that it stands for */
  events: number;
  time_min: string;
  time_max: string;
  version_name: string;
  /** roots, minor version and size of its atomic update group */
  group: string;
  /** the id in its file, if it was carried over */
  origin: string | null;
  adopted: boolean;
  /** why it is visible, hidden or on standby, one sentence */
  why: string;
  /** ids of the visible segments above it, at most 100 */
  replaced_by: string[];
  /** ids of present segments below it, at most 100 */
  replaces: string[];
  /** the plan that wrote it, if the log still has it */
  plan: string | null;
  row_groups: RowGroup[];
  /** why its row groups are not known; empty if they are */
  trouble: string;
}

/** A segment map of a range of event time at one version. */
export interface SegmentMap {
  level: "chunks" | "segments";
  /** the shown range; None for an empty table */
  range: Span | null;
  /** the range of all chunks; None for an empty table */
  whole: Span | null;
  granularity: string;
  /** buckets of a time chunk; 0 without a primary key */
  buckets: number;
  lanes: Lane[];
  versions: Versions;
  cells: Cell[];
  /** number of present segments in the range */
  total: number;
  /** bytes below which a segment is small */
  small_below: number;
  /** when the newest segment was written, ISO-8601 UTC */
  newest: string | null;
}

/** Who looks, at what, and what is allowed at all. */
export interface Session {
  user: string;
  authenticated: boolean;
  read_only: boolean;
  package_version: string;
  /** name of the fleet; null without a fleet file */
  fleet: string | null;
  /** roots of the tables, without credentials */
  places: string[];
  /** names of actions that exist; each has its own right */
  actions: string[];
  airflow: boolean;
}

export type Severity = "info" | "warning" | "unchecked" | "critical";

/** A simulation of other properties at one version. */
export interface Simulation {
  before: SimulationOutcome;
  after: SimulationOutcome;
  difference: Difference;
}

/** The plans that one set of properties makes. */
export interface SimulationOutcome {
  chosen: PlanOffer[];
  chosen_total: number;
  left: LeftAlone[];
  plans_by_kind: Record<string, number>;
  /** inputs of all chosen plans */
  segments: number;
  bytes: number;
  outputs: number;
  /** expected, one after the other */
  seconds: number;
  small_files: number;
  due: string | null;
}

/** The properties of a simulation; an empty text is the default. */
export interface SimulationRequest {
  properties: Record<string, string>;
}

/** A half-open interval of event time, ISO-8601 UTC. */
export interface Span {
  start: string;
  end: string;
}

/** The size of a table over its last versions, ascending; at most 24 numbers each. */
export interface Spark {
  files: number[];
  bytes: number[];
}

/** A step that leaves files or row groups out. */
export interface Step {
  by: string;
  index: string;
  files_before: number;
  files_after: number;
  row_groups_before: number | null;
  row_groups_after: number | null;
  bytes_before: number;
  bytes_after: number;
}

/** A table at its newest version. */
export interface TableShown {
  name: string;
  /** the name that it was created with */
  own_name: string;
  table_id: string;
  /** its URI, without credentials */
  place: string;
  group: string | null;
  created: string;
  /** time of the newest event */
  committed: string;
  /** the oldest version that is kept, tags aside */
  retained_from: number;
  kind: string;
  kind_settings: Record<string, unknown>;
  time_column: string;
  granularity: string;
  /** times of another granularity */
  overrides: string[];
  columns: ColumnShown[];
  counts: Counts;
  /** sorted runs that a read merges; keyed */
  read_amplification: number | null;
  properties: Property[];
  readers: Readers;
  needs: Needs;
  aims: Aim[];
  health: HealthShown;
}

/** A version that has a name, and is kept. */
export interface Tag {
  name: string;
  version: number;
}

/** Name a version, which keeps it. */
export interface TagVersion {
  name: string;
  version: number | null;
}

/** The task of a DAG run that an author is. */
export interface TaskName {
  dag_id: string;
  run_id: string;
  task_id: string;
}

/** A page of events, and the plans of its time. */
export interface Timeline {
  events: EventLine[];
  plans: PlanBar[];
  /** oldest event that the log has */
  oldest: number;
  newest: number;
  /** begin of the next page; None at the end */
  before: number | null;
  /** number of events that the log has */
  total: number;
  /** all kinds of events, for the filter */
  kinds: string[];
}

/** Sums over all tables of the lake. */
export interface Totals {
  tables: number;
  files: number;
  bytes: number;
  rows: number;
}

/** The versions that the table keeps, and the shown one. */
export interface Versions {
  first: number;
  last: number;
  shown: number;
  /** time of the shown version, ISO-8601 UTC */
  at: string;
}
