// A condition explained: which steps leave which files out, over which times, and what indexes save.

import { useState } from "preact/hooks";
import { address, useAnswer } from "../answers.ts";
import type { Explained, ExplainedFile, Savings, Step } from "../api.ts";
import { bytes, ends, integer, percent, place } from "../format.ts";
import { TimeStrip } from "../parts/charts.tsx";
import { type DataColumn, DataTable } from "../parts/data_table.tsx";
import { Facts, Section } from "../parts/marks.tsx";
import { Answered, Notice } from "../parts/states.tsx";
import { type Route, replaceParameters } from "../route.ts";

type TableRoute = Extract<Route, { page: "table" }>;

export function Explain({ route }: { route: TableRoute }) {
  const { where = "" } = route.parameters;
  const [text, setText] = useState(where);
  const asked = useAnswer<Explained>(
    where ? address("api/explain", { table: route.table, where, limit: 200 }) : null,
    { table: route.table },
  );
  return (
    <Section title="Explain a condition">
      <form
        class="explain"
        onSubmit={(event) => {
          event.preventDefault();
          replaceParameters(route, { where: text.trim() });
        }}
      >
        <label>
          <span class="visually-hidden">Condition</span>
          <input
            value={text}
            placeholder="column = 77 and other like 'a%'"
            spellcheck={false}
            data-shortcut="search"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={!text.trim()}>
          Explain
        </button>
      </form>
      {!where && (
        <p class="muted">
          Shows which files a read with this condition opens, and which step leaves out the others.
          No row is read.
        </p>
      )}
      {where && (
        <Answered asked={asked} what="explanation">
          {(found) => <Found found={found} />}
        </Answered>
      )}
    </Section>
  );
}

const STEP_CLASSES = ["k-change", "k-publish", "k-index", "k-semi", "k-minor", "k-other"];

function Found({ found }: { found: Explained }) {
  const share = found.files ? found.files_opened / found.files : 0;
  const steps = found.steps.map((step) => step.by);
  const classOf = (by: string) =>
    STEP_CLASSES[steps.indexOf(by) % STEP_CLASSES.length] ?? "k-other";
  return (
    <>
      <Facts
        facts={[
          [
            "Files opened",
            `${integer(found.files_opened)} of ${integer(found.files)}`,
            percent(share),
          ],
          ["Bytes read", bytes(found.bytes_read), `of ${bytes(found.bytes)}`],
        ]}
      />
      <Funnel found={found} classOf={classOf} />
      <Chunks found={found} classOf={classOf} />
      {found.notes.map((note) => (
        <Notice key={note} tone="info">
          {note}
        </Notice>
      ))}
      <div class="columns">
        <div>
          <h3 class="sub">With other indexes</h3>
          <DataTable
            caption="Cost with other indexes"
            columns={SAVINGS}
            lines={found.savings}
            id={(each) => each.indexes.join(" ") || "none"}
          />
        </div>
        <div>
          <h3 class="sub">Opened files ({integer(found.opened_total)})</h3>
          <DataTable
            caption="Opened files"
            columns={FILES}
            lines={found.opened}
            id={(each) => each.path}
            pageSize={10}
          />
        </div>
      </div>
    </>
  );
}

// Each step is a bar of the files that are left, so the way down to the opened ones is seen.
function Funnel({ found, classOf }: { found: Explained; classOf: (by: string) => string }) {
  const all = found.files || 1;
  return (
    <ol class="funnel">
      <li>
        <span>all files</span>
        <Part share={1} className="quiet-bar" />
        <span class="num">{integer(found.files)}</span>
      </li>
      {found.steps.map((step) => (
        <li key={`${step.by} ${step.index}`}>
          <span>
            {step.by}
            {step.index && <span class="muted"> {step.index}</span>}
          </span>
          <Narrowed step={step} all={all} className={classOf(step.by)} />
          <span class="num">
            {integer(step.files_after)}{" "}
            <span class="muted">−{integer(step.files_before - step.files_after)}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}

function Part({ share, className }: { share: number; className: string }) {
  return (
    <svg width="100%" height="14" aria-hidden="true">
      <rect class={className} width={`${share * 100}%`} height="14" rx="1" />
    </svg>
  );
}

function Narrowed({ step, all, className }: { step: Step; all: number; className: string }) {
  const [after, before] = [step.files_after / all, step.files_before / all];
  return (
    <svg width="100%" height="14" aria-hidden="true">
      <rect class="quiet-bar" width={`${after * 100}%`} height="14" />
      <rect
        class={`${className} gone`}
        x={`${after * 100}%`}
        width={`${(before - after) * 100}%`}
        height="14"
      />
    </svg>
  );
}

function Chunks({ found, classOf }: { found: Explained; classOf: (by: string) => string }) {
  const times = found.chunks.flatMap((chunk) => ends(chunk.interval));
  if (times.length === 0) return null;
  const [start, end] = [Math.min(...times), Math.max(...times)];
  const marks = found.chunks.map((chunk) => {
    const [from, to] = ends(chunk.interval);
    const [worst] = Object.entries(chunk.left_out_by).sort(([, a], [, b]) => b - a);
    const title = `${place(chunk.interval)}: ${chunk.opened} of ${chunk.files} files opened${
      worst
        ? `; left out by ${Object.entries(chunk.left_out_by)
            .map(([by, files]) => `${by} ${files}`)
            .join(", ")}`
        : ""
    }`;
    return {
      start: from,
      end: to,
      className: chunk.opened ? "opened" : `${classOf(worst?.[0] ?? "")} gone`,
      title,
    };
  });
  return (
    <>
      <h3 class="sub">
        Time chunks
        {found.chunks_total > found.chunks.length &&
          ` (${integer(found.chunks.length)} of ${integer(found.chunks_total)})`}
      </h3>
      <TimeStrip
        start={start}
        end={end}
        marks={marks}
        label={`${found.chunks.filter((chunk) => chunk.opened).length} of ${found.chunks.length} time chunks have files that are opened`}
      />
      <p class="read inline-legend">
        <span>
          <span class="swatch opened" /> opened
        </span>
        {found.steps.map((step) => (
          <span key={`${step.by} ${step.index}`}>
            <span class={`swatch ${classOf(step.by)}`} /> left out by {step.by}
          </span>
        ))}
      </p>
    </>
  );
}

const SAVINGS: DataColumn<Savings>[] = [
  { key: "with", title: "With", main: true, cell: (each) => each.indexes.join(", ") || "no index" },
  { key: "files", title: "Files", number: true, cell: (each) => integer(each.files_opened) },
  {
    key: "groups",
    title: "Row groups",
    number: true,
    cell: (each) => integer(each.row_groups_read),
  },
  { key: "bytes", title: "Bytes read", number: true, cell: (each) => bytes(each.bytes_read) },
  {
    key: "notes",
    title: "",
    name: "Notes",
    wide: true,
    cell: (each) => <span class="muted">{each.notes.join("; ")}</span>,
  },
];

const FILES: DataColumn<ExplainedFile>[] = [
  {
    key: "path",
    title: "File",
    main: true,
    wide: true,
    cell: (each) => <code class="path">{each.path}</code>,
  },
  {
    key: "groups",
    title: "Row groups",
    number: true,
    cell: (each) =>
      each.row_groups_read === null
        ? integer(each.row_groups)
        : `${integer(each.row_groups_read)} of ${integer(each.row_groups)}`,
  },
  {
    key: "bytes",
    title: "Bytes read",
    number: true,
    by: (each) => each.bytes_read,
    cell: (each) => bytes(each.bytes_read),
  },
];
