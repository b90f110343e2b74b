------------------------------ MODULE LogStore ------------------------------
(***************************************************************************)
(* One bucket of the log store: a writer with the store beside it, which   *)
(* may be taken over by another writer while it lives on.                  *)
(*                                                                         *)
(*   1. An epoch is an event of the table's log. A writer that takes the   *)
(*      bucket begins a higher epoch, from the committed end on.           *)
(*   2. A checkpoint commits what the store has buffered. The log admits   *)
(*      it only in the newest epoch, and only if it begins at the          *)
(*      committed end.                                                     *)
(*   3. The reply may be lost. The store repeats the same cut, which the   *)
(*      log knows by its commit id.                                        *)
(*   4. A restore truncates the bucket, and begins an epoch of its own.    *)
(*   5. A store follows the table's log, also while it makes no            *)
(*      checkpoint. When its epoch is over, the writer gets Fenced, which  *)
(*      names the rows that were answered and are not in the log.          *)
(*                                                                         *)
(* Each rule is a constant, as in Timeline.tla.                            *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  Stores,         \* each with its writer
  Rows,           \* how many rows are appended in all
  Restores,       \* how many restores there may be
  Losses,         \* how many replies may be lost and processes may be killed
  EpochsFence,    \* rule 2, the epoch
  OffsetsFollow,  \* rule 2, the committed end
  KnowsItsCut,    \* rule 3
  RestoresFence,  \* rule 4
  FollowsLog      \* rule 5

VARIABLES log, store, appended, faults
vars == <<log, store, appended, faults>>

-----------------------------------------------------------------------------
(* What the log means. *)

RECURSIVE Committed(_)
Committed(events) ==    \* the rows by offset
  IF events = <<>> THEN <<>>
  ELSE LET before == Committed(SubSeq(events, 1, Len(events) - 1))
           last == events[Len(events)]
       IN CASE last.kind = "checkpoint" -> before \o last.rows
            [] last.kind = "restored" -> SubSeq(before, 1, last.to)
            [] OTHER -> before

Newest(events) ==
  LET begun == {events[n].epoch : n \in {m \in 1..Len(events) :
                  \/ events[m].kind = "begun"
                  \/ events[m].kind = "restored" /\ RestoresFence}}
  IN IF begun = {} THEN 0 ELSE CHOOSE e \in begun : \A f \in begun : f <= e

Content(rows) == {rows[n] : n \in 1..Len(rows)}
EverCommitted ==
  UNION {Content(log[n].rows) : n \in {m \in 1..Len(log) : log[m].kind = "checkpoint"}}

Event(kind, epoch, rows, from, to) ==
  [kind |-> kind, epoch |-> epoch, rows |-> rows, from |-> from, to |-> to]

Admitted(event) ==
  /\ EpochsFence => event.epoch = Newest(log)
  /\ OffsetsFollow => event.from = Len(Committed(log))

-----------------------------------------------------------------------------
New == [at |-> "away", epoch |-> 0, base |-> 0, buffer |-> <<>>, cut |-> 0,
        answered |-> {}, lost |-> {}]

Init ==
  /\ log = <<>>
  /\ store = [s \in Stores |-> New]
  /\ appended = 0
  /\ faults = 0

Fenced(s, events) ==    \* the writer is told, and what is lost is named
  [store[s] EXCEPT !.at = "fenced",
                   !.lost = store[s].answered \ EverCommitted]

(* A writer opens: put-if-absent gives it an epoch above all, and the end that it goes on from. *)
Take(s) ==
  /\ store[s].at = "away"
  /\ log' = Append(log, Event("begun", Newest(log) + 1, <<>>, 0, 0))
  /\ store' = [store EXCEPT ![s] = [New EXCEPT !.at = "open", !.epoch = Newest(log) + 1,
                                               !.base = Len(Committed(log))]]
  /\ UNCHANGED <<appended, faults>>

(* A row is buffered, and its offset is answered: readers can see it. *)
Answer(s) ==
  /\ store[s].at = "open" /\ appended < Rows
  /\ appended' = appended + 1
  /\ store' = [store EXCEPT ![s].buffer = Append(@, appended + 1),
                            ![s].answered = @ \union {appended + 1}]
  /\ UNCHANGED <<log, faults>>

Cut(s) ==
  /\ store[s].at = "open" /\ store[s].cut = 0 /\ store[s].buffer # <<>>
  /\ store' = [store EXCEPT ![s].cut = Len(store[s].buffer)]
  /\ UNCHANGED <<log, appended, faults>>

Checkpoint(s) ==
  Event("checkpoint", store[s].epoch, SubSeq(store[s].buffer, 1, store[s].cut), store[s].base, 0)

Done(s) ==      \* the store forgets what is committed
  [store[s] EXCEPT !.base = @ + store[s].cut, !.cut = 0,
                   !.buffer = SubSeq(@, store[s].cut + 1, Len(@))]

Landed(s) == \E n \in 1..Len(log) : log[n] = Checkpoint(s)

Commit(s) ==
  /\ store[s].at = "open" /\ store[s].cut > 0
  /\ IF KnowsItsCut /\ OffsetsFollow /\ Landed(s)     \* ids are known for a while, offsets for ever
     THEN /\ store' = [store EXCEPT ![s] = Done(s)]
          /\ UNCHANGED <<log, faults>>
     ELSE IF Admitted(Checkpoint(s))
     THEN /\ log' = Append(log, Checkpoint(s))
          /\ \/ store' = [store EXCEPT ![s] = Done(s)] /\ UNCHANGED faults
             \/ faults < Losses /\ faults' = faults + 1 /\ UNCHANGED store
     ELSE /\ store' = [store EXCEPT ![s] = Fenced(s, log)]
          /\ UNCHANGED <<log, faults>>
  /\ UNCHANGED appended

(* The store looks at the table's log, whether it makes checkpoints or not. *)
Look(s) ==
  /\ FollowsLog /\ store[s].at = "open" /\ store[s].epoch < Newest(log)
  /\ ~(store[s].cut > 0 /\ Landed(s))
  /\ store' = [store EXCEPT ![s] = Fenced(s, log)]
  /\ UNCHANGED <<log, appended, faults>>

Restored == Cardinality({n \in 1..Len(log) : log[n].kind = "restored"})

Restore ==
  /\ Restored < Restores /\ Committed(log) # <<>>
  /\ \E to \in 0..(Len(Committed(log)) - 1) :
       log' = Append(log, Event("restored", Newest(log) + 1, <<>>, 0, to))
  /\ UNCHANGED <<store, appended, faults>>

(* A killed process promises nothing more: its next writer goes on from the committed end. *)
Kill(s) ==
  /\ store[s].at = "open" /\ faults < Losses
  /\ faults' = faults + 1
  /\ store' = [store EXCEPT ![s] = [New EXCEPT !.at = "dead"]]
  /\ UNCHANGED <<log, appended>>

Next ==
  \/ Restore
  \/ \E s \in Stores : Take(s) \/ Answer(s) \/ Cut(s) \/ Commit(s) \/ Look(s) \/ Kill(s)

(* Checkpoints may be far apart, or made on request only: they are not fair. *)
Spec == Init /\ [][Next]_vars /\ \A s \in Stores : WF_vars(Look(s))

-----------------------------------------------------------------------------
(* Every answered row is committed, or readers see it in the newest store, or its writer is told. *)
Promised(s, row) ==
  \/ row \in EverCommitted
  \/ store[s].epoch = Newest(log) /\ row \in Content(store[s].buffer)
  \/ row \in store[s].lost
  \/ store[s].epoch < Newest(log) /\ store[s].at = "open"     \* its next call says Fenced

AnswersKept == \A s \in Stores : \A row \in store[s].answered : Promised(s, row)

(* What is named as lost is not in the log. *)
LostIsLost == \A s \in Stores : store[s].lost \intersect EverCommitted = {}

(* No row has two offsets. *)
RowsOnce ==
  LET rows == Committed(log)
  IN \A n, m \in 1..Len(rows) : rows[n] = rows[m] => n = m

(* Only a store whose epoch is over is given up. *)
FencedIsOver == \A s \in Stores : store[s].at = "fenced" => store[s].epoch < Newest(log)

(* The newest store goes on exactly where the log ends: an offset has one content. *)
OneContent ==
  \A s \in Stores :
    (store[s].at = "open" /\ store[s].epoch = Newest(log)) =>
      LET rows == Committed(log)
          since == Len(rows) - store[s].base
      IN /\ since >= 0 /\ since <= Len(store[s].buffer)
         /\ SubSeq(rows, store[s].base + 1, Len(rows)) = SubSeq(store[s].buffer, 1, since)

EpochsOnce ==
  \A n, m \in 1..Len(log) :
    (log[n].kind = "begun" /\ log[m].kind = "begun" /\ n < m) => log[n].epoch < log[m].epoch

VersionsStay == [][SubSeq(log', 1, Len(log)) = log]_log

(* A writer whose epoch is over is told, although it makes no checkpoint. *)
ToldInTheEnd ==
  \A s \in Stores :
    (store[s].at = "open" /\ store[s].epoch < Newest(log) /\ store[s].cut = 0)
      ~> (store[s].at # "open" \/ store[s].cut > 0)
=============================================================================
