// Actions: what a person may do where the page shows that it should be done.
//
//   arguments -> preview (nothing is changed) -> asked once -> result
//                   ^--- what it would do has changed meanwhile
//
// 1. Each action is one description below: its words, and the arguments that it still asks for.
// 2. The preview comes from the server: a sentence, the effects, the same as a command, and a seal
//    by which the run is for what was shown and for nothing else.
// 3. One dialog for the whole page. It is opened from anywhere by `begin`.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { preview, Refused, run } from "./answers.ts";
import type { ActionRequest, ActionsOutcome as Outcome, Preview } from "./api.ts";
import { readable } from "./format.ts";
import { Dialog } from "./parts/dialog.tsx";
import { Command, Outside } from "./parts/marks.tsx";
import { Notice } from "./parts/states.tsx";
import { tableHash } from "./route.ts";
import { type ActionName, useAllowed } from "./session.ts";

type Arguments = ActionRequest["arguments"];

interface Field {
  name: string;
  label: string;
  hint?: string;
  list?: boolean; // separated by commas
  options?: string[];
  optional?: boolean;
}

interface Description {
  title: string;
  button: string;
  fields: Field[];
}

const DESCRIBED: Record<ActionName, Description> = {
  plan: { title: "Plan this table", button: "Plan now", fields: [] },
  compact: {
    title: "Compact",
    button: "Compact these",
    fields: [{ name: "kind", label: "Kind", options: ["minor", "semi-major", "major"] }],
  },
  clean: { title: "Clean", button: "Clean", fields: [] },
  tag: {
    title: "Tag a version",
    button: "Tag",
    fields: [{ name: "name", label: "Name", hint: "the version is kept until the tag is deleted" }],
  },
  untag: { title: "Remove a tag", button: "Remove", fields: [] },
  restore: { title: "Restore a version", button: "Restore", fields: [] },
  index: {
    title: "Request an index",
    button: "Request an index",
    fields: [
      { name: "name", label: "Name" },
      {
        name: "kind",
        label: "Kind",
        options: ["column_stats", "bloom_filter", "record_index", "files"],
      },
      {
        name: "columns",
        label: "Columns",
        hint: "separated by commas",
        list: true,
        optional: true,
      },
    ],
  },
  build_index: { title: "Build an index", button: "Build what it lacks", fields: [] },
  rebuild_index: { title: "Rebuild an index", button: "Rebuild", fields: [] },
  publish: { title: "Publish", button: "Publish now", fields: [] },
  unlock: { title: "Take a lock away", button: "Unlock", fields: [] },
};

interface Begun {
  action: ActionName;
  table: string;
  given: Arguments;
  done?: () => void;
}

let show: ((begun: Begun) => void) | null = null;

export function begin(begun: Begun): void {
  show?.(begun);
}

export function ActionButton(props: Begun & { children?: ComponentChildren; quiet?: boolean }) {
  if (!useAllowed(props.action)) return null;
  const { children, quiet, ...begun } = props;
  return (
    <button type="button" class={quiet ? "quiet" : ""} onClick={() => begin(begun)}>
      {children ?? DESCRIBED[props.action].button}
    </button>
  );
}

export function ActionDialogs() {
  const [begun, setBegun] = useState<Begun | null>(null);
  useEffect(() => {
    show = setBegun;
    return () => {
      show = null;
    };
  }, []);
  return begun && <ActionDialog begun={begun} close={() => setBegun(null)} />;
}

type Stage =
  | { name: "asking" | "previewing" }
  | { name: "previewed"; preview: Preview }
  | { name: "running"; preview: Preview }
  | { name: "done"; outcome: Outcome }
  | { name: "refused"; refused: Refused };

function ActionDialog({ begun, close }: { begun: Begun; close: () => void }) {
  const { title, button, fields } = DESCRIBED[begun.action];
  const open = fields.filter((field) => begun.given[field.name] === undefined);
  const [values, setValues] = useState<Arguments>(() => initial(open));
  const [stage, setStage] = useState<Stage>({ name: open.length ? "asking" : "previewing" });
  const request: ActionRequest = {
    table: begun.table,
    action: begun.action,
    arguments: { ...begun.given, ...filled(open, values) },
  };
  useEffect(() => {
    if (stage.name === "previewing")
      void enter(preview(request), (found) => ({ name: "previewed", preview: found }));
  }, [stage.name]);
  const enter = async <T,>(answer: Promise<T>, then: (found: T) => Stage) => {
    try {
      setStage(then(await answer));
    } catch (cause) {
      if (!(cause instanceof Refused)) throw cause;
      setStage({ name: "refused", refused: cause });
    }
  };
  const act = (shown: Preview) => {
    setStage({ name: "running", preview: shown });
    void enter(run({ ...request, seal: shown.seal }), (outcome) => {
      begun.done?.();
      return { name: "done", outcome };
    });
  };
  return (
    <Dialog title={title} close={close}>
      <p class="muted">
        <b>{begun.table}</b> {described(begun.given)}
      </p>
      {stage.name === "asking" && (
        <Fields
          fields={open}
          values={values}
          change={setValues}
          ready={() => setStage({ name: "previewing" })}
        />
      )}
      {stage.name === "previewing" && <p role="status">Looking at its effects …</p>}
      {(stage.name === "previewed" || stage.name === "running") && (
        <Previewed
          preview={stage.preview}
          word={button}
          running={stage.name === "running"}
          act={() => act(stage.preview)}
          back={open.length ? () => setStage({ name: "asking" }) : close}
          backWord={open.length ? "Back" : "Cancel"}
        />
      )}
      {stage.name === "done" && <Done outcome={stage.outcome} table={begun.table} close={close} />}
      {stage.name === "refused" && (
        <Refusal
          refused={stage.refused}
          look={() => setStage({ name: "previewing" })}
          close={close}
          {...(open.length ? { back: () => setStage({ name: "asking" }) } : {})}
        />
      )}
    </Dialog>
  );
}

const CHANGED = 409;

function Refusal(props: {
  refused: Refused;
  look: () => void;
  back?: () => void;
  close: () => void;
}) {
  const { message, way_out } = props.refused.failure;
  const hasChanged = props.refused.status === CHANGED;
  return (
    <>
      <Notice tone={hasChanged ? "warning" : "ill"}>
        {message}
        {way_out && <div>Way out: {way_out}</div>}
      </Notice>
      <p class="buttons">
        {props.refused.status !== 403 && (
          <button
            type="button"
            class={hasChanged ? "primary" : ""}
            onClick={props.look}
            ref={hasChanged ? focused : null}
          >
            Look again
          </button>
        )}
        {props.back && (
          <button type="button" onClick={props.back}>
            Back
          </button>
        )}
        <button type="button" onClick={props.close}>
          Close
        </button>
      </p>
    </>
  );
}

function initial(fields: Field[]): Arguments {
  return Object.fromEntries(fields.map((field) => [field.name, field.options?.[0] ?? ""]));
}

function filled(fields: Field[], values: Arguments): Arguments {
  const given = fields.filter((field) => values[field.name] !== "");
  return Object.fromEntries(given.map((field) => [field.name, typed(field, values[field.name])]));
}

function typed(field: Field, value: Arguments[string] | undefined): Arguments[string] {
  const text = String(value ?? "");
  if (field.list)
    return text
      .split(",")
      .map((each) => each.trim())
      .filter(Boolean);
  return text;
}

function described(given: Arguments): string {
  return Object.entries(given)
    .filter(([, value]) => value !== null)
    .map(([name, value]) =>
      readable(
        `${name.replace(/_/g, " ")} ${Array.isArray(value) ? (value.length > 3 ? `${value.length} of them` : value.join(", ")) : String(value)}`,
      ),
    )
    .join(" · ");
}

function Fields(props: {
  fields: Field[];
  values: Arguments;
  change: (values: Arguments) => void;
  ready: () => void;
}) {
  const set = (name: string, value: string) => props.change({ ...props.values, [name]: value });
  return (
    <form
      class="fields"
      onSubmit={(event) => {
        event.preventDefault();
        props.ready();
      }}
    >
      {props.fields.map((field) => (
        <label key={field.name}>
          <span>{field.label}</span>
          {field.options ? (
            <select
              value={String(props.values[field.name])}
              onChange={(event) => set(field.name, event.currentTarget.value)}
            >
              {field.options.map((option) => (
                <option key={option}>{option}</option>
              ))}
            </select>
          ) : (
            <input
              type="text"
              required={!field.optional}
              value={String(props.values[field.name] ?? "")}
              onInput={(event) => set(field.name, event.currentTarget.value)}
            />
          )}
          {field.hint && <span class="muted">{field.hint}</span>}
        </label>
      ))}
      <p class="buttons">
        <button type="submit" class="primary">
          Preview
        </button>
      </p>
    </form>
  );
}

function focused(button: HTMLButtonElement | null): void {
  button?.focus();
}

function Previewed(props: {
  preview: Preview;
  word: string;
  running: boolean;
  act: () => void;
  back: () => void;
  backWord: string;
}) {
  const { sentence, effects, command, confirm } = props.preview;
  return (
    <>
      <p class="sentence">{readable(sentence)}</p>
      {effects.length > 0 && (
        <ul class="effects">
          {effects.map((effect) => (
            <li key={effect}>{readable(effect)}</li>
          ))}
        </ul>
      )}
      {command && (
        <>
          <p class="muted">The same as a command:</p>
          <Command text={command} />
        </>
      )}
      {confirm && <p class="question">{confirm}</p>}
      <p class="buttons">
        <button
          type="button"
          class="primary"
          disabled={props.running}
          onClick={props.act}
          ref={focused}
        >
          {props.running ? "Under way …" : props.word}
        </button>
        <button type="button" disabled={props.running} onClick={props.back}>
          {props.backWord}
        </button>
      </p>
    </>
  );
}

function Done({ outcome, table, close }: { outcome: Outcome; table: string; close: () => void }) {
  return (
    <>
      <div class="notice done" role="status">
        <div class="text">{readable(outcome.sentence)}</div>
      </div>
      <p class="buttons">
        <button type="button" class="primary" onClick={close} ref={focused}>
          Close
        </button>
        {outcome.event !== null && (
          <a
            class="button"
            href={tableHash(table, "timeline", { event: String(outcome.event) })}
            onClick={close}
          >
            Event {outcome.event}
          </a>
        )}
        {outcome.href && (
          <span class="button">
            <Outside href={outcome.href}>DAG run {outcome.run_id ?? outcome.dag_id}</Outside>
          </span>
        )}
      </p>
    </>
  );
}
