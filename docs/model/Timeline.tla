------------------------------ MODULE Timeline ------------------------------
(***************************************************************************)
(* The heart of a table: one log, written by put-if-absent; writers and    *)
(* compactions that rebase their event over what landed before it; a lease *)
(* that is only a hint, and the log as the fence; log files that land      *)
(* beside a major compaction.                                              *)
(*                                                                         *)
(*   1. An event is put at number n+1 by an author who has read n events.  *)
(*      If another author was first, the author reads on and rebases.      *)
(*   2. The reply may be lost. Then the author reads on, and looks for its *)
(*      own commit id before it puts the event again.                      *)
(*   3. A row is written for the layout of the version that its writer has *)
(*      read. A major compaction completes a new layout. A writer who is   *)
(*      late divides its rows again; rows in another layout are not seen.  *)
(*   4. A compaction is Inflight(attempt), then Completed(attempt). It is  *)
(*      admitted while its attempt is the newest. The lease may end at any *)
(*      moment, and its holder does not notice.                            *)
(*   5. Completed replaces its inputs and everything that landed in the    *)
(*      meantime: the late log files are joined to its outputs.            *)
(*                                                                         *)
(* Each rule is a constant. With all of them the invariants hold; without  *)
(* any one of them TLC finds a history that breaks one (see README.md).    *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Writers,        \* each commits one row, whose name is its commit id
  Workers,        \* processes that may carry out the compaction
  Plans,          \* major compactions of the whole table
  Losses,         \* how many replies may be lost, leases may end and workers may die
  PutIfAbsent,    \* rule 1
  KnowsItsCommit, \* rule 2
  DividesAgain,   \* rule 3
  Fences,         \* rule 4
  JoinsLate       \* rule 5

VARIABLES
  log,      \* the events, by number
  author,   \* of each process: where it is, how much it has read, what it is about to put
  lease,    \* who holds the lock in ZooKeeper, of each plan
  told,     \* the commit ids that were acknowledged
  faults    \* how many faults have happened

vars == <<log, author, lease, told, faults>>

Nobody == "nobody"
Processes == Writers \union Workers

-----------------------------------------------------------------------------
(* What a log means: a fold over its events. *)

Appends(events) == {n \in 1..Len(events) : events[n].kind = "append"}
Completions(events) == {n \in 1..Len(events) : events[n].kind = "completed"}
Attempts(events, plan) ==
  {n \in 1..Len(events) : events[n].kind = "inflight" /\ events[n].plan = plan}

Layout(events) == Cardinality(Completions(events))
Completed(events, plan) == \E n \in Completions(events) : events[n].plan = plan
Newest(events, plan) == Cardinality(Attempts(events, plan))

(* A segment is named by the number of the event that published it. It is in its place if it  *)
(* was written for the layout of the version before it.                                       *)
InPlace(events, n) == events[n].layout = Layout(SubSeq(events, 1, n - 1))
Replaced(events, n) == \E m \in Completions(events) : m > n /\ n \in events[m].replaces
Hidden(events, n) ==        \* by a new layout that does not stand for it
  \E m \in Completions(events) : m > n /\ n \notin events[m].replaces
                                 /\ events[m].layout >= events[n].layout

Visible(events) ==
  {n \in Appends(events) : InPlace(events, n) /\ ~Replaced(events, n) /\ ~Hidden(events, n)}
    \union {n \in Completions(events) : ~Replaced(events, n)}

Landed(events) == UNION {events[n].rows : n \in Appends(events)}

-----------------------------------------------------------------------------
Appended(w, read) ==
  [kind |-> "append", commit |-> w, plan |-> Nobody, attempt |-> 0, rows |-> {w},
   layout |-> Layout(read), replaces |-> {}]

Inflight(plan, read) ==
  [kind |-> "inflight", commit |-> plan, plan |-> plan, attempt |-> Newest(read, plan) + 1,
   rows |-> {}, layout |-> 0, replaces |-> {}]

(* Inputs were found when the attempt began; rebasing joins what landed since. *)
Completion(plan, attempt, inputs, read) ==
  LET all == IF JoinsLate THEN inputs \union Visible(read) ELSE inputs
  IN [kind |-> "completed", commit |-> plan, plan |-> plan, attempt |-> attempt,
      rows |-> UNION {read[n].rows : n \in all}, layout |-> Layout(read), replaces |-> all]

Admitted(event, read) ==
  CASE event.kind = "inflight" -> ~Completed(read, event.plan)
    [] event.kind = "completed" ->
         Fences => /\ ~Completed(read, event.plan)
                   /\ event.attempt = Newest(read, event.plan)
    [] OTHER -> TRUE

-----------------------------------------------------------------------------
Idle == [at |-> "idle", read |-> <<>>, event |-> <<>>, plan |-> Nobody,
         attempt |-> 0, inputs |-> {}]

Init ==
  /\ log = <<>>
  /\ author = [p \in Processes |-> Idle]
  /\ lease = [plan \in Plans |-> Nobody]
  /\ told = {}
  /\ faults = 0

Set(p, at, read, event) ==
  author' = [author EXCEPT ![p].at = at, ![p].read = read, ![p].event = event]

(* A writer writes its file for the version that it has read. *)
Write(w) ==
  /\ author[w].at = "idle" /\ w \notin told
  /\ Set(w, "put", log, Appended(w, log))
  /\ UNCHANGED <<log, lease, told, faults>>

(* A worker takes the lease of a plan, and is about to begin an attempt. *)
Begin(k, plan) ==
  /\ author[k].at = "idle" /\ lease[plan] = Nobody /\ ~Completed(log, plan)
  /\ lease' = [lease EXCEPT ![plan] = k]
  /\ author' = [author EXCEPT ![k] = [Idle EXCEPT !.at = "put", !.read = log,
                                      !.event = Inflight(plan, log), !.plan = plan]]
  /\ UNCHANGED <<log, told, faults>>

(* The outputs are written, for hours perhaps; then the completion is about to be put. *)
Finish(k) ==
  LET plan == author[k].plan
  IN /\ author[k].at = "work"
     /\ Set(k, "put", log, Completion(plan, author[k].attempt, author[k].inputs, log))
     /\ UNCHANGED <<log, lease, told, faults>>

(* What follows once an event of the process is known to have landed in a version. *)
After(p, event, events) ==
  CASE event.kind = "inflight" ->
         [Idle EXCEPT !.at = "work", !.read = events, !.plan = event.plan,
                      !.attempt = event.attempt, !.inputs = Visible(events)]
    [] OTHER -> Idle

Releases(p, event) ==
  IF event.kind = "completed" /\ lease[event.plan] = p
  THEN [lease EXCEPT ![event.plan] = Nobody] ELSE lease

(* Put-if-absent: it succeeds if the author has read all events. The reply comes, or is lost. *)
Put(p) ==
  LET event == author[p].event
      n == Len(author[p].read)
      there == n < Len(log)
      put == SubSeq(log, 1, n) \o <<event>>
  IN /\ author[p].at = "put"
     /\ Admitted(event, author[p].read)
     /\ (there => ~PutIfAbsent)
     /\ log' = put
     /\ \/ /\ author' = [author EXCEPT ![p] = After(p, event, put)]
           /\ told' = IF event.kind = "append" THEN told \union {event.commit} ELSE told
           /\ lease' = Releases(p, event)
           /\ UNCHANGED faults
        \/ /\ faults < Losses /\ faults' = faults + 1
           /\ Set(p, "unknown", author[p].read, event)
           /\ UNCHANGED <<told, lease>>

Mine(event, events) ==
  {n \in 1..Len(events) : /\ events[n].kind = event.kind /\ events[n].commit = event.commit
                          /\ events[n].attempt = event.attempt}

(* After a lost reply: read on; the event is there, or it is put again. *)
LookUp(p) ==
  LET event == author[p].event
  IN /\ author[p].at = "unknown"
     /\ IF KnowsItsCommit /\ Mine(event, log) # {}
        THEN /\ author' = [author EXCEPT ![p] = After(p, event, log)]
             /\ told' = IF event.kind = "append" THEN told \union {event.commit} ELSE told
             /\ lease' = Releases(p, event)
        ELSE /\ author' = [author EXCEPT ![p].at = "late"]
             /\ UNCHANGED <<told, lease>>
     /\ UNCHANGED <<log, faults>>

(* Another author was first: read on and rebase. *)
Rebased(p, event) ==
  CASE event.kind = "append" -> IF DividesAgain THEN Appended(p, log) ELSE event
    [] event.kind = "inflight" -> Inflight(event.plan, log)
    [] event.kind = "completed" ->
         Completion(event.plan, event.attempt, author[p].inputs, log)

Rebase(p) ==
  LET event == author[p].event
  IN /\ \/ author[p].at = "late"
        \/ author[p].at = "put" /\ PutIfAbsent /\ Len(author[p].read) < Len(log)
     /\ Set(p, "put", log, Rebased(p, event))
     /\ UNCHANGED <<log, lease, told, faults>>

(* A conflict is certain: the files are deleted, and the lease is given back. *)
Refused(p) ==
  LET event == author[p].event
  IN /\ author[p].at = "put" /\ ~Admitted(event, author[p].read)
     /\ author' = [author EXCEPT ![p] = Idle]
     /\ lease' = IF lease[event.plan] = p THEN [lease EXCEPT ![event.plan] = Nobody] ELSE lease
     /\ UNCHANGED <<log, told, faults>>

(* The session ends; the holder goes on, and does not know. *)
Expire(plan) ==
  /\ lease[plan] # Nobody /\ faults < Losses
  /\ lease' = [lease EXCEPT ![plan] = Nobody]
  /\ faults' = faults + 1
  /\ UNCHANGED <<log, author, told>>

(* A worker is killed; its session ends with it. *)
Kill(k) ==
  /\ author[k].at # "idle" /\ faults < Losses
  /\ author' = [author EXCEPT ![k] = Idle]
  /\ lease' = [plan \in Plans |-> IF lease[plan] = k THEN Nobody ELSE lease[plan]]
  /\ faults' = faults + 1
  /\ UNCHANGED <<log, told>>

Works(p) == Put(p) \/ LookUp(p) \/ Rebase(p) \/ Refused(p)

Next ==
  \/ \E w \in Writers : Write(w)
  \/ \E k \in Workers : Finish(k) \/ Kill(k) \/ \E plan \in Plans : Begin(k, plan)
  \/ \E p \in Processes : Works(p)
  \/ \E plan \in Plans : Expire(plan)

Spec ==
  /\ Init /\ [][Next]_vars
  /\ \A w \in Writers : WF_vars(Write(w)) /\ WF_vars(Works(w))
  /\ \A k \in Workers : WF_vars(Works(k)) /\ WF_vars(Finish(k))
  /\ \A plan \in Plans : WF_vars(\E k \in Workers : Begin(k, plan))

-----------------------------------------------------------------------------
(* The invariants, by the names that the simulation gives them (README.md). *)

AcknowledgedLanded == told \subseteq Landed(log)

CommitsOnce ==
  \A n, m \in Appends(log) : log[n].commit = log[m].commit => n = m

RowsOnce ==
  \A row \in Landed(log) : Cardinality({n \in Visible(log) : row \in log[n].rows}) = 1

PlansOnce ==
  \A n, m \in Completions(log) : log[n].plan = log[m].plan => n = m

InTheirPlaces == \A n \in Appends(log) : InPlace(log, n)

VersionsStay == [][SubSeq(log', 1, Len(log)) = log]_log

(* Liveness: when faults have ended, every row is acknowledged and every plan completed. *)
Converges ==
  <>[](told = Writers /\ \A plan \in Plans : Completed(log, plan))
=============================================================================
